"""t2t-check-data: what is wrong with a parallel corpus, line by line.

  t2t-check-data --source=train.en --target=train.de --dev_source=dev.en --dev_target=dev.de \
      --output_dir=checked

checks files (UTF-8, plain or .gz, line by line parallel);

  t2t-check-data --problem=text2text_tmpdir --tmp_dir=my_text --output_dir=checked

the text that a problem reads. It prints a line for each kind of fault. --output_dir gets a page
with the first pairs of each and histograms, the same as JSON, and the list of the pairs that
t2t-datagen --drop_bad_pairs leaves out. The exit code is 1 if there are errors: pairs with one
side empty, or of train that are in dev or test too.
"""

import dataclasses
import os
import sys

from absl import flags

from t2t_repro import cli, progress, registry
from t2t_repro.errors import UserError
from t2t_repro.outputs import check_outputs
from t2t_repro.requests import flag

_SPLITS = {"train": "", "dev": "dev_", "test": "test_"}


@dataclasses.dataclass(frozen=True)
class Request:
    """What to check."""

    source: str | None = flag(None, "The source side of the training pairs.")
    target: str | None = flag(None, "Their target side.")
    dev_source: str | None = flag(None, "The source side of the development pairs.")
    dev_target: str | None = flag(None, "Their target side.")
    test_source: str | None = flag(None, "The source side of the test pairs.")
    test_target: str | None = flag(None, "Their target side.")
    problem: str | None = flag(None, "The problem whose text to check, instead of files.")
    output_dir: str | None = flag(None, "The folder of the report; none given: print it only.")

    def files(self) -> dict[str, tuple[str, str]]:
        """Returns {split: the files of its two sides}.

        Raises:
            UserError: if one of two is missing, or there is nothing to check.
        """
        given = {}
        for split, start in _SPLITS.items():
            pair = getattr(self, f"{start}source"), getattr(self, f"{start}target")
            if any(pair) and not all(pair):
                names = [f"--{start}source", f"--{start}target"]
                raise UserError(
                    f"Expected {' and '.join(names)}. Received: no "
                    f"{names[pair[0] is not None]}. Name both files."
                )
            if all(pair):
                given[split] = pair
        if bool(self.problem) == bool(given) or (given and "train" not in given):
            received = "both" if self.problem and given else "neither"
            received = "no --source" if given and not self.problem else received
            raise UserError(
                "Expected --source=FILE and --target=FILE, or --problem=NAME. Received: "
                f"{received}."
            )
        return given


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
    from t2t_repro.corpora.checks import output
    from t2t_repro.corpora.checks.examine import examine

    name = request.problem or os.path.basename(files["train"][0])
    to = output.paths(request.output_dir or "", name)
    if request.output_dir:
        inputs = {
            f"--{_SPLITS[split]}{side}": path
            for split, pair in files.items()
            for side, path in zip(("source", "target"), pair, strict=True)
        }
        check_outputs({f"the report's {path.name}": path for path in to}, inputs)
    corpus = _corpus_of_problem(request.problem, args.tmp_dir) if request.problem else _read(files)
    report = examine(corpus, progress.track)
    print("\n".join(report.lines()))
    if request.output_dir:
        output.write_report(to, report, f"The text of {name}")
        output.write_bad_pairs(to, report, corpus)
        print(f"The report, with the first pairs of each kind: {to.html}")
        print(f"{report.num_bad_pairs():,} pairs that are better left out: {to.bad_pairs}")
    if report.errors:
        sys.exit(1)


def _corpus_of_problem(name: str, tmp_dir: str):
    from t2t_repro.data.corpus_check import corpus_of
    from t2t_repro.data.job import Job

    job = Job(registry.get_problem(name), "", tmp_dir)
    job.problem.prepare_raw_files(job.tmp_dir, {})
    return corpus_of(job)


def _read(files: dict[str, tuple[str, str]]):
    import functools

    from t2t_repro.text import raw

    def pairs(source: str, target: str):
        return ((s["inputs"], s["targets"]) for s in raw.parallel_lines(source, target))

    return {split: functools.partial(pairs, *pair) for split, pair in files.items()}


console = cli.program(__name__, "t2t-check-data", __doc__, define_flags, main)
