"""The text that files are made of: into how many they go, and whether it is still the same.

A data directory that tensor2tensor made says nothing of its text, and is taken as it is.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_repro.corpora import bad_pairs, raw_record
from t2t_repro.data import tfrecord
from t2t_repro.data.job import Files, Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.text import raw

# Of a split's entry in the summary: {name: SHA-256 of the text}, and that of the list of pairs that
# were left out; None: none was.
_KEY, CHOICE = "raw_text", "choice of pairs"


def sized(job: Job) -> Job:
    """Returns the job with as many training files as its text fills, or as there are already.

    At most as many as the problem says; just so many where it does not count its pairs a file.
    """
    problem = job.problem
    if job.num_shards or problem.pairs_a_file is None:
        return job
    there = tfrecord.shard_sets(problem, Split.TRAIN, job.data_dir)
    if len(there) == 1 and not job.overwrite:
        return dataclasses.replace(job, num_shards=next(iter(there)))
    pairs = problem.num_samples(job.tmp_dir, Split.TRAIN)
    if pairs is None:
        return job
    most = next(e["shards"] for e in problem.dataset_splits if e["split"] == Split.TRAIN)
    files = -(-min(pairs, job.max_cases or pairs) // problem.pairs_a_file)
    return dataclasses.replace(job, num_shards=max(1, min(files, most)))


def entry(job: Job, files: Files) -> dict[str, Any]:
    """Returns what the summary says of the text that some files are made of."""
    bad = bad_pairs.path_of(job.data_dir, job.problem.dataset_filename())
    said: dict[str, Any] = {CHOICE: sha256(bad) if bad.exists() else None}
    if digests := _digests(job, files):
        said[_KEY] = digests
    if files.source == Split.TRAIN:
        times = raw_record.repeated(job.problem.raw_text_files(job.tmp_dir, Split.TRAIN))
        said |= {raw_record.REPEATED: times} if times != 1 else {}
    return said


def check(job: Job, kept: Iterable[Files], summary: Mapping[str, Any]) -> None:
    """Refuses to keep files that were made of another text than lies in tmp_dir.

    Args:
        job: what to make.
        kept: the files.
        summary: what `generate_data` left beside them.

    Raises:
        UserError: naming the text.
    """
    for files in kept:
        made_of = summary["splits"].get(files.name, {}).get(_KEY, {})
        for name, digest in _digests(job, files).items():
            if made_of.get(name, digest) != digest:
                raise UserError(
                    f"Expected the {name} that the files in {job.data_dir!r} were made of. "
                    f"Received: another text in {job.tmp_dir!r}. Put the old one back, make the "
                    "files again by t2t-datagen with --overwrite, or name other folders. A run "
                    "that was trained on them goes on with no others: --vocab_from=RUN makes data "
                    "for a new one that begins with its weights, by --warm_start_from=RUN."
                )


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
    record = raw_record.read(pathlib.Path(folder))
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
