"""What a run reports: lines, metrics.jsonl, norms and TensorBoard's events."""

import io
import re

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_repro.training import distribution
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.log import EventWriter, TrainingLog, make_writer, norms
from tests.training.runs import assert_same


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_first_step_counts_neither_tokens_nor_time(run):
    stream = io.StringIO()
    log = TrainingLog(run, train_steps=8, every=2, stream=stream)
    seconds = [100.0, 0.5, 0.5, 0.5]
    for step in range(1, 5):
        log.step(step, 2.5, 300, seconds[step - 1], lambda: 0.001)
    log.close()
    lines = stream.getvalue().splitlines()
    assert lines == [
        "step 2/8 | loss 2.5000 | learning rate 1.000e-03 | 600 tokens/s | 3s left",
        "step 4/8 | loss 2.5000 | learning rate 1.000e-03 | 600 tokens/s | 2s left",
    ]


def test_a_terminal_sees_one_line_that_is_written_over(run, monkeypatch):
    stream = Terminal()
    log = TrainingLog(run, train_steps=6, every=4, stream=stream)
    for step in range(1, 7):
        monkeypatch.setattr("time.monotonic", lambda step=step: 10.0 * step)
        log.step(step, 1.0, 10, 1.0, lambda: 0.1)
    log.close()
    text = stream.getvalue()
    assert text.count("\n") == 2 and text.count("\r") == 4
    assert [row["step"] for row in run.read_metrics()] == [4, 6]


def test_evaluations_are_written_for_programs(run):
    stream = io.StringIO()
    log = TrainingLog(run, 6, 4, stream, EventWriter(run.path))
    sample = "7 of 9 examples"
    log.evaluation(3, {"loss": 1.25, "accuracy": float("nan")}, "dev", 61.0, sample=sample)
    log.close()
    shown = "step 3 | dev (7 of 9 examples; teacher-forced): loss 1.2500 | accuracy nan | 1m 01s\n"
    assert stream.getvalue() == shown
    (row,) = run.read_metrics()
    assert row.pop("time") > 0
    assert row == {
        "kind": "eval", "step": 3, "split": "dev", "sample": sample, "loss": 1.25, "accuracy": "nan"
    }  # fmt: skip
    assert str(log.recorded(3, "dev", sample)) == "{'loss': 1.25, 'accuracy': nan}"
    log.evaluation(4, {"bleu": 7.5}, "dev", 1.0, sample=sample, signature="tok:zh")
    assert run.read_metrics()[-1]["bleu_signature"] == "tok:zh"
    assert log.recorded(4, "dev", sample) == {"bleu": 7.5}
    for other in ((5, "dev", sample), (3, "test", sample), (3, "dev", "all 9 examples")):
        assert log.recorded(*other) == {}
    assert events(run.path / "eval")["loss"] == [(3, 1.25)]


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


def squares(arrays):
    return [float(np.sum(np.square(array))) for array in arrays]


def test_the_norms_are_those_of_the_gradients(make_model, make_batches):
    (batch,) = make_batches().take(1)
    model = make_model(dropout=0.0)
    expected = squares(gradients(model, batch))
    found = distribution.step_function(model)(batch, True).squares
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert min(expected) > 0


def test_asking_changes_nothing(make_model, make_batches):
    models = [make_model(), make_model()]
    for model, ask in zip(models, (True, False), strict=True):
        step = distribution.step_function(model)
        for batch in make_batches().take(7):
            step(batch, ask)
    assert_same(*models)


def test_a_run_writes_norms_and_padding_to_metrics_and_events(
    run, make_model, make_batches, train, steps
):
    model, batches, how = make_model(dropout=0.0), make_batches(), {"log_step_count_steps": 2}
    how |= {"plain_loss": Evaluator(model, []).loss}
    train(model, batches, run, train_steps=5, writer=make_writer(run), **how)
    rows = steps(run)
    assert [row["step"] for row in rows] == [2, 4, 5]
    names = {"loss", "learning_rate", "tokens_per_second"}
    names |= {"gradient_norm", "weight_norm", "padding", "plain_loss"}
    assert set(rows[0]) - {"kind", "step", "time"} == names
    norm = sum(squares(map(np.asarray, model.trainable_variables))) ** 0.5
    assert rows[-1]["weight_norm"] == pytest.approx(norm)
    seen = list(batches.take(5))
    first = [np.asarray(batch[side]) for batch in seen[:2] for side in ("inputs", "targets")]
    padding = 1 - sum(map(np.count_nonzero, first)) / sum(cell.size for cell in first)
    assert rows[0]["padding"] == pytest.approx(padding) and padding > 0
    expected = model.compute_loss(x=seen[-1], y_pred=model(seen[-1]), training=False)
    assert rows[-1]["plain_loss"] == pytest.approx(float(expected), rel=1e-5)
    found = events(run.path)
    for name in names:
        assert [step for step, _ in found[name]] == [2, 4, 5]
    parts = [found[f"gradient_norm/{part}"][0][1] for part in ("embedding", "softmax")]
    assert np.hypot(*parts) == pytest.approx(rows[0]["gradient_norm"], rel=1e-5)


def test_what_steps_after_these_wrote_before_is_void(run):
    """Of a run that began again from none too. A closed writer begins files of its own."""
    writer = EventWriter(run.path)
    for step in (0, 5):
        TrainingLog(run, 9, 9, io.StringIO(), writer).restart(step)
        writer.scalars("train", step + 1, {"loss": 1.5 * step})
        writer.close()
    logs = [
        (event.session_log.status, event.step)
        for file in run.path.glob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(file))
        if event.HasField("session_log")
    ]
    assert sorted(logs) == [(tf.compat.v1.SessionLog.START, step) for step in (1, 6)]
    assert events(run.path)["loss"] == [(1, 0.0), (6, 7.5)]


def test_text_and_pictures(run):
    writer = EventWriter(run.path)
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (7).to_bytes(4, "big") + (5).to_bytes(4, "big")
    writer.text("samples", 3, "translations", "| a |")
    writer.picture("samples", 3, "attention", png)
    found = events(run.path / "samples")
    assert found == {"translations": [(3, [b"| a |"])], "attention": [(3, [b"7", b"5", png])]}


def test_weights_are_measured_in_float32(make_model):
    model = make_model()
    model.embedding.embeddings.assign(ops.full((11, 12), 300.0))
    model.softmax.kernel.assign(ops.zeros((12, 11)))
    values, parts = norms(model)
    assert values == {"weight_norm": pytest.approx(300 * 132**0.5, rel=1e-3)}
    assert parts == {"weight_norm/embedding": values["weight_norm"], "weight_norm/softmax": 0.0}
