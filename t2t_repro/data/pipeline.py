"""Files to batches, read from top to bottom: ids, augmentation, buckets, batches.

    shards -> `open_split`: the ids of a split, mapped into memory
    batching.epochs: numbers of examples, which can be replayed from any batch on
    `make_dataset`: slice -> change -> pad -> {"inputs", "targets"} int32

`dataset` and `text_dataset` give the same batches to `fit`; `read_split` yields single examples.
"""

import collections
import concurrent.futures
import dataclasses
import itertools
import json
import math
import os
import pathlib
import platform
import random
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import psutil

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import batching, packing, tfrecord
from t2t_repro.data.batching import NO_LIMIT, Shape, hparams_to_batching_scheme
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, writing
from t2t_repro.problem import Problem, Split
from t2t_repro.text import transfer
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.subword import SubwordTextEncoder

AHEAD = 8  # batches that are read ahead
_SAMPLE = 256  # batches that show how subword dropout lengthens sentences
_BLOCK = 1024  # examples that are read at once where one after another is asked for
_END = struct.Struct("<Q")  # the size of the JSON before it, which says what the arrays are
_SUBWORDS, _DIRECTIONS = 2, 3  # which random stream; batching.py has the first two

_PLAIN = Problem()  # of text that is no problem's

Batch = dict[str, np.ndarray]
Data = tuple[Problem, str]  # a problem, and the folder of its files


# --- the ids of a split ---------------------------------------------------------------------------
# They are decoded once from its TFRecords, into `ids.PROBLEM-SPLIT` beside them, and again if the
# size or the time of a record file differs. So a shuffle of all examples, exact counts and a start
# in mid-epoch are cheap, and no batch needs protobuf.


@dataclasses.dataclass(frozen=True)
class Examples:
    """Examples in the order of their files. R is their number, F that of their features.

    Attributes:
        names: of the features.
        ids: int32, those of all examples and features.
        starts: int64 (F, R), where each example's begin in `ids`.
        lengths: int32 (F, R).
        counts: how many examples each file has.
    """

    names: Sequence[str]
    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    counts: Sequence[int] = ()

    @classmethod
    def from_lists(cls, lists: Mapping[str, Sequence[Sequence[int]]]) -> "Examples":
        """Returns {feature: the ids of each example} as Examples."""
        lengths = np.array([list(map(len, each)) for each in lists.values()], np.int32)
        ends = np.cumsum(lengths, dtype=np.int64).reshape(lengths.shape)
        ids = itertools.chain.from_iterable(ids for each in lists.values() for ids in each)
        return cls(list(lists), np.fromiter(ids, np.int32), ends - lengths, lengths)

    def take(self, rows: np.ndarray) -> "Examples":
        """Returns some examples, by their numbers."""
        return Examples(self.names, self.ids, self.starts[:, rows], self.lengths[:, rows])

    def lists(self) -> dict[str, list[list[int]]]:
        """Returns {feature: the ids of each example}."""
        ends, ids = (self.starts + self.lengths).tolist(), self.ids
        return {
            name: [ids[a:b].tolist() for a, b in zip(starts.tolist(), end, strict=True)]
            for name, starts, end in zip(self.names, self.starts, ends, strict=True)
        }

    def padded(self, most: Mapping[str, int]) -> Batch:
        """Returns {feature: int32 (R, longest)}, padded with 0, of at most `most[side]` ids."""
        batch: Batch = {}
        for name, starts, lengths in zip(self.names, self.starts, self.lengths, strict=True):
            lengths = np.minimum(lengths, most[name.partition("_")[0]])
            places = np.arange(lengths.max(initial=0))
            batch[name] = self.ids[np.minimum(starts[:, None] + places, len(self.ids) - 1)]
            batch[name][places >= lengths[:, None]] = 0
        return batch


def open_split(problem: Problem, split: str, data_dir: str | os.PathLike) -> Examples:
    """Returns the examples of a split, under the names of the features that the model sees.

    Raises:
        UserError: if files or the vocabulary are missing or corrupt, there is no record, one lacks
            a feature, or an id is not in the vocabulary.
    """
    paths, names = tfrecord.find_shards(problem, split, data_dir), packing.features(problem)
    stored = [problem.stored_feature(name) for name in names]
    features, found = sorted(stored), map(os.stat, paths)
    key = {"features": features, "files": [[each.st_size, each.st_mtime_ns] for each in found]}
    own = pathlib.Path(data_dir).expanduser() / f"ids.{problem.dataset_filename()}-{split}"
    head, words = _map(own, key) or _write(own, key, paths)
    lengths = words[len(words) - sum(head["counts"]) * len(features) :].reshape(-1, len(features))
    ends = np.cumsum(lengths, dtype=np.int64).reshape(lengths.shape)
    places = [features.index(name) for name in stored]
    encoders = problem.feature_encoders(os.fspath(data_dir))
    for side in SIDES:
        size = encoders[side].vocab_size
        largest = max(of_file[places[names.index(side)]] for of_file in head["largest"])
        if largest >= size:
            raise UserError(
                f"Expected ids below {size} (size of {', '.join(problem.vocab_files(data_dir))}) "
                f"in the {side} of the {split} split. Received: id {largest}. "
                "The split was made with another vocabulary. Make the data again: "
                f"{problem.datagen_command(data_dir)} --overwrite"
            )
    starts, lengths = (each.T[places] for each in (ends - lengths, lengths))
    return Examples(names, words, starts, lengths, head["counts"])


def _map(path: pathlib.Path, key: dict[str, Any]) -> Any:
    """Returns the head of a file, and its int32 values; None: it is of other records."""
    try:
        with open(path, "rb") as file:
            file.seek(-_END.size, os.SEEK_END)
            (size,) = _END.unpack(file.read())
            file.seek(-_END.size - size, os.SEEK_END)
            words = file.tell() // 4
            head = json.loads(file.read(size))
            if head["key"] != key:
                return None
            return head, np.memmap(file, np.int32, "r", shape=words).view(np.ndarray)
    except (OSError, ValueError):
        return None


def _write(path: pathlib.Path, key: dict[str, Any], paths: Sequence[str]) -> Any:
    """Writes a file of these records, and returns `_map` of it."""
    features, lengths, largest = key["features"], [], []
    mine = f"{path.name}.{platform.node()}-"  # others may write too
    for left in path.parent.glob(f"{mine}*{INCOMPLETE}"):  # by a kill
        if not psutil.pid_exists(int(left.name[len(mine) : -len(INCOMPLETE)])):
            left.unlink(missing_ok=True)
    own = path.with_name(f"{mine}{os.getpid()}")
    with writing(own, "wb") as file:
        for each in paths:
            ids, length = tfrecord.arrays(each, features)
            _check(each, features, ids, length)
            file.write(ids.astype(np.int32).tobytes())
            lengths.append(length)
            of = np.repeat(np.tile(np.arange(len(features)), len(length)), length.ravel())
            largest.append([int(ids[of == i].max(initial=0)) for i in range(len(features))])
        counts = list(map(len, lengths))
        if not sum(counts):
            raise UserError(
                f"Expected records in the split's shards (first: {paths[0]}). Received: no "
                "records. Make the shards again: t2t-datagen --overwrite."
            )
        file.write(np.concatenate(lengths).tobytes())
        head = json.dumps({"key": key, "counts": counts, "largest": largest}).encode()
        file.write(head + _END.pack(len(head)))
    os.replace(own, path)
    return _map(path, key)


def _check(path: str, features: list[str], ids: np.ndarray, lengths: np.ndarray) -> None:
    sides = [name.rpartition("_")[0] if name.endswith(packing.KINDS) else name for name in features]
    of_side = lengths[:, [features.index(side) for side in sides]]
    if not lengths.all() or (lengths != of_side).any() or ids.min(initial=0) < 0:
        raise UserError(
            f"Expected each record in {path} to have non-negative int64 ids in {features}: as many "
            "in inputs_* as in inputs, and in targets_* as in targets. Received: a wrong record. "
            "Check --data_dir and --problem, or make the file again: t2t-datagen --overwrite."
        )


# --- what changes the pairs of a training ---------------------------------------------------------
# Random choices follow from the run's seed, the batch's number since the run began and the place of
# the example in it. So every epoch has other pairs, and a resumed run the same ones.

# Of a batch, its number since the run began, and the places of this reader's examples in the whole.
Change = Callable[[Examples, int, slice], Examples]


def changes(
    problem: Problem, hparams: HParams, data_dir: str | os.PathLike, seed: int, longest: int
) -> Change:
    """Returns the augmentation of each batch.

    Args:
        problem: the problem.
        hparams: with subword_dropout and bidirectional_steps.
        data_dir: the folder of the vocabularies.
        seed: of the run.
        longest: the most ids of a side after subword dropout.

    Raises:
        UserError: if the problem does not support it.
    """
    turn_until, rate = hparams.bidirectional_steps, hparams.subword_dropout
    if not (turn_until or rate):
        return lambda batch, number, own: batch
    encoders = problem.feature_encoders(os.fspath(data_dir))
    one, other = (encoders[side] for side in SIDES)
    alike = one is other or transfer.pieces_of(one) == transfer.pieces_of(other)
    turns = alike and packing.learns_its_targets(problem)
    subwords = {n: encoders[n] for n in SIDES if isinstance(encoders[n], SubwordTextEncoder)}
    for name, fits, needs in (
        ("bidirectional_steps", turns, "one vocabulary for both sides, not a distillation problem"),
        ("subword_dropout", subwords, "a tensor2tensor subword vocabulary"),
    ):
        if getattr(hparams, name) and (problem.packed_length or not fits):
            raise UserError(
                f"Expected, for hparam {name}, a problem with unpacked pairs and {needs}. "
                f"Received: {problem.name}. Choose another problem, or give --hparams={name}=0."
            )
    final = hparams.subword_dropout_final_steps
    cut_until = hparams.train_steps - final if final else math.inf

    def change(batch: Examples, number: int, own: slice) -> Examples:
        size = batch.lengths.shape[1] * (own.step or 1)  # of the whole batch
        if number < turn_until:
            draw = np.random.default_rng((seed, number, _DIRECTIONS))
            batch = _turn_round(batch, draw.random(size)[own] < 0.5)
        if rate and number < cut_until:
            draw = np.random.default_rng((seed, number, _SUBWORDS))
            seeds = draw.integers(2**63, size=size)[own]
            batch = _drop_subwords(batch, seeds.tolist(), subwords, rate, longest)
        return batch

    return change


def _turn_round(batch: Examples, which: np.ndarray) -> Examples:
    """Returns a batch with source and target of some pairs swapped.

    The batch of a pair was chosen before, by its longer side.

    Source: Ding et al. (2021), "Improving Neural Machine Translation by Bidirectional Training",
    arXiv 2109.07780. There a training begins with all pairs in both directions.
    """
    starts, lengths = (np.where(which, a[::-1], a) for a in (batch.starts, batch.lengths))
    return Examples(batch.names, batch.ids, starts, lengths)


def _drop_subwords(
    batch: Examples,
    seeds: Sequence[int],
    encoders: Mapping[str, SubwordTextEncoder],
    rate: float,
    longest: int,
) -> Examples:
    """Returns a batch with words in other subwords, by `SubwordTextEncoder.resegment`.

    A side of another vocabulary stays unchanged, and so does one that would become longer than
    `longest`. The batch of an example was chosen before, by its lengths.
    """
    sides, draws = batch.lists(), [random.Random(seed).random for seed in seeds]
    for side, encoder in encoders.items():
        for row, (ids, draw) in enumerate(zip(sides[side], draws, strict=True)):
            found = encoder.resegment(ids, rate, draw)
            if len(found) <= longest:
                sides[side][row] = found
    return Examples.from_lists(sides)


# --- batches --------------------------------------------------------------------------------------


class Batches(keras.utils.PyDataset):
    """Batches {feature: int32 (B, length)} of NumPy arrays. A thread makes them in advance.

    `fit` and the like read it in its own order, whatever their `shuffle`.

    Args:
        make: called for each pass; yields its batches.
        count: how many batches a pass has; None: it is endless.
        shares: shapes of batches, the most frequent first, each with its share of all batches:
            [(share, {feature: (rows, length)})]; (): they are not known.
        part: in words, which part of a split an evaluation takes.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[Batch]],
        count: int | None = None,
        shares: Sequence[tuple[float, dict[str, Shape]]] = (),
        part: str = "",
    ):
        super().__init__()
        self.shares, self.part, self._make, self._count = shares, part, make, count
        self._rest: Iterator[Batch] | None = None

    @property
    def num_batches(self) -> int | None:
        """The batches of a pass; None: it is endless."""
        return self._count

    def __getitem__(self, index: int) -> Batch:
        """Returns the next batch, whatever the index, as Keras uses it."""
        if self._rest is None:
            self._rest = itertools.chain.from_iterable(itertools.repeat(self))
        return next(self._rest)

    def on_epoch_end(self) -> None:
        """Begins a new pass, also after a partial one."""
        if self._count is not None:
            self._rest = None

    def __iter__(self) -> Iterator[Batch]:
        made = self._make()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = collections.deque(pool.submit(next, made, None) for _ in range(AHEAD))
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, made, None))
                yield batch

    as_numpy_iterator = __iter__  # as a tf.data.Dataset has it

    def for_keras(self, features: Sequence[str] = SIDES) -> Any:
        """Returns data for `fit`: a tf.data.Dataset of these features, under JAX itself."""
        if keras.backend.backend() != "tensorflow":
            return self
        import tensorflow as tf

        # The autotuning thread sleeps for up to a minute, and on one core dropping an iterator, as
        # at the end of a training, waits for it. Each reader has its own shard already.
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        signature = dict.fromkeys(features, tf.TensorSpec([None, None], tf.int32))
        made = tf.data.Dataset.from_generator(self._make, output_signature=signature)
        count = tf.data.INFINITE_CARDINALITY if self._count is None else self._count
        made = made.apply(tf.data.experimental.assert_cardinality(count))
        return made.with_options(options).prefetch(AHEAD)


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
) -> Batches:
    """Returns batches {"inputs": int32 (B, S), "targets": int32 (B, T)}, padded with 0.

    A packed problem's have the segments and positions of both sides too. Its max_length, for filter
    and buckets, is packed_length, as in T2T (whose buckets, but on TPUs, are the hparam's).

    Training: endless, in an order that (seed, epoch) decides, filtered by length. Otherwise: each
    example once, in file order within its bucket, in T2T's batches; longer ones than max_length
    stay, unless eval_drop_long_sequences. (Those below min_length are dropped in both, as in T2T.)
    An example counts by its longer side, with its end of sentence, after max_input_seq_length and
    max_target_seq_length have cut it. For a reversed problem these two mean the sides that the
    model sees (in T2T: those in the file).

    With subword_dropout the words of training are segmented anew in every epoch; in the first
    bidirectional_steps half of its pairs are swapped.

    Under the JAX backend those of training are padded to the longest that their bucket allows,
    since each shape of a batch is compiled.

    Args:
        split: one of `Split`.
        num_shards: among how many readers each batch of training is divided, so that their steps
            cost the same.
        shard_index: the number of this reader.
        replicas: multiplies the batch sizes, for a batch that is split among devices afterwards.
        start: the number of batches to skip, to resume a run.
        most: of one pass, take this many batches at most, spread over all lengths; 0: all.
        most_shapes: those of training are padded to the longest that their bucket allows, where
            each shape is compiled. With subword_dropout, which lengthens sentences so that there
            were many more than buckets, most are padded to so many shapes, with rows of zeros too,
            by `batching.few_shapes`; some rare ones have others. 0: without.

    Raises:
        UserError: if files or the vocabulary are missing or broken, ids do not fit the vocabulary,
            or the filter leaves no example; or subword_dropout or bidirectional_steps cannot be.
    """
    shards = replicas * num_shards
    source = _Source(open_split(problem, split, data_dir), hparams, training, shards, problem)
    if not training:
        own = source.epoch_batches(source.kept)
        taken = batching.spread(own, source.places, most)
        part = f"all {len(source.kept):,} examples"
        if len(taken) < len(own):
            part = f"{sum(map(len, taken)):,} of {len(source.kept):,} examples"
            part += f", {len(taken)} of {len(own):,} batches"
        taken = taken[start:]
        return Batches(lambda: map(source.batch, taken), len(taken), part=part)

    mine = slice(shard_index, None, num_shards)
    longest = int(source.length[source.kept].max())
    change = changes(problem, hparams, data_dir, seed, longest)

    def batches(first: int, pad: Callable[[Batch], Batch]) -> Iterator[Batch]:
        of = source.kept, source.places, source.sizes, seed, hparams.batch_shuffle_size
        for number, rows in enumerate(batching.epochs(*of, first), first):
            examples = change(source.examples.take(rows[mine]), number, mine)
            yield pad(examples.padded(source.most))

    if not most_shapes and keras.backend.backend() == "tensorflow":
        return Batches(lambda: batches(start, dict))
    tops = [*source.tops, longest]
    found: Mapping[Shape, float] = {}
    if not hparams.subword_dropout:
        rows = [len(range(size)[mine]) for size in source.sizes]
        shares = source.full / source.full.sum()
        widths = np.minimum(tops, longest).tolist()
        each = zip(rows, widths, shares.tolist(), strict=True)
        found = {(row, width): share for row, width, share in each if share}
    elif most_shapes and hparams.model == "transformer":
        # Rows and columns of zeros do not change the Transformer's loss. In LSTM and ByteNet
        # padding counts, and a user's own model is unknown.
        some = itertools.islice(batches(0, _padder(tops)), _SAMPLE)
        drawn = collections.Counter(batch["targets"].shape for batch in some)
        share_of = {shape: count / _SAMPLE for shape, count in drawn.items()}
        found = batching.few_shapes(share_of, most_shapes)
    pad, features = _padder(tops, found), packing.features(problem)
    common_first = sorted(found.items(), key=lambda item: -item[1])
    known = [(share, dict.fromkeys(features, shape)) for shape, share in common_first]
    return Batches(lambda: batches(start, pad), None, known)


def _padder(tops: Sequence[int], shapes: Iterable[Shape] = ()) -> Callable[[Batch], Batch]:
    """Returns a function that pads all features of a batch to one shape.

    Args:
        tops: lengths, of which it takes the least sufficient one; if none is, the features keep
            theirs.
        shapes: of which it then takes the smallest that holds the batch, if there is one.
    """
    by_size = sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))

    def pad(batch: Batch) -> Batch:
        rows, longest = len(batch["targets"]), max(ids.shape[1] for ids in batch.values())
        width = min((top for top in tops if top >= longest), default=0)
        fits = ((r, w) for r, w in by_size if r >= rows and w >= width)
        rows, width = next(fits, (rows, width))
        return {
            name: np.pad(ids, [(0, rows - len(ids)), (0, max(width - ids.shape[1], 0))])
            for name, ids in batch.items()
        }

    return pad


class _Source:
    """Examples under some hparams. R is their number.

    Attributes:
        examples: all of them.
        most: {side: how many ids it may have}.
        lengths: {side: (R,)}, after cutting.
        length: (R,) of the longer one.
        kept: the numbers of the examples that pass the filter.
        too_short, too_long: how many do not pass.
        tops: the longest length of each bucket but the last.
        sizes: how many examples a batch of each bucket has.
        places: (R,), the bucket of each example.
        full: the mean number of full batches of each bucket in an epoch.
    """

    def __init__(
        self,
        examples: Examples,
        hparams: HParams,
        training: bool,
        shards: int = 1,
        problem: Problem = _PLAIN,
    ):
        # T2T's max_length is that of the problem's examples.
        most = problem.packed_length or hparams.max_length
        hparams = dataclasses.replace(hparams, max_length=most)
        self.examples = examples
        self.most = {
            "inputs": hparams.max_input_seq_length or NO_LIMIT,
            "targets": hparams.max_target_seq_length or NO_LIMIT,
        }
        of = dict(zip(examples.names, examples.lengths, strict=True))
        self.lengths = {side: np.minimum(of[side], self.most[side]) for side in SIDES}
        self.length = np.maximum(*self.lengths.values())
        drop = training or hparams.eval_drop_long_sequences
        longest = (hparams.max_length or hparams.batch_size) if drop else NO_LIMIT
        short, long = self.length < hparams.min_length, self.length > longest
        self.too_short, self.too_long = int(short.sum()), int(long.sum())
        self.kept = np.flatnonzero(~(short | long))
        if not len(self.kept):
            raise UserError(
                f"Expected an example of allowed length. Received: {len(self.length):,} examples, "
                f"{self.too_short:,} shorter than min_length={hparams.min_length}, "
                f"{self.too_long:,} longer than max_length={longest}. A pair's longer side has "
                f"{self.length.min()} to {self.length.max()} ids. Change min_length or max_length."
            )
        scheme = hparams_to_batching_scheme(
            hparams, shard_multiplier=shards, length_multiplier=problem.batch_size_multiplier
        )
        self.tops, self.sizes = [b - 1 for b in scheme["boundaries"]], scheme["batch_sizes"]
        self.places = batching.bucket_of(self.length, scheme["boundaries"])
        self.full = np.bincount(self.places[self.kept], minlength=len(self.sizes)) / self.sizes

    def epoch_batches(self, order: np.ndarray) -> list[np.ndarray]:
        """Returns the batches of examples in an order, each once."""
        return batching.epoch_batches(order, self.places, self.sizes)

    def batch(self, rows: np.ndarray) -> Batch:
        """Returns some examples, padded."""
        return self.examples.take(rows).padded(self.most)


def read_split(
    problem: Problem, split: str, data_dir: str | os.PathLike, shard: int = 0, shards: int = 1
) -> Iterator[dict[str, list[int]]]:
    """Yields a split's examples {"inputs": ids, "targets": ids} in the order of its files.

    A reversed problem's sides are swapped. A packed problem's examples are unpacked.

    Args:
        problem: the problem.
        split: the split.
        data_dir: the folder of the files.
        shard: the number of the only file to yield, where `shards` is not 1.
        shards: the number of files; 1: all are read.

    Raises:
        UserError: if files or the vocabulary are missing or broken, ids do not fit the vocabulary,
            or the number of files differs.
    """
    examples = open_split(problem, split, data_dir)
    if shards not in (1, len(examples.counts)):
        raise UserError(
            f"Expected --decode_shards to be 1 or {len(examples.counts)}, the number of files of "
            f"the {split} split. Received: {shards}."
        )
    ends = np.cumsum([0, *examples.counts])
    first, end = (ends[0], ends[-1]) if shards == 1 else ends[shard : shard + 2]
    for start in range(first, end, _BLOCK):
        columns = examples.take(np.arange(start, min(end, start + _BLOCK))).lists()
        for values in zip(*columns.values(), strict=True):
            sample = dict(zip(columns, values, strict=True))
            yield from packing.unpack(sample) if problem.packed_length else (sample,)


def overlap(training: Data, dev: Data) -> int:
    """Returns how many dev pairs are in a training set; 0 if one of the two is missing.

    With a warm start each may be of either run. Vocabularies may differ. Pairs without words do not
    count.
    """
    try:
        (of, folder), (of_dev, dev_folder) = training, dev
        there, here = of.feature_encoders(folder), of_dev.feature_encoders(dev_folder)
        wanted = collections.Counter(
            tuple(
                (*there[side].encode(here[side].decode(sample[side][:-1])), EOS_ID)
                for side in SIDES
            )
            for sample in read_split(of_dev, Split.EVAL, dev_folder)
        )
        del wanted[(EOS_ID,), (EOS_ID,)]
        pairs = (
            tuple(tuple(sample[side]) for side in SIDES)
            for sample in read_split(of, Split.TRAIN, folder)
        )
        return sum(wanted.pop(pair, 0) for pair in pairs)
    except UserError:
        return 0


@dataclasses.dataclass(frozen=True)
class SplitStatistics:
    """Counts of a split and of its examples after the filter. Tokens: those of the kept
    examples."""

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
    """Returns the size of a split, what the filter removes and what padding costs."""
    source = _Source(open_split(problem, split, data_dir), hparams, training, replicas, problem)
    planned = source.epoch_batches(source.kept)
    inputs, targets = (int(source.lengths[side][source.kept].sum()) for side in SIDES)
    room = sum(len(b) * int(n[b].max()) for b in planned for n in source.lengths.values())
    batches = float(source.full.sum()) if training else len(planned)
    filtered = len(source.length), source.too_short, source.too_long
    longest, padding = int(source.length.max()), 1 - (inputs + targets) / room
    return SplitStatistics(*filtered, inputs, targets, longest, batches, padding)


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
        hparams: those of lengths and batch sizes are read; or the name of a set.
        split: one of `problem.Split`.
        training: endless, in an order that the seed decides; else each example once. None: for the
            training split alone.
        seed: of the order.
        start: the number of batches to skip, to resume.

    Raises:
        UserError: as `make_dataset`.
    """
    problem = registry.get_problem(problem) if isinstance(problem, str) else problem
    training = split == Split.TRAIN if training is None else training
    hparams, where = _for_fit(hparams), os.path.expanduser(data_dir)
    made = make_dataset(problem, split, hparams, where, training=training, seed=seed, start=start)
    return made.for_keras(packing.features(problem))


def check_pairs(inputs: Any, targets: Any) -> None:
    """Refuses lists that are not sentences and their translations.

    Raises:
        UserError: if they differ in length, or are empty.
    """
    if not 0 < len(inputs) == len(targets):
        raise UserError(
            f"Expected equally many inputs and targets, at least one. Received: {len(inputs):,} "
            f"inputs and {len(targets):,} targets."
        )


def text_dataset(
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: Any,
    hparams: HParams | str,
    *,
    targets_encoder: Any = None,
    training: bool = True,
    seed: int = 0,
) -> Any:
    """Returns the batches of pairs of sentences, each pair once: as `dataset`, but never endless.

    The pairs stay unchanged: subword_dropout and bidirectional_steps are for `dataset` only, and
    get a warning.

    Args:
        inputs: the sentences.
        targets: their translations, as many.
        encoder: `encode` makes ids of text; the end is added.
        hparams: as in `dataset`.
        targets_encoder: that of the targets; None: the same.
        training: without pairs longer than max_length, and in another order at each pass.
        seed: of the orders.

    Raises:
        UserError: as `check_pairs`; or if no pair is left.
    """
    check_pairs(inputs, targets)
    hparams = _for_fit(hparams, "subword_dropout", "bidirectional_steps")
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    texts = {"inputs": inputs, "targets": targets}
    ids = {side: [[*encoders[side].encode(t), EOS_ID] for t in texts[side]] for side in SIDES}
    source = _Source(Examples.from_lists(ids), hparams, training)
    passes = itertools.count()
    # Under JAX each shape of a batch is compiled: all of a bucket's are as long as it allows.
    pad = _padder(source.tops if training and keras.backend.backend() != "tensorflow" else [])

    def batches() -> Iterator[Batch]:
        order = source.kept
        if training:
            order = np.random.default_rng((seed, next(passes))).permutation(order)
        return (pad(source.batch(rows)) for rows in source.epoch_batches(order))

    return Batches(batches, len(source.epoch_batches(source.kept))).for_keras()


def _for_fit(hparams: HParams | str, *unused: str) -> HParams:
    """Returns hparams, or those of a set; warns of those without effect in `fit`."""
    hparams = registry.get_hparams(hparams) if isinstance(hparams, str) else hparams
    if not hparams.optimizer_multistep_accumulate_steps:
        unused = (*unused, "effective_batch_size")
    if names := [name for name in unused if getattr(hparams, name)]:
        warnings.warn(f"fit ignores the hparams {' and '.join(names)}.", stacklevel=3)
    return hparams
