"""The text that files are made of: into how many they go, and whether it is still the same.

A data directory that tensor2tensor made says nothing of its text, and is taken as it is.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from t2t_repro.corpora import raw_record
from t2t_repro.data import records
from t2t_repro.data.job import Files, Job
from t2t_repro.data.journal import Journal
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.text import raw

_KEY = "raw_text"  # of a split's entry in the summary


def sized(job: Job) -> Job:
    """Returns the job with as many training files as its text fills, or as there are already.

    At most as many as the problem says; just so many where it does not count its pairs a file.
    """
    problem = job.problem
    if job.num_shards or problem.pairs_a_file is None:
        return job
    there = records.shard_sets(problem, Split.TRAIN, job.data_dir)
    if len(there) == 1 and not job.overwrite:
        return dataclasses.replace(job, num_shards=next(iter(there)))
    pairs = problem.num_samples(job.tmp_dir, Split.TRAIN)
    if pairs is None:
        return job
    most = next(e["shards"] for e in problem.dataset_splits if e["split"] == Split.TRAIN)
    files = -(-min(pairs, job.max_cases or pairs) // problem.pairs_a_file)
    return dataclasses.replace(job, num_shards=max(1, min(files, most)))


def entry(job: Job, files: Files) -> dict[str, Any]:
    """Returns what the summary says of the text that some files are made of; {} where unknown."""
    said: dict[str, Any] = {}
    if digests := _digests(job, files):
        said[_KEY] = digests
    if files.source == Split.TRAIN:
        times = raw_record.repeated(job.problem.raw_text_files(job.tmp_dir, Split.TRAIN))
        said |= {raw_record.REPEATED: times} if times != 1 else {}
    return said


def check(job: Job, journal: Journal, summary: Mapping[str, Any]) -> None:
    """Refuses to keep files that were made of another text than lies in tmp_dir.

    Args:
        job: what to make.
        journal: what an earlier run began; it has looked at the text itself.
        summary: what `generate_data` left beside the files.

    Raises:
        UserError: naming the text.
    """
    for files in job.files():
        begun = files.name in journal.finished or files.name == journal.group
        made_of = summary["splits"].get(files.name, {}).get(_KEY)
        if job.overwrite or begun or not isinstance(made_of, dict):
            continue
        if not all(map(os.path.exists, files.paths)):
            continue
        for name, digest in _digests(job, files).items():
            raw_record.Kept(made_of, os.fspath(job.data_dir)).check(name, digest, job.tmp_dir)


def kept(job: Job, summary: Mapping[str, Any]) -> raw_record.Kept:
    """Returns the text of which a job keeps the files that are there."""
    found: dict[str, str] = {}
    for files in job.files() if not job.overwrite else ():
        made_of = summary["splits"].get(files.name, {}).get(_KEY)
        there = (records.shard_sets(job.problem, split, job.data_dir) for split in files.splits)
        if isinstance(made_of, dict) and all(there):
            found |= made_of
    return raw_record.Kept(found, os.fspath(job.data_dir))


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a text, plain or .gz."""
    with raw.opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def origin(job: Job, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the summary says of where the text comes from.

    That is the folder, and the user's own files of which its text was made, where that is known and
    the text is still that.
    """
    folder = os.path.abspath(job.tmp_dir)
    try:
        record = raw_record.read(pathlib.Path(folder))
    except UserError:  # it only informs
        record = None
    made = {name: made.sha256 for name, made in record.files.items()} if record else {}
    texts = {k: v for split in summary["splits"].values() for k, v in split.get(_KEY, {}).items()}
    if record is None or any(made.get(name, digest) != digest for name, digest in texts.items()):
        return {"tmp_dir": raw_record.shown(folder)}
    return {
        "tmp_dir": raw_record.shown(folder),
        "raw_files": [dataclasses.asdict(file) for file in record.raw_files],
        "splits_seed": record.request.get("seed"),
    }


def _digests(job: Job, files: Files) -> dict[str, str]:
    """Returns {name without .gz: SHA-256 of the text}."""
    paths = job.problem.raw_text_files(job.tmp_dir, files.source)
    return {os.path.basename(path).removesuffix(".gz"): sha256(path) for path in paths}
