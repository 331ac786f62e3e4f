"""What a run was made of: its data, as t2t-datagen describes and as training has found it."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from t2t_repro import schema
from t2t_repro.certificate.record import Data, File
from t2t_repro.corpora.checks import output
from t2t_repro.corpora.raw_record import RawFile
from t2t_repro.data import records, vocabularies
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.progress import report
from t2t_repro.runs import TrainedRun

_LARGE = 1 << 28  # bytes that take a moment to read


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Summary:
    """What is read of the summary of t2t-datagen; none of it need be there."""

    splits: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    random_seed: int | None = None
    splits_seed: int | None = None
    tmp_dir: str = ""
    raw_files: tuple[RawFile, ...] = ()


def of_run(run: TrainedRun) -> Data:
    """Returns what a run was made of, as far as it is known and there."""
    folder = pathlib.Path(os.path.expanduser(run.asked_data_dir or run.config.data_dir))
    problem = run.problem
    name = problem.dataset_filename()
    summary_path = vocabularies.summary_path(problem, folder)
    summary = _Summary()
    with contextlib.suppress(OSError, UserError):  # it only informs
        summary = schema.read(summary_path, _Summary)
    reports = [path for path in (summary_path, output.paths(folder, name).json) if path.is_file()]
    names = dict.fromkeys(entry["split"] for entry in problem.dataset_splits)
    splits = {split: _shards(problem, split, folder) for split in names}
    # Its own copy, where it has one: that is what it is used with.
    copies = [(run.path / path.name, path) for path in run.vocabulary_files]
    vocabulary = [own if own.is_file() else path for own, path in copies]
    vocabulary = [path for path in vocabulary if path.is_file()]
    every = [*reports, *vocabulary, *itertools.chain.from_iterable(splits.values())]
    with _hashing(every) as advance:

        def of(paths: Iterable[str | os.PathLike]) -> tuple[File, ...]:
            found = []
            for path in paths:
                found.append(File.of(path, run.path))
                advance(os.path.getsize(path))
            return tuple(found)

        return Data(
            raw_files=tuple(File(each.path, each.sha256) for each in summary.raw_files),
            raw_text=_raw_text(problem, summary),
            reports=of(reports),
            splits={split: of(paths) for split, paths in splits.items() if paths},
            vocabulary=of(vocabulary),
            seeds={
                name: seed
                for name, seed in {
                    "datagen": summary.random_seed,
                    "splits": summary.splits_seed,
                }.items()
                if seed is not None
            },
        )


def _shards(problem: Problem, split: str, folder: pathlib.Path) -> list[str]:
    sets = records.shard_sets(problem, split, folder)
    return [path for paths in sets.values() for path in paths]


def _raw_text(problem: Problem, summary: _Summary) -> tuple[File, ...]:
    """Returns the texts that the records were made of, as they were then."""
    if not summary.tmp_dir:
        return ()
    paths: dict[str, str] = {}
    for split in dict.fromkeys(entry["split"] for entry in problem.dataset_splits):
        with contextlib.suppress(UserError):  # some that a problem needs are gone
            for path in problem.raw_text_files(summary.tmp_dir, split):
                paths[os.path.basename(path).removesuffix(".gz")] = path
    digests: dict[str, str] = {}
    for made in summary.splits.values():
        texts = made.get("raw_text", {})
        digests |= texts if isinstance(texts, Mapping) else {}
    return tuple(
        File(paths.get(name, os.path.join(summary.tmp_dir, name)), str(digest))
        for name, digest in sorted(digests.items())
    )


def _hashing(paths: list) -> contextlib.AbstractContextManager[Callable[[int], None]]:
    """Shows how far the hashes are where they take long."""
    total = sum(map(os.path.getsize, paths))
    if total < _LARGE:
        return contextlib.nullcontext(lambda size: None)
    return report("Hashing the data for certificate.json", total)
