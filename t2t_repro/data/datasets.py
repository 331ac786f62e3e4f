"""Batches in one call, for a program that trains by `Model.fit`: of a problem, or of two lists."""

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import buckets, padding, pipeline
from t2t_repro.data.batching import NO_LIMIT, hparams_to_batching_scheme
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import EOS_ID, TextEncoder

_OF_RECORDS = ("subword_dropout", "bidirectional_steps")  # what `text_dataset` does not do


def dataset(
    problem: Problem | str,
    data_dir: str | os.PathLike,
    hparams: HParams | str,
    split: str = Split.TRAIN,
    *,
    training: bool | None = None,
    seed: int = 0,
    start: int = 0,
) -> Any:
    """Returns the batches of a problem's files: what t2t-trainer trains and evaluates on.

    Each is {"inputs": int32 (B, S), "targets": int32 (B, T)}, padded with 0; a packed problem's
    have the segments and positions too. It is a tf.data.Dataset, under JAX a keras.utils.PyDataset.

    Args:
        problem: a problem, or its name.
        data_dir: the folder that t2t-datagen wrote.
        hparams: of which the lengths and sizes of the batches are taken; or the name of a set.
        split: one of `problem.Split`.
        training: endless, in an order that the seed decides; else each example once. None: for the
            training split alone.
        seed: of the order.
        start: the number of batches to leave out, for a program that goes on.

    Raises:
        UserError: as `pipeline.make_dataset`; or on hparams for training whose effective_batch_size
            nothing here would make updates of.
    """
    problem = registry.get_problem(problem) if isinstance(problem, str) else problem
    training = split == Split.TRAIN if training is None else training
    hparams = _hparams(hparams, training)
    return pipeline.make_dataset(
        problem,
        split,
        hparams,
        os.path.expanduser(data_dir),
        training=training,
        seed=seed,
        start=start,
    )


def check_pairs(inputs: Any, targets: Any) -> None:
    """Refuses what is no text and its translations, sentence by sentence.

    Raises:
        UserError: if they are of two lengths, or empty; or are one string.
    """
    if isinstance(inputs, str) or isinstance(targets, str) or not 0 < len(inputs) == len(targets):
        raise UserError(
            "Expected two lists of as many sentences, one at least. Received: "
            f"{len(inputs):,} inputs and {len(targets):,} targets, of {type(inputs).__name__} and "
            f"{type(targets).__name__}. Pair them line by line."
        )


def text_dataset(
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: TextEncoder,
    hparams: HParams | str,
    *,
    targets_encoder: TextEncoder | None = None,
    training: bool = True,
    seed: int = 0,
) -> Any:
    """Returns the batches of pairs of sentences, each pair once: as `dataset`, but never endless.

    The pairs stay as they are: hparams with subword_dropout or bidirectional_steps, which are of
    `dataset` alone, are refused.

    Args:
        inputs: the sentences.
        targets: their translations, as many.
        encoder: `encode` makes ids of text; the end is put behind them.
        hparams: as in `dataset`.
        targets_encoder: that of the targets; None: the same.
        training: without pairs longer than max_length, and in another order at each pass.
        seed: of the orders.

    Raises:
        UserError: as `check_pairs`; or if no pair is left, or the hparams ask for more than this.
    """
    check_pairs(inputs, targets)
    hparams = _hparams(hparams, training)
    if alone := [name for name in _OF_RECORDS if training and getattr(hparams, name)]:
        raise UserError(
            "Expected hparams without subword_dropout and bidirectional_steps for text_dataset, "
            f"which takes pairs as they are. Received: {' and '.join(alone)}. Set "
            f"{' and '.join(f'{name}=0' for name in alone)}, or write the pairs by t2t-datagen and "
            "take t2t_repro.data.dataset."
        )
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    longest = padding.cuts(hparams)
    sides = {
        name: [
            np.array([*encoders[name].encode(text), EOS_ID][: longest[name]], "int32")
            for text in texts
        ]
        for name, texts in {"inputs": inputs, "targets": targets}.items()
    }
    length = np.max([list(map(len, side)) for side in sides.values()], axis=0, initial=0)
    drop = training or hparams.eval_drop_long_sequences
    most = (hparams.max_length or hparams.batch_size) if drop else NO_LIMIT
    kept = np.flatnonzero((length >= hparams.min_length) & (length <= most))
    if not len(kept):
        raise UserError(
            f"Expected pairs of min_length={hparams.min_length} to max_length={most} tokens. "
            f"Received: none of {len(inputs):,}. Change these hparams, or give other text."
        )
    scheme = hparams_to_batching_scheme(hparams)
    places, sizes = buckets.bucket_of(length, scheme["boundaries"]), scheme["batch_sizes"]
    passes = itertools.count()

    def batches() -> Iterator[np.ndarray]:
        order = kept
        if training:
            order = np.random.default_rng((seed, next(passes))).permutation(kept)
        yield from buckets.one_pass(order, places, sizes)

    # Under JAX each shape of a batch is compiled: all of a bucket's are as long as it allows.
    tops = [boundary - 1 for boundary in scheme["boundaries"]] if training and _jax() else []

    def padded(rows: np.ndarray) -> dict[str, np.ndarray]:
        longest = int(length[rows].max())
        top = next((top for top in tops if top >= longest), 0)
        return {name: _padded([side[row] for row in rows], top) for name, side in sides.items()}

    count = len(buckets.one_pass(kept, places, sizes))
    if _jax():
        return pipeline.NumpyBatches(batches, padded, count)
    import tensorflow as tf

    spec = tf.TensorSpec([None, None], tf.int32)
    made = tf.data.Dataset.from_generator(
        lambda: map(padded, batches()), output_signature=dict.fromkeys(sides, spec)
    )
    made = made.with_options(pipeline.options())
    return made.apply(tf.data.experimental.assert_cardinality(count)).prefetch(2)


def _hparams(hparams: HParams | str, training: bool) -> HParams:
    hparams = registry.get_hparams(hparams) if isinstance(hparams, str) else hparams
    wanted = hparams.effective_batch_size
    if training and wanted and not hparams.optimizer_multistep_accumulate_steps:
        raise UserError(
            "Expected hparams without effective_batch_size, of which t2t-trainer alone makes "
            f"updates, to train by Model.fit. Received: effective_batch_size={wanted}. Set "
            "effective_batch_size=0, or optimizer=multistep_adam with "
            "optimizer_multistep_accumulate_steps."
        )
    return hparams


def _jax() -> bool:
    return keras.backend.backend() != "tensorflow"


def _padded(sentences: list[np.ndarray], length: int) -> np.ndarray:
    """Returns sentences of ids as int32 (B, the longest, or `length` where that is more)."""
    rows = np.zeros((len(sentences), max(length, *map(len, sentences))), "int32")
    for row, ids in zip(rows, sentences, strict=True):
        row[: len(ids)] = ids
    return rows
