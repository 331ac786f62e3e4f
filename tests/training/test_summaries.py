"""What a run reports beside its loss: norms, padding, the plain loss, and TensorBoard's events."""

import re

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro import registry
from t2t_repro.training import distribution
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.events import EventWriter
from t2t_repro.training.request import Plan
from t2t_repro.training.summaries import Summaries
from t2t_repro.training.trainer import Trainer


def events(folder):
    """Returns {tag: [(step, value)]} of a folder's events; a value is a number or strings."""
    found: dict[str, list] = {}
    # Names of the same second differ in TensorFlow's count of a process's files: 9 is before 10.
    files = folder.glob("events.out.tfevents*")
    for file in sorted(files, key=lambda file: [int(n) for n in re.findall(r"\d+", file.name)]):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                shown = value.simple_value
                if value.HasField("tensor") and value.tensor.dtype == tf.string.as_datatype_enum:
                    shown = list(value.tensor.string_val)
                found.setdefault(value.tag, []).append((event.step, shown))
    return found


def gradients(model, batch):
    """Returns the gradients of a step, computed apart; no dropout."""
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x=batch, y_pred=model(batch, training=True), training=True)
    weights = [variable.value for variable in model.trainable_variables]
    return [np.asarray(tf.convert_to_tensor(g)) for g in tape.gradient(loss, weights)]


def test_a_closed_writer_begins_files_of_its_own(tmp_path):
    writer = EventWriter(tmp_path)
    for step in (3, 5):
        writer.scalars("train", step, {"loss": 1.5 * step})
        writer.close()
    assert events(tmp_path)["loss"] == [(3, 4.5), (5, 7.5)]


def squares(arrays):
    return [float(np.sum(np.square(array))) for array in arrays]


def test_the_norms_are_those_of_the_gradients(make_model, make_batches):
    (batch,) = make_batches().take(1)
    model, seen = make_model(dropout=0.0), []
    expected = squares(gradients(model, batch))
    distribution.step_function(model)(batch, seen.append)
    np.testing.assert_allclose(seen[0], expected, rtol=1e-5)
    assert seen[0].shape == (len(model.trainable_variables),) and min(expected) > 0


def test_asking_changes_nothing(make_model, make_batches, weights):
    models = [make_model(), make_model()]
    for model, ask in zip(models, (lambda squares: None, None), strict=True):
        step = distribution.step_function(model)
        for batch in make_batches().take(7):
            step(batch, ask)
    for name, value in weights(models[0]).items():
        np.testing.assert_array_equal(value, weights(models[1])[name], name)


def test_what_is_reported(run, make_model, make_batches):
    model = make_model(dropout=0.0)
    writer = EventWriter(run.path)
    evaluator = Evaluator(model, [])
    summaries = Summaries(model, 2, 5, writer=writer, evaluator=evaluator)
    assert [step for step in range(1, 6) if summaries.observer(step)] == [2, 4, 5]
    batches = list(make_batches().take(2))
    for batch in batches:
        summaries.count(batch)
    summaries.observer(2)(np.array([9.0, 4.0, 3.0]))
    values = summaries.values(2, batches[1])
    assert set(values) == {"gradient_norm", "weight_norm", "padding", "plain_loss"}
    assert values["gradient_norm"] == 4
    variables = model.trainable_variables
    assert values["weight_norm"] == pytest.approx(sum(squares(map(np.asarray, variables))) ** 0.5)
    cells = [np.asarray(batch[side]) for batch in batches for side in ("inputs", "targets")]
    padding = 1 - sum(map(np.count_nonzero, cells)) / sum(cell.size for cell in cells)
    assert values["padding"] == pytest.approx(padding) and padding > 0
    loss = model.compute_loss(x=batches[1], y_pred=model(batches[1]), training=False)
    assert values["plain_loss"] == pytest.approx(float(loss), rel=1e-5)
    found = events(run.path)
    assert found["gradient_norm/embedding"] == [(2, 3.0)]
    assert found["gradient_norm/softmax"] == [(2, pytest.approx(7**0.5))]
    for each in (summaries, Summaries(model, 2, 5)):
        each.count({name: ids[1:] for name, ids in batches[0].items()})
        values = each.values(4, batches[0])
        assert values["padding"] == 0 and ("plain_loss" in values) == (each is summaries)


def test_a_run_writes_them_to_metrics_and_events(run, make_model, make_batches, steps):
    plan = Plan(train_steps=4, log_step_count_steps=2)
    Trainer(make_model(), make_batches().skip, run, plan).train()
    rows = steps(run)
    assert [row["step"] for row in rows] == [2, 4]
    names = {"loss", "learning_rate", "tokens_per_second"}
    names |= {"gradient_norm", "weight_norm", "padding"}
    assert set(rows[0]) - {"kind", "step", "time"} == names
    found = events(run.path)
    for name in names:
        assert [step for step, _ in found[name]] == [2, 4]
    assert found["gradient_norm"][0][1] == pytest.approx(rows[0]["gradient_norm"])
    Trainer(make_model(), make_batches().skip, run, Plan(train_steps=6)).train()
    logs = [
        (event.session_log.status, event.step)
        for file in run.path.glob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(file))
        if event.HasField("session_log")
    ]
    # What steps after these wrote before is void, of a run that began again from none too.
    assert sorted(logs) == [(tf.compat.v1.SessionLog.START, step) for step in (1, 5)]


def test_samples_come_at_their_steps(run, make_model, make_batches):
    seen = []
    writer = EventWriter(run.path)
    options = {"samples": lambda step, to: seen.append((step, to)), "samples_every": 3}
    plan = Plan(train_steps=7)
    for summaries in (
        Summaries(make_model(), 5, 7, writer=writer, **options),
        Summaries(make_model(), 5, 7, **options),
        Summaries(make_model(), 5, 7, writer=writer, samples=options["samples"]),
    ):
        for step in range(1, plan.train_steps + 1):
            summaries.sample(step)
    assert seen == [(3, writer), (6, writer)]


def test_text_pictures_and_hyperparameters(run):
    from tensorboard.plugins.hparams import plugin_data_pb2

    writer = EventWriter(run.path)
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (7).to_bytes(4, "big") + (5).to_bytes(4, "big")
    writer.text("samples", 3, "translations", "| a |")
    writer.picture("samples", 3, "attention", png)
    hparams = registry.get_hparams("transformer_tiny", "learning_rate_constant=0.25,pos=none")
    writer.hparams("mine", hparams, [("train", "loss"), ("eval", "accuracy")])
    found = events(run.path / "samples")
    assert found == {"translations": [(3, [b"| a |"])], "attention": [(3, [b"7", b"5", png])]}
    (file,) = run.path.glob("events.out.tfevents*")
    contents = {
        value.tag: plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }
    start = contents["_hparams_/session_start_info"].session_start_info
    assert start.hparams["learning_rate_constant"].number_value == 0.25
    assert start.hparams["pos"].string_value == "none"
    metrics = contents["_hparams_/experiment"].experiment.metric_infos
    assert [(m.name.group, m.name.tag) for m in metrics] == [("", "loss"), ("eval", "accuracy")]


def test_the_plain_loss_has_no_label_smoothing(golden_case):
    golden = golden_case("base_v1")
    loss = Evaluator(golden.model(), []).loss(golden.batch)
    assert loss == pytest.approx(golden["loss_sum"] / golden["loss_weight"], rel=1e-5)
    smoothed = golden["smoothed_loss_sum"] / golden["loss_weight"]
    assert abs(loss - smoothed) > 0.01


def test_weights_are_measured_in_float32(make_model):
    model = make_model()
    model.embedding.embeddings.assign(ops.full((11, 12), 300.0))
    model.softmax.kernel.assign(ops.zeros((12, 11)))
    summaries = Summaries(model, 1, 1)
    batch = {name: np.ones((2, 3), "int32") for name in ("inputs", "targets")}
    summaries.count(batch)
    summaries.observer(1)(np.zeros(3))
    values = summaries.values(1, batch)
    assert values["weight_norm"] == pytest.approx(300 * 132**0.5, rel=1e-3)
    assert values["padding"] == 0
