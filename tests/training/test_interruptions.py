"""What ends a run before its time, and what it leaves out: signals and bad steps."""

import io
import itertools
import json
import os
import signal
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import process
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints, distribution
from t2t_repro.training.best import KeepBest
from t2t_repro.training.early_stopping import EarlyStopping
from t2t_repro.training.log import TrainingLog
from t2t_repro.training.request import Plan
from t2t_repro.training.state import read_ranking
from t2t_repro.training.trainer import Trainer


class Hooked(TrainingLog):
    """Calls a function with each step that was made."""

    def __init__(self, run, plan, hook):
        super().__init__(run, plan.train_steps, plan.log_step_count_steps, io.StringIO())
        self._hook = hook

    def step(self, step, *arguments, **more):
        super().step(step, *arguments, **more)
        self._hook(step)


def kill_at(at, signum):
    return lambda step: os.kill(os.getpid(), signum) if step == at else None


@pytest.mark.parametrize("signum, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_running_step_and_the_run_goes_on_as_if_there_was_none(
    tmp_path, run, make_model, make_batches, signum, code, train, weights
):
    plan = Plan(train_steps=8, local_eval_frequency=5)
    log = Hooked(run, plan, kill_at(2, signum))
    with pytest.raises(Interrupted) as stopped, process.handle_signals():
        Trainer(make_model(), make_batches().skip, run, plan, log=log).train()
    path = checkpoints.latest(run.path)
    at = checkpoints.step_of(path)
    assert stopped.value.exit_code == code and at in (2, 3)  # the third may have begun
    assert str(path) in str(stopped.value)
    resumed, straight = make_model(seed=7), make_model()
    train(resumed, make_batches(), run, train_steps=8)
    other = RunDirectory(tmp_path / "straight")
    other.path.mkdir()
    train(straight, make_batches(), other, train_steps=8)
    for name, value in weights(straight).items():
        np.testing.assert_array_equal(value, weights(resumed)[name], name)


@pytest.mark.parametrize("at, saved", [(1, None), (3, 2)])
def test_a_compilation_that_a_signal_breaks_ends_the_run_as_the_signal_does(
    tmp_path, run, make_model, make_batches, monkeypatch, train, weights, at, saved
):
    """A terminal's signal goes to XLA's compiler as well, and the step fails for want of it."""
    plan, steps = Plan(train_steps=8), itertools.count(1)
    step_function = distribution.step_function

    def breaking(model, *where):
        train_step = step_function(model, *where)

        def step(batch, observed=False):
            if next(steps) == at:
                os.kill(os.getpid(), signal.SIGINT)
                raise RuntimeError("INTERNAL: ptxas exited with non-zero error code 2")
            return train_step(batch, observed)

        return step

    with monkeypatch.context() as patched:
        patched.setattr(distribution, "step_function", breaking)
        patched.setattr(distribution, "was_compiling", lambda model: True)  # as under JAX
        with pytest.raises(Interrupted) as stopped, process.handle_signals():
            Trainer(make_model(), make_batches().skip, run, plan).train()
    newest = checkpoints.latest(run.path)
    assert stopped.value.exit_code == 130
    assert (newest and checkpoints.step_of(newest)) == saved
    resumed, straight, other = make_model(), make_model(), RunDirectory(tmp_path / "straight")
    train(resumed, make_batches(), run, train_steps=8)
    other.path.mkdir()
    train(straight, make_batches(), other, train_steps=8)
    for name, value in weights(straight).items():
        np.testing.assert_array_equal(value, weights(resumed)[name], name)


def test_an_evaluation_that_a_signal_ends_is_made_again(run, make_model, make_batches):
    plan, evaluations = Plan(train_steps=6, local_eval_frequency=3), []

    def evaluate(step, wait):
        evaluations.append(step)
        if len(evaluations) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        wait()
        run.append_metrics({"kind": "eval", "step": step, "split": "dev", "loss": 2.0})
        return {"loss": 2.0}

    def train_on():
        with process.handle_signals():
            Trainer(make_model(), make_batches().skip, run, plan, evaluate=evaluate).train()

    with pytest.raises(Interrupted, match="3"):
        train_on()
    train_on()
    train_on()
    assert evaluations == [3, 3, 6]


def not_finite_at(model, batches, number, value, where):
    """Makes the loss, or a gradient alone, of the batch of this number not finite."""
    shapes = [tuple(batch["inputs"].shape) for batch in batches.take(number)]
    assert shapes[-1] not in shapes[:-1]
    compute_loss = model.compute_loss

    def spoiled(x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = compute_loss(x=x, y_pred=y_pred)
        found = tf.reduce_all(tf.shape(x["inputs"]) == shapes[-1])
        if where == "loss":
            return loss + tf.where(found, tf.constant(value, "float32"), 0.0)
        root = tf.sqrt(tf.reduce_sum(model.softmax.bias.value) * 0.0)  # 0; its slope is not
        return loss + tf.where(found, root, 0.0)

    model.compute_loss = spoiled
    return model


@pytest.mark.parametrize("where", ["loss", "gradients"])
def test_a_step_that_is_not_finite_is_left_out_and_resume_stays_exact(
    tmp_path, make_model, make_batches, where, train, weights
):
    batches, ends = make_batches(), []

    def make(seed=0):
        return not_finite_at(make_model(seed=seed), batches, 3, np.nan, where)

    for name, stops in {"straight": (7,), "stopped": (4, 7)}.items():
        run = RunDirectory(tmp_path / name)
        run.path.mkdir()
        for steps_now in stops:
            model = make(seed=len(ends) if name == "straight" else steps_now - 4)
            plan = {"train_steps": steps_now, "max_nonfinite_steps": 2}
            state, _, said = train(model, batches, run, **plan)
        ends.append(weights(model))
        left_out = state.batches - state.step
        assert state.extra["nonfinite_steps"] == left_out >= 1
        file = run.path / "nonfinite" / "batch-3.json"
        assert json.loads(file.read_text())["step"] == 3
        assert json.loads(file.read_text())["examples"][0]["inputs"]
    assert all(np.isfinite(value).all() for value in ends[0].values())
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], name)


def test_it_stops_early_keeps_the_best_and_does_not_begin_again(run, make_model, make_batches):
    losses = {2: 3.0, 4: 2.0, 6: 1.99, 8: 1.98, 10: 1.0}
    plan = Plan(
        train_steps=20,
        local_eval_frequency=2,
        keep_checkpoint_max=1,
        keep_best=KeepBest(count=2),
        early_stopping=EarlyStopping(steps=4, metric_delta=0.1),
    )
    stream = io.StringIO()

    def go():
        log = TrainingLog(run, 20, 100, stream)

        def evaluate(step, wait):
            wait()
            log.evaluation(step, {"loss": losses[step]}, "dev", 0.1)
            return {"loss": losses[step]}

        model, batches = make_model(), make_batches()
        return Trainer(model, batches.skip, run, plan, log=log, evaluate=evaluate).train()

    assert go().step == 8
    names = [path.name for path in checkpoints.list_checkpoints(run.path / "best")]
    assert names == ["ckpt-6", "ckpt-8"] and len(checkpoints.list_checkpoints(run.path)) == 1
    assert checkpoints.find(run.path / "best").name == "ckpt-8"
    assert go().step == 8
    assert "--eval_early_stopping_steps=0" in stream.getvalue()


def test_a_row_of_another_sample_is_not_the_evaluation_of_a_checkpoint(
    run, make_model, make_batches
):
    evaluations = []

    def evaluate(step, wait):
        evaluations.append(step)
        wait()
        return {"loss": 2.0}

    def go(**evaluated):
        best = KeepBest()
        plan = Plan(train_steps=2, local_eval_frequency=2, keep_best=best)
        log = TrainingLog(run, 2, 100, io.StringIO())
        evaluated = {"log": log, "evaluate": evaluate, **evaluated}
        Trainer(make_model(), make_batches().skip, run, plan, **evaluated).train()
        ranking = read_ranking(best.directory(run).checkpoints_dir)
        return [(entry.values, entry.split, entry.sample) for entry in ranking.ranking]

    assert go(sample="2 of 9 examples") == [({"loss": "2.0"}, "dev", "2 of 9 examples")]
    row = {"kind": "eval", "step": 2, "loss": 1.0}
    run.append_metrics({**row, "split": "dev", "sample": "all 9 examples"})
    run.append_metrics({**row, "split": "test", "sample": "2 of 9 examples"})
    go(sample="2 of 9 examples")
    assert evaluations == [2, 2]
    run.append_metrics({**row, "split": "dev", "sample": "2 of 9 examples"})
    assert go(sample="2 of 9 examples") == [({"loss": "1.0"}, "dev", "2 of 9 examples")]
    assert evaluations == [2, 2]


def test_scaled_gradients_that_overflow_are_no_fault_until_the_scale_is_zero(
    run, make_model, make_batches, train
):
    model, batches = make_model(), make_batches()
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=2.0**-115)
    model.compile(optimizer=scaled, jit_compile=False)
    compute_loss = model.compute_loss

    def spoiled(x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = compute_loss(x=x, y_pred=y_pred)
        return loss + tf.sqrt(tf.reduce_sum(model.softmax.bias.value) * 0.0)

    model.compute_loss = spoiled
    before = model.get_weights()
    with pytest.raises(UserError):
        train(model, batches, run, train_steps=60)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
