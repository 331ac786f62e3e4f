"""Writes a problem's vocabulary and TFRecord files, and a summary of them."""

import copy
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

from t2t_repro.data import records
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, write_text_atomic
from t2t_repro.problem import Problem, Sample, Split
from t2t_repro.text.encoders import EOS_ID

Track = Callable[[Iterable, str, int | None], Iterable]


def generate_data(
    problem: Problem,
    data_dir: str | os.PathLike,
    tmp_dir: str | os.PathLike,
    *,
    seed: int = Problem.random_seed,
    overwrite: bool = False,
    num_shards: int = 0,
    max_cases: int = 0,
    options: dict[str, str] | None = None,
    track: Track = lambda samples, description, total: samples,
    report: Callable[[str], None] = lambda line: None,
) -> dict:
    """Writes the files of every split that is not there yet, and returns the summary of all.

    A vocabulary file that is there is used as it is, also with `overwrite`: models depend on it.
    Training files are shuffled by `seed`; the others keep the order of their source.

    Args:
        problem: a reversed problem has the files of the forward one.
        data_dir: the folder to write to.
        tmp_dir: the folder of raw files.
        seed: of the order, and of problems that draw their samples.
        overwrite: make files that are there already again.
        num_shards: the number of training files; 0: the problem's own.
        max_cases: stop each split after so many samples; 0: do not.
        options: flags for this problem's raw files; see `Problem.prepare_raw_files`.
        track: wraps the samples of each stage to show progress.
        report: receives a line for everything that is decided on the way.

    Raises:
        UserError: if raw files are missing or broken, or a split has no sample.
    """
    problem = copy.copy(problem.forward())
    problem.random_seed = seed
    data_dir = os.fspath(pathlib.Path(data_dir).expanduser())
    tmp_dir = os.fspath(pathlib.Path(tmp_dir).expanduser())
    problem.prepare_raw_files(tmp_dir, options or {})
    os.makedirs(data_dir, exist_ok=True)
    _remove_remains(problem, data_dir, report)
    groups = _groups(problem, data_dir, num_shards)
    others = _other_sets(problem, data_dir, groups)
    if others and not overwrite:
        raise UserError(
            f"Expected no files of {problem.name} in {data_dir!r} but those to be made. Received: "
            f"{os.path.basename(others[0])}, of a set of another size. Delete them, or use "
            "--overwrite."
        )
    todo = [group for group in groups if overwrite or not _is_there(group, report)]
    lost = [n for n in problem.vocab_filenames if not os.path.exists(os.path.join(data_dir, n))]
    if lost and len(todo) < len(groups):
        raise UserError(
            f"Expected the vocabulary {lost[0]} in {data_dir!r} beside the files made with it. "
            "Received: no such file. Put it back, or make everything again by --overwrite."
        )
    counts = {
        s: problem.num_samples(tmp_dir, s) for group in todo for s in _sources(problem, group)
    }

    if todo:
        for name in problem.vocab_filenames:
            if name not in lost:
                report(
                    f"Using the vocabulary {name} that is in {data_dir}; delete it to rebuild it."
                )
        problem.prepare_vocabulary(data_dir, tmp_dir, lambda t, n: track(t, "vocabulary", n))
    summary = _read_summary(problem, data_dir)
    for group in todo:
        paths = [path for files in group.values() for path in files]
        source = next(iter(_sources(problem, group)))
        shuffle = source == Split.TRAIN and not problem.already_shuffled
        samples = iter(problem.generate_encoded_samples(data_dir, tmp_dir, source))
        samples = itertools.islice(samples, max_cases or None)
        counted = counts[source]
        total = min(counted, max_cases) if counted and max_cases else counted
        statistics = _Statistics()
        with records.ShardWriter(paths, seed if shuffle else None) as writer:
            for sample in statistics.count(track(samples, "+".join(group), total)):
                writer.write(sample)
            if not writer.count:
                raise UserError(
                    f"Expected samples for the {' and '.join(group)} split of {problem.name}. "
                    f"Received: none from {tmp_dir!r}."
                )
        summary["splits"]["+".join(group)] = {**statistics.summary(), "files": len(paths)}
    for path in others:
        os.unlink(path)
    encoders = problem.feature_encoders(data_dir)
    summary["vocab_size"] = {name: encoder.vocab_size for name, encoder in encoders.items()}
    summary["vocab_files"] = problem.vocab_filenames
    if todo:
        summary["random_seed"] = seed
        text = json.dumps(summary, indent=1) + "\n"
        write_text_atomic(summary_path(problem, data_dir), text)
    return summary


def summary_path(problem: Problem, data_dir: str | os.PathLike) -> pathlib.Path:
    """Returns the path of the JSON file that `generate_data` leaves beside the records."""
    return pathlib.Path(data_dir, f"datagen.{problem.dataset_filename()}.json")


class _Statistics:
    """Counts samples as they pass. Tokens include the end of sentence."""

    def __init__(self) -> None:
        self.examples = 0
        self.tokens = dict.fromkeys(records.FEATURES, 0)
        self.longest = dict.fromkeys(records.FEATURES, 0)
        self.empty = dict.fromkeys(records.FEATURES, 0)

    def count(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            self.examples += 1
            for name in records.FEATURES:
                length = len(sample[name])
                self.tokens[name] += length
                self.longest[name] = max(self.longest[name], length)
                self.empty[name] += list(sample[name]) == [EOS_ID]
            yield sample

    def summary(self) -> dict:
        return dict(vars(self))


def _groups(problem: Problem, data_dir: str, num_shards: int) -> list[dict[str, list[str]]]:
    """The files that are made together: {split: paths} of one split, or of all."""
    splits = {}
    for entry in problem.dataset_splits:
        train = entry["split"] == Split.TRAIN
        shards = num_shards if num_shards and train else entry["shards"]
        splits[entry["split"]] = problem.filepaths(entry["split"], data_dir, shards)
    if problem.is_generate_per_split:
        return [{split: paths} for split, paths in splits.items()]
    return [splits]


def _sources(problem: Problem, group: dict[str, list[str]]) -> list[str]:
    """The splits to ask the problem for; where they are not its own, one source feeds all."""
    return list(group) if problem.is_generate_per_split else [Split.TRAIN]


def _other_sets(problem: Problem, data_dir: str, groups: list[dict[str, list[str]]]) -> list[str]:
    """The files of sets of another size, which would lie beside those to be made."""
    sizes = {split: len(paths) for group in groups for split, paths in group.items()}
    sets = {split: records.shard_sets(problem, split, data_dir) for split in sizes}
    return [p for s in sets for size in sets[s] if size != sizes[s] for p in sets[s][size]]


def _is_there(group: dict[str, list[str]], report: Callable[[str], None]) -> bool:
    paths = [path for files in group.values() for path in files]
    there = [path for path in paths if os.path.exists(path)]
    name = " and ".join(group)
    if len(there) == len(paths):
        report(
            f"Keeping the {len(paths)} {name} files that are there; --overwrite makes them again."
        )
        return True
    if there:
        report(
            f"Only {len(there)} of {len(paths)} {name} files are there: making all of them again."
        )
    return False


def _remove_remains(problem: Problem, data_dir: str, report: Callable[[str], None]) -> None:
    pattern = f"{problem.dataset_filename()}-*{INCOMPLETE}"
    remains = list(pathlib.Path(data_dir).glob(pattern))
    for path in remains:
        path.unlink()
    if remains:
        report(f"Removed {len(remains)} unfinished files of an earlier run that was interrupted.")


def _read_summary(problem: Problem, data_dir: str) -> dict:
    try:
        summary = json.loads(summary_path(problem, data_dir).read_text(encoding="utf-8"))
        return {**summary, "splits": dict(summary["splits"])}
    except (OSError, ValueError, KeyError, TypeError):  # it only informs: a broken one is replaced
        return {"problem": problem.name, "splits": {}}
