"""Pairs that are turned round and words that are cut anew: alike for whoever goes on or shares."""

import collections
import dataclasses

import numpy as np
import pytest

from t2t_repro.data import pipeline
from t2t_repro.data.pipeline import Examples
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text import ByteTextEncoder, SubwordTextEncoder
from tests.data.record_files import write_examples
from tests.data.test_pipeline import HPARAMS, batches, rows, same

ENCODER = SubwordTextEncoder.from_subtokens(
    ["<pad>_", "<EOS>_", *"\\_u;0123456789abc", "ab", "bc", "ca", "abc", "abc_", "ca_"]
)
OTHER = SubwordTextEncoder.from_subtokens(
    ["<pad>_", "<EOS>_", *ENCODER.all_subtoken_strings[:1:-1]]
)
SOME = ["abc", "bca", "ca", "abcabc", "cab", "b"]
DROPPING = dataclasses.replace(HPARAMS, subword_dropout=0.4)
TURNING = dataclasses.replace(HPARAMS, bidirectional_steps=37)
SOURCE, TARGET = 10, 30  # the least id of either side of `PAIRS`


def problem_of(name, *encoders, **attributes):
    """A problem of two encoders."""
    made = dict(zip(("inputs", "targets"), encoders, strict=True))
    attributes |= {"name": name, "feature_encoders": lambda self, data_dir: made}
    return type(name, (Problem,), attributes)()


WORDS = problem_of("words", ENCODER, ByteTextEncoder())
PAIRS = problem_of("pairs", ByteTextEncoder(), ByteTextEncoder())  # ids tell which side is which
PACKED = problem_of("packed", ByteTextEncoder(), ByteTextEncoder(), packed_length=16)
SEPARATE = problem_of("separate", ENCODER, OTHER)
TAUGHT = problem_of(
    *("taught", ByteTextEncoder(), ByteTextEncoder()),
    stored_feature=lambda self, name: {"targets": "dist_targets"}.get(name, name),
)


def write(folder, problem, example):
    for shard, path in enumerate(problem.filepaths("train", folder, 2)):
        write_examples(path, [example(n, shard) for n in range(40)])
    return str(folder)


def write_words(folder, most):
    """Sentences of 1 to `most` words; the targets name them."""

    def example(n, shard):
        text = " ".join(SOME[(n + k) % 6] for k in range(1 + n % most))
        return {"inputs": [*ENCODER.encode(text), 1], "targets": [n + 2, 40 + shard, 1]}

    return write(folder, WORDS, example)


@pytest.fixture
def data_dir(tmp_path):
    """Files of `WORDS` and of `PAIRS`."""

    def example(n, shard):
        source, target = [SOURCE + shard] * (3 + n % 5), [TARGET + shard] * (2 + n % 7)
        return {"inputs": [*source, 100 + n, 1], "targets": [*target, 100 + n, 1]}

    write(tmp_path, PAIRS, example)
    return write_words(tmp_path, 3)


def texts_of(found):
    """Returns {the targets, which name the example: its texts and its cuts}."""
    examples = {}
    for row, targets in zip(rows(found), rows(found, "targets"), strict=True):
        assert row[-1] == 1
        texts, cuts = examples.setdefault(targets, (set(), set()))
        texts.add(ENCODER.decode(row[:-1]))
        cuts.add(row)
    return examples


def pairs_of(found):
    return list(zip(rows(found), rows(found, "targets"), strict=True))


def turned(pair):
    return pair[0][0] >= TARGET


def test_every_epoch_has_the_same_texts_in_other_subwords(data_dir):
    plain = texts_of(batches(WORDS, data_dir, 200))
    dropping = texts_of(batches(WORDS, data_dir, 200, DROPPING))
    assert plain.keys() == dropping.keys()
    for targets, (texts, cuts) in plain.items():
        assert dropping[targets][0] == texts and len(cuts) == 1
    assert sum(len(cuts) for _, cuts in dropping.values()) > 3 * len(plain)
    longest = max(len(cut) for _, cuts in plain.values() for cut in cuts)
    assert max(len(cut) for _, cuts in dropping.values() for cut in cuts) <= longest


@pytest.mark.parametrize("most, shapes", [(1, {(12, 16)}), (2, {(12, 8), (6, 16)})])
def test_a_few_shapes_hold_the_same_examples(tmp_path, monkeypatch, most, shapes):
    data_dir = write_words(tmp_path, 7)
    plain, found = (
        batches(WORDS, data_dir, 200, DROPPING, seed=3, most_shapes=count) for count in (99, most)
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
    going_on = batches(WORDS, data_dir, 50, DROPPING, seed=3, most_shapes=most, start=150)
    assert same(found[150:], going_on)

    # What is something to a model is not padded so.
    bytenet = dataclasses.replace(DROPPING, model="byte_net")
    found = batches(WORDS, data_dir, 90, bytenet, seed=3, most_shapes=1)
    plain = batches(WORDS, data_dir, 90, DROPPING, seed=3)
    assert [len(batch["inputs"]) for batch in found] == [len(b["inputs"]) for b in plain]
    assert len({batch["inputs"].shape for batch in found}) >= 7

    monkeypatch.setattr(pipeline.keras.backend, "backend", lambda: "jax")
    of = {"split": "train", "hparams": DROPPING, "data_dir": data_dir, "training": True, "seed": 3}
    shares = pipeline.make_dataset(WORDS, most_shapes=most, **of).shares
    assert len(shares) == most
    for share, shape in shares:
        assert shape["targets"] == shape["inputs"]
        assert count[shape["inputs"]] / 200 == pytest.approx(share, abs=0.08)
    assert pipeline.make_dataset(WORDS, most_shapes=most, start=150, **of).shares == shares
    assert pipeline.make_dataset(WORDS, **of).shares == []


def test_each_batch_has_draws_of_its_own():
    cut = pipeline.changes(WORDS, DROPPING, "", seed=5, longest=99)
    ids = [*ENCODER.encode("abcabc bca abc"), 1]
    batch = Examples.from_lists({"inputs": [ids] * 7, "targets": [[2, 1]] * 7})
    made = [cut(batch, number, slice(None)) for number in (3, 3, 4)]
    first, again, second = (each.lists()["inputs"] for each in made)
    assert first == again != second and made[0].lists()["targets"] == batch.lists()["targets"]
    assert len(set(map(tuple, first))) > 1


def test_the_last_steps_are_not_cut(data_dir):
    hparams = dataclasses.replace(DROPPING, train_steps=50, subword_dropout_final_steps=37)
    found, plain = batches(WORDS, data_dir, 60, hparams), batches(WORDS, data_dir, 60)
    assert same(found[:13], batches(WORDS, data_dir, 13, DROPPING))
    assert same(found[13:], plain[13:]) and not same(found[12:], plain[12:])


def test_of_a_reversed_problem_the_other_side_is_cut(data_dir):
    found = batches(type(WORDS)(was_reversed=True), data_dir, 60, DROPPING)
    plain = batches(type(WORDS)(was_reversed=True), data_dir, 60)
    assert set(rows(found)) == set(rows(plain)) and len(set(rows(plain))) == 80
    assert len(set(rows(found, "targets"))) > len(set(rows(plain, "targets")))


def test_half_of_the_pairs_are_turned_round_in_the_first_steps_and_no_other_changes(data_dir):
    plain, found = batches(PAIRS, data_dir, 60), batches(PAIRS, data_dir, 60, TURNING)
    assert same(found[37:], plain[37:]) and not same(found[36:], plain[36:])
    before, now = pairs_of(plain[:37]), pairs_of(found[:37])
    assert now == [p[::-1] if turned(n) else p for p, n in zip(before, now, strict=True)]
    assert 0.4 < sum(map(turned, now)) / len(now) < 0.6
    longer = dataclasses.replace(TURNING, bidirectional_steps=200)
    every = set(pairs_of(batches(PAIRS, data_dir, 200, longer)))
    whole = set(pairs_of(batches(PAIRS, data_dir, 200)))
    assert every == whole | {pair[::-1] for pair in whole}


BOTH = [(WORDS, DROPPING), (PAIRS, TURNING)]


@pytest.mark.parametrize("problem, hparams", [*BOTH, (PAIRS, HPARAMS)])
def test_training_goes_on_from_any_step_and_readers_share_each_batch(data_dir, problem, hparams):
    whole = batches(problem, data_dir, 40, hparams, seed=3, replicas=3)
    how = {"seed": 3, "replicas": 3}
    assert same(whole[20:], batches(problem, data_dir, 20, hparams, start=20, **how))
    assert not same(whole, batches(problem, data_dir, 40, hparams, seed=4, replicas=3))
    how = {"seed": 3, "num_shards": 3}
    parts = [batches(problem, data_dir, 40, hparams, shard_index=i, **how) for i in range(3)]
    for batch, *shares in zip(whole, *parts, strict=True):
        assert sorted(pairs_of([batch])) == sorted(pairs_of(shares))
        assert len({len(share["inputs"]) for share in shares}) == 1


@pytest.mark.parametrize("problem, hparams", BOTH)
def test_evaluation_leaves_everything_as_it_is(data_dir, problem, hparams):
    plain = batches(problem, data_dir, split="train", training=False)
    assert same(plain, batches(problem, data_dir, None, hparams, training=False))


@pytest.mark.parametrize(
    "problem, hparams",
    [
        (PAIRS, DROPPING),  # no subwords
        *((each, TURNING) for each in (PACKED, WORDS, SEPARATE, TAUGHT)),
    ],
)
def test_what_cannot_be_changed_is_refused(problem, hparams):
    with pytest.raises(UserError, match="--hparams="):
        pipeline.changes(problem, hparams, "", seed=0, longest=9)
