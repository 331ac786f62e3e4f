"""What is said before a run besides its plan."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import trainer

FINAL = "subword_dropout_final_steps"
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
    assert ("Make more steps" in out) == bool(said) and said in out
    if said:
        name, steps = ("bidirectional_steps", 100) if "both" in said else (FINAL, 50)
        assert f"Make more steps, or give --hparams={name}={steps}.\n" in out
