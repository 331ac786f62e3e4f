"""Errors with the nearest names."""

from t2t_repro.errors import UserError, changes, suggest, unknown


def test_suggestions():
    assert suggest("hiden_size", ["hidden_size", "num_heads"]) == " Did you mean 'hidden_size'?"
    assert suggest("zzz", ["hidden_size"]) == ""


def test_unknown_lists_all_where_none_is_near_and_they_are_few():
    error = unknown("split", "zzz", ["train", "dev"])
    assert isinstance(error, UserError) and isinstance(error, ValueError)
    assert str(error) == "Unknown split. Received: 'zzz'. Expected one of: dev, train."
    assert "Expected" not in str(unknown("x", "zzz", [f"name{i}" for i in range(21)]))


def test_changes_are_named_with_both_values():
    before, now = {"a": 1, "b": "x", "c": None}, {"a": 1, "b": "y", "d": 5}
    assert changes(before, now | {"c": 0}) == ["b was 'x', now 'y'", "c was None, now 0"]
