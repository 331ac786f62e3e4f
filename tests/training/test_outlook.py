"""What is said before a run besides its plan."""

import re

import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import trainer
from t2t_repro.training import machine, outlook

FINAL = "subword_dropout_final_steps"
BOTH = "bidirectional_steps"
DECAY = "learning_rate_schedule=constant*linear_decay,learning_rate_decay_steps"
DROPOUT = f"subword_dropout=0.1,{FINAL}"


@pytest.mark.parametrize(
    "hparams, said",
    [
        ("bidirectional_steps=151,train_steps=300", "151 of the 300 steps train in both "),
        ("bidirectional_steps=999,train_steps=300", "300 of the 300 steps train in both "),
        ("bidirectional_steps=150,train_steps=300", ""),
        ("bidirectional_steps=99,train_steps=99", ""),  # which only tries out whether it works
        (f"{DROPOUT}=300,train_steps=300", "None of the 300 steps has subword dropout: the last "),
        (f"{DROPOUT}=299,train_steps=300", ""),
        (f"{DROPOUT}=99,train_steps=99", ""),
        (f"{DECAY}=300,train_steps=300", "falls in all of the 300 steps: to 0, in the last 300."),
        (f"{DECAY}=299,train_steps=300", ""),
        (f"{DECAY}=99,train_steps=99", ""),
    ],
)
def test_a_training_that_has_none_of_what_it_asks_for(tmp_path, monkeypatch, capsys, hparams, said):
    monkeypatch.chdir(tmp_path)
    argv = ["--problem=algorithmic_reverse_binary40_test", "--hparams_set=transformer_test"]
    argv += [
        f"--hparams={hparams}",
        "--data_dir=data",
        "--output_dir=run",
        "--plan",
        "--generate_data",
    ]
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, argv)
    out = capsys.readouterr().out
    assert ("more steps, or give" in out) == bool(said) and said in out
    if said:
        parts = (
            ("both", BOTH, 100),
            ("dropout", FINAL, 50),
            ("falls", "learning_rate_decay_steps", 75),
        )
        (change,) = (f"{name}={steps}" for part, name, steps in parts if part in said)
        assert f"more steps, or give --hparams={change}.\n" in out


def test_a_rate_that_does_not_reach_its_end():
    def said(batches, schedule=f"{DECAY}=40"):
        of_updates = f"optimizer=multistep_adam,optimizer_multistep_accumulate_steps={batches}"
        changes = f"{schedule},train_steps=300,{of_updates}"
        return outlook._of_the_end(registry.get_hparams("transformer_test", changes))

    gathered = said(4)
    assert "far above 0" in gathered and "of 4 batches each" in gathered and "300" in gathered
    assert not said(1) and not said(4, "learning_rate_schedule=constant")


def test_what_takes_hours_is_judged_by_products_that_were_measured_patiently(
    tmp_path, monkeypatch, capsys
):
    rates = []

    def examine(where, dtype, beside, *, patiently=False):
        rates.append(2e11 if patiently else 1e11)
        return machine.Machine((machine.Device("Two Cores"),), "CPU", 1, rates[-1])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "examine", examine)
    for hparams_set in ("transformer_quickstart", "transformer_big"):
        argv = [f"--hparams_set={hparams_set}", "--plan"]
        cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, argv)
    assert rates == [1e11, 1e11, 2e11]
    quick, patient = re.findall("of the (.*) GFLOP/s", capsys.readouterr().out)
    assert (quick, patient) == ("100", "200")
