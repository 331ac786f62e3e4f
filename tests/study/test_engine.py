"""Intervals over seeds, and runs one after another."""

import pytest
from absl import flags

from t2t_repro.bin import trainer
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.study import engine


def test_the_interval_is_students():
    """Of 1, 2, 3, 4: 2.5 +- 3.182 x 1.29099 / 2, as in any table of t."""
    assert engine.half_interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx(2.054, abs=1e-3)
    assert engine.half_interval([7.0]) is engine.half_interval([]) is None
    assert engine.half_interval(range(engine.MOST_SEEDS)) > 0


def test_the_command_is_one_of_t2t_trainer():
    command = engine.trainer_command(
        problem="p",
        hparams_set="transformer_base",
        hparams="a=1,b=2",
        data_dir="d",
        output_dir="o",
        every=7,
        keep=2,
        seed=3,
        more=["--yes=True"],
    )
    args = flags.FlagValues()
    trainer.define_flags(args)
    assert args(command) == ["t2t-trainer"]
    assert (args.hparams, args.local_eval_frequency, args.random_seed) == ("a=1,b=2", 7, 3)
    assert args.keep_checkpoint_max == 2 and args.yes


def test_what_fails_stops_the_others_only_where_nothing_was_trained(tmp_path):
    told = []

    def run_of(cell):
        return RunDirectory(tmp_path / cell)

    def make(cell):
        run_of(cell).path.mkdir(exist_ok=True)
        if cell == "trained":
            run_of(cell).append_metrics({"step": 3})
        if cell != "well":
            raise UserError(cell)

    def after(*told_of):
        told.append(told_of)

    assert engine.make_all(["trained", "well"], make, run_of, after) == ["trained"]
    assert told == [("trained", True), ("well", False)]
    with pytest.raises(UserError):
        engine.make_all(["never", "well"], make, run_of, after)
    assert len(told) == 2
