"""Packed examples against tensor2tensor's own, and their way to batches."""

import json

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.data import packing, pipeline
from t2t_repro.errors import UserError
from tests.data.conftest import Bytes
from tests.data.record_files import write_examples
from tests.data.test_pipeline import batches

HPARAMS = HParams(batch_size=72, max_length=7, min_length_bucket=4, length_bucket_step=1.5)


class Packed(Bytes):
    name = "packed"
    packed_length = 24
    packed_spacing = 1


@pytest.fixture(scope="module")
def cases(golden_path):
    text = (golden_path / "text" / "packing.json").read_text(encoding="utf-8")
    return json.loads(text)["cases"]


def test_packs_as_t2t(cases):
    assert {case["spacing"] for case in cases} >= {0, 1, 2}
    for case in cases:
        arguments = {name: case[name] for name in ("packed_length", "spacing", "queue_size")}
        assert list(packing.pack(iter(case["samples"]), **arguments)) == case["packed"]


def test_a_sample_that_is_too_long_stays_alone_and_whole():
    long, short = ({"inputs": [5] * n, "targets": [6, 1]} for n in (12, 2))
    assert [len(e["inputs"]) for e in packing.pack([short, long, short], 9)] == [4, 12]


def write(folder, samples, split="train", shards=2):
    problem = Packed()
    packed = list(packing.pack(samples, problem.packed_length, problem.packed_spacing))
    for shard, path in enumerate(problem.filepaths(split, folder, shards)):
        write_examples(path, packed[shard::shards])
    return packed


def examples(found):
    """The packed examples of batches, without their padding."""
    for batch in found:
        for row in range(len(batch["inputs"])):
            example = {}
            for side in packing.SIDES:
                length = np.flatnonzero(batch[side][row])[-1] + 1
                for name in batch:
                    if name.startswith(side):
                        example[name] = batch[name][row, :length].tolist()
            yield example


@pytest.fixture
def samples():
    return [
        {"inputs": [2 + n] * (1 + n % 9) + [1], "targets": [3 + n] * (2 + n % 5) + [1]}
        for n in range(120)
    ]


def key(example):
    return sorted(example.items())


def test_batches_hold_the_six_features(samples, tmp_path):
    packed = write(tmp_path, samples)
    found = batches(Packed(), tmp_path, None, HPARAMS, training=False)
    assert set(found[0]) == set(packing.features(Packed()))
    assert {batch[name].dtype for batch in found for name in batch} == {np.dtype("int32")}
    assert sorted(map(key, examples(found))) == sorted(map(key, packed))


def test_lengths_are_those_of_packed_examples(samples, tmp_path):
    too_long = {"inputs": [9] * 30 + [1], "targets": [9, 1]}
    packed = write(tmp_path, [too_long, *samples])
    found = batches(Packed(), tmp_path, 40, HPARAMS)
    rows = list(examples(found))
    assert max(len(row["inputs"]) for row in rows) in range(20, 25)  # not 31, and max_length is 7
    assert {batch["inputs"].shape[0] for batch in found if batch["inputs"].shape[1] > 20} == {3}
    told = pipeline.describe(Packed(), "train", HPARAMS, tmp_path, training=True)
    assert (told.examples, told.too_long) == (len(packed), 1)


def test_a_reversed_problem_swaps_segments_and_positions(samples, tmp_path):
    packed = write(tmp_path, samples)
    problem = Packed(was_reversed=True)
    backward = batches(problem, tmp_path, None, HPARAMS, training=False)
    swapped = [{problem.stored_feature(n): e[n] for n in e} for e in packed]
    assert sorted(map(key, examples(backward))) == sorted(map(key, swapped))


def test_files_that_are_not_packed_are_refused(samples, tmp_path):
    write_examples(Packed().filepaths("train", tmp_path, 1)[0], samples)
    with pytest.raises(UserError, match="inputs_(position|segmentation)"):
        batches(Packed(), tmp_path, 1, HPARAMS)


def test_reading_a_split_gives_its_sentences(samples, tmp_path):
    write(tmp_path, samples, split="dev", shards=1)
    found = list(pipeline.read_split(Packed(), "dev", tmp_path))
    assert sorted(map(key, found)) == sorted(map(key, samples))
    backward = list(pipeline.read_split(Packed(was_reversed=True), "dev", tmp_path))
    assert backward[0] == {"inputs": found[0]["targets"], "targets": found[0]["inputs"]}
