"""What ends a run before its time, and what it leaves out: signals and bad steps."""

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
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import checkpoints, distribution
from t2t_repro.training.best import EarlyStopping, KeepBest
from t2t_repro.training.log import TrainingLog
from t2t_repro.training.state import read_ranking
from tests.training.runs import arrays, assert_same


class Killed(TrainingLog):
    """Sends this process a signal once two steps are made."""

    def step(self, step, *arguments, **more):
        super().step(step, *arguments, **more)
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def straight(make_model, make_batches, new_run, train):
    """A model that was trained for eight steps without a break."""
    model = make_model()
    train(model, make_batches(), new_run("straight"), train_steps=8)
    return model


def test_a_signal_saves_the_running_step_and_the_run_goes_on_as_if_there_was_none(
    run, make_model, make_batches, train, straight
):
    with pytest.raises(Interrupted) as stopped, process.handle_signals():
        train(make_model(), make_batches(), run, train_steps=8, log=Killed)
    path = checkpoints.latest(run.path)
    assert stopped.value.exit_code == 143
    assert checkpoints.step_of(path) in (2, 3)  # the third may have begun
    assert str(path) in str(stopped.value)
    resumed = make_model(seed=7)
    train(resumed, make_batches(), run, train_steps=8)
    assert_same(straight, resumed)
    assert not path.exists()  # it was for going on


@pytest.mark.parametrize("at, saved", [(1, None), (3, 2)])
def test_a_compilation_that_a_signal_breaks_ends_the_run_as_the_signal_does(
    run, make_model, make_batches, monkeypatch, train, straight, at, saved
):
    """A terminal's signal goes to XLA's compiler as well, and the step fails for want of it."""
    steps, step_function = itertools.count(1), distribution.step_function

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
            train(make_model(), make_batches(), run, train_steps=8)
    newest = checkpoints.latest(run.path)
    assert stopped.value.exit_code == 130
    assert (newest and checkpoints.step_of(newest)) == saved
    resumed = make_model()
    train(resumed, make_batches(), run, train_steps=8)
    assert_same(straight, resumed)


def test_an_evaluation_that_a_signal_ends_is_made_again(run, make_model, make_batches, train):
    evaluations = []

    def evaluate(step, wait):
        evaluations.append(step)
        if len(evaluations) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        wait()
        run.append_metrics({"kind": "eval", "step": step, "split": "dev", "loss": 2.0})
        return {"loss": 2.0}

    def train_on():
        plan = {"train_steps": 6, "local_eval_frequency": 3}
        with process.handle_signals():
            train(make_model(), make_batches(), run, evaluate=evaluate, **plan)

    with pytest.raises(Interrupted, match="3"):
        train_on()
    train_on()
    train_on()
    assert evaluations == [3, 3, 6]


def not_finite_at(model, batches, number, where, value=np.nan):
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
    new_run, make_model, make_batches, where, train
):
    batches, ends = make_batches(), []
    for name, stops in {"straight": (7,), "stopped": (4, 7)}.items():
        run = new_run(name)
        for seed, steps in enumerate(stops):
            model = not_finite_at(make_model(seed), batches, 3, where)
            state, _, _ = train(model, batches, run, train_steps=steps, max_nonfinite_steps=2)
        ends.append(arrays(model))
        left_out = state.batches - state.step
        assert state.extra["nonfinite_steps"] == left_out >= 1
        content = json.loads((run.path / "nonfinite" / "batch-3.json").read_text())
        assert content["step"] == 3 and content["examples"][0]["inputs"]
    assert all(np.isfinite(value).all() for value in ends[0].values())
    assert_same(*ends)


def test_a_bad_batch_is_not_applied_and_written_with_its_text(
    run, make_model, make_batches, train, new_run
):
    batches = make_batches()
    model = not_finite_at(make_model(dropout=0.0), batches, 3, "loss", np.inf)
    encoders = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    with pytest.raises(UserError, match="step 3.*ckpt-2.*--max_nonfinite_steps=1"):
        train(model, batches, run, encoders=encoders, local_eval_frequency=1)
    content = json.loads((run.path / "nonfinite" / "batch-3.json").read_text())
    first = content.pop("examples")[0]
    (third,) = batches.skip(2).take(1).as_numpy_iterator()
    shape = "{} x {}".format(*third["inputs"].shape)
    assert content == {
        "step": 3, "batch": 3, "loss": "inf", "shapes": f"inputs {shape}, targets {shape}"
    }  # fmt: skip
    assert first.keys() == {"inputs", "targets", "inputs_text", "targets_text"}
    assert first["inputs"] == third["inputs"][0].tolist()
    two = make_model(dropout=0.0)
    train(two, batches, new_run("two"), train_steps=2)
    assert_same(two, model)
    assert int(model.optimizer.iterations) == 2


def test_it_stops_early_keeps_the_best_and_does_not_begin_again(
    run, make_model, make_batches, train
):
    losses = {2: 3.0, 4: 2.0, 6: 1.99, 8: 1.98, 10: 1.0}

    def evaluate(step, wait):
        wait()
        row = {"kind": "eval", "step": step, "split": "dev", "loss": losses[step]}
        run.append_metrics(row)
        return {"loss": losses[step]}

    def go():
        return train(
            make_model(), make_batches(), run, evaluate=evaluate,
            train_steps=20, local_eval_frequency=2, keep_checkpoint_max=1,
            keep_best=KeepBest(count=2), early_stopping=EarlyStopping(steps=4, metric_delta=0.1),
        )  # fmt: skip

    assert go()[0].step == 8
    names = [path.name for path in checkpoints.list_checkpoints(run.path / "best")]
    assert names == ["ckpt-6", "ckpt-8"] and len(checkpoints.list_checkpoints(run.path)) == 1
    assert checkpoints.find(run.path / "best").name == "ckpt-8"
    again, _, said = go()
    assert again.step == 8 and "--eval_early_stopping_steps=0" in said


def test_a_row_of_another_sample_is_not_the_evaluation_of_a_checkpoint(
    run, make_model, make_batches, train
):
    evaluations, sample = [], "2 of 9 examples"

    def evaluate(step, wait):
        evaluations.append(step)
        wait()
        return {"loss": 2.0}

    def go():
        best = KeepBest()
        plan = {"train_steps": 2, "keep_best": best}
        train(make_model(), make_batches(), run, evaluate=evaluate, sample=sample, **plan)
        ranking = read_ranking(best.directory(run).checkpoints_dir)
        return [(entry.values, entry.split, entry.sample) for entry in ranking.ranking]

    assert go() == [({"loss": "2.0"}, "dev", sample)]
    row = {"kind": "eval", "step": 2, "loss": 1.0}
    run.append_metrics({**row, "split": "dev", "sample": "all 9 examples"})
    run.append_metrics({**row, "split": "test", "sample": sample})
    go()
    assert evaluations == [2, 2]
    run.append_metrics({**row, "split": "dev", "sample": sample})
    assert go() == [({"loss": "1.0"}, "dev", sample)]
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
    before = arrays(model)
    with pytest.raises(UserError):
        train(model, batches, run, train_steps=60)
    assert_same(before, model)
