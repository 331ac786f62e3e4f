"""A packed batch gives each sentence what it has alone, and tensor2tensor's logits."""

import json

import numpy as np
import pytest

from t2t_repro.data import packing

LENGTHS = [(5, 4), (3, 6), (6, 3), (2, 2), (7, 5), (4, 8)]


def batch_of(examples):
    """Pads examples {feature: ids} into one batch."""
    width = {name: max(len(example[name]) for example in examples) for name in examples[0]}
    return {
        name: np.array([e[name] + [0] * (width[name] - len(e[name])) for e in examples], "int32")
        for name in width
    }


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(3)
    return [
        {
            "inputs": [*rng.integers(2, 37, source - 1).tolist(), 1],
            "targets": [*rng.integers(2, 37, target - 1).tolist(), 1],
        }
        for source, target in LENGTHS
    ]


def segments(packed, values):
    """Yields (the sample, its rows of `values`) of each sentence of a packed batch."""
    for row in range(len(values)):
        example = {name: packed[name][row].tolist() for name in packed}
        for number, sample in enumerate(packing.unpack(example), start=1):
            yield sample, values[row][packed["targets_segmentation"][row] == number]


@pytest.mark.parametrize(
    "case", ["base_v1", "base", "learned_positions", "relative", "unidirectional_encoder"]
)
def test_a_packed_batch_equals_its_sentences_alone(golden_case, samples, case):
    model = golden_case(case).model()
    expected = np.asarray(model(batch_of(samples)))
    for spacing in (0, 2):
        packed = batch_of(list(packing.pack(samples, 19, spacing)))
        assert packed["targets_segmentation"].max() >= 3
        found = 0
        for sample, rows in segments(packed, np.asarray(model(packed))):
            place = samples.index(sample)
            np.testing.assert_allclose(rows, expected[place, : len(rows)], atol=1e-5)
            found += 1
        assert found == len(samples)


@pytest.mark.parametrize("case", ["base_v1", "base", "learned_positions", "relative"])
def test_packed_logits_are_t2ts_where_there_is_spacing(golden_case, golden_path, case):
    with np.load(golden_path / "packed.npz") as arrays:
        packed = {n.removeprefix("batch:"): arrays[n] for n in arrays if n.startswith("batch:")}
        samples, expected = json.loads(str(arrays["samples"])), arrays[f"logits:{case}"]
    assert batch_of(list(packing.pack(samples, 17, 1))).keys() == packed.keys()
    logits = np.asarray(golden_case(case).model()(packed))
    real = packed["targets"] != 0
    np.testing.assert_allclose(logits[real], expected[real], atol=2e-5)
