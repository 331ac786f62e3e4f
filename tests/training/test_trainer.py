import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import checkpoints, distribution, optimizers, trainer
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.request import Plan
from t2t_repro.training.trainer import Trainer


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


def test_the_loss_is_that_of_the_step(run, make_model, make_batches, train, steps):
    batches = make_batches()
    _, _, _ = train(make_model(), batches, run, train_steps=4, log_step_count_steps=1)
    alone = make_model()
    expected = [
        alone.train_on_batch(batch, return_dict=True)["loss"]
        for batch in batches.take(4).as_numpy_iterator()
    ]
    assert [row["loss"] for row in steps(run)] == pytest.approx(expected, rel=1e-6)


def test_a_stopped_run_ends_as_one_that_never_stopped(
    tmp_path, make_model, make_batches, train, weights
):
    straight, stopped = RunDirectory(tmp_path / "straight"), RunDirectory(tmp_path / "stopped")
    straight.path.mkdir()
    stopped.path.mkdir()
    model = make_model()
    train(model, make_batches(), straight, train_steps=12)
    train(make_model(), make_batches(), stopped, train_steps=7)
    resumed = make_model(seed=5)
    state, evaluations, said = train(resumed, make_batches(), stopped, train_steps=12)
    assert (state.step, state.batches, evaluations) == (12, 12, [10, 12])
    assert re.search(r"Continuing from .*ckpt-7 \(step 7\)", said)
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, weights(resumed)[name], name)
    before = weights(resumed)
    _, evaluations, said = train(resumed, make_batches(), stopped, train_steps=12)
    assert "step 12 of 12" in said and evaluations == []
    for name, value in before.items():
        np.testing.assert_array_equal(value, weights(resumed)[name], name)


def test_a_torn_checkpoint_is_named_and_the_one_before_it_continued(
    run, make_model, make_batches, train
):
    train(make_model(), make_batches(), run, train_steps=10)
    (run.checkpoints_dir / "ckpt-10" / "training.npz").write_bytes(b"torn")
    _, _, said = train(make_model(seed=4), make_batches(), run, train_steps=12)
    assert re.search("not whole.*bytes in .*ckpt-10/training.npz", said)
    assert re.search(r"Continuing from .*ckpt-5 \(step 5\)", said)


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


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(
    run, make_model, make_batches, train
):
    model = make_model(learning_rate=float("inf"))
    with pytest.raises(UserError, match="2"):
        train(model, make_batches(), run, local_eval_frequency=1)
    assert [path.name for path in checkpoints.list_checkpoints(run.path)] == ["ckpt-1"]


def test_a_bad_batch_is_not_applied_and_written_with_its_text(
    run, make_model, make_batches, train, weights
):
    model = make_model(dropout=0.0)
    compute_loss, batches = model.compute_loss, make_batches()
    shapes = [tuple(batch["inputs"].shape) for batch in batches.take(3)]

    def bad_at_the_third_shape(x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = compute_loss(x=x, y_pred=y_pred)
        third = tf.reduce_all(tf.shape(x["inputs"]) == shapes[2])
        return loss + tf.where(third, tf.constant(np.inf, "float32"), 0.0)

    model.compute_loss = bad_at_the_third_shape
    assert shapes[2] not in shapes[:2]
    encoders = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    with pytest.raises(UserError, match="--max_nonfinite_steps=1"):
        Trainer(model, batches.skip, run, Plan(train_steps=9), encoders=encoders).train()
    content = json.loads((run.path / "nonfinite" / "batch-3.json").read_text())
    first = content.pop("examples")[0]
    shape = "{} x {}".format(*shapes[2])
    assert content == {
        "step": 3, "batch": 3, "loss": "inf", "shapes": f"inputs {shape}, targets {shape}"
    }  # fmt: skip
    assert first.keys() == {"inputs", "targets", "inputs_text", "targets_text"}
    (third,) = batches.skip(2).take(1).as_numpy_iterator()
    assert first["inputs"] == third["inputs"][0].tolist()
    straight, two = make_model(dropout=0.0), RunDirectory(run.path / "two")
    two.path.mkdir()
    train(straight, batches, two, train_steps=2)
    for path, array in weights(straight).items():
        np.testing.assert_array_equal(array, weights(model)[path], path)
    assert int(model.optimizer.iterations) == 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."),
    ],
)
def test_a_lack_of_memory_names_the_bucket_and_the_flags(error):
    batch = {"inputs": np.ones((2, 3)), "targets": np.ones((2, 4))}
    with pytest.raises(UserError, match="2 x 3.*2 x 4.*batch_size=.*max_length.*--find_batch_size"):
        with distribution.naming_the_batch("a step", batch):
            raise error
    with pytest.raises(ZeroDivisionError):
        with distribution.naming_the_batch("a step", batch):
            raise ZeroDivisionError


def test_what_is_done_again_is_not_in_the_metrics_twice(
    run, make_model, make_batches, train, steps
):
    train(make_model(), make_batches(), run, train_steps=9, log_step_count_steps=1)
    (run.checkpoints_dir / "ckpt-9" / "state.json").unlink()
    train(make_model(), make_batches(), run, train_steps=10, log_step_count_steps=1)
    assert [row["step"] for row in steps(run)] == list(range(1, 11))
    for path in checkpoints.list_checkpoints(run.path):
        (path / "state.json").unlink(missing_ok=True)
    with pytest.raises(UserError, match=str(run.checkpoints_dir)):
        train(make_model(), make_batches(), run, train_steps=2)
    assert len(steps(run)) == 10  # nothing is lost
    shutil.rmtree(run.checkpoints_dir)
    train(make_model(), make_batches(), run, train_steps=2, log_step_count_steps=1)
    assert [row["step"] for row in steps(run)] == [1, 2]


def test_data_that_ends_is_an_error(run, make_model, make_batches, train):
    with pytest.raises(UserError, match="3"):
        train(make_model(), make_batches().take(3), run)


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


def test_hooks_come_at_their_steps(run, make_model, make_batches):
    seen = []
    hooks = [(3, seen.append), (2, lambda step: seen.append(-step))]
    Trainer(make_model(), make_batches().skip, run, Plan(train_steps=7), hooks=hooks).train()
    assert seen == [-2, 3, -4, 6, -6]


def test_a_step_of_several_batches_counts_updates_and_goes_on_exactly(
    tmp_path, make_model, make_batches, weights
):
    gathers = HParams(
        optimizer="multistep_adam",
        optimizer_multistep_accumulate_steps=3,
        learning_rate_schedule="constant",
        learning_rate_constant=0.05,
    )

    def go(name, *ends):
        run = RunDirectory(tmp_path / name)
        run.path.mkdir()
        for end in ends:
            model = make_model(seed=8)
            model.compile(optimizer=optimizers.from_hparams(gathers))
            plan = Plan(train_steps=end, local_eval_frequency=2, log_step_count_steps=1)
            batches = make_batches().skip
            state = Trainer(model, batches, run, plan, batches_per_step=3).train()
        return model, state, [row["loss"] for row in run.read_metrics()]

    straight, state, losses = go("straight", 5)
    assert (state.step, state.batches, int(straight.optimizer.iterations)) == (5, 15, 15)
    stopped, _, again = go("stopped_", 2, 5)
    assert len(losses) == 5 and again == losses
    for name, value in weights(straight).items():
        np.testing.assert_array_equal(value, weights(stopped)[name], name)
    alone = make_model(seed=8)
    alone.compile(optimizer=optimizers.from_hparams(gathers))
    step = distribution.step_function(alone)
    found = [step(batch).loss for batch in make_batches().take(15)]
    assert losses == pytest.approx(np.reshape(found, (5, 3)).mean(1), rel=1e-6)
