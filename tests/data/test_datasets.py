"""Batches in one call: of two lists of sentences, and of a problem's files."""

import dataclasses

import numpy as np
import pytest

import t2t_repro
from t2t_repro.data import dataset, text_dataset
from t2t_repro.data.pipeline import NumpyBatches
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import ByteTextEncoder

HPARAMS = dataclasses.replace(
    t2t_repro.get_hparams("transformer_test"), batch_size=60, max_length=12
)
INPUTS = [chr(97 + n) * (1 + n % 9) for n in range(23)]
TARGETS = [text[::-1] + "!" for text in INPUTS]
ENCODER = ByteTextEncoder()


def pairs(batches):
    for batch in batches.as_numpy_iterator():
        assert {ids.dtype for ids in batch.values()} == {np.dtype("int32")}
        for row in zip(batch["inputs"], batch["targets"], strict=True):
            yield tuple(ENCODER.decode(ids[: list(ids).index(1)]) for ids in row)


def test_each_pair_comes_once_in_batches_of_about_a_length():
    batches = text_dataset(INPUTS, TARGETS, ENCODER, HPARAMS)
    passes = [list(pairs(batches)) for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(zip(INPUTS, TARGETS, strict=True))
    assert passes[0] != passes[1]
    assert list(pairs(text_dataset(INPUTS, TARGETS, ENCODER, HPARAMS))) == passes[0]
    assert int(batches.cardinality()) == sum(1 for _ in batches) > 1


def test_training_leaves_out_what_is_too_long_and_an_evaluation_does_not():
    inputs, targets = [*INPUTS, "x" * 40], [*TARGETS, "y"]
    assert len(list(pairs(text_dataset(inputs, targets, ENCODER, HPARAMS)))) == len(INPUTS)
    whole = text_dataset(inputs, targets, ENCODER, HPARAMS, training=False)
    assert len(list(pairs(whole))) == len(inputs)


def test_lengths_are_cut_and_left_out_as_in_dataset():
    def longest(**changes):
        hparams = dataclasses.replace(HPARAMS, **changes)
        batches = list(text_dataset(INPUTS, TARGETS, ENCODER, hparams, training=False))
        found = [max(batch[side].shape[1] for batch in batches) for side in ("inputs", "targets")]
        return *found, sum(len(batch["inputs"]) for batch in batches)

    source, target, count = longest()
    assert longest(max_input_seq_length=3) == (3, target, count)
    assert longest(max_target_seq_length=2) == (source, 2, count)
    both = zip(INPUTS, TARGETS, strict=True)
    lengths = [max(len(ENCODER.encode(text)) + 1 for text in pair) for pair in both]
    assert longest(min_length=5)[2] == sum(each >= 5 for each in lengths) < count
    most = {"max_length": 5, "eval_drop_long_sequences": True}
    assert longest(**most)[2] == sum(each <= 5 for each in lengths) < count


@pytest.mark.parametrize("count, after", [(3, [0, 1, 2]), (None, [2, 0, 1])])
def test_batches_of_numpy_are_what_keras_takes(count, after):
    batches = NumpyBatches(lambda: iter(range(3)), lambda number: {"inputs": number}, count)
    assert batches.num_batches == count
    assert [batch["inputs"] for batch in batches.as_numpy_iterator()] == [0, 1, 2]
    assert [batches[index]["inputs"] for index in (2, 0, 1, 0, 1)] == [0, 1, 2, 0, 1]
    batches.on_epoch_end()  # before the end of a pass
    assert [batches[index]["inputs"] for index in range(3)] == after


@pytest.mark.parametrize(
    "inputs, targets, named",
    [
        (["a"], ["b", "c"], "1 .* 2 "),
        ([], [], "0 .* 0 "),
        ("a dog", "ein Hund", "str"),
        (["x" * 40], ["y"], "max_length=12"),
    ],
)
def test_what_is_refused(inputs, targets, named):
    with pytest.raises(UserError, match=named):
        text_dataset(inputs, targets, ENCODER, HPARAMS)


def test_sentences_may_be_an_array():
    batches = text_dataset(np.array(INPUTS), np.array(TARGETS), ENCODER, HPARAMS)
    assert sorted(pairs(batches)) == sorted(zip(INPUTS, TARGETS, strict=True))


def test_hparams_that_need_records_are_refused_for_training():
    hparams = dataclasses.replace(HPARAMS, subword_dropout=0.1, bidirectional_steps=3)
    with pytest.raises(UserError, match="subword_dropout"):
        text_dataset(["a"], ["b"], ENCODER, hparams)
    assert len(list(text_dataset(["a"], ["b"], ENCODER, hparams, training=False))) == 1


def test_updates_that_only_the_trainer_makes_are_refused_for_training(tmp_path):
    hparams = dataclasses.replace(HPARAMS, effective_batch_size=25_000)
    said = "effective_batch_size=25000"
    with pytest.raises(UserError, match=said):
        text_dataset(["a"], ["b"], ENCODER, hparams)
    with pytest.raises(UserError, match=said):
        dataset("algorithmic_reverse_binary40_test", tmp_path, hparams)
    gathered = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 2}
    for other, training in ((hparams, False), (dataclasses.replace(hparams, **gathered), True)):
        assert len(list(text_dataset(["a"], ["b"], ENCODER, other, training=training))) == 1


def test_the_folder_may_be_under_home(problem, write_split, tmp_path, monkeypatch):
    folder, asked, encoders = write_split([(5, 4)] * 9), [], problem.feature_encoders
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    problem.feature_encoders = lambda data_dir: asked.append(data_dir) or encoders(data_dir)
    next(dataset(problem, f"~/{tmp_path.name}", HPARAMS).as_numpy_iterator())
    assert set(asked) == {folder}


def test_a_problem_is_named(tmp_path):
    with pytest.raises(UserError, match="algorithmic_identity_decimal40"):
        dataset("algorithmic_identity_decimal40", tmp_path, "transformer_test")
