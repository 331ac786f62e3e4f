import collections
import itertools
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.config import HParams
from t2t_repro.data import pipeline, records
from t2t_repro.data.batching import hparams_to_batching_scheme
from t2t_repro.errors import UserError
from t2t_repro.problem import Text2TextProblem
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
    assert pipeline.NumpyBatches(list, list).shares == ()
    assert found.keys() <= known.keys() and len(found) > 3
    for shape, share in known.items():
        assert found[shape] / 400 == pytest.approx(share, abs=0.02)


def test_training_is_decided_by_the_seed_for_any_number_of_threads(problem, write_split):
    data_dir = write_split(LENGTHS)
    first = batches(problem, data_dir, 80, seed=3)
    assert same(first, batches(problem, data_dir, 80, seed=3))
    assert not same(first, batches(problem, data_dir, 80, seed=4))
    dataset = pipeline.make_dataset(problem, "train", HPARAMS, data_dir, training=True, seed=3)
    for threads in (1, 7):
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        limited = dataset.with_options(options).take(80)
        assert same(first, list(limited.as_numpy_iterator()))


def test_training_goes_on_from_any_step(problem, write_split):
    data_dir = write_split(LENGTHS)
    assert same(batches(problem, data_dir, 90)[50:], batches(problem, data_dir, 40, start=50))


def test_shards_share_each_batch_without_overlap(problem, write_split):
    data_dir = write_split(LENGTHS)
    together = batches(problem, data_dir, 50, replicas=3)
    parts = [batches(problem, data_dir, 50, num_shards=3, shard_index=index) for index in range(3)]
    alone = hparams_to_batching_scheme(HPARAMS)["batch_sizes"]
    for step, whole in enumerate(together):
        shares = [part[step]["inputs"] for part in parts]
        assert len({len(share) for share in shares}) == 1 and len(shares[0]) in alone
        assert sorted(rows([whole])) == sorted(rows([part[step] for part in parts]))


def test_evaluation_gives_every_example_once_in_t2ts_batches(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    found = batches(problem, data_dir, split="dev", training=False)
    assert len(rows(found)) == 400

    paths = records.find_shards(problem, "dev", data_dir)
    examples = [example for path in paths for example in read_examples(path)]
    scheme = hparams_to_batching_scheme(HPARAMS)
    dataset = tf.data.Dataset.from_generator(
        lambda: examples, output_signature=dict.fromkeys(records.FEATURES, tf.TensorSpec([None]))
    ).bucket_by_sequence_length(
        lambda example: tf.maximum(tf.size(example["inputs"]), tf.size(example["targets"])),
        scheme["boundaries"],
        scheme["batch_sizes"],
    )
    assert same(found, list(dataset.as_numpy_iterator()))


def test_evaluation_knows_its_number_of_batches_and_shares_examples(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")

    def make(**shard):
        return pipeline.make_dataset(problem, "dev", HPARAMS, data_dir, training=False, **shard)

    assert make().cardinality() == len(list(make()))
    parts = [make(num_shards=2, shard_index=n).as_numpy_iterator() for n in range(2)]
    parts = [list(zip(rows(b := list(p)), rows(b, "targets"), strict=True)) for p in parts]
    assert [len(part) for part in parts] == [200, 200]
    whole = list(make().as_numpy_iterator())
    assert sorted(parts[0] + parts[1]) == sorted(
        zip(rows(whole), rows(whole, "targets"), strict=True)
    )
    train = pipeline.make_dataset(problem, "dev", HPARAMS, data_dir, training=True)
    assert train.cardinality() == tf.data.INFINITE_CARDINALITY


def test_evaluation_drops_long_ones_only_when_asked(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    hparams = HPARAMS.override("eval_drop_long_sequences=true,min_length=5")
    found = batches(problem, data_dir, hparams=hparams, split="dev", training=False)
    assert len(rows(found)) == sum(5 <= max(pair) <= 16 for pair in LENGTHS)


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


def test_fixed_batch_size(problem, write_split):
    hparams = HParams(batch_size=48, max_length=16, use_fixed_batch_size=True)
    found = batches(problem, write_split(LENGTHS), 20, hparams=hparams)
    assert {len(batch["inputs"]) for batch in found} == {48}


def test_describe_counts_what_the_batches_hold(problem, write_split):
    data_dir = write_split(LENGTHS, split="dev")
    hparams = HPARAMS.override("eval_drop_long_sequences=true,min_length=5")
    found = batches(problem, data_dir, hparams=hparams, split="dev", training=False)
    told = pipeline.describe(problem, "dev", hparams, data_dir, training=False)
    assert told.examples == 400 and told.longest == 18 and told.batches == len(found)
    assert told.too_short == sum(max(pair) < 5 for pair in LENGTHS)
    assert told.too_long == sum(max(pair) > 16 for pair in LENGTHS)
    assert told.kept == len(rows(found))
    real = {name: sum((batch[name] != 0).sum() for batch in found) for name in records.FEATURES}
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
    expected = (
        "train split of bytes. Received: the length filter removes all 3: 1 below min_length=10, "
        "2 above max_length=16. Their lengths run from 2 to 25"
    )
    with pytest.raises(UserError, match=expected):
        batches(problem, data_dir, hparams=HPARAMS.override("min_length=10"))


def test_ids_outside_the_vocabulary_are_refused(problem, tmp_path):
    path = problem.filepaths("train", tmp_path, 1)[0]
    write_examples(path, [{"inputs": [2, 1], "targets": [257, 1]}] * 9)
    assert batches(problem, tmp_path, 1)
    write_examples(path, [{"inputs": [2, 1], "targets": [258, 1]}] * 9)
    expected = f"ids below 258 (vocabulary: fixed) in the targets. Received: id 258 in {path}."
    with pytest.raises(UserError, match=re.escape(expected)):
        batches(problem, tmp_path, 1)
    with pytest.raises(UserError, match="258"):
        batches(type(problem)(was_reversed=True), tmp_path, 1)


def test_missing_files_and_vocabulary_name_the_command(problem, write_split, tmp_path):
    with pytest.raises(UserError, match=f"t2t-datagen --problem=bytes --data_dir={tmp_path}"):
        batches(problem, tmp_path, 1)

    class Text(Text2TextProblem):
        name = "bytes"

    data_dir = write_split(LENGTHS)
    expected = "vocabulary vocab.bytes.32768.subwords in .*t2t-datagen --problem=bytes"
    with pytest.raises(UserError, match=expected):
        batches(Text(), data_dir, 1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away")
def test_on_one_core_nobody_waits_for_an_iterator_that_is_dropped(problem, write_split):
    """tf.data's own tuning sleeps twice as long each time, and here is waited for."""
    program = """
        import os, sys, time

        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from t2t_repro.config import HParams
        from t2t_repro.data import pipeline
        from tests.data.conftest import Bytes

        hparams = HParams(batch_size=60, max_length=16, min_length_bucket=4)
        made = pipeline.make_dataset(Bytes(), "train", hparams, sys.argv[1], training=True)
        batches = iter(made)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            next(batches)
            time.sleep(0.01)
        began = time.monotonic()
        del batches
        print(time.monotonic() - began)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(write_split(LENGTHS))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.5, done.stdout
