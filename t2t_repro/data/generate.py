"""Writes a problem's vocabulary and TFRecord files, and a summary of them, on all cores.

A split's samples are numbered as its source yields them, and file n % N gets sample n. They pass in
blocks through the processes of workers.py, which encode them, into unshuffled files; when all are
there, each file is shuffled and gets its name. So memory holds some blocks and one file a process,
and the bytes do not depend on the number of processes. The journal remembers how far this is:
after a kill, the same command goes on.
"""

import copy
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator

from t2t_repro import registry
from t2t_repro.data import blocks, journal, records
from t2t_repro.data.beam import Beam
from t2t_repro.data.journal import Journal
from t2t_repro.data.workers import WorkerLost, Workers
from t2t_repro.errors import UserError
from t2t_repro.files import alone_in, write_text_atomic
from t2t_repro.problem import Problem, Sample, Split, Text2TextProblem

Track = Callable[[Iterable, str, int | None, str], Iterable]
Group = dict[str, list[str]]  # {split: paths} of the files that are made together

_SECONDS = 5.0  # between two entries of the journal while samples are encoded


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
    num_processes: int = 1,
    load_problem: blocks.LoadProblem | None = None,
    beam: Beam | None = None,
    track: Track = lambda items, doing, total, unit: items,
    report: Callable[[str], None] = lambda line: None,
) -> dict:
    """Writes the files of every split that is not there yet, and returns the summary of all.

    A vocabulary file that is there is used as it is, also with `overwrite`: models depend on it.
    Training files are shuffled by `seed`; the others keep the order of their source. A second
    process waits until the first has finished with the same `data_dir` or `tmp_dir`.

    Args:
        problem: a reversed problem has the files of the forward one.
        data_dir: the folder to write to.
        tmp_dir: the folder of raw files.
        seed: of the order, and of problems that draw their samples.
        overwrite: make files that are there already again.
        num_shards: the number of training files; 0: the problem's own.
        max_cases: stop each split after so many samples; 0: do not.
        options: flags for this problem's raw files; see `Problem.prepare_raw_files`.
        num_processes: how many to encode and count on; see workers.py.
        load_problem: gives the problem to another process (pickled); None: by its name, from the
            registry.
        beam: where to run it instead of on `num_processes`; see beam.py.
        track: such as `progress.track`: passes the samples of each stage on, and shows progress.
        report: receives a line for everything that is decided on the way.

    Raises:
        UserError: if raw files are missing or broken, or a split has no sample. Unfinished files
            are removed, unless a process was killed (`workers.WorkerLost`).
    """
    problem = copy.copy(problem.forward())
    problem.random_seed = seed
    data_dir = os.fspath(pathlib.Path(data_dir).expanduser())
    tmp_dir = os.fspath(pathlib.Path(tmp_dir).expanduser())
    with alone_in(_existing(tmp_dir), report):
        problem.prepare_raw_files(tmp_dir, options or {})
    os.makedirs(data_dir, exist_ok=True)  # not before the flags are known to be right
    with alone_in(_existing(data_dir, tmp_dir), report):
        groups = problem_groups(problem, data_dir, num_shards)
        others = other_sets(problem, data_dir, groups, overwrite)

        def settings() -> dict:
            return journal.settings(problem, data_dir, groups, seed=seed, max_cases=max_cases)

        entry = journal.resume(problem, data_dir, tmp_dir, settings(), report)
        todo = _todo(groups, entry, overwrite, report)
        if todo:
            _check_vocabulary(problem, data_dir, len(todo) == len(groups), report)
        totals = {_name(group): _total(problem, tmp_dir, group, max_cases) for group in todo}
        summary = _read_summary(problem, data_dir)
        try:
            with Workers(num_processes) as workers:
                if num_processes == 1 and beam is None:
                    load_problem = lambda: problem  # noqa: E731
                elif load_problem is None:
                    load_problem = functools.partial(registry.get_problem, problem.name)
                if todo:
                    if isinstance(problem, Text2TextProblem):
                        problem.count_tokens = functools.partial(blocks.count_tokens, workers)
                    if beam is not None and isinstance(problem, Text2TextProblem):
                        counter = beam.count_tokens
                        problem.count_tokens = functools.partial(
                            counter, load_problem, data_dir, tmp_dir
                        )
                    problem.prepare_vocabulary(
                        data_dir,
                        tmp_dir,
                        lambda texts, total: track(texts, "vocabulary", total, "texts"),
                    )
                    entry.settings = settings()
                maker = _Maker(problem, data_dir, tmp_dir, entry, workers, load_problem)
                for group in todo:
                    if beam is not None:
                        maker.run(beam, group, seed, max_cases)
                    else:
                        maker.encode(group, totals[_name(group)], max_cases, track)
                        maker.finish(group, seed, track)
        except UserError as error:
            if not isinstance(error, WorkerLost):
                journal.discard(problem, data_dir)
            raise
        except KeyboardInterrupt:
            if journal.journal_path(problem, data_dir).exists():
                report("Interrupted. The same command goes on from here.")
            raise
        summary["splits"] |= entry.finished
        for path in others:
            os.unlink(path)
        encoders = problem.feature_encoders(data_dir)
        summary["vocab_size"] = {name: encoder.vocab_size for name, encoder in encoders.items()}
        summary["vocab_files"] = problem.vocab_filenames
        if entry.finished:
            summary["random_seed"] = seed
            text = json.dumps(summary, indent=1) + "\n"
            write_text_atomic(summary_path(problem, data_dir), text)
        journal.discard(problem, data_dir)
        return summary


class _Maker:
    """Makes the files of one group after the other, and says so in the journal."""

    def __init__(
        self,
        problem: Problem,
        data_dir: str,
        tmp_dir: str,
        entry: Journal,
        workers: Workers,
        load_problem: blocks.LoadProblem,
    ):
        self._problem = problem
        self._data_dir = data_dir
        self._tmp_dir = tmp_dir
        self._entry = entry
        self._workers = workers
        self._load_problem = load_problem

    def encode(self, group: Group, total: int | None, max_cases: int, track: Track) -> None:
        """Writes the unshuffled files, from where the journal says."""
        entry, paths, name = self._entry, _paths(group), _name(group)
        if entry.group != name:
            entry.begin(name, paths)
        if entry.complete:
            return
        statistics = blocks.Statistics(**entry.statistics)
        last = time.monotonic()
        samples, encode = self._samples(_source(self._problem, group))
        samples = track(itertools.islice(samples, max_cases or None), name, total, "samples")
        with blocks.Spill(paths, entry.sizes) as spill:
            for made in self._make(samples, encode, len(paths)):
                spill.write(made.frames)
                statistics.merge(made.statistics)
                if time.monotonic() - last > _SECONDS:
                    self._save(spill.flush(), statistics)
                    last = time.monotonic()
            if not statistics.examples:
                raise self._no_samples(group)
            sizes = spill.flush()
        for path in paths:  # no old file stays beside a new one
            pathlib.Path(path).unlink(missing_ok=True)
        entry.complete = True
        self._save(sizes, statistics)

    def finish(self, group: Group, seed: int, track: Track) -> None:
        """Shuffles the files and gives them their names."""
        paths, name, shuffle = _paths(group), _name(group), self._is_shuffled(group)
        todo = [path for path in paths if not os.path.exists(path)]
        finish = blocks.FinishFile(seed if shuffle else None, self._problem)
        done = self._workers.map(finish, todo)
        for _ in track(done, f"{name} files", len(todo), "files") if shuffle else done:
            pass
        for path in paths:  # of a file that had its name already when the run was killed
            pathlib.Path(path + blocks.UNSHUFFLED).unlink(missing_ok=True)
        self._finished(group, self._entry.statistics)

    def run(self, beam: Beam, group: Group, seed: int, max_cases: int) -> None:
        """Makes the files on Apache Beam."""
        self._entry.begin("", [])  # what an earlier run left is not used
        statistics = beam.make_files(
            self._load_problem,
            self._data_dir,
            self._tmp_dir,
            _source(self._problem, group),
            _paths(group),
            random_seed=seed,
            shuffle=self._is_shuffled(group),
            max_cases=max_cases,
        )
        if not statistics["examples"]:
            raise self._no_samples(group)
        self._finished(group, statistics)

    def _finished(self, group: Group, statistics: dict) -> None:
        entry = self._entry
        entry.finished[_name(group)] = {**statistics, "files": len(_paths(group))}
        entry.begin("", [])
        entry.save(self._problem, self._data_dir, self._tmp_dir)

    def _is_shuffled(self, group: Group) -> bool:
        train = _source(self._problem, group) == Split.TRAIN
        return train and not self._problem.already_shuffled

    def _no_samples(self, group: Group) -> UserError:
        return UserError(
            f"Expected samples for the {' and '.join(group)} split of {self._problem.name}. "
            f"Received: none from {self._tmp_dir!r}."
        )

    def _samples(self, source: str) -> tuple[Iterable[Sample], blocks.EncodeSamples | None]:
        """The samples of a split, and what encodes them where that can be done apart."""
        problem = self._problem
        if blocks.is_encoded_by_sample(problem):
            samples = problem.generate_samples(self._data_dir, self._tmp_dir, source)
            return samples, blocks.EncodeSamples(self._load_problem, self._data_dir)
        return problem.generate_encoded_samples(self._data_dir, self._tmp_dir, source), None

    def _make(
        self, samples: Iterable[Sample], encode: blocks.EncodeSamples | None, num_files: int
    ) -> Iterator[blocks.Made]:
        done = self._entry.samples
        numbered = blocks.numbered(itertools.islice(samples, done, None), done)
        return self._workers.map(blocks.MakeFrames(num_files, encode), numbered)

    def _save(self, sizes: list[int], statistics: blocks.Statistics) -> None:
        entry = self._entry
        entry.samples, entry.sizes = statistics.examples, sizes
        entry.statistics = dataclasses.asdict(statistics)
        entry.save(self._problem, self._data_dir, self._tmp_dir)


def summary_path(problem: Problem, data_dir: str | os.PathLike) -> pathlib.Path:
    """Returns the path of the JSON file that `generate_data` leaves beside the records."""
    return pathlib.Path(data_dir, f"datagen.{problem.dataset_filename()}.json")


def problem_groups(problem: Problem, data_dir: str, num_shards: int) -> list[Group]:
    """Returns the files that are made together: those of one split, or of all."""
    splits = {}
    for entry in problem.dataset_splits:
        train = entry["split"] == Split.TRAIN
        shards = num_shards if num_shards and train else entry["shards"]
        splits[entry["split"]] = problem.filepaths(entry["split"], data_dir, shards)
    if problem.is_generate_per_split:
        return [{split: paths} for split, paths in splits.items()]
    return [splits]


def other_sets(problem: Problem, data_dir: str, groups: list[Group], overwrite: bool) -> list[str]:
    """Returns the files of sets of another size, which would lie beside those to be made.

    Raises:
        UserError: if there is one, and not `overwrite`.
    """
    sizes = {split: len(paths) for group in groups for split, paths in group.items()}
    sets = {split: records.shard_sets(problem, split, data_dir) for split in sizes}
    others = [p for s in sets for size in sets[s] if size != sizes[s] for p in sets[s][size]]
    if others and not overwrite:
        raise UserError(
            f"Expected no files of {problem.name} in {data_dir!r} but those to be made. Received: "
            f"{os.path.basename(others[0])}, of a set of another size. Delete them, or use "
            "--overwrite."
        )
    return others


def _existing(*folders: str) -> list[str]:
    return [folder for folder in folders if os.path.isdir(folder)]


def _name(group: Group) -> str:
    return "+".join(group)


def _paths(group: Group) -> list[str]:
    return [path for files in group.values() for path in files]


def _source(problem: Problem, group: Group) -> str:
    """The split to ask the problem for; where they are not its own, one source feeds all."""
    return next(iter(group)) if problem.is_generate_per_split else Split.TRAIN


def _total(problem: Problem, tmp_dir: str, group: Group, max_cases: int) -> int | None:
    counted = problem.num_samples(tmp_dir, _source(problem, group))
    return min(counted, max_cases) if counted and max_cases else counted


def _todo(
    groups: list[Group], entry: Journal, overwrite: bool, report: Callable[[str], None]
) -> list[Group]:
    """The groups that are not there, or not to be kept."""
    todo = []
    for group in groups:
        there = all(map(os.path.exists, _paths(group)))
        if _name(group) in entry.finished:
            if there:
                continue
            del entry.finished[_name(group)]
        if _name(group) == entry.group or overwrite or not _is_there(group, report):
            todo.append(group)
    return todo


def _is_there(group: Group, report: Callable[[str], None]) -> bool:
    paths = _paths(group)
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


def _check_vocabulary(
    problem: Problem, data_dir: str, everything: bool, report: Callable[[str], None]
) -> None:
    """Refuses to build a vocabulary beside files that another was used for."""
    for name in problem.vocab_filenames:
        there = os.path.exists(os.path.join(data_dir, name))
        if not there and not everything:
            raise UserError(
                f"Expected the vocabulary {name} in {data_dir!r} beside the files made with it. "
                "Received: no such file. Put it back, or make everything again by --overwrite."
            )
        if there:
            report(f"Using the vocabulary {name} that is in {data_dir}; delete it to rebuild it.")


def _read_summary(problem: Problem, data_dir: str) -> dict:
    try:
        summary = json.loads(summary_path(problem, data_dir).read_text(encoding="utf-8"))
        return {**summary, "splits": dict(summary["splits"])}
    except (OSError, ValueError, KeyError, TypeError):  # it only informs: a broken one is replaced
        return {"problem": problem.name, "splits": {}}
