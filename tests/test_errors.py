"""Errors with the nearest names."""

from t2t_repro.errors import UserError, suggest, unknown


def test_suggestions():
    assert suggest("hiden_size", ["hidden_size", "num_heads"]) == " Did you mean 'hidden_size'?"
    assert suggest("zzz", ["hidden_size"]) == ""


def test_unknown_lists_all_where_none_is_near_and_they_are_few():
    error = unknown("split", "zzz", ["train", "dev"])
    assert isinstance(error, UserError) and isinstance(error, ValueError)
    assert str(error) == "Unknown split. Received: 'zzz'. Expected one of: dev, train."
    assert "Expected" not in str(unknown("x", "zzz", [f"name{i}" for i in range(21)]))
