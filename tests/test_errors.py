"""Errors with the nearest names."""

from t2t_repro.errors import UserError, changes, suggest, unknown


def test_the_nearest_names_are_said_or_all_where_they_are_few():
    assert "'hidden_size'" in suggest("hiden_size", ["hidden_size", "num_heads"])
    assert suggest("zzz", ["hidden_size"]) == ""
    error = unknown("split", "zzz", ["train", "dev"])
    assert isinstance(error, UserError) and isinstance(error, ValueError)
    assert "'zzz'" in str(error) and "dev, train" in str(error)
    assert "name1" not in str(unknown("x", "zzz", [f"name{i}" for i in range(21)]))


def test_changes_are_named_with_both_values():
    before, now = {"a": 1, "b": "x", "c": None}, {"a": 1, "b": "y", "d": 5}
    b, c = changes(before, now | {"c": 0})
    assert "b " in b and "'x'" in b and "'y'" in b and "None" in c
