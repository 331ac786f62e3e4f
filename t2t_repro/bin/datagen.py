"""t2t-datagen: makes a problem's vocabulary and TFRecord files.

  t2t-datagen --problem=translate_ende_multi30k --data_dir=~/t2t_data --tmp_dir=~/t2t_raw

reads the raw files in --tmp_dir (and downloads them if the problem can), and writes
problem-train-00000-of-00100 and so on to --data_dir. Existing files are kept. It uses all cores;
the files do not depend on how many. If interrupted, run the same command to resume.
--check_only checks the text and makes no data. --runner runs on a cluster with Apache Beam.
"""

import dataclasses
import fnmatch
import functools
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.corpora.request import RawText
from t2t_repro.errors import UserError
from t2t_repro.fields import flag, flags_of
from t2t_repro.problem import Problem, Split, Text2TextProblem, VocabType
from t2t_repro.runs import trained_run

if TYPE_CHECKING:
    from t2t_repro.data.job import Job

_HINTS = {
    "problem": "Run t2t-datagen --only_list to list the problems.",
    "data_dir": "Outputs go to --data_dir.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Treebank:
    """The flags that the parsing problems read when they prepare their raw files."""

    treebank_dir: str | None = flag(
        None,
        "For parsing problems: a folder of the Penn Treebank (wsj_0200.mrg and so on), from which "
        "the tree files in --tmp_dir are made. Training is sections 02-21, dev 22, test 23.",
    )
    treebank_split: str | None = flag(
        None,
        "With --treebank_dir: the shares of files for training, dev and test, such as 0.8,0.1,0.1, "
        "instead of the standard sections. Use it if you have only a part of the treebank.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFlags:
    """The flags of t2t-datagen, T2T's where it has them, beside the others here."""

    problem: str = flag(
        "", "One problem, several separated by commas, or a pattern such as 'algorithmic_*'."
    )
    exclude_problems: str = flag("", "Skip problems whose name contains any of these: TEXT1,TEXT2.")
    data_dir: str | None = flag(None, "The folder to write to.")
    tmp_dir: str = flag("/tmp/t2t_datagen", "The folder of the raw files, including downloads.")
    num_shards: int = flag(
        0, "How many training files; 0: set by the problem or the text size.", least=0, most=99_999
    )
    max_cases: int = flag(0, "End each split after this many examples; 0: no limit.", least=0)
    random_seed: int = flag(
        429459, "The seed of shuffling and of all other random choices.", least=0, most=2**32 - 2
    )
    num_concurrent_processes: int | None = flag(
        None, "Processes that count tokens and encode; default: one per core.", least=1, most=1024
    )
    runner: str | None = flag(
        None,
        "Generate with this Apache Beam runner. Its workers must see --data_dir and --tmp_dir.",
        choices=("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner"),
    )
    pipeline_options: str = flag(
        "", "Options for Apache Beam, such as '--flink_master=host:8081 --parallelism=64'."
    )
    overwrite: bool = flag(False, "Make existing files again.")
    only_list: bool = flag(False, "List all problems, or those that match --problem, and exit.")
    t2t_usr_dir: str | None = flag(None, "Your Python package of problems.")
    vocab_size: int = flag(
        0, "About how many subwords; 0: set by the problem or the text size.", least=0, most=2**20
    )
    vocab: str | None = flag(
        None,
        "For text2text_tmpdir: your own vocabulary (a file of T2T's subwords or a SentencePiece "
        "model). Give one file for both sides, or two files: SOURCE,TARGET.",
    )
    vocab_from: str | None = flag(
        None,
        "Use the vocabulary of this run, to fine-tune the run with t2t-trainer --warm_start_from. "
        "--vocab_size extends the vocabulary to that size.",
    )
    t2t_exact: bool = flag(
        False,
        "Make as many files as tensor2tensor, and 2^15 subwords unless the problem sets a number.",
    )
    check_data: bool | None = flag(
        None, "Check the text first, and write a report; default: only for your own text."
    )
    drop_bad_pairs: bool = flag(
        False, "Drop the pairs that the check finds faulty, and list them in a file."
    )
    keep_bad_pairs: bool = flag(False, "Keep all pairs, even those with errors.")
    check_only: bool = flag(
        False, "Only check the raw text and write a report to --data_dir; exit code 1 if errors."
    )


def main(args: flags.FlagValues) -> None:
    """Generates every problem that the flags name."""
    if args.only_list:
        print("\n".join(chosen_problems(args.problem or "*", args.exclude_problems)))
        return
    cli.check_given(args.flag_values_dict(), _HINTS)
    names = chosen_problems(args.problem, args.exclude_problems)
    machine = machine_of(args)
    vocabulary = vocabulary_of(args)
    if args.t2t_exact and any(vocabulary.values()):
        raise UserError("Expected --t2t_exact without --vocab, --vocab_size or --vocab_from.")
    raw = [name for each in (Treebank, RawText) for name in flags_of(each) if args[name].present]
    options = {name: args[name].value for name in raw}
    RawText.from_flags(options)  # which contradict each other, perhaps
    from t2t_repro.data.corpus_check import check_only
    from t2t_repro.data.job import Job, summary_path
    from t2t_repro.data.needs import requirements

    problems = map(registry.get_problem, names)
    jobs = [
        Job(
            problem,
            args.data_dir,
            args.tmp_dir,
            seed=args.random_seed,
            overwrite=args.overwrite,
            num_shards=args.num_shards or (t2t_num_shards(problem) if args.t2t_exact else 0),
            max_cases=args.max_cases,
            options=options,
            check=check_of(args, problem),
            **({"vocab_size": t2t_vocab_size(problem)} if args.t2t_exact else vocabulary),
        )
        for problem in problems
    ]
    if args.check_only:
        reports = [check_only(job, print) for job in jobs]
        sys.exit(any(report.errors for report in reports))
    for job in jobs:
        if (needed := requirements(job.problem, job.data_dir, job.tmp_dir)).downloads:
            print(f"{job.problem.name}: {needed}.", file=sys.stderr)
        print_proposal(job, make_data(job, machine, args.vocab_from), args.vocab_from)
        path = summary_path(job.problem, job.data_dir)
        if path.exists():
            print(f"Written to {args.data_dir}; {path.name} holds this summary.")


def vocabulary_of(args: flags.FlagValues) -> dict[str, Any]:
    """Returns the vocabulary that the flags ask for, as fields of `Job`.

    Raises:
        UserError: if they ask for two.
    """
    names = ("vocab_size", "vocab", "vocab_from")
    given = [f"--{name}" for name in names if args[name].value]
    if len(given) > 1 and given != ["--vocab_size", "--vocab_from"]:
        raise UserError(f"Expected one vocabulary flag. Received: {' and '.join(given)}. Keep one.")
    files = {}
    if args.vocab_from:
        files = trained_run(args.vocab_from).vocabularies
    elif args.vocab:
        source, _, target = args.vocab.partition(",")
        files = {"inputs": source, "targets": target or source}
    paths = {side: os.path.expanduser(path) for side, path in files.items()}
    return {"vocab_size": args.vocab_size, "vocabularies": paths}


def check_of(args: flags.FlagValues, problem: Problem) -> str:
    """Returns `Job.check` for a problem."""
    from t2t_repro.data.corpus_check import check_unasked
    from t2t_repro.data.job import DROP, KEEP

    if args.drop_bad_pairs or args.keep_bad_pairs:
        return DROP if args.drop_bad_pairs else KEEP
    if args.check_data is False:
        return ""
    return check_unasked(problem) or (KEEP if args.check_data else "")


def t2t_num_shards(problem: Problem) -> int:
    """Returns the number of tensor2tensor's training files."""
    return {each["split"]: each["shards"] for each in problem.dataset_splits}.get(Split.TRAIN, 0)


def t2t_vocab_size(problem: Problem) -> int:
    """Returns how many subwords tensor2tensor builds if the problem sets no number; 0: none."""
    if not isinstance(problem, Text2TextProblem) or problem.says_vocab_size:
        return 0
    return problem.approx_vocab_size if problem.vocab_type == VocabType.SUBWORD else 0


def machine_of(args: flags.FlagValues) -> Any:
    """Returns the machine that the flags describe."""
    cli.warn_unused(args, ["num_concurrent_processes" if args.runner else "pipeline_options"])
    if not args.runner:
        return this_machine(args.t2t_usr_dir, args.num_concurrent_processes)
    options = shlex.split(args.pipeline_options)
    from t2t_repro.data.beam import Beam

    return Beam(args.runner, options, functools.partial(load_problem, usr_dir=args.t2t_usr_dir))


def this_machine(usr_dir: str | None, processes: int | None = None) -> Any:
    """Returns this machine; `processes` None: one for each core."""
    from t2t_repro.data.generate import Local
    from t2t_repro.process import available_cores

    load = functools.partial(load_problem, usr_dir=usr_dir)
    return Local(processes or available_cores(), load)


def make_data(job: "Job", machine: Any, parent: str | None) -> dict:
    """Makes the files of a job, with progress; prints and returns the summary.

    `parent` is the run whose vocabulary they get, if any.
    """
    from t2t_repro.data.generate import generate_data

    say = functools.partial(print, file=sys.stderr)
    summary = generate_data(job, machine, report=say)
    print_summary(summary)
    if parent:
        from t2t_repro.data.pipeline import overlap  # which loads TensorFlow

        trained = trained_run(parent)
        new, old = (job.problem, job.data_dir), (trained.problem, trained.config.data_dir)
        known, its = overlap(old, new), overlap(new, old)
        if known or its:
            print(f"  warning: {parent} was trained on {known:,} of these dev pairs, and")
            print(f"  {its:,} of its dev pairs are in this text. Remove them: they inflate BLEU.")
    return summary


def print_proposal(job: "Job", summary: dict, parent: str | None) -> None:
    """Prints how to train on the data, if there is a proposal.

    `parent` is the run whose vocabulary it has, if any.
    """
    from t2t_repro.data import preset

    if parent:
        print(f"  train with: {shlex.quote(f'--warm_start_from={parent}')} (the run's vocabulary)")
    elif preset.is_for(job.problem) and Split.TRAIN in summary["splits"]:
        proposed = preset.proposed(job.problem, job.data_dir, preset.TextSize.from_summary(summary))
        print(f"  train with: {proposed.flags()} ({proposed.reason})")


def load_problem(name: str, usr_dir: str | None) -> Problem:
    """Returns a problem in a new process."""
    if usr_dir:
        load_usr_dir(usr_dir)
    return registry.get_problem(name)


def load_usr_dir(path: str) -> None:
    """Loads the user's package in a new process, without its warnings."""
    from t2t_repro.interop import usr_dir

    usr_dir.load(path, warn=lambda text: None)


def chosen_problems(wanted: str, excluded: str = "") -> list[str]:
    """Returns the names of the problems that --problem and --exclude_problems mean.

    Raises:
        UserError: if a name is unknown, or nothing is left.
    """
    names = []
    for name in filter(None, wanted.split(",")):
        if "*" in name:
            names += fnmatch.filter(registry.list_problems(), name)
        else:
            registry.get_problem(name)
            names.append(name)
    names = [n for n in dict.fromkeys(names) if not any(p in n for p in excluded.split(",") if p)]
    if not names:
        raise UserError(
            f"Expected at least one problem. Received: no match for --problem={wanted} "
            f"--exclude_problems={excluded}. t2t-datagen --only_list lists all problems."
        )
    return names


def print_summary(summary: dict) -> None:
    """Prints what was generated as a table."""
    sizes = dict.fromkeys(summary["vocab_size"].values())
    print(f"{summary['problem']}: vocabulary of {' -> '.join(map(str, sizes))} ids")
    for split, made in summary["splits"].items():
        tokens, longest, empty = made["tokens"], made["longest"], made["empty"]
        print(
            f"  {split}: {made['examples']:,} examples in {made['files']} files; source -> target: "
            f"tokens {tokens['inputs']:,} -> {tokens['targets']:,}, longest {longest['inputs']} -> "
            f"{longest['targets']} tokens, empty lines {empty['inputs']} -> {empty['targets']}"
        )


console = cli.program(__name__, "t2t-datagen", __doc__, (DataFlags, Treebank, RawText), main)
