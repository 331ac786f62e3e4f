"""Greedy search and beams equal tensor2tensor's, on every small model that it decoded."""

import pathlib

import numpy as np
import pytest

from t2t_repro.decoding.engine import decode

MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models"
UNDECODED = {"adafactor", "clip_and_decay", "multistep", "no_label_smoothing"}
UNDECODED |= {"batch_norm", "l2_norm_zero_add", "noam_norm"}
CASES = sorted(path.stem for path in MODELS.glob("*.npz") if path.stem not in UNDECODED)


def until_end(ids):
    ids = ids.tolist()
    return ids[: ids.index(1) + 1] if 1 in ids else ids


def assert_same_ids(ids, expected):
    assert [until_end(row) for row in ids] == [until_end(row) for row in expected]


def test_there_are_17_cases():
    assert len(CASES) == 17


# The others differ from this one in what the encoder or the tables are, not in how a search goes.
QUICK = {"base_v1"}


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_equals_tensor2tensor(case, trained):
    one = trained(case)
    model, inputs, oracle, length = one.model, one.inputs, one.golden, 8

    ids, scores = decode(model, inputs, beam_size=1, decode_length=length)
    assert ids.dtype == np.int32 and scores.dtype == np.float32
    assert_same_ids(ids[:, 0], oracle["greedy_ids"])
    if "greedy_scores" in oracle:  # T2T's slow path, which `relative` takes, has none
        np.testing.assert_allclose(scores[:, 0], oracle["greedy_scores"], atol=1e-3)

    ids, scores = decode(model, inputs, beam_size=4, alpha=0.6, decode_length=length, top_beams=4)
    assert ids.shape == oracle["beam_ids"].shape
    np.testing.assert_array_equal(ids, oracle["beam_ids"])
    np.testing.assert_allclose(scores, oracle["beam_scores"], atol=1e-3)

    for name, alpha in (("beam1", 0.6), ("beam1_alpha1", 1.0)):
        ids, scores = decode(model, inputs, beam_size=4, alpha=alpha, decode_length=length)
        np.testing.assert_array_equal(ids[:, 0], oracle[f"{name}_ids"])
        np.testing.assert_allclose(scores[:, 0], oracle[f"{name}_scores"], atol=1e-3)
