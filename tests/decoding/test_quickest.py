"""The quickest of ways that cost what they are told to."""

import types

import pytest

from t2t_repro.decoding import quickest


@pytest.fixture
def make(monkeypatch):
    """Makes a way that writes `ending` behind each sentence, in `seconds` for each."""
    now = [0.0]
    monkeypatch.setattr(quickest, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))

    def make(seconds, ending="!", first=None):
        costs = [first or seconds, seconds]

        def way(sources):
            now[0] += costs.pop(0) * len(sources)
            return [f"{source}{ending}" for source in sources]

        return way

    return make


@pytest.mark.parametrize(
    "other, name, why",
    [
        ((2, "!"), "b", "the lines are the same by both, in 9.00 s by a and 6.00 s by b"),
        ((2, "!", 50), "b", "6.00 s by b"),  # the first call is no measure
        ((4, "!"), "a", "in 9.00 s by a and 12.00 s by b"),
        ((2, "?"), "a", "b translates 3 of the lines in another way"),
    ],
)
def test_the_quickest_that_writes_what_the_first_writes(make, other, name, why):
    ways = {"a": make(3), "b": make(*other)}
    chosen, reason = quickest.quickest(ways, ["x", "y", "z"], "the lines")
    assert chosen == name and reason.endswith(why)
