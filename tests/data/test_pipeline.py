import collections
import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

import t2t_repro
from t2t_repro.config import HParams
from t2t_repro.data import packing, pipeline, text_dataset, tfrecord
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import ByteTextEncoder
from tests.data.record_files import read_examples, write_examples

HPARAMS = HParams(batch_size=60, max_length=16, min_length_bucket=4, length_bucket_step=1.3)
LENGTHS = [(2 + n % 17, 2 + n * 7 % 15) for n in range(400)]  # up to 18 and 16


def batches(problem, data_dir, count=None, hparams=HPARAMS, split="train", training=True, **kwargs):
    dataset = pipeline.make_dataset(problem, split, hparams, data_dir, training=training, **kwargs)
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def rows(found, name="inputs"):
    """The examples of all batches without padding, in order."""
    return [tuple(row[row != 0].tolist()) for batch in found for row in batch[name] if row.any()]


def same(one, two):
    return len(one) == len(two) and all(
        np.array_equal(a[name], b[name]) for a, b in zip(one, two, strict=True) for name in a
    )


def test_training_batches(problem, write_split):
    data_dir = write_split(LENGTHS)
    found = batches(problem, data_dir, 300)
    scheme = hparams_to_batching_scheme(HPARAMS)
    for batch in found:
        assert batch["inputs"].dtype == batch["targets"].dtype == np.int32
        longest = max(batch["inputs"].shape[1], batch["targets"].shape[1])
        assert longest <= 16
        bucket = np.searchsorted(scheme["boundaries"], longest, side="right")
        assert len(batch["inputs"]) == len(batch["targets"]) == scheme["batch_sizes"][bucket]
        for side in batch.values():
            lengths = (side != 0).sum(1)
            assert lengths.max() == side.shape[1]  # no more padding than needed
            assert (side[np.arange(len(side)), lengths - 1] == 1).all()
    kept = sum(max(pair) <= 16 for pair in LENGTHS)
    assert len(set(zip(rows(found), rows(found, "targets"), strict=True))) >= kept * 0.99


def test_a_problems_batch_size_multiplier_lengthens_the_buckets(problem, write_split):
    problem.batch_size_multiplier = 2
    found = {len(batch["inputs"]) for batch in batches(problem, write_split(LENGTHS), 300)}
    assert found <= {6, 4, 3, 2, 1} and max(found) == 6  # 12 without it


def test_under_jax_the_shapes_are_one_of_each_bucket(problem, write_split, monkeypatch):
    data_dir = write_split(LENGTHS)
    plain = batches(problem, data_dir, 200)
    found = batches(problem, data_dir, 200, most_shapes=99)
    monkeypatch.setattr(pipeline.keras.backend, "backend", lambda: "jax")
    assert same(found, batches(problem, data_dir, 200))
    for name in ("inputs", "targets"):
        assert rows(found, name) == rows(plain, name)
    assert all(batch["inputs"].shape == batch["targets"].shape for batch in found)
    shapes = {batch["inputs"].shape for batch in found}
    scheme = hparams_to_batching_scheme(HPARAMS)
    tops = [boundary - 1 for boundary in scheme["boundaries"]] + [16]
    assert shapes <= set(zip(scheme["batch_sizes"], tops, strict=True)) and len(shapes) > 3


@pytest.mark.parametrize("longest", [12, 18])  # within a bucket, and beyond the last
def test_under_jax_the_shapes_are_known_ahead_with_their_shares(
    problem, write_split, monkeypatch, longest
):
    data_dir = write_split([(min(a, longest), min(b, longest)) for a, b in LENGTHS])
    monkeypatch.setattr(pipeline.keras.backend, "backend", lambda: "jax")
    dataset = pipeline.make_dataset(problem, "train", HPARAMS, data_dir, training=True)
    shares = [share for share, _ in dataset.shares]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1)
    found = collections.Counter(
        tuple((name, ids.shape) for name, ids in batch.items())
        for batch in itertools.islice(iter(dataset), 400)
    )
    known = {tuple(shape.items()): share for share, shape in dataset.shares}
    assert found.keys() <= known.keys() and len(found) > 3
    for shape, share in known.items():
        assert found[shape] / 400 == pytest.approx(share, abs=0.02)


def test_evaluation_gives_every_example_once_in_t2ts_batches(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    found = batches(problem, data_dir, split="dev", training=False)
    assert len(rows(found)) == 400

    paths = tfrecord.find_shards(problem, "dev", data_dir)
    examples = [example for path in paths for example in read_examples(path)]
    scheme = hparams_to_batching_scheme(HPARAMS)
    dataset = tf.data.Dataset.from_generator(
        lambda: examples, output_signature=dict.fromkeys(packing.SIDES, tf.TensorSpec([None]))
    ).bucket_by_sequence_length(
        lambda example: tf.maximum(tf.size(example["inputs"]), tf.size(example["targets"])),
        scheme["boundaries"],
        scheme["batch_sizes"],
    )
    assert same(found, list(dataset.as_numpy_iterator()))


def test_evaluation_knows_its_number_of_batches(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    how = {"split": "dev", "training": False}
    made = pipeline.make_dataset(problem, hparams=HPARAMS, data_dir=data_dir, **how)
    assert made.num_batches == len(list(made))


def test_reversed_problem_swaps_sides(problem, write_split):
    data_dir = write_split([(3, 7), (4, 8)], split="dev")
    backward = type(problem)(was_reversed=True)
    hparams = HPARAMS.override("max_target_seq_length=2")
    (batch,) = batches(backward, data_dir, hparams=hparams, split="dev", training=False)
    assert (batch["inputs"] != 0).sum(1).tolist() == [7, 8]
    assert (batch["targets"] != 0).sum(1).tolist() == [2, 2]


def test_truncation_comes_before_the_filter(problem, write_split):
    data_dir = write_split([(30, 5), (30, 30)] * 20)
    hparams = HPARAMS.override("max_input_seq_length=6")
    found = batches(problem, data_dir, 3, hparams=hparams)
    assert {batch["inputs"].shape[1] for batch in found} == {6}
    assert {batch["targets"].shape[1] for batch in found} == {5}


def test_describe_counts_what_the_batches_hold(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    hparams = HPARAMS.override("eval_drop_long_sequences=true,min_length=5")
    found = batches(problem, data_dir, hparams=hparams, split="dev", training=False)
    told = pipeline.describe(problem, "dev", hparams, data_dir, training=False)
    assert told.examples == 400 and told.longest == 18 and told.batches == len(found)
    assert told.too_short == sum(max(pair) < 5 for pair in LENGTHS)
    assert told.too_long == sum(max(pair) > 16 for pair in LENGTHS)
    assert told.kept == len(rows(found))
    real = {name: sum((batch[name] != 0).sum() for batch in found) for name in packing.SIDES}
    assert (told.inputs_tokens, told.targets_tokens) == (real["inputs"], real["targets"])
    room = sum(side.size for batch in found for side in batch.values())
    assert told.padding == pytest.approx(1 - sum(real.values()) / room)


def test_describe_knows_that_all_batches_of_training_are_full(problem, write_split):
    """What an epoch leaves in a bucket joins the next: one pass of the same has more batches."""
    data_dir = write_split(LENGTHS)
    told = pipeline.describe(problem, "train", HPARAMS, data_dir, training=True)
    epochs = 40
    found = batches(problem, data_dir, round(epochs * told.batches), training=True)
    real = sum((batch["targets"] != 0).sum() for batch in found)
    assert real / epochs == pytest.approx(told.targets_tokens, rel=0.02)
    one_pass = pipeline.describe(problem, "train", HPARAMS, data_dir, training=False)
    assert told.batches < 0.95 * one_pass.batches


def test_no_example_left_names_the_filter(problem, write_split):
    data_dir = write_split([(20, 5), (3, 25), (2, 2)])
    with pytest.raises(UserError, match="min_length=10.*max_length=16"):
        batches(problem, data_dir, hparams=HPARAMS.override("min_length=10"))


def test_ids_outside_the_vocabulary_are_refused(problem, tmp_path):
    path = problem.filepaths("train", tmp_path, 1)[0]
    write_examples(path, [{"inputs": [2, 1], "targets": [257, 1]}] * 9)
    assert batches(problem, tmp_path, 1)
    write_examples(path, [{"inputs": [2, 1], "targets": [258, 1]}] * 9)
    with pytest.raises(UserError, match="258"):
        batches(problem, tmp_path, 1)
    with pytest.raises(UserError, match="258"):
        batches(type(problem)(was_reversed=True), tmp_path, 1)


TEXT_HPARAMS = dataclasses.replace(
    t2t_repro.get_hparams("transformer_test"), batch_size=60, max_length=12
)
INPUTS = [chr(97 + n) * (1 + n % 9) for n in range(23)]
TARGETS = [text[::-1] + "!" for text in INPUTS]
ENCODER = ByteTextEncoder()


def texts_of(batches):
    for batch in batches.as_numpy_iterator():
        assert {ids.dtype for ids in batch.values()} == {np.dtype("int32")}
        for row in zip(batch["inputs"], batch["targets"], strict=True):
            yield tuple(ENCODER.decode(ids[: list(ids).index(1)]) for ids in row)


def test_each_pair_comes_once_in_batches_of_about_a_length():
    batches = text_dataset(INPUTS, TARGETS, ENCODER, TEXT_HPARAMS)
    passes = [list(texts_of(batches)) for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(zip(INPUTS, TARGETS, strict=True))
    assert passes[0] != passes[1]
    assert list(texts_of(text_dataset(INPUTS, TARGETS, ENCODER, TEXT_HPARAMS))) == passes[0]
    assert int(batches.cardinality()) == sum(1 for _ in batches) > 1


def test_long_pairs_are_left_out_of_training_alone():
    hparams = dataclasses.replace(TEXT_HPARAMS, max_length=5, max_target_seq_length=4)
    longest = [max(len(ENCODER.encode(s)) + 1, 4) for s in INPUTS]
    for training, count in ((True, sum(n <= 5 for n in longest)), (False, len(INPUTS))):
        found = list(text_dataset(INPUTS, TARGETS, ENCODER, hparams, training=training))
        assert sum(len(batch["inputs"]) for batch in found) == count
        assert max(batch["targets"].shape[1] for batch in found) == 4


@pytest.mark.parametrize("count, after", [(3, [0, 1, 2]), (None, [2, 0, 1])])
def test_batches_of_numpy_are_what_keras_takes(count, after):
    batches = pipeline.Batches(lambda: ({"inputs": number} for number in range(3)), count)
    assert batches.num_batches == count
    assert [batch["inputs"] for batch in batches.as_numpy_iterator()] == [0, 1, 2]
    assert [batches[index]["inputs"] for index in (2, 0, 1, 0, 1)] == [0, 1, 2, 0, 1]
    batches.on_epoch_end()  # before the end of a pass
    assert [batches[index]["inputs"] for index in range(3)] == after


GATHERED = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 2}
LONG, ONE = (["x" * 40], ["y"]), (["a"], ["b"])


@pytest.mark.parametrize("pairs", [(["a"], ["b", "c"]), ([], []), LONG])
def test_what_text_dataset_refuses(pairs):
    with pytest.raises(UserError):
        text_dataset(*pairs, ENCODER, TEXT_HPARAMS)


@pytest.mark.parametrize(
    "changes, count",
    [
        ({"subword_dropout": 0.1, "bidirectional_steps": 3}, 1),
        ({"effective_batch_size": 25_000}, 1),  # t2t-trainer's alone
        ({"effective_batch_size": 25_000, **GATHERED}, 0),
    ],
)
def test_hparams_without_effect_make_a_warning(changes, count, recwarn):
    hparams = dataclasses.replace(TEXT_HPARAMS, **changes)
    assert len(list(text_dataset(*map(np.array, ONE), ENCODER, hparams))) == 1
    assert len(list(text_dataset(*LONG, ENCODER, TEXT_HPARAMS, training=False))) == 1
    assert sum(warning.filename == __file__ for warning in recwarn) == count
