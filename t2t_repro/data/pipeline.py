"""Files to batches by T2T's length filter, buckets and batch sizes, or to examples one by one."""

import collections
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np

from t2t_repro.config import HParams
from t2t_repro.data import buckets, example, few_shapes, packing, padding, records
from t2t_repro.data import index as record_index
from t2t_repro.data.batching import NO_LIMIT, hparams_to_batching_scheme
from t2t_repro.data.both_directions import BothDirections
from t2t_repro.data.few_shapes import Shape
from t2t_repro.data.numpy_batches import AHEAD, NumpyBatches
from t2t_repro.data.subword_dropout import SubwordDropout
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem

if TYPE_CHECKING:
    import tensorflow as tf

_INFINITE = -1  # tf.data.INFINITE_CARDINALITY
_SAMPLE = 256  # batches that say how subword dropout lengthens sentences
_PARSERS = 2  # batches that are parsed side by side; what reads the records is one thread
_BLOCK = 1024  # records that are read at once where one after another is asked for


def make_dataset(
    problem: Problem,
    split: str,
    hparams: HParams,
    data_dir: str | os.PathLike,
    *,
    training: bool,
    seed: int = 0,
    num_shards: int = 1,
    shard_index: int = 0,
    replicas: int = 1,
    start: int = 0,
    most: int = 0,
    most_shapes: int = 0,
) -> "tf.data.Dataset | NumpyBatches":
    """Returns batches {"inputs": int32 (B, S), "targets": int32 (B, T)}, padded with 0.

    A packed problem's have the segments and positions of both sides too. Its max_length, for filter
    and buckets, is packed_length, as in T2T (whose buckets, but on TPUs, are the hparam's).

    Training: endless, in an order that (seed, epoch) decides, filtered by length. The batches are
    the same for any number of threads. Else: each example once, in file order within its bucket, in
    T2T's batches; longer ones than max_length stay, unless eval_drop_long_sequences. (Examples
    below min_length go in both, as in T2T.) An example counts by its longer side, with its end of
    sentence, after max_input_seq_length and max_target_seq_length have cut it. For a reversed
    problem these two mean the sides that the model sees (in T2T: those in the file).

    With subword_dropout the words of training are cut anew in every epoch, and in the first
    bidirectional_steps half of its pairs are turned round.

    Under the JAX backend they are made without TensorFlow, and those of training are padded to the
    longest that their bucket allows, since each shape of a batch is compiled.

    Args:
        split: one of `Split`.
        num_shards: among how many readers the data are divided. In training all shards take their
            part of the same batch of a bucket, so that their steps cost the same.
        shard_index: which of them this is.
        replicas: multiplies the batch sizes, for a batch that is split among devices afterwards.
        start: the number of batches to leave out, to go on where a run stopped.
        most: of one pass, take this many batches at most, spread over all lengths; 0: all.
        most_shapes: those of training are padded to the longest that their bucket allows, where
            each shape is compiled. With subword_dropout, which lengthens sentences so that there
            were many more than buckets, most are padded to so many shapes, with rows of zeros too,
            by `few_shapes.few`; some rare ones have others. 0: without.

    Raises:
        UserError: if files or the vocabulary are missing or broken, ids do not fit the vocabulary,
            or the filter leaves no example; or subword_dropout or bidirectional_steps cannot be.
    """
    hparams = _limited(hparams, problem)
    source = _Source.open(problem, split, hparams, data_dir, training)
    source.check()
    multiplier = replicas * num_shards if training else replicas
    scheme, places = source.batching(hparams, multiplier)
    sizes = scheme["batch_sizes"]
    read = record_index.Reader(source.index)

    if not training:
        planned = buckets.one_pass(source.kept[shard_index::num_shards], places, sizes)
        planned = buckets.spread(planned, places, most)[start:]
        if _in_graph():
            parse = padding.parser(problem, hparams, [])
            return _dataset(lambda: map(read, planned), parse, len(planned))
        parse = padding.numpy_parser(problem, hparams, [])
        return NumpyBatches(lambda: map(read, planned), parse, len(planned))

    own = slice(shard_index, None, num_shards)
    longest = int(source.length[source.kept].max())
    changes: list[Callable[[np.ndarray, int, slice], np.ndarray]] = []
    if hparams.bidirectional_steps:
        changes.append(BothDirections(problem, hparams, data_dir, seed))
    if hparams.subword_dropout:
        changes.append(SubwordDropout(problem, hparams, data_dir, seed, longest))

    def batches(first: int = start) -> Iterator[np.ndarray]:
        shuffle = hparams.batch_shuffle_size
        endless = buckets.endless(source.kept, places, sizes, seed, shuffle, first)
        for number, rows in enumerate(endless, first):
            batch = read(rows[own])
            for change in changes:
                batch = change(batch, number, own)
            yield batch

    if _in_graph() and not most_shapes:
        return _dataset(batches, padding.parser(problem, hparams, []), _INFINITE)
    tops = [*(boundary - 1 for boundary in scheme["boundaries"]), longest]
    shapes: Mapping[Shape, float] = {}
    if not hparams.subword_dropout:
        shapes = _shapes(source, places, sizes, [len(range(size)[own]) for size in sizes], tops)
    elif most_shapes and few_shapes.suit(hparams.model):
        some = itertools.islice(batches(0), _SAMPLE)
        parsed = map(padding.numpy_parser(problem, hparams, tops), some)
        found = collections.Counter(batch["targets"].shape for batch in parsed)
        drawn = {shape: count / _SAMPLE for shape, count in found.items()}
        shapes = few_shapes.few(drawn, most_shapes)
    if _in_graph():
        return _dataset(batches, padding.parser(problem, hparams, tops, shapes), _INFINITE)
    parse = padding.numpy_parser(problem, hparams, tops, shapes)
    features = packing.features(problem)
    common_first = sorted(shapes.items(), key=lambda item: -item[1])
    shares = [(share, dict.fromkeys(features, shape)) for shape, share in common_first]
    return NumpyBatches(batches, parse, shares=shares)


def read_split(
    problem: Problem, split: str, data_dir: str | os.PathLike, shard: int = 0, shards: int = 1
) -> Iterator[dict[str, list[int]]]:
    """Yields a split's examples {"inputs": ids, "targets": ids} in the order of its files.

    A reversed problem's sides change places. A packed problem's examples are unpacked.

    Args:
        problem: the problem.
        split: the split.
        data_dir: the folder of the files.
        shard: the number of the only file to yield, where `shards` is not 1.
        shards: how many files there are, each of which is read by itself; 1: all are read.

    Raises:
        UserError: if files or the vocabulary are missing or broken, ids do not fit the vocabulary,
            or there are other than so many files.
    """
    paths = records.find_shards(problem, split, data_dir)
    if shards not in (1, len(paths)):
        raise UserError(
            f"Expected shards={len(paths)}, as many as the files of {problem.name}'s {split} "
            f"split, or 1 for all of them. Received: {shards}. Change shards (--decode_shards)."
        )
    index = record_index.read(paths, packing.stored(problem))
    _check_ids(index, problem, data_dir)
    read = record_index.Reader(index)
    rows = np.arange(len(index)) if shards == 1 else np.flatnonzero(index.file == shard)
    for start in range(0, len(rows), _BLOCK):
        for stored in map(example.lists, read(rows[start : start + _BLOCK])):
            for sample in packing.unpack(stored) if problem.packed_length else (stored,):
                yield {name: sample[problem.stored_feature(name)] for name in records.FEATURES}


def _in_graph() -> bool:
    return keras.backend.backend() == "tensorflow"


def _dataset(batches: Callable[[], Iterator[np.ndarray]], parse: Callable, count: int):
    """Returns the tf.data.Dataset of so many batches of records."""
    import tensorflow as tf

    signature = tf.TensorSpec([None], tf.string)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    dataset = dataset.map(parse, _PARSERS, deterministic=True)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
    return dataset.with_options(options()).prefetch(AHEAD)


def options() -> "tf.data.Options":
    """Returns what holds for each dataset here: one reader has its own part, and nothing is tuned.

    The thread that tunes sleeps for up to a minute, and on one core whoever drops an iterator, as
    at the end of a training, waits for it.
    """
    import tensorflow as tf

    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen


def _shapes(
    source: "_Source", places: np.ndarray, sizes: list[int], rows: list[int], tops: list[int]
) -> dict[Shape, float]:
    """Returns {shape: share} of batches of so many rows, of examples as the files have them."""
    batches = np.bincount(places[source.kept], minlength=len(sizes)) / sizes
    widths = np.minimum(tops, tops[-1]).tolist()  # the last is the longest of all
    shares = (batches / batches.sum()).tolist()
    shapes = zip(rows, widths, strict=True)
    return {shape: share for shape, share in zip(shapes, shares, strict=True) if share}


@dataclasses.dataclass(frozen=True)
class SplitStatistics:
    """What a split holds and what the filter leaves of it. Tokens: those of the kept examples."""

    examples: int
    too_short: int
    too_long: int
    inputs_tokens: int
    targets_tokens: int
    longest: int  # of all examples, before the filter, by their longer side
    batches: float  # in one pass; of training those of an epoch in the mean, of which all are full
    padding: float  # share of padding in one pass

    @property
    def kept(self) -> int:
        """The number of examples that pass the filter."""
        return self.examples - self.too_short - self.too_long


def describe(
    problem: Problem,
    split: str,
    hparams: HParams,
    data_dir: str | os.PathLike,
    *,
    training: bool,
    replicas: int = 1,
) -> SplitStatistics:
    """Returns how much a split holds, what the filter removes and what padding costs."""
    hparams = _limited(hparams, problem)
    source = _Source.open(problem, split, hparams, data_dir, training)
    scheme, places = source.batching(hparams, replicas)
    sizes = scheme["batch_sizes"]
    planned = buckets.one_pass(source.kept, places, sizes)
    full = np.bincount(places[source.kept], minlength=len(sizes)) / sizes
    real = {name: int(length[source.kept].sum()) for name, length in source.lengths.items()}
    room = sum(len(b) * int(n[b].max()) for b in planned for n in source.lengths.values())
    return SplitStatistics(
        examples=len(source.index),
        too_short=source.too_short,
        too_long=source.too_long,
        inputs_tokens=real["inputs"],
        targets_tokens=real["targets"],
        longest=int(source.length.max()),
        batches=float(full.sum()) if training else len(planned),
        padding=1 - sum(real.values()) / max(room, 1),
    )


def describe_sample(
    problem: Problem, split: str, hparams: HParams, data_dir: str | os.PathLike, most: int
) -> str:
    """Returns in words which part of a split `make_dataset` takes for an evaluation."""
    hparams = _limited(hparams, problem)
    source = _Source.open(problem, split, hparams, data_dir, training=False)
    scheme, places = source.batching(hparams, 1)
    sizes = scheme["batch_sizes"]
    planned = buckets.one_pass(source.kept, places, sizes)
    taken = buckets.spread(planned, places, most)
    examples = sum(map(len, taken))
    if len(taken) == len(planned):
        return f"all {examples:,} examples"
    return (
        f"{examples:,} of {len(source.kept):,} examples, {len(taken)} of {len(planned):,} batches"
    )


@dataclasses.dataclass(frozen=True)
class _Source:
    """The records of a split under some hparams. R is their number."""

    problem: Problem
    split: str
    data_dir: str
    index: record_index.Index
    lengths: dict[str, np.ndarray]  # (R,) of the sides that the model sees, after cutting
    length: np.ndarray  # (R,) of the longer side
    kept: np.ndarray  # the numbers of the records that pass the filter
    limits: tuple[int, int]

    @classmethod
    def open(cls, problem, split, hparams, data_dir, training) -> "_Source":
        paths = records.find_shards(problem, split, data_dir)
        index = record_index.read(paths, packing.stored(problem))
        lengths = {name: index.lengths[problem.stored_feature(name)] for name in records.FEATURES}
        for name, limit in padding.cuts(hparams).items():
            lengths[name] = np.minimum(lengths[name], limit)
        length = np.maximum(lengths["inputs"], lengths["targets"])
        drop = training or hparams.eval_drop_long_sequences
        most = (hparams.max_length or hparams.batch_size) if drop else NO_LIMIT
        kept = np.flatnonzero((length >= hparams.min_length) & (length <= most))
        limits = (hparams.min_length, most)
        return cls(problem, split, os.fspath(data_dir), index, lengths, length, kept, limits)

    def batching(self, hparams: HParams, shards: int) -> tuple[dict, np.ndarray]:
        """Returns T2T's batching scheme, and the bucket of each record (R,)."""
        multiplier = self.problem.batch_size_multiplier
        scheme = hparams_to_batching_scheme(
            hparams, shard_multiplier=shards, length_multiplier=multiplier
        )
        return scheme, buckets.bucket_of(self.length, scheme["boundaries"])

    @property
    def too_short(self) -> int:
        return int((self.length < self.limits[0]).sum())

    @property
    def too_long(self) -> int:
        return int((self.length > self.limits[1]).sum())

    def check(self) -> None:
        """Raises a UserError if no example is left, or an id is not in the vocabulary."""
        if not len(self.kept):
            raise UserError(
                f"Expected examples in the {self.split} split of {self.problem.name}. Received: "
                f"the length filter removes all {len(self.index)}: {self.too_short} below "
                f"min_length={self.limits[0]}, {self.too_long} above max_length={self.limits[1]}. "
                f"Their lengths run from {self.length.min()} to {self.length.max()} (the longer "
                "side, with its end of sentence). Change these hparams."
            )
        _check_ids(self.index, self.problem, self.data_dir)


def _check_ids(index: record_index.Index, problem: Problem, data_dir: str | os.PathLike) -> None:
    """Raises a UserError if an id is not in the vocabulary."""
    encoders = problem.feature_encoders(os.fspath(data_dir))
    for name in records.FEATURES:
        size = encoders[name].vocab_size
        largest = index.largest_ids[problem.stored_feature(name)]
        if max(largest) >= size:
            path = index.paths[largest.index(max(largest))]
            vocabulary = ", ".join(problem.vocab_files(data_dir)) or "fixed"
            raise UserError(
                f"Expected ids below {size} (vocabulary: {vocabulary}) in the {name}. "
                f"Received: id {max(largest)} in {path}. The files were made with another "
                f"vocabulary; make them again: {problem.datagen_command(data_dir)} --overwrite"
            )


def _limited(hparams: HParams, problem: Problem) -> HParams:
    """Returns hparams whose max_length is that of the problem's examples, T2T's max_length."""
    return dataclasses.replace(hparams, max_length=problem.packed_length or hparams.max_length)
