"""Errors that pass through code of the user's are named by its line; those of ours stay."""

import re

import pytest

from t2t_repro import declared, user_code
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.problem import Text2TextProblem
from t2t_repro.training import metrics


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Returns a function that makes one of a file of the user's: users("def f(): ...")."""
    monkeypatch.setattr(user_code, "_PLACES", set())
    user_code.add(tmp_path)

    def make(text):
        names: dict = {}
        exec(compile(text, str(tmp_path / "mine.py"), "exec"), names)  # noqa: S102
        return names["f"]

    return make


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("KeyError('x')", "KeyError: 'x', at "),
        ("SystemExit(0)", "SystemExit: 0, at "),
        ("OSError('no')", "OSError: no, at "),
        ("ValueError('a' * 1000)", "ValueError: " + "a" * 200 + r"\.\.\., at "),
    ],
)
def test_an_error_of_the_users(users, raised, said):
    f = users(f"def f():\n    raise {raised}")
    with (
        pytest.raises(UserError, match=f"^Expected your own code .*{said}.*mine.py line 2. Mend"),
        user_code.blaming(),
    ):
        f()


def test_a_user_error_gets_its_line_once(users):
    f = users("def f(error):\n    raise error")
    with pytest.raises(UserError, match="mine.py"), user_code.blaming():  # noqa: SIM117
        with user_code.blaming():
            f(UserError("Mine."))


def test_what_stays(users):
    f = users("def f(function):\n    function()")
    with pytest.raises(ZeroDivisionError), user_code.blaming():
        1 / 0  # noqa: B018 (ours)
    with pytest.raises(FileNotFoundError), user_code.blaming():
        f(lambda: open("/nowhere"))
    interrupt = Interrupted(15)

    def stop():
        raise interrupt

    with pytest.raises(Interrupted), user_code.blaming(KeyboardInterrupt):
        f(stop)
    with pytest.raises(UserError, match="2"), user_code.blaming(KeyboardInterrupt):
        users("def f():\n    raise KeyboardInterrupt")()


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("None", "None as number 2"),
        ("{'inputs': 'a'}", "{'inputs': 'a'} as number 2"),
        ("{'inputs': 'a', 'targets': '\\ud800'}", "number 2"),
    ],
)
def test_a_sample_is_checked_where_it_is_yielded(sample, said):
    class Mine(Text2TextProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            yield {"inputs": "a", "targets": "ü"}
            yield eval(sample)  # noqa: S307

    with pytest.raises(UserError, match=rf"to yield .*{said}, at .*test_user_code.py line \d+"):
        list(Mine().generate_samples("", "", "train"))


def test_values_are_checked_where_they_are_said():
    class Mine(Text2TextProblem):
        @property
        def dataset_splits(self):
            return [{"split": "train"}]

        def eval_metrics(self):
            return ["bleu"]

    with pytest.raises(UserError, match="dataset_splits"):
        Mine().dataset_splits  # noqa: B018
    with pytest.raises(UserError, match="bleu"):
        Mine().eval_metrics()
    with pytest.raises(UserError, match="subwords"):

        class Wrong(Text2TextProblem):
            vocab_type = 5


def test_a_class_that_lacks_a_method():
    class Mine:
        pass

    said = r"^Expected Mine to have f\(self\), which runs. Received: a class without it"
    error = str(user_code.lacking(Mine, "f(self)", "runs"))
    assert re.match(rf"{said}, at {__file__} line \d+. Write it there.$", error)
    made = type("Mine", (), {"__module__": "elsewhere"})
    assert re.match(f"{said}, in elsewhere. ", str(user_code.lacking(made, "f(self)", "runs")))
    ours = str(user_code.lacking(Text2TextProblem, "f(self)", "runs"))
    assert ours.endswith("without it. Write it there.")


def test_the_metrics_are_those_of_evaluation():
    assert set(declared.METRICS) == set(metrics.METRICS)
