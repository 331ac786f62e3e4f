"""Pairs that are turned round: half of them, in the first steps, alike for whoever goes on."""

import dataclasses

import pytest

from t2t_repro.data.both_directions import BothDirections
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.text import ByteTextEncoder, SubwordTextEncoder
from tests.data.record_files import write_examples
from tests.data.test_pipeline import HPARAMS, batches, rows, same
from tests.data.test_subword_dropout import ENCODER, Packed

TURNING = dataclasses.replace(HPARAMS, bidirectional_steps=37)
OTHERS = ["<pad>_", "<EOS>_", *ENCODER.all_subtoken_strings[:1:-1]]
SOURCE, TARGET = 10, 30  # the least id of either side


class Pairs(Problem):
    """Pairs that tell by their ids which side is which."""

    name = "pairs"

    def feature_encoders(self, data_dir):
        return {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}


class Separate(Pairs):
    """Two vocabularies of one size."""

    name = "separate"

    def feature_encoders(self, data_dir):
        return {"inputs": ENCODER, "targets": SubwordTextEncoder.from_subtokens(OTHERS)}


class TwoSizes(Pairs):
    name = "two_sizes"

    def feature_encoders(self, data_dir):
        return {"inputs": ENCODER, "targets": ByteTextEncoder()}


class Taught(Pairs):
    """What is learned lies beside the targets, as TranslateDistillProblem has it."""

    name = "taught"

    def stored_feature(self, name):
        return {"targets": "dist_targets"}.get(name, name)


@pytest.fixture
def data_dir(tmp_path):
    for shard, path in enumerate(Pairs().filepaths("train", tmp_path, 2)):
        pairs = [(3 + n % 5, 2 + n % 7) for n in range(40)]
        write_examples(
            path,
            [
                {
                    "inputs": [SOURCE + shard] * source + [100 + n, 1],
                    "targets": [TARGET + shard] * target + [100 + n, 1],
                }
                for n, (source, target) in enumerate(pairs)
            ],
        )
    return str(tmp_path)


def pairs_of(found):
    return list(zip(rows(found), rows(found, "targets"), strict=True))


def turned(pair):
    return pair[0][0] >= TARGET


def test_half_of_the_pairs_are_turned_round_and_no_other_changes(data_dir):
    plain = pairs_of(batches(Pairs(), data_dir, 37))
    found = pairs_of(batches(Pairs(), data_dir, 37, TURNING))
    for before, now in zip(plain, found, strict=True):
        assert now == (before[::-1] if turned(now) else before)
    assert 0.4 < sum(map(turned, found)) / len(found) < 0.6


def test_each_pair_comes_in_both_directions(data_dir):
    longer = dataclasses.replace(TURNING, bidirectional_steps=200)
    found = set(pairs_of(batches(Pairs(), data_dir, 200, longer)))
    whole = set(pairs_of(batches(Pairs(), data_dir, 200)))
    assert found == whole | {pair[::-1] for pair in whole}


def test_after_the_first_steps_none_is(data_dir):
    plain = batches(Pairs(), data_dir, 60)
    found = batches(Pairs(), data_dir, 60, TURNING)
    assert same(found[37:], plain[37:]) and not same(found[36:], plain[36:])


def test_it_goes_on_from_any_step_and_the_seed_decides(data_dir):
    whole = batches(Pairs(), data_dir, 40, TURNING, seed=3)
    assert same(whole[20:], batches(Pairs(), data_dir, 20, TURNING, seed=3, start=20))
    other = [
        list(map(turned, pairs_of(batches(Pairs(), data_dir, 30, TURNING, seed=seed))))
        for seed in (3, 4)
    ]
    assert other[0] != other[1]


def test_readers_that_share_a_batch_turn_as_one(data_dir):
    together = batches(Pairs(), data_dir, 20, TURNING, replicas=2)
    parts = [
        batches(Pairs(), data_dir, 20, TURNING, num_shards=2, shard_index=index)
        for index in range(2)
    ]
    for step, whole in enumerate(together):
        assert sorted(pairs_of([whole])) == sorted(pairs_of([part[step] for part in parts]))


def test_evaluation_has_its_own_direction_and_so_has_a_reversed_problem_afterwards(data_dir):
    plain = batches(Pairs(), data_dir, split="train", training=False)
    assert same(plain, batches(Pairs(), data_dir, None, TURNING, training=False))
    reversed_, least = Pairs(was_reversed=True), TARGET
    found = batches(reversed_, data_dir, 60, TURNING)
    assert all(row[0] >= least for row in rows(found[37:]))
    assert min(row[0] for row in rows(found[:37])) < least


@pytest.mark.parametrize(
    "problem, message",
    [
        (Packed(), "Received: words, which is packed. Leave it out: --hparams=bidirectional_steps"),
        (TwoSizes(), "Received: two_sizes, which has two, of 25 and 258 symbols"),
        (
            Separate(),
            "one vocabulary for both sides. Received: separate, which has two, of 25 and 25",
        ),
        (Taught(), "Received: taught, which learns what a teacher wrote, in one direction. Leave"),
    ],
)
def test_what_cannot_be_turned_is_refused(problem, message):
    with pytest.raises(UserError, match=message):
        BothDirections(problem, TURNING, "", seed=0)
