"""Which hparams t2t-trainer's flags ask for; test_defaults.py and others have those of runs."""

import dataclasses

import pytest

from t2t_repro.bin import asked_hparams
from t2t_repro.config import HParams
from t2t_repro.run_directory import RunConfig

NONE = dict.fromkeys(("train_steps", "freeze", "model", "warm_start_from"))


@pytest.mark.parametrize(
    "flags, hparams, said",
    [
        (
            {"train_steps": 200},
            "train_steps=100",
            "--train_steps=200 goes before the train_steps=100",
        ),
        ({"train_steps": 200}, "train_steps=200", ""),
        ({"train_steps": 200}, "num_heads=2", ""),
        ({}, "train_steps=200", ""),
        (
            {"train_steps": 200, "freeze": "encoder"},
            "freeze=decoder",
            "--freeze=encoder goes before",
        ),
    ],
)
def test_a_flag_goes_before_the_hparam_of_its_name_and_says_so(flags, hparams, said, capsys):
    values = NONE | {"hparams_set": "transformer_test", "hparams": hparams} | flags
    hparams_set, found = asked_hparams.of(values, None)
    assert hparams_set == "transformer_test" and found.train_steps == 200 or "freeze" in flags
    assert found.freeze == flags.get("freeze", "")
    out = capsys.readouterr().out
    assert out.startswith(said) and bool(out) == bool(said)


@pytest.mark.parametrize(
    "longer, changes, end",
    [
        (2401, {}, "2,400"),
        (2400, {}, ""),
        (4801, {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 2}, "4,800"),
        (9000, {"learning_rate_schedule": "constant"}, ""),
    ],
)
def test_a_longer_run_whose_rate_rises_again_says_where(longer, changes, end, capsys):
    hparams = HParams(
        learning_rate_schedule="constant*multi_cycle_cos_decay",
        learning_rate_warmup_steps=240,
        learning_rate_decay_steps=2160,
        train_steps=2000,
    )
    before = RunConfig(
        hparams_set="x",
        hparams=dataclasses.replace(hparams, **changes),
        problem="x",
        data_dir="x",
        version="0",
    )
    asked = NONE | {"hparams_set": None, "hparams": "", "train_steps": longer}
    assert asked_hparams.of(asked, before)[1].train_steps == longer
    out = capsys.readouterr().out
    assert (f"fallen to 0 at step {end}, and rises again" in out) == bool(end)
    assert bool(out) == bool(end)
