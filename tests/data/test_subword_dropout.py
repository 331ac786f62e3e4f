"""Words that are cut anew: in every epoch otherwise, alike for whoever goes on or shares."""

import collections
import dataclasses

import numpy as np
import pytest

from t2t_repro.data import example, pipeline
from t2t_repro.data.subword_dropout import SubwordDropout
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text import ByteTextEncoder, SubwordTextEncoder
from tests.data.record_files import write_examples
from tests.data.test_pipeline import HPARAMS, batches, rows, same

ENCODER = SubwordTextEncoder.from_subtokens(
    ["<pad>_", "<EOS>_", *"\\_u;0123456789abc", "ab", "bc", "ca", "abc", "abc_", "ca_"]
)
WORDS = ["abc", "bca", "ca", "abcabc", "cab", "b"]
DROPPING = dataclasses.replace(HPARAMS, subword_dropout=0.4)


class Words(Problem):
    """Subwords to bytes."""

    name = "words"

    def feature_encoders(self, data_dir):
        return {"inputs": ENCODER, "targets": ByteTextEncoder()}


class Packed(Words):
    packed_length = 16


class NoSubwords(Words):
    def feature_encoders(self, data_dir):
        return {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}


@pytest.fixture
def data_dir(tmp_path):
    return write(tmp_path, 3)


def write(folder, most_words):
    for shard, path in enumerate(Words().filepaths("train", folder, 2)):
        texts = [" ".join(WORDS[(n + k) % 6] for k in range(1 + n % most_words)) for n in range(40)]
        write_examples(
            path,
            [
                {"inputs": [*ENCODER.encode(text), 1], "targets": [n + 2, 40 + shard, 1]}
                for n, text in enumerate(texts)
            ],
        )
    return str(folder)


def texts_of(found):
    """Returns {the targets, which name the example: its texts and its cuts}."""
    examples = {}
    for row, targets in zip(rows(found), rows(found, "targets"), strict=True):
        assert row[-1] == 1
        texts, cuts = examples.setdefault(targets, (set(), set()))
        texts.add(ENCODER.decode(row[:-1]))
        cuts.add(row)
    return examples


def test_every_epoch_has_the_same_texts_in_other_subwords(data_dir):
    plain = texts_of(batches(Words(), data_dir, 200))
    dropping = texts_of(batches(Words(), data_dir, 200, DROPPING))
    assert plain.keys() == dropping.keys()
    for targets, (texts, cuts) in plain.items():
        assert dropping[targets][0] == texts and len(cuts) == 1
    assert sum(len(cuts) for _, cuts in dropping.values()) > 3 * len(plain)
    longest = max(len(cut) for _, cuts in plain.values() for cut in cuts)
    assert max(len(cut) for _, cuts in dropping.values() for cut in cuts) <= longest


@pytest.mark.parametrize("most, shapes", [(1, {(12, 16)}), (2, {(12, 8), (6, 16)})])
def test_a_few_shapes_hold_the_same_examples(tmp_path, monkeypatch, most, shapes):
    data_dir = write(tmp_path, 7)
    plain, found = (
        batches(Words(), data_dir, 200, DROPPING, seed=3, most_shapes=count) for count in (99, most)
    )
    assert len({batch["inputs"].shape for batch in plain}) == 7
    count = collections.Counter(batch["inputs"].shape for batch in found)
    assert count.keys() == shapes
    for one, other in zip(found, plain, strict=True):
        for name in ("inputs", "targets"):
            height, width = other[name].shape
            np.testing.assert_array_equal(one[name][:height, :width], other[name])
            assert one[name].sum() == other[name].sum()
            assert one[name].shape == one["inputs"].shape
    going_on = batches(Words(), data_dir, 50, DROPPING, seed=3, most_shapes=most, start=150)
    assert same(found[150:], going_on)

    monkeypatch.setattr(pipeline.keras.backend, "backend", lambda: "jax")
    assert same(found, batches(Words(), data_dir, 200, DROPPING, seed=3, most_shapes=most))
    where = (Words(), "train", DROPPING, data_dir)
    assert pipeline.make_dataset(*where, training=True).shares == []
    dataset = pipeline.make_dataset(*where, training=True, most_shapes=most, seed=3)
    for share, shape in dataset.shares:
        assert shape["targets"] == shape["inputs"]
        assert count[shape["inputs"]] / 200 == pytest.approx(share, abs=0.08)
    assert len(dataset.shares) == most
    later = pipeline.make_dataset(*where, training=True, most_shapes=most, seed=3, start=150)
    assert later.shares == dataset.shares


def test_what_is_something_to_a_model_is_not_padded_so(tmp_path):
    data_dir = write(tmp_path, 7)
    bytenet = dataclasses.replace(DROPPING, model="byte_net")
    found = batches(Words(), data_dir, 90, bytenet, seed=3, most_shapes=1)
    plain = batches(Words(), data_dir, 90, DROPPING, seed=3)
    assert [len(batch["inputs"]) for batch in found] == [len(batch["inputs"]) for batch in plain]
    assert len({batch["inputs"].shape for batch in found}) > 7


def test_each_batch_has_draws_of_its_own():
    cut = SubwordDropout(Words(), DROPPING, "", seed=5, longest=99)
    sides = {"inputs": [*ENCODER.encode("abcabc bca abc"), 1], "targets": [2, 1]}
    records = np.array([example.serialize(sides)] * 7, object)
    first, again, second = cut(records, 3), cut(records, 3), cut(records, 4)
    assert list(first) == list(again) != list(second)
    assert len(set(first)) > 1


def test_it_goes_on_from_any_step_and_the_seed_decides(data_dir):
    whole = batches(Words(), data_dir, 30, DROPPING, seed=3)
    assert same(whole[20:], batches(Words(), data_dir, 10, DROPPING, seed=3, start=20))
    assert not same(whole, batches(Words(), data_dir, 30, DROPPING, seed=4))


def test_the_last_steps_have_none(data_dir):
    hparams = dataclasses.replace(DROPPING, train_steps=50, subword_dropout_final_steps=37)
    found, plain = batches(Words(), data_dir, 60, hparams), batches(Words(), data_dir, 60)
    assert same(found[:13], batches(Words(), data_dir, 13, DROPPING))
    assert same(found[13:], plain[13:]) and not same(found[12:], plain[12:])
    assert same(found[20:], batches(Words(), data_dir, 40, hparams, start=20))


def test_readers_that_share_a_batch_cut_as_one(data_dir):
    together = batches(Words(), data_dir, 20, DROPPING, replicas=2)
    parts = [
        batches(Words(), data_dir, 20, DROPPING, num_shards=2, shard_index=index)
        for index in range(2)
    ]
    for step, whole in enumerate(together):
        shares = [part[step] for part in parts]
        assert sorted(rows([whole])) == sorted(rows(shares))


def test_evaluation_and_a_rate_of_zero_leave_everything_as_it_is(data_dir):
    plain = batches(Words(), data_dir, split="train", training=False)
    assert same(plain, batches(Words(), data_dir, None, DROPPING, training=False))


def test_of_a_reversed_problem_the_other_side_is_cut(data_dir):
    found = batches(Words(was_reversed=True), data_dir, 60, DROPPING)
    plain = batches(Words(was_reversed=True), data_dir, 60)
    assert set(rows(found)) == set(rows(plain)) and len(set(rows(plain))) == 80
    assert len(set(rows(found, "targets"))) > len(set(rows(plain, "targets")))


@pytest.mark.parametrize(
    "problem, message",
    [
        (Packed(), "Received: words, which is packed. Leave it out: --hparams=subword_dropout=0"),
        (NoSubwords(), "words, whose encoders are ByteTextEncoder and ByteTextEncoder. Leave it"),
    ],
)
def test_what_cannot_be_cut_is_refused(problem, message):
    with pytest.raises(UserError, match=message):
        SubwordDropout(problem, DROPPING, "", seed=0, longest=9)
