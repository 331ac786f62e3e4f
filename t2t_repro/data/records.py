"""TFRecord files as T2T writes them: tf.train.Example with the int64 features inputs and targets.

Every file appears under its name only when it is whole: it is written beside it, with ".incomplete"
behind the name, and renamed.
"""

import contextlib
import os
import pathlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

from t2t_repro.data import packing
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE
from t2t_repro.problem import Problem

FEATURES = packing.SIDES
_UNSHUFFLED = ".unshuffled" + INCOMPLETE

Example = Mapping[str, Sequence[int]]


def serialize(example: Example) -> bytes:
    """Returns {"inputs": ids, "targets": ids, ...} as a tf.train.Example, features in order."""
    message = tf.train.Example()
    for name, ids in sorted(example.items()):
        if not ids:
            raise UserError(f"Expected ids for the feature {name!r}. Received: none, in {example}.")
        message.features.feature[name].int64_list.value.extend(ids)
    return message.SerializeToString(deterministic=True)


def read_records(path: str | os.PathLike) -> Iterator[bytes]:
    """Yields a file's records. A truncated or corrupt file is a UserError that names it."""
    with reading(path):
        blocks = tf.data.TFRecordDataset(os.fspath(path), buffer_size=1 << 20).batch(1024)
        for block in blocks.as_numpy_iterator():
            yield from block.tolist()


def read_examples(path: str | os.PathLike) -> Iterator[dict[str, list[int]]]:
    """Yields a file's examples as {feature: ids}."""
    for record in read_records(path):
        features = tf.train.Example.FromString(record).features.feature
        yield {name: list(feature.int64_list.value) for name, feature in features.items()}


@contextlib.contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Turns TensorFlow's errors about a broken record file into UserErrors that name the file."""
    try:
        yield
    except tf.errors.DataLossError as error:
        raise UserError(
            f"Expected {os.fspath(path)} to be a whole TFRecord file. Received: a truncated or "
            f"corrupt one ({_plain(error)}). Make it again by t2t-datagen --overwrite."
        ) from error
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:  # it quotes the bytes
        raise UserError(
            f"Expected {os.fspath(path)} to hold tf.train.Example records with int64 features "
            f"{' and '.join(FEATURES)}. Received: other records. Check --data_dir and --problem."
        ) from error
    except tf.errors.OpError as error:  # a folder, no permission, a disk that fails
        raise UserError(
            f"Expected {os.fspath(path)} to be a file that can be read. Received: {_plain(error)}. "
            "Mend that, or make it again by t2t-datagen --overwrite."
        ) from error


@contextlib.contextmanager
def _saving(folder: str) -> Iterator[None]:
    """Turns TensorFlow's errors about a file that cannot be written into UserErrors."""
    try:
        yield
    except tf.errors.OpError as error:
        raise UserError(
            f"Expected to be able to write to {folder!r}. Received: {_plain(error)}. Free some "
            "space there or name another folder, and give the same command again."
        ) from error


def _plain(error: tf.errors.OpError) -> str:
    """Returns the message of a TensorFlow error without the graph's names around it."""
    message = " ".join(error.message.split())
    return re.sub(r"\{\{.*?\}\} ?| ?\[Op:.*|'(?= failed with)", "", message)


def write_examples(path: str | os.PathLike, examples: Iterable[Example]) -> int:
    """Writes one file, which appears when it is whole; returns the number of examples."""
    with ShardWriter([path]) as writer:
        for example in examples:
            writer.write(example)
    return writer.count


class ShardWriter:
    """Deals examples to files in turn, as T2T. Use it by `with`: the files appear at its end.

    Args:
        paths: the files.
        shuffle_seed: None keeps the order; else each file is shuffled, which needs memory for one
            file. Together with the dealing, any example can be anywhere but in another file.
    """

    def __init__(self, paths: Sequence[str | os.PathLike], shuffle_seed: int | None = None):
        self._paths = [os.fspath(path) for path in paths]
        self._folder = os.path.dirname(self._paths[0]) or "."
        self._seed = shuffle_seed
        self._suffix = INCOMPLETE if shuffle_seed is None else _UNSHUFFLED
        self._writers: list[tf.io.TFRecordWriter] = []
        self.count = 0

    def __enter__(self) -> "ShardWriter":
        try:
            with _saving(self._folder):
                for path in self._paths:
                    self._writers.append(tf.io.TFRecordWriter(path + self._suffix))
        except BaseException:
            self._abandon()
            raise
        return self

    def write(self, example: Example) -> None:
        """Adds an example to the next file."""
        record = serialize(example)
        with _saving(self._folder):
            self._writers[self.count % len(self._writers)].write(record)
        self.count += 1

    def __exit__(self, kind, error, traceback) -> None:
        try:
            if kind is None:
                with _saving(self._folder):
                    self._close()
                    if self._seed is not None:
                        for path in self._paths:
                            self._shuffle(path)
                for path in self._paths:  # none of the old ones stays beside a new one
                    pathlib.Path(path).unlink(missing_ok=True)
                for path in self._paths:
                    os.replace(path + INCOMPLETE, path)
        finally:
            self._abandon()

    def _close(self) -> None:
        with contextlib.ExitStack() as closing:  # all of them, whatever the first says
            for writer in self._writers:
                closing.callback(writer.close)
            self._writers = []

    def _abandon(self) -> None:
        """Closes what is open and removes what has no final name."""
        with contextlib.suppress(tf.errors.OpError):
            self._close()
        for path in self._paths:
            for suffix in (INCOMPLETE, _UNSHUFFLED):
                pathlib.Path(path + suffix).unlink(missing_ok=True)

    def _shuffle(self, path: str) -> None:
        records = list(read_records(path + _UNSHUFFLED))
        random.Random(f"{self._seed} {os.path.basename(path)}").shuffle(records)
        with tf.io.TFRecordWriter(path + INCOMPLETE) as writer:
            for record in records:
                writer.write(record)
        os.unlink(path + _UNSHUFFLED)


def shard_sets(problem: Problem, split: str, data_dir: str | os.PathLike) -> dict[int, list[str]]:
    """Returns the split's files in `data_dir`: {number of files in the set: those there}."""
    folder = pathlib.Path(data_dir).expanduser()
    base = re.escape(f"{problem.dataset_filename()}-{split}")
    sets: dict[int, list[str]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := re.fullmatch(base + r"-\d{5}-of-(\d{5})", path.name):
            sets.setdefault(int(match[1]), []).append(str(path))
    return sets


def read_split(
    problem: Problem, split: str, data_dir: str | os.PathLike, shard: int | None = None
) -> Iterator[dict[str, list[int]]]:
    """Yields a split's examples {"inputs": ids, "targets": ids} in the order of its files.

    A reversed problem's sides change places. A packed problem's examples are unpacked.

    Args:
        problem: the problem.
        split: the split.
        data_dir: the folder of the files.
        shard: the number of the only file to read; None: all.

    Raises:
        UserError: as `find_shards`, or if a file is broken or there is none of that number.
    """
    paths = find_shards(problem, split, data_dir)
    if shard is not None and shard >= len(paths):
        raise UserError(
            f"Expected the number of one of the {len(paths)} files of {problem.name}'s {split} "
            f"split. Received: shard {shard}."
        )
    for path in paths if shard is None else paths[shard : shard + 1]:
        for stored in read_examples(path):
            for example in packing.unpack(stored) if problem.packed_length else (stored,):
                yield {name: example[problem.stored_feature(name)] for name in FEATURES}


def find_shards(problem: Problem, split: str, data_dir: str | os.PathLike) -> list[str]:
    """Returns the files of a split in order.

    Raises:
        UserError: if there is none, or one of a set is missing, or sets of different sizes lie
            beside each other.
    """
    sets = shard_sets(problem, split, data_dir)
    where = f"{problem.dataset_filename()}-{split}-* in {os.fspath(data_dir)!r}"
    command = problem.datagen_command(data_dir)
    if not sets:
        raise UserError(f"Expected files {where}. Received: none. Make them: {command}")
    if len(sets) > 1:
        totals = " and of ".join(map(str, sorted(sets)))
        raise UserError(
            f"Expected one set of files {where}. Received: sets of {totals} files. Delete one set, "
            f"or make them again: {command} --overwrite"
        )
    ((total, found),) = sets.items()
    paths = problem.filepaths(split, pathlib.Path(data_dir).expanduser(), total)
    missing = [os.path.basename(path) for path in paths if path not in found]
    if missing:
        raise UserError(
            f"Expected {total} files {where}. Received: {len(missing)} of them are missing, the "
            f"first is {missing[0]}. Make them: {command}"
        )
    return paths
