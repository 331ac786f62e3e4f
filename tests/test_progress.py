import contextlib
import io
import re

import pytest

from t2t_repro import progress


@pytest.fixture(params=[False, True], ids=["elsewhere", "terminal"])
def stderr(request, monkeypatch):
    made = io.StringIO()
    made.isatty = lambda: request.param
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress, "_REFRESH", 0)
    return made


def test_items_are_counted_and_a_report_may_lie_within_another(stderr):
    letters = []
    with contextlib.redirect_stderr(stderr):
        for letter in progress.track(iter("abc"), "letters", unit="letters"):
            with progress.report("within", 7, "parts") as advance:
                advance(5, note=f"next: {letter}")
            letters.append(letter)
    assert letters == list("abc")
    said = stderr.getvalue()
    assert len(re.findall(r"within: 5 parts in 0\.\d s, [\d,.]+ a second\n", said)) == 3
    assert re.search(r"letters: 3 letters in 0\.\d s, [\d,.]+ a second\n$", said)
    for shown in ("5 of 7 parts", "next: a", "1 letters"):
        assert (shown in said) == stderr.isatty()


def test_work_that_fails_says_nothing_at_its_end(stderr):
    with contextlib.redirect_stderr(stderr), pytest.raises(KeyError):
        with progress.report("Reading FILE", unit="lines"):
            raise KeyError
    assert "lines in" not in stderr.getvalue()


def test_the_line_goes_where_it_is_wanted(monkeypatch):
    now, said = [1000.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.report("book.en", 3000, "sentences", done=600, say=said.append) as advance:
        for now[0] in (1012.5, 1600.0):
            advance(1200)
    assert said == ["book.en: 2,400 sentences in 10m 00s, 4.0 a second"]


@pytest.mark.parametrize(
    "doing, total, unit, note, line",
    [
        ("a", 3000, "lines", "", "a: 40%, 1,200 of 3,000 lines, 9.4 a second, 3m 12s"),
        ("cells", 4_000, "", "depth 3", "cells: 30%, 4m 59s"),
        ("Reading FILE", None, "lines", "FILE2", "Reading FILE: 1,200 lines, 9.4 a second"),
    ],
)
def test_where_there_is_no_terminal_a_line_every_minute(
    doing, total, unit, note, line, monkeypatch, capsys
):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.report(doing, total, unit, done=600, say=lambda text: None) as advance:
        for now[0], count in [(1004.0, 100), (1059.0, 300), (1064.0, 200), (1123.0, 1)]:
            advance(count, note)
    line += " left" * (total is not None) + f", {note}" * bool(note)
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(
    "seconds, text, took",
    [
        (0.4, "0s", "0.4 s"),
        (59.6, "1m 00s", "59.6 s"),
        (187, "3m 07s", "3m 07s"),
        (7501, "2h 05m", "2h 05m"),
    ],
)
def test_durations(seconds, text, took):
    assert (progress.duration(seconds), progress.took(seconds)) == (text, took)
