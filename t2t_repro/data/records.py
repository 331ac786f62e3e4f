"""TFRecord files as T2T writes them: tf.train.Example with the int64 features inputs and targets.

TensorFlow is loaded when a file is read, not before: t2t-datagen only writes.
"""

import contextlib
import os
import pathlib
import re
from collections.abc import Iterator

from t2t_repro.data import packing, tfrecord
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem

FEATURES = packing.SIDES


@contextlib.contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Checks a file's frames; turns TensorFlow's errors about its records into UserErrors."""
    import tensorflow as tf

    try:
        if os.path.isfile(path):  # TensorFlow says what is wrong with others
            tfrecord.check(path)
        yield
    except tf.errors.DataLossError as error:
        raise UserError(
            f"Expected {os.fspath(path)} to be a whole TFRecord file. Received: a truncated or "
            f"corrupt one ({error.message}). Make it again by t2t-datagen --overwrite."
        ) from error
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:  # it quotes the bytes
        raise UserError(
            f"Expected {os.fspath(path)} to hold tf.train.Example records with int64 features "
            f"{' and '.join(FEATURES)}. Received: other records. Check --data_dir and --problem."
        ) from error


def shard_sets(problem: Problem, split: str, data_dir: str | os.PathLike) -> dict[int, list[str]]:
    """Returns the split's files in `data_dir`: {number of files in the set: those there}."""
    folder = pathlib.Path(data_dir).expanduser()
    base = re.escape(f"{problem.dataset_filename()}-{split}")
    sets: dict[int, list[str]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := re.fullmatch(base + r"-\d{5}-of-(\d{5})", path.name):
            sets.setdefault(int(match[1]), []).append(str(path))
    return sets


def are_there(problem: Problem, data_dir: str | os.PathLike) -> bool:
    """Whether all splits of a problem have their files in `data_dir`."""
    splits = [entry["split"] for entry in problem.dataset_splits]
    sets = [shard_sets(problem, split, data_dir).items() for split in splits]
    return all(any(len(paths) == total for total, paths in each) for each in sets)


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
    ((total, there),) = sets.items()
    paths = problem.filepaths(split, pathlib.Path(data_dir).expanduser(), total)
    missing = [os.path.basename(path) for path in paths if path not in there]
    if missing:
        raise UserError(
            f"Expected {total} files {where}. Received: {len(missing)} of them are missing, the "
            f"first is {missing[0]}. Make them: {command}"
        )
    return paths
