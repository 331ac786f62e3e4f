import contextlib
import io

import pytest

from t2t_repro import progress


@pytest.mark.parametrize("terminal", [False, True])
def test_items_are_counted_and_a_report_may_lie_within_another(monkeypatch, terminal):
    stderr, letters = io.StringIO(), []
    stderr.isatty = lambda: terminal
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress, "_REFRESH", 0)
    with contextlib.redirect_stderr(stderr):
        for letter in progress.track(iter("abc"), "letters", unit="letters"):
            with progress.report("within", 7, "parts") as advance:
                advance(5)
            letters.append(letter)
    said = stderr.getvalue()
    assert letters == list("abc") and said.count("within: 5 parts in 0.") == 3
    for shown in ("5 of 7 parts", "1 letters"):
        assert (shown in said) == terminal


def test_where_there_is_no_terminal_a_line_every_minute(monkeypatch, capsys):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.report("a", 3000, "lines", done=600, say=lambda text: None) as advance:
        for now[0], count in [(1004.0, 100), (1059.0, 300), (1064.0, 200), (1123.0, 1)]:
            advance(count)
    line = "a: 40%, 1,200 of 3,000 lines, 9.4 a second, 3m 12s left"
    assert capsys.readouterr().err == line + "\n"
