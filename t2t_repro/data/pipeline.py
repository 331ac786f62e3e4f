"""Files to batches by T2T's length filter, buckets and batch sizes, or to examples one by one."""

import collections
import concurrent.futures
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import augment, batching, cache, packing
from t2t_repro.data.batching import NO_LIMIT, Shape, hparams_to_batching_scheme
from t2t_repro.data.cache import Batch, Examples
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import EOS_ID, TextEncoder

AHEAD = 8  # batches that wait for who takes them
_SAMPLE = 256  # batches that say how subword dropout lengthens sentences
_BLOCK = 1024  # examples that are read at once where one after another is asked for


class Batches(keras.utils.PyDataset):
    """Batches {feature: int32 (B, length)} of NumPy arrays. A thread makes them in advance.

    `fit` and the like take it as it is, in its own order, whatever their `shuffle`.

    Args:
        make: called for each pass; yields its batches.
        count: how many batches a pass has; None: it has no end.
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
    source.check(f"the {split} split of {problem.name}")
    tops, sizes, places = source.buckets(replicas * num_shards if training else replicas)
    if not training:
        own = batching.epoch_batches(source.kept[shard_index::num_shards], places, sizes)
        taken = batching.spread(own, places, most)
        part = f"all {len(source.kept):,} examples"
        if len(taken) < len(own):
            part = f"{sum(map(len, taken)):,} of {len(source.kept):,} examples"
            part += f", {len(taken)} of {len(own):,} batches"
        taken = taken[start:]
        return Batches(lambda: map(source.batch, taken), len(taken), part=part)

    mine = slice(shard_index, None, num_shards)
    longest = int(source.length[source.kept].max())
    changes = augment.changes(problem, hparams, data_dir, seed, longest)

    def batches(first: int, pad: Callable[[Batch], Batch]) -> Iterator[Batch]:
        shuffled = hparams.batch_shuffle_size
        endless = batching.epochs(source.kept, places, sizes, seed, shuffled, first)
        for number, rows in enumerate(endless, first):
            yield pad(source.batch(rows[mine], changes, number, mine))

    if not most_shapes and keras.backend.backend() == "tensorflow":
        return Batches(lambda: batches(start, dict))
    tops = [*tops, longest]
    found: Mapping[Shape, float] = {}
    if not hparams.subword_dropout:
        rows = [len(range(size)[mine]) for size in sizes]
        share = np.bincount(places[source.kept], minlength=len(sizes)) / sizes
        widths = np.minimum(tops, longest).tolist()
        shares = zip(rows, widths, (share / share.sum()).tolist(), strict=True)
        found = {(row, width): each for row, width, each in shares if each}
    elif most_shapes and hparams.model == "transformer":
        # Rows and columns of zeros are nothing to its loss. In LSTM and ByteNet padding counts, and
        # of a user's own model nothing is known.
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
        tops: lengths, of which it takes the least that is enough; where none is, the features keep
            theirs.
        shapes: of which it takes after that the smallest into which the batch fits, if one is.
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
        lengths: {side: (R,)}, after cutting.
        length: (R,) of the longer one.
        kept: the numbers of the examples that pass the filter.
        too_short, too_long: how many do not.
    """

    def __init__(
        self, examples: Examples, hparams: HParams, training: bool, length_multiplier: int = 1
    ):
        self._examples, self._hparams, self._multiplier = examples, hparams, length_multiplier
        self._most = {  # ids of each side
            "inputs": hparams.max_input_seq_length or NO_LIMIT,
            "targets": hparams.max_target_seq_length or NO_LIMIT,
        }
        self.lengths = {
            side: np.minimum(examples.lengths[side], most) for side, most in self._most.items()
        }
        self.length = np.maximum(*self.lengths.values())
        drop = training or hparams.eval_drop_long_sequences
        self._longest = (hparams.max_length or hparams.batch_size) if drop else NO_LIMIT
        short, long = self.length < hparams.min_length, self.length > self._longest
        self.too_short, self.too_long = int(short.sum()), int(long.sum())
        self.kept = np.flatnonzero(~(short | long))

    @classmethod
    def of_split(cls, problem: Problem, split: str, hparams: HParams, data_dir, training: bool):
        # T2T's max_length is that of the problem's examples.
        most = problem.packed_length or hparams.max_length
        hparams = dataclasses.replace(hparams, max_length=most)
        examples = cache.open_split(problem, split, data_dir)
        return cls(examples, hparams, training, problem.batch_size_multiplier)

    def check(self, name: str) -> None:
        """Raises a UserError if the filter leaves no example."""
        if not len(self.kept):
            raise UserError(
                f"Expected examples in {name}. Received: the length filter removes all "
                f"{len(self.length):,}: {self.too_short:,} below min_length="
                f"{self._hparams.min_length}, {self.too_long:,} above max_length={self._longest}. "
                f"Their lengths run from {self.length.min()} to {self.length.max()} (the longer "
                "side, with its end of sentence). Change these hparams."
            )

    def buckets(self, shards: int = 1) -> tuple[list[int], list[int], np.ndarray]:
        """Returns the longest length of each bucket but the last, the batch sizes of all, and the
        bucket of each example (R,)."""
        scheme = hparams_to_batching_scheme(
            self._hparams, shard_multiplier=shards, length_multiplier=self._multiplier
        )
        places = batching.bucket_of(self.length, scheme["boundaries"])
        return [each - 1 for each in scheme["boundaries"]], scheme["batch_sizes"], places

    def batch(
        self,
        rows: np.ndarray,
        changes: Sequence[augment.Change] = (),
        number: int = 0,
        mine: slice = slice(None),
    ) -> Batch:
        """Returns some examples after the changes to a batch of that number, padded."""
        examples = self._examples.take(rows)
        for change in changes:
            examples = change(examples, number, mine)
        return examples.padded(self._most)


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
    if shards not in (1, len(examples.counts)):
        raise UserError(
            f"Expected shards={len(examples.counts)}, as many as the files of {problem.name}'s "
            f"{split} split, or 1 for all of them. Received: {shards}. Change shards "
            "(--decode_shards)."
        )
    ends = np.cumsum([0, *examples.counts])
    first, end = (ends[0], ends[-1]) if shards == 1 else ends[shard : shard + 2]
    for start in range(first, end, _BLOCK):
        block = examples.take(np.arange(start, min(end, start + _BLOCK)))
        columns = {name: block.lists(name) for name in block.starts}
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
    if isinstance(inputs, str) or not 0 < len(inputs) == len(targets):
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

    The pairs stay as they are: subword_dropout and bidirectional_steps are for `dataset` alone.

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
    hparams = _for_fit(hparams, training, "subword_dropout", "bidirectional_steps")
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    texts = {"inputs": inputs, "targets": targets}
    ids = {side: [[*encoders[side].encode(t), EOS_ID] for t in texts[side]] for side in SIDES}
    source = _Source(Examples.of(ids), hparams, training)
    source.check("the text")
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


def _for_fit(hparams: HParams | str, training: bool, *unread: str) -> HParams:
    """Refuses hparams that would have no effect in `fit`, of which some are `unread`."""
    hparams = registry.get_hparams(hparams) if isinstance(hparams, str) else hparams
    if not hparams.optimizer_multistep_accumulate_steps:
        unread = (*unread, "effective_batch_size")
    if training and (names := [name for name in unread if getattr(hparams, name)]):
        raise UserError(
            f"Expected hparams that fit can follow. Received: {' and '.join(names)}. Set them to "
            "0. To gather batches: optimizer=multistep_adam, optimizer_multistep_accumulate_steps. "
            "To change pairs: write them by t2t-datagen and take t2t_repro.data.dataset."
        )
    return hparams
