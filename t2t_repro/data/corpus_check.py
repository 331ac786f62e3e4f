"""t2t-datagen's check of a corpus, before it makes anything from it.

The checks are in `corpora/checks`. Dropped pairs are listed in a file in the data directory, which
all readers of samples use: the vocabulary, this machine's processes, a cluster's.
"""

import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator

from t2t_repro.corpora import bad_pairs, raw_record
from t2t_repro.corpora.checks.block import Pair
from t2t_repro.corpora.checks.examine import Corpus, Report, examine, path_of
from t2t_repro.corpora.request import RawText
from t2t_repro.data.job import DROP, STOP, Job, is_encoded_by_sample
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split, Text2TextProblem


def check_corpus(job: Job, report: Callable[[str], None]) -> None:
    """Checks the raw text of a job, as `job.check` says, and writes the report.

    Args:
        job: what to make.
        report: receives a line for each finding.

    Raises:
        UserError: if there are errors at which the job stops, or the problem's samples are no pairs
            of text.
    """
    name = job.problem.dataset_filename()
    left_out = bad_pairs.path_of(job.data_dir, name)
    if job.check:
        made, corpus = _examine(job, report)
        if job.check == STOP and made.errors:
            errors = "; ".join(
                f"{each.count:,} pairs ({each.check.text}; first: {first.split} pair {first.line})"
                for each in made.errors
                for first in each.first[:1]
            )
            raise UserError(
                f"Expected text pairs without errors. Received: {errors}. Examples are in "
                f"{path_of(job.data_dir, name)}. Fix the text, or give --drop_bad_pairs to drop "
                f"{made.num_bad_pairs():,} pairs (every pair with errors, some with warnings), or "
                "--keep_bad_pairs to keep all pairs."
            )
        if job.check == DROP:  # also where there are none: the file says that they were looked for
            bad_pairs.write(left_out, made.texts_of_bad_pairs(corpus))
            report(f"Dropped {made.num_bad_pairs():,} pairs; they are listed in {left_out}")
            return
    left_out.unlink(missing_ok=True)


def check_only(job: Job, report: Callable[[str], None]) -> Report:
    """Checks the files that the job's options name, else the problem's own, and writes the report.

    Raises:
        UserError: if they cannot be read, or are no pairs of text.
    """
    given, _ = RawText.from_flags(job.options)
    if not given:
        job.problem.prepare_raw_files(job.tmp_dir, dict(job.options))
        return _examine(job, report)[0]
    splits = dict.fromkeys(corpus.split for corpus in given.corpora())
    corpus = {split: functools.partial(given.pairs, split) for split in splits}
    return _written(job, examine(corpus, alone=[Split.TEST]), report)


def _examine(job: Job, report: Callable[[str], None]) -> tuple[Report, Corpus]:
    """Checks the text of a problem, also splits of text alone; reports and writes the findings."""
    problem = job.problem
    if not is_encoded_by_sample(problem):
        raise UserError(
            f"Expected a problem of text pairs to check. Received: {problem.name}. Choose another "
            "problem, or remove --check_data, --drop_bad_pairs and --keep_bad_pairs."
        )
    alone = problem.text_alone(job.tmp_dir)
    made = (files.source for files in job.files())
    sources = dict.fromkeys([Split.TRAIN, *made, *alone])
    corpus = {split: functools.partial(_pairs, problem, job, split) for split in sources}
    # Pairs repeated by --train_weights are no fault.
    record = raw_record.read(pathlib.Path(job.tmp_dir))
    repeats = record and any(share.written > share.pairs for share in record.shares)
    found = examine(corpus, keep=["duplicate"] if repeats else [], alone=alone)
    return _written(job, found, report), corpus


def _written(job: Job, made: Report, report: Callable[[str], None]) -> Report:
    for line in made.lines():
        report(line)
    to = path_of(job.data_dir, job.problem.dataset_filename())
    made.write(to)
    report(f"Report with examples of each fault and the numbers of their pairs: {to}")
    return made


def check_unasked(problem: Problem) -> str:
    """Returns the default of `Job.check`: STOP at errors in the user's own text.

    The problems of the catalogue are made as tensor2tensor makes them, unchecked.
    """
    module = type(problem := problem.forward()).__module__
    own = not module.startswith("t2t_repro.problems.") or module == "t2t_repro.problems.text2text"
    return STOP if own and is_encoded_by_sample(problem) else ""


def _pairs(problem: Text2TextProblem, job: Job, split: str) -> Iterator[Pair]:
    samples = problem.generate_samples(job.data_dir, job.tmp_dir, split)
    # Replacements of dropped samples must be checked as well.
    for sample in itertools.islice(samples, 2 * job.max_cases or None):
        yield sample["inputs"], sample["targets"]
