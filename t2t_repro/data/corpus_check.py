"""What t2t-datagen does about the pairs of a corpus before it makes anything of them.

The checks are in `corpora/checks`. What is left out stands in a file in the data directory, which
all read who take samples of the problem: the vocabulary, this machine's processes, a cluster's.
"""

import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from t2t_repro import schema
from t2t_repro.corpora import bad_pairs, raw_record
from t2t_repro.corpora.checks import output
from t2t_repro.corpora.checks.block import Pair
from t2t_repro.corpora.checks.examine import Corpus, examine
from t2t_repro.corpora.checks.report import Report
from t2t_repro.data import blocks, journal
from t2t_repro.data.job import DROP, KEEP, STOP, Job
from t2t_repro.data.machine import Track
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split, Text2TextProblem


def check_corpus(
    job: Job, summary: Mapping[str, Any], track: Track, report: Callable[[str], None]
) -> None:
    """Checks the raw text of what is to be made, as `job.check` says, and writes the report.

    An interrupted run that is gone on with had it checked before. What files that are there were
    made of is checked if the job says so, and stops at nothing.

    Args:
        job: what is to be made.
        summary: what `generate_data` left beside the files.
        track: as `generate_data` takes it.
        report: receives a line for everything that is found.

    Raises:
        UserError: if there are errors, and the job is to stop at them; the problem's samples are
            no pairs of text; or files are kept that were made of another choice of pairs.
    """
    to = output.paths(job.data_dir, job.problem.dataset_filename())
    if not job.overwrite and all(os.path.exists(p) for files in job.files() for p in files.paths):
        left_out = to.bad_pairs.exists()
        if (job.check, left_out) in ((DROP, False), (KEEP, True)):
            pairs = f"without those of {to.bad_pairs}" if left_out else "of all pairs"
            report(f"The files that are there were made {pairs}; --overwrite makes them again.")
        if job.checks_again:
            _examine(job, to, track, report)
        return
    if job.check != DROP:
        _check_kept(job, summary, None)
    if not job.check:
        to.bad_pairs.unlink(missing_ok=True)
        return
    raw_files = journal.raw_files(job)
    made_for = {"bad_pairs_are": job.check, "raw_files": raw_files, "max_cases": job.max_cases}
    if journal.journal_path(job).exists() and _is_made_for(to, made_for):
        return
    made, corpus = _examine(job, to, track, report)
    count = made.num_bad_pairs()
    if job.check == STOP and made.errors:
        raise errors_in(made, count, str(to.html))
    if job.check == DROP:  # also where there are none: the file says that they were looked for
        check = functools.partial(_check_kept, job, summary)
        output.write_bad_pairs(to, made, corpus, check)
        report(f"Left out {count:,} pairs, which are in {to.bad_pairs}")
    else:
        to.bad_pairs.unlink(missing_ok=True)
    output.write_report(to, made, _title(job), **made_for)


def _examine(
    job: Job, to: output.Paths, track: Track, report: Callable[[str], None]
) -> tuple[Report, Corpus]:
    """Checks the text, says what was found and writes it, not yet what it was made for."""
    corpus = corpus_of(job)
    alone = job.problem.text_alone(job.tmp_dir)  # type: ignore[attr-defined]
    made = examine(corpus, track, keep=repeated_on_purpose(job), alone=alone)
    for line in made.lines():
        report(line)
    if any(each.count for each in made.findings):
        splits = (entry["split"] for entry in job.problem.dataset_splits)
        known = any(job.problem.raw_text_files(job.tmp_dir, split) for split in splits)
        said = f"of lines are those of the files in {job.tmp_dir}"
        report(f"The numbers {said if known else 'count samples as the problem yields them'}.")
    output.write_report(to, made, _title(job))
    report(f"The report, with the first pairs of each kind: {to.html}")
    return made, corpus


def _check_kept(job: Job, summary: Mapping[str, Any], choice: str | None) -> None:
    """Refuses to keep files that were made of another choice of pairs, as `journal.CHOICE`."""
    for files in job.files() if not journal.makes_all(job) else ():
        # tensor2tensor and earlier versions say nothing of it.
        before = summary["splits"].get(files.name, {}).get(journal.CHOICE, choice)
        of_all, all_now = map(bad_pairs.names_none, (before, choice))
        differ = before != choice and not (of_all and all_now)
        if differ and all(map(os.path.exists, files.paths)):
            made = "of all pairs" if of_all else "without some pairs"
            now = "of all" if all_now else f"without {'some' if of_all else 'others'}"
            raise UserError(
                f"Expected one choice of pairs for all files in {job.data_dir!r}. Received: "
                f"{files.name} files made {made}, and others to be made {now}. Choose as before, "
                "or give --overwrite to make all files again."
            )


def repeated_on_purpose(job: Job) -> frozenset[str]:
    """Returns the checks that find what was repeated when the text was made, and so no fault."""
    record = raw_record.read(pathlib.Path(job.tmp_dir))
    repeats = record and any(share.written > share.pairs for share in record.shares)
    return frozenset(["duplicate"] if repeats else [])


def _title(job: Job) -> str:
    return f"The text of {job.problem.name}"


def check_unasked(problem: Problem) -> str:
    """Returns `Job.check` where nothing is said: STOP at errors in the user's own text.

    The problems of the catalogue are made as tensor2tensor makes them, of corpora that are what
    they are.
    """
    problem = problem.forward()
    module = type(problem).__module__
    own = not module.startswith("t2t_repro.problems.") or module == "t2t_repro.problems.text2text"
    return STOP if own and blocks.is_encoded_by_sample(problem) else ""


def errors_in(made: Report, bad_pairs: int, page: str) -> UserError:
    """Returns the error that says which pairs are wrong, and what to do.

    Args:
        made: what was found.
        bad_pairs: how many pairs --drop_bad_pairs leaves out, for errors and some warnings.
        page: the file that shows them.
    """
    said = "; ".join(
        f"{each.count:,} ({each.check.text}), as "
        + ", ".join(f"{e.split} line {e.line}" for e in each.first[:5])
        for each in made.errors
    )
    faults = f"{bad_pairs:,} pairs with errors or what is surely a fault"
    drop = f"--drop_bad_pairs to leave out {faults}, or " if bad_pairs else ""
    return UserError(
        f"Expected pairs without errors. Received: {said}. See {page}; correct the text, or give "
        f"{drop}--keep_bad_pairs to take all."
    )


def corpus_of(job: Job) -> Corpus:
    """Returns the pairs of a problem by split; those of text alone are held out too.

    Raises:
        UserError: if its samples are no pairs of text.
    """
    problem = job.problem
    if not blocks.is_encoded_by_sample(problem):
        raise UserError(
            "Expected a problem whose samples are pairs of text, to check them. Received: "
            f"{problem.name}. Name another; t2t-datagen makes this one without --check_data, "
            "--drop_bad_pairs and --keep_bad_pairs."
        )
    made = (files.source for files in job.files())
    sources = dict.fromkeys([Split.TRAIN, *made, *problem.text_alone(job.tmp_dir)])
    return {split: functools.partial(_pairs, problem, job, split) for split in sources}


def _pairs(problem: Text2TextProblem, job: Job, split: str) -> Iterator[Pair]:
    samples = problem.generate_samples(job.data_dir, job.tmp_dir, split)
    # Those that take the place of what is left out are to be in order as well.
    for sample in itertools.islice(samples, 2 * job.max_cases or None):
        yield sample["inputs"], sample["targets"]


def _is_made_for(to: output.Paths, made_for: dict) -> bool:
    try:
        made = schema.read(to.json, dict[str, Any])
        return all(made.get(name) == value for name, value in made_for.items())
    except (OSError, ValueError, AttributeError):
        return False
