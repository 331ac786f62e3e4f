import io

import pytest

from t2t_repro.run_directory import RunDirectory
from t2t_repro.training.log import SilentLog, TrainingLog


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


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
    stream, events = io.StringIO(), []
    log = TrainingLog(run, 6, 4, stream, lambda *event: events.append(event))
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
    kind, step, values = events[0]
    assert (kind, step, values["loss"]) == ("eval", 3, 1.25)


def test_a_worker_that_is_not_the_chief_reports_nothing(run, tmp_path):
    stream, events = Terminal(), []
    log = SilentLog(run, 2, 1, stream, events=lambda *what: events.append(what))
    log.step(1, 2.5, 300, 0.5, lambda: 0.001)
    log.step(2, 2.5, 300, 0.5, lambda: 0.001)
    log.evaluation(2, {"loss": 1.5}, "dev", 3.0)
    log.say("something")
    log.close()
    assert stream.getvalue() == "" and events == [] and list(tmp_path.iterdir()) == []
