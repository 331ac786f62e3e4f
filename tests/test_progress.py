import io

import pytest

from t2t_repro.progress import byte_bar


@pytest.mark.parametrize("terminal", [False, True])
def test_a_line_always_and_a_bar_on_a_terminal(monkeypatch, terminal):
    stderr = io.StringIO()
    stderr.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with byte_bar("Reading FILE", 4_000_000, 1_000_000) as advance:
        advance(1_500_000)
    said = stderr.getvalue()
    assert said.startswith("Reading FILE\n")
    assert ("2.5/4.0 MB" in said) == terminal
    if not terminal:
        assert said == "Reading FILE\n"
