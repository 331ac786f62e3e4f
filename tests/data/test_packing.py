"""Packed examples against tensor2tensor's own."""

import json

import pytest

from t2t_repro.data import packing
from t2t_repro.problem import Problem


class Packed(Problem):
    packed_length = 9


def sample(inputs, targets):
    return {"inputs": [5] * (inputs - 1) + [1], "targets": [6] * (targets - 1) + [1]}


@pytest.fixture(scope="module")
def cases(golden_path):
    text = (golden_path / "text" / "packing.json").read_text(encoding="utf-8")
    return json.loads(text)["cases"]


def test_packs_as_t2t(cases):
    assert {case["spacing"] for case in cases} >= {0, 1, 2}
    for case in cases:
        arguments = {name: case[name] for name in ("packed_length", "spacing", "queue_size")}
        assert list(packing.pack(iter(case["samples"]), **arguments)) == case["packed"]


def test_unpacking_gives_each_sample_back(cases):
    for case in cases:
        found = [one for packed in case["packed"] for one in packing.unpack(packed)]
        assert sorted(map(repr, found)) == sorted(map(repr, case["samples"]))


def test_both_sides_must_fit_with_their_spacing():
    first, second = sample(3, 5), sample(4, 2)
    (together,) = packing.pack([first, second], 8, spacing=1)
    assert together["targets"] == [6, 6, 6, 6, 1, 0, 6, 1]
    assert together["inputs_segmentation"] == [1, 1, 1, 0, 2, 2, 2, 2]
    assert together["inputs_position"] == [0, 1, 2, 0, 0, 1, 2, 3]
    assert len(list(packing.pack([first, second], 7, spacing=1))) == 2


def test_a_sample_that_is_too_long_stays_alone_and_whole():
    long, short = sample(12, 3), sample(2, 2)
    assert [len(e["inputs"]) for e in packing.pack([short, long, short], 9)] == [4, 12]


def test_features_of_a_problem():
    assert packing.features(Problem()) == ("inputs", "targets")
    assert packing.features(Packed()) == (
        *("inputs", "inputs_segmentation", "inputs_position"),
        *("targets", "targets_segmentation", "targets_position"),
    )
    assert Packed(was_reversed=True).stored_feature("inputs_position") == "targets_position"
