"""Errors with the nearest names."""

from t2t_repro.errors import suggest, unknown


def test_the_nearest_names_are_said_or_all_where_they_are_few():
    assert "'hidden_size'" in suggest("hiden_size", ["hidden_size", "num_heads"])
    assert suggest("zzz", ["hidden_size"]) == ""
    assert "dev, train" in str(unknown("split", "zzz", ["train", "dev"]))
    assert "name1" not in str(unknown("x", "zzz", [f"name{i}" for i in range(21)]))
