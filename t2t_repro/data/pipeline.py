"""Files to batches by T2T's length filter, buckets and batch sizes, or to examples one by one."""

import collections
import concurrent.futures
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import augment, batching, cache, packing
from t2t_repro.data.batching import NO_LIMIT, Shape, hparams_to_batching_scheme
from t2t_repro.data.cache import Examples
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import EOS_ID, TextEncoder

AHEAD = 8  # batches that wait for who takes them
_SAMPLE = 256  # batches that say how subword dropout lengthens sentences
_BLOCK = 1024  # examples that are read at once where one after another is asked for

Batch = dict[str, np.ndarray]


class Batches(keras.utils.PyDataset):
    """Batches {feature: int32 (B, length)} of NumPy arrays. A thread makes them in advance.

    `fit` and the like take it as it is, in its own order, whatever their `shuffle`.

    Args:
        make: called for each pass; yields its batches.
        count: how many batches a pass has; None: it has no end.
        shares: shapes of batches, the most frequent first, each with its share of all batches:
            [(share, {feature: (rows, length)})]; (): they are not known.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[Batch]],
        count: int | None = None,
        shares: Sequence[tuple[float, dict[str, Shape]]] = (),
    ):
        super().__init__()
        self.shares, self._make, self._count = shares, make, count
        self._rest: Iterator[Batch] | None = None

    @property
    def num_batches(self) -> int | None:
        """How many a pass has; None: it has no end."""
        return self._count

    def __getitem__(self, index: int) -> Batch:
        """Returns the next batch, which is what Keras wants by any index."""
        if self._rest is None:
            self._rest = itertools.chain.from_iterable(itertools.repeat(self))
        return next(self._rest)

    def on_epoch_end(self) -> None:
        """Begins a new pass, also where Keras took a part of one only."""
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
        """Returns what `fit` takes: a tf.data.Dataset of these features, under JAX itself."""
        if keras.backend.backend() != "tensorflow":
            return self
        import tensorflow as tf

        # The thread that tunes sleeps for up to a minute, and on one core whoever drops an
        # iterator, as at the end of a training, waits for it. One reader has its own part.
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

    Training: endless, in an order that (seed, epoch) decides, filtered by length. Else: each
    example once, in file order within its bucket, in T2T's batches; longer ones than max_length
    stay, unless eval_drop_long_sequences. (Examples below min_length go in both, as in T2T.) An
    example counts by its longer side, with its end of sentence, after max_input_seq_length and
    max_target_seq_length have cut it. For a reversed problem these two mean the sides that the
    model sees (in T2T: those in the file).

    With subword_dropout the words of training are cut anew in every epoch, and in the first
    bidirectional_steps half of its pairs are turned round.

    Under the JAX backend those of training are padded to the longest that their bucket allows,
    since each shape of a batch is compiled.

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
            by `batching.few_shapes`; some rare ones have others. 0: without.

    Raises:
        UserError: if files or the vocabulary are missing or broken, ids do not fit the vocabulary,
            or the filter leaves no example; or subword_dropout or bidirectional_steps cannot be.
    """
    source = _Source.of_split(problem, split, hparams, data_dir, training)
    _check_ids(source.examples, problem, data_dir)
    if not len(source.kept):
        raise UserError(
            f"Expected examples in the {split} split of {problem.name}. Received: the length "
            f"filter removes all {len(source.length)}: {source.too_short} below min_length="
            f"{source.limits[0]}, {source.too_long} above max_length={source.limits[1]}. Their "
            f"lengths run from {source.length.min()} to {source.length.max()} (the longer side, "
            "with its end of sentence). Change these hparams."
        )
    tops, sizes, places = source.buckets(replicas * num_shards if training else replicas)
    if not training:
        planned = batching.epoch_batches(source.kept[shard_index::num_shards], places, sizes)
        planned = batching.spread(planned, places, most)[start:]
        return Batches(lambda: map(source.batch, planned), len(planned))

    own = slice(shard_index, None, num_shards)
    longest = int(source.length[source.kept].max())
    changes = augment.changes(problem, hparams, data_dir, seed, longest)
    shuffle, is_jax = hparams.batch_shuffle_size, keras.backend.backend() != "tensorflow"
    pad: Callable[[Batch], Batch] = dict

    def batches(first: int = start) -> Iterator[Batch]:
        endless = batching.epochs(source.kept, places, sizes, seed, shuffle, first)
        for number, rows in enumerate(endless, first):
            yield pad(source.batch(rows[own], changes, number, own))

    if not most_shapes and not is_jax:
        return Batches(batches)
    tops = [*tops, longest]
    pad = _padder(tops)
    found: Mapping[Shape, float] = {}
    if not hparams.subword_dropout:
        rows = [len(range(size)[own]) for size in sizes]
        share = np.bincount(places[source.kept], minlength=len(sizes)) / sizes
        widths = np.minimum(tops, longest).tolist()
        shares = zip(rows, widths, (share / share.sum()).tolist(), strict=True)
        found = {(row, width): each for row, width, each in shares if each}
    elif most_shapes and hparams.model == "transformer":
        # Rows and columns of zeros are nothing to its loss. In LSTM and ByteNet padding counts, and
        # of a user's own model nothing is known.
        some = itertools.islice(batches(0), _SAMPLE)
        drawn = collections.Counter(batch["targets"].shape for batch in some)
        share_of = {shape: count / _SAMPLE for shape, count in drawn.items()}
        found = batching.few_shapes(share_of, most_shapes)
    pad = _padder(tops, found)
    features = packing.features(problem)
    common_first = sorted(found.items(), key=lambda item: -item[1])
    return Batches(
        batches, None, [(n, dict.fromkeys(features, shape)) for shape, n in common_first]
    )


def _padder(tops: Sequence[int], shapes: Mapping[Shape, float] | None = None) -> Callable:
    """Returns a function that pads all features of a batch to one shape.

    Args:
        tops: lengths, of which it takes the least that is enough; where none is, the features keep
            theirs.
        shapes: of which it takes after that the smallest into which the batch fits, if one is.
    """
    by_size = sorted(shapes or {}, key=lambda shape: (shape[0] * shape[1], shape))

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


@dataclasses.dataclass(frozen=True)
class _Source:
    """Examples under some hparams. R is their number."""

    examples: Examples
    hparams: HParams
    length_multiplier: int
    lengths: dict[str, np.ndarray]  # (R,) of both sides, after cutting
    length: np.ndarray  # (R,) of the longer one
    limits: tuple[int, int]
    kept: np.ndarray  # the numbers of the examples that pass the filter

    @classmethod
    def of(cls, examples: Examples, hparams: HParams, training: bool, multiplier: int = 1):
        lengths = {
            side: np.minimum(examples.lengths[side], cut) for side, cut in _cuts(hparams).items()
        }
        length = np.maximum(*lengths.values())
        drop = training or hparams.eval_drop_long_sequences
        most = (hparams.max_length or hparams.batch_size) if drop else NO_LIMIT
        kept = np.flatnonzero((length >= hparams.min_length) & (length <= most))
        limits = (hparams.min_length, most)
        return cls(examples, hparams, multiplier, lengths, length, limits, kept)

    @classmethod
    def of_split(cls, problem: Problem, split: str, hparams: HParams, data_dir, training: bool):
        # T2T's max_length is that of the problem's examples.
        most = problem.packed_length or hparams.max_length
        hparams = dataclasses.replace(hparams, max_length=most)
        examples = cache.open_split(problem, split, data_dir)
        return cls.of(examples, hparams, training, problem.batch_size_multiplier)

    def buckets(self, shards: int = 1) -> tuple[list[int], list[int], np.ndarray]:
        """Returns the longest length of each bucket but the last, the batch sizes of all, and the
        bucket of each example (R,)."""
        scheme = hparams_to_batching_scheme(
            self.hparams, shard_multiplier=shards, length_multiplier=self.length_multiplier
        )
        places = batching.bucket_of(self.length, scheme["boundaries"])
        return [each - 1 for each in scheme["boundaries"]], scheme["batch_sizes"], places

    def batch(
        self,
        rows: np.ndarray,
        changes: Sequence[augment.Change] = (),
        number: int = 0,
        own: slice = slice(None),
    ) -> Batch:
        """Returns some examples after the changes to a batch of that number, each feature cut as
        the hparams say and padded to its longest."""
        of = self.examples
        if changes:
            sides = {side: of.lists(side, rows) for side in SIDES}
            for change in changes:
                sides = change(sides, number, own)
            of, rows = cache.examples_of(sides), np.arange(len(rows))
        batch, cuts = {}, _cuts(self.hparams)
        for name, starts in of.starts.items():
            lengths = np.minimum(of.lengths[name][rows], cuts[name.partition("_")[0]])
            places = np.arange(lengths.max(initial=0))
            batch[name] = of.ids[np.minimum(starts[rows, None] + places, len(of.ids) - 1)]
            batch[name][places >= lengths[:, None]] = 0
        return batch

    @property
    def too_short(self) -> int:
        return int((self.length < self.limits[0]).sum())

    @property
    def too_long(self) -> int:
        return int((self.length > self.limits[1]).sum())


def _cuts(hparams: HParams) -> dict[str, int]:
    """Returns how many ids of each side are taken."""
    return {
        "inputs": hparams.max_input_seq_length or NO_LIMIT,
        "targets": hparams.max_target_seq_length or NO_LIMIT,
    }


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
    examples = cache.open_split(problem, split, data_dir)
    _check_ids(examples, problem, data_dir)
    if shards not in (1, len(examples.paths)):
        raise UserError(
            f"Expected shards={len(examples.paths)}, as many as the files of {problem.name}'s "
            f"{split} split, or 1 for all of them. Received: {shards}. Change shards "
            "(--decode_shards)."
        )
    ends = np.cumsum([0, *examples.counts])
    first, end = (ends[0], ends[-1]) if shards == 1 else ends[shard : shard + 2]
    for start in range(first, end, _BLOCK):
        rows = np.arange(start, min(end, start + _BLOCK))
        columns = {name: examples.lists(name, rows) for name in examples.starts}
        for values in zip(*columns.values(), strict=True):
            sample = dict(zip(columns, values, strict=True))
            yield from packing.unpack(sample) if problem.packed_length else (sample,)


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
    source = _Source.of_split(problem, split, hparams, data_dir, training)
    _, sizes, places = source.buckets(replicas)
    planned = batching.epoch_batches(source.kept, places, sizes)
    full = np.bincount(places[source.kept], minlength=len(sizes)) / sizes
    real = {name: int(length[source.kept].sum()) for name, length in source.lengths.items()}
    room = sum(len(b) * int(n[b].max()) for b in planned for n in source.lengths.values())
    return SplitStatistics(
        examples=len(source.length),
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
    source = _Source.of_split(problem, split, hparams, data_dir, training=False)
    _, sizes, places = source.buckets()
    planned = batching.epoch_batches(source.kept, places, sizes)
    taken = batching.spread(planned, places, most)
    if len(taken) == len(planned):
        return f"all {len(source.kept):,} examples"
    some = f"{sum(map(len, taken)):,} of {len(source.kept):,} examples"
    return f"{some}, {len(taken)} of {len(planned):,} batches"


def _check_ids(examples: Examples, problem: Problem, data_dir: str | os.PathLike) -> None:
    """Raises a UserError if an id is not in the vocabulary."""
    encoders = problem.feature_encoders(os.fspath(data_dir))
    for name in SIDES:
        size, largest = encoders[name].vocab_size, examples.largest[name]
        if max(largest) >= size:
            path = examples.paths[largest.index(max(largest))]
            vocabulary = ", ".join(problem.vocab_files(data_dir)) or "fixed"
            raise UserError(
                f"Expected ids below {size} (vocabulary: {vocabulary}) in the {name}. "
                f"Received: id {max(largest)} in {path}. The files were made with another "
                f"vocabulary; make them again: {problem.datagen_command(data_dir)} --overwrite"
            )


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
        UserError: as `make_dataset`; or on hparams for training whose effective_batch_size nothing
            here would make updates of.
    """
    problem = registry.get_problem(problem) if isinstance(problem, str) else problem
    training = split == Split.TRAIN if training is None else training
    hparams, where = _for_fit(hparams, training), os.path.expanduser(data_dir)
    made = make_dataset(problem, split, hparams, where, training=training, seed=seed, start=start)
    return made.for_keras(packing.features(problem))


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
    hparams = _for_fit(hparams, training)
    if training and (hparams.subword_dropout or hparams.bidirectional_steps):
        raise UserError(
            "Expected hparams without subword_dropout and bidirectional_steps for text_dataset, "
            "which takes pairs as they are. Set both to 0, or write the pairs by t2t-datagen and "
            "take t2t_repro.data.dataset."
        )
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    texts = {"inputs": inputs, "targets": targets}
    sides = {n: [[*encoders[n].encode(text), EOS_ID] for text in texts[n]] for n in SIDES}
    source = _Source.of(cache.examples_of(sides), hparams, training)
    if not len(source.kept):
        raise UserError(
            f"Expected pairs of min_length={source.limits[0]} to max_length={source.limits[1]} "
            f"tokens. Received: none of {len(inputs):,}. Change these hparams, or give other text."
        )
    tops, sizes, places = source.buckets()
    passes = itertools.count()
    # Under JAX each shape of a batch is compiled: all of a bucket's are as long as it allows.
    pad = _padder(tops if training and keras.backend.backend() != "tensorflow" else [])

    def batches() -> Iterator[Batch]:
        order = source.kept
        if training:
            order = np.random.default_rng((seed, next(passes))).permutation(order)
        return (pad(source.batch(b)) for b in batching.epoch_batches(order, places, sizes))

    return Batches(batches, len(batching.epoch_batches(source.kept, places, sizes))).for_keras()


def _for_fit(hparams: HParams | str, training: bool) -> HParams:
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
