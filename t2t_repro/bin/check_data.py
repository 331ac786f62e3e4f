"""t2t-check-data: what is wrong with a parallel corpus, line by line.

  t2t-check-data --source=train.en --target=train.de --output_dir=checked

checks files of one sentence a line, or one of both sides, as t2t-datagen --train_source takes
them: plain or .gz, .tsv, .csv, .jsonl, .tmx;

  t2t-check-data --problem=text2text_tmpdir --tmp_dir=my_text --output_dir=checked

the text that a problem reads. It prints a line for each kind of fault, with the numbers of the
first pairs. --output_dir gets a page with the first pairs of each and histograms, the same as JSON,
and the list of the pairs that t2t-datagen --drop_bad_pairs leaves out. The exit code is 1 if there
are errors: pairs with one side empty, or of train that are in dev or test too.
"""

import dataclasses
import functools
import os
import sys
from collections.abc import Collection, Iterator, Mapping

from absl import flags

from t2t_repro import cli, progress, registry
from t2t_repro.corpora.request import SHORT, RawText
from t2t_repro.errors import UserError
from t2t_repro.outputs import check_outputs, check_room
from t2t_repro.problem import Split, Text2TextProblem
from t2t_repro.requests import flag, flags_of


@dataclasses.dataclass(frozen=True)
class Request:
    """What to check."""

    source: str | None = flag(
        None, "The source side of the training pairs, or files that hold both sides."
    )
    target: str | None = flag(None, "Their target side.")
    dev_source: str | None = flag(None, "The source side of the development pairs, or both.")
    dev_target: str | None = flag(None, "Their target side.")
    test_source: str | None = flag(None, "The source side of the test pairs, or both.")
    test_target: str | None = flag(None, "Their target side.")
    source_language: str | None = flag(None, "The source's language in such a file, as en.")
    target_language: str | None = flag(None, "The target's language in such a file, as de.")
    columns: str | None = flag(None, "Which of its columns are source and target, as 1,2.")
    problem: str | None = flag(None, "The problem whose text to check, instead of files.")
    output_dir: str | None = flag(None, "The folder of the report; none given: print it only.")

    def files(self) -> RawText:
        """Returns which files to check; none: a problem's text.

        Raises:
            UserError: if there is nothing to check, or flags contradict each other.
        """
        names = set(flags_of(type(self))) - {"problem", "output_dir"}
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if bool(self.problem) == bool(given) or (given and not self.source):
            received = "both" if self.problem and given else "neither"
            received = "no --source" if given and not self.problem else received
            raise UserError(
                "Expected --source=FILE and --target=FILE, or --problem=NAME. Received: "
                f"{received}."
            )
        named = {SHORT.get(name, name): value for name, value in given.items()}
        return RawText(**named, short=tuple(SHORT.values()))


def define_flags(f: flags.FlagValues) -> None:
    cli.define_request_flags(f, Request)
    flags.DEFINE_string("tmp_dir", "/tmp/t2t_datagen", "The folder of raw files.", flag_values=f)
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Checks what the flags name."""
    request = cli.request(args, Request)
    files = request.files()
    if args["tmp_dir"].present:
        cli.check_needs(args, {"tmp_dir": "problem"})
    corpora = files.corpora()
    from t2t_repro.corpora.checks import output
    from t2t_repro.corpora.checks.examine import examine

    name = request.problem or os.path.basename(corpora[0].source)
    to = output.paths(request.output_dir or "", name)
    if request.output_dir:
        inputs = {path: path for corpus in corpora for path in corpus.paths()}
        check_outputs({f"the report's {path.name}": path for path in to}, inputs)
        check_room(request.output_dir)
    keep: Collection[str] = ()
    alone: Collection[str] = (Split.TEST,)  # of the user's own text nothing is trained on it
    if request.problem:
        corpus, keep, alone = _corpus_of_problem(request.problem, args.tmp_dir)
    else:
        last: dict[str, dict[str, int]] = {corpus.split: {} for corpus in corpora}
        corpus = {split: functools.partial(files.pairs, split, last[split]) for split in last}
    report = examine(corpus, progress.track, keep=keep, alone=alone)
    if empty := [split for split, count in report.pairs.items() if not count]:
        raise UserError(
            f"Expected pairs of {' and '.join(empty)}. Received: none in what was named. Does it "
            "hold more than a head?"
        )
    if not request.problem:
        notes = [*report.notes, *_numbering(last)]
        report = dataclasses.replace(report, notes=notes)
    print("\n".join(report.lines()))
    if request.output_dir:
        output.write_report(to, report, f"The text of {name}")
        output.write_bad_pairs(to, report, corpus)
        print(f"The report, with the first pairs of each kind: {to.html}")
        print(f"{report.num_bad_pairs():,} pairs that are better left out: {to.bad_pairs}")
    if report.errors:
        sys.exit(1)


def _numbering(last: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yields of each split of several files which numbers of pairs are whose."""
    for split, files in last.items():
        if len(files) > 1:
            firsts = [1, *(number + 1 for number in files.values())]
            ranges = (
                f"{first:,} to {number:,} of {path}"
                for first, (path, number) in zip(firsts, files.items(), strict=False)
            )
            yield f"The pairs of {split} are numbered over its files: {', '.join(ranges)}."


def _corpus_of_problem(name: str, tmp_dir: str):
    from t2t_repro.data.corpus_check import corpus_of, repeated_on_purpose
    from t2t_repro.data.job import Job

    job = Job(registry.get_problem(name), "", tmp_dir)
    job.problem.prepare_raw_files(job.tmp_dir, {})
    alone = job.problem.text_alone(tmp_dir) if isinstance(job.problem, Text2TextProblem) else []
    return corpus_of(job), repeated_on_purpose(job), alone


console = cli.program(__name__, "t2t-check-data", __doc__, define_flags, main)
