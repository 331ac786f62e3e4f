import re

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.training import checkpoints, distribution, optimizers, trainer
from t2t_repro.training.evaluation import Evaluator
from tests.training.runs import assert_same


def test_it_learns_saves_evaluates_and_reports(run, make_model, make_batches, train, steps):
    model = make_model()
    state, evaluations, said = train(
        model, make_batches(), run, train_steps=82, local_eval_frequency=40, keep_checkpoint_max=2
    )
    assert (state.step, state.batches) == (82, 82)
    assert evaluations == [40, 80, 82]
    names = [path.name for path in checkpoints.list_checkpoints(run.path)]
    assert names == ["ckpt-80", "ckpt-82"]
    result = Evaluator(model, ["accuracy"]).evaluate(make_batches(seed=9).take(20))
    assert result["accuracy"] > 0.95 and result["loss"] < 0.3
    rows = steps(run)
    assert [row["step"] for row in rows] == [*range(5, 81, 5), 82]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert rows[1]["tokens_per_second"] > 0
    assert rows[0]["learning_rate"] == pytest.approx(0.05)
    assert re.search(
        r"step 10/82 \| loss \d\.\d+ \| learning rate 5.000e-02 \| [\d,]+ tokens/s \| \d+s left",
        said,
    )
    again = make_model(seed=5)
    _, evaluations, said = train(again, make_batches(), run, train_steps=82)
    assert "step 82 of 82" in said and evaluations == []
    assert_same(model, again)


def test_checkpoints_and_evaluations_by_time(run, make_model, make_batches, monkeypatch, train):
    clock = iter(range(10**6))
    monkeypatch.setattr(trainer.time, "monotonic", lambda: float(next(clock)))
    _, evaluations, _ = train(
        make_model(), make_batches(), run, train_steps=30, save_checkpoints_secs=20,
        keep_checkpoint_max=0,
    )  # fmt: skip
    steps = [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(run.path)]
    assert len(steps) > 3 and steps[-1] == 30
    assert list(evaluations) == steps


def test_a_torn_checkpoint_is_named_and_what_is_done_again_is_in_the_metrics_once(
    run, make_model, make_batches, train, steps
):
    def go(until):
        how = {"train_steps": until, "log_step_count_steps": 1}
        return train(make_model(), make_batches(), run, **how)[1:]

    go(9)
    (run.checkpoints_dir / "ckpt-9" / "training.npz").write_bytes(b"torn")
    evaluations, said = go(10)
    assert evaluations == [10]
    assert re.search("bytes in .*ckpt-9/training.npz", said)
    assert "ckpt-5 (step 5)" in said
    assert [row["step"] for row in steps(run)] == list(range(1, 11))


def test_one_trace_serves_every_shape(run, make_model, make_batches, train):
    model, calls = make_model(), []
    original = model.compute_loss
    model.compute_loss = lambda **arguments: calls.append(1) or original(**arguments)
    train(model, make_batches(), run)
    assert len(calls) == 1


def test_one_checkpoint_is_kept_for_each_so_many_hours(
    run, make_model, make_batches, monkeypatch, train
):
    clock = iter(range(0, 10**7, 600))  # each look at it is ten minutes later
    monkeypatch.setattr(trainer.time, "monotonic", lambda: float(next(clock)))
    plan = {"keep_checkpoint_max": 1, "keep_checkpoint_every_n_hours": 3}
    train(make_model(), make_batches(), run, train_steps=12, local_eval_frequency=1, **plan)
    found = [checkpoints.read_state(path) for path in checkpoints.list_checkpoints(run.path)]
    hours = [state.extra["seconds"] / 3600 for state in found if state.extra["permanent"]]
    assert len(hours) > 1 and found[-1].step == 12
    assert [int(hour / 3) for hour in hours] == list(range(1, len(hours) + 1))


def test_hooks_come_at_their_steps(run, make_model, make_batches, train):
    seen = []
    hooks = [(3, seen.append), (2, lambda step: seen.append(-step))]
    train(make_model(), make_batches(), run, train_steps=7, hooks=hooks)
    assert seen == [-2, 3, -4, 6, -6]


def test_a_step_of_several_batches_counts_updates_and_goes_on_exactly(
    new_run, make_model, make_batches, train, steps
):
    gathers = HParams(
        optimizer="multistep_adam",
        optimizer_multistep_accumulate_steps=3,
        learning_rate_schedule="constant",
        learning_rate_constant=0.05,
    )

    def made():
        model = make_model(seed=8)
        model.compile(optimizer=optimizers.from_hparams(gathers))
        return model

    def go(name, *ends):
        run = new_run(name)
        for end in ends:
            model, how = made(), {"log_step_count_steps": 1, "batches_per_step": 3}
            state, _, _ = train(model, make_batches(), run, train_steps=end, **how)
        return model, state, [row["loss"] for row in steps(run)]

    straight, state, losses = go("straight", 5)
    assert (state.step, state.batches, int(straight.optimizer.iterations)) == (5, 15, 15)
    stopped, _, again = go("stopped", 2, 5)
    assert len(losses) == 5 and again == losses
    assert_same(straight, stopped)
    step = distribution.step_function(made())
    found = [step(batch).loss for batch in make_batches().take(15)]
    assert losses == pytest.approx(np.reshape(found, (5, 3)).mean(1), rel=1e-6)
