import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints, distribution, trainer
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.events import make_writer
from t2t_repro.training.log import make_log
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


def test_by_default_it_reports_to_standard_output_and_tensorboard(
    run, make_model, make_batches, capsys
):
    plan = Plan(train_steps=2, log_step_count_steps=1)
    Trainer(make_model(), make_batches().skip, run, plan).train()
    assert "step 2/2 | loss" in capsys.readouterr().out
    make_log(run, plan, make_writer(run)).evaluation(2, {"loss": 1.0}, "dev", 0.1)
    for folder in (run.path, run.path / "eval"):
        (events,) = folder.glob("events.out.tfevents*")
        tags = [
            value.tag
            for event in tf.compat.v1.train.summary_iterator(str(events))
            for value in event.summary.value
        ]
        assert "loss" in tags


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
    assert "Nothing to train: the run is at step 12 of 12." in said and evaluations == []
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


@pytest.mark.parametrize("value, name", [(np.nan, "nan"), (np.inf, "inf")])
def test_a_loss_that_is_not_finite_is_not_applied(
    run, make_model, make_batches, value, name, train, weights
):
    model = make_model(dropout=0.0)
    compute_loss, batches = model.compute_loss, make_batches()
    shapes = [tuple(batch["inputs"].shape) for batch in batches.take(3)]

    def bad_at_the_third_shape(x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = compute_loss(x=x, y_pred=y_pred)
        third = tf.reduce_all(tf.shape(x["inputs"]) == shapes[2])
        return loss + tf.where(third, tf.constant(value, "float32"), 0.0)

    model.compute_loss = bad_at_the_third_shape
    assert shapes[2] not in shapes[:2]
    shape = "{} x {}".format(*shapes[2])
    message = f"Received: loss {name} at step 3, on a batch of inputs {shape}"
    with pytest.raises(UserError, match=message):
        train(model, batches, run)
    straight = make_model(dropout=0.0)
    two = RunDirectory(run.path / "two")
    two.path.mkdir()
    train(straight, batches, two, train_steps=2)
    for path, array in weights(straight).items():
        np.testing.assert_array_equal(array, weights(model)[path], path)
    assert int(model.optimizer.iterations) == 2


def test_another_error_of_a_step_is_not_taken_for_it(make_model, make_batches):
    model = make_model()
    step = distribution.step_function(model)
    ids = tf.constant([[99]])  # the vocabulary has 11
    with pytest.raises(tf.errors.InvalidArgumentError, match="99"):
        step({"inputs": ids, "targets": ids})


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


def test_target_tokens_are_counted_without_padding(make_batches):
    batch = next(distribution.batches(make_batches()))
    assert distribution.count_tokens(batch) == np.count_nonzero(batch["targets"].numpy())
    assert distribution.count_tokens(batch) == batch["targets"].numpy().size - 1


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
