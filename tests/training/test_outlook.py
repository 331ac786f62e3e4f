"""What is said before a run besides its plan."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import trainer


@pytest.mark.parametrize(
    "hparams, said",
    [
        ("bidirectional_steps=151,train_steps=300", "151 of the 300 steps train in both "),
        ("bidirectional_steps=999,train_steps=300", "300 of the 300 steps train in both "),
        ("bidirectional_steps=150,train_steps=300", ""),
        ("bidirectional_steps=99,train_steps=99", ""),  # which only tries out whether it works
    ],
)
def test_a_training_that_is_mostly_in_both_directions(tmp_path, monkeypatch, capsys, hparams, said):
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
    assert ("train in both directions" in out) == bool(said) and said in out
    if said:
        assert "Make more steps, or give --hparams=bidirectional_steps=100.\n" in out
