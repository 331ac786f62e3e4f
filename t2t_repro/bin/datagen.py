"""t2t-datagen: makes a problem's vocabulary and TFRecord files.

  t2t-datagen --problem=translate_ende_multi30k --data_dir=~/t2t_data --tmp_dir=~/t2t_raw

reads the raw files in --tmp_dir (and downloads them where a problem knows how), and writes
problem-train-00000-of-00100 and so on to --data_dir. Files that are there already are kept. All
cores are used; the bytes do not depend on how many there are. After a kill or Ctrl-C the same
command makes what is missing. --check_only checks the text and makes nothing. --runner takes the
work to a cluster by Apache Beam.
"""

import fnmatch
import functools
import shlex
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import cli, progress, registry
from t2t_repro.bin.data_flags import (
    check_of,
    define_check_flags,
    define_raw_file_flags,
    define_vocabulary_flags,
    raw_file_options,
    vocabulary_options,
)
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split, Text2TextProblem, VocabType
from t2t_repro.runs import trained_run

if TYPE_CHECKING:
    from t2t_repro.data.job import Job


_HINTS = {
    "problem": "--only_list lists them.",
    "data_dir": "It is the folder to write to.",
}


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-datagen's flags."""
    problem = "The problem; several with commas between, or a pattern such as 'algorithmic_*'."
    flags.DEFINE_string("problem", "", problem, flag_values=f)
    exclude = "Leave out the problems whose names contain one of these, with commas between."
    flags.DEFINE_string("exclude_problems", "", exclude, flag_values=f)
    flags.DEFINE_string("data_dir", None, "The folder to write to.", flag_values=f)
    flags.DEFINE_string("tmp_dir", "/tmp/t2t_datagen", "The folder of raw files.", flag_values=f)
    shards = "The number of training files; 0: as many as the text fills, or the problem's own."
    flags.DEFINE_integer("num_shards", 0, shards, 0, 99_999, flag_values=f)  # five digits
    cases = "Stop each split after so many samples; 0: do not."
    flags.DEFINE_integer("max_cases", 0, cases, lower_bound=0, flag_values=f)
    seed = "Decides the order of the training samples, and what the algorithmic problems draw."
    flags.DEFINE_integer("random_seed", 429459, seed, 0, 2**32 - 2, flag_values=f)
    processes = "How many processes count and encode; none given: one for each core."
    flags.DEFINE_integer("num_concurrent_processes", None, processes, 1, 1024, flag_values=f)
    runners = ["DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner"]
    runner = "Apache Beam's runner to use instead. Its workers must see --data_dir and --tmp_dir."
    flags.DEFINE_enum("runner", None, runners, runner, flag_values=f)
    options = "Flags for Beam, such as '--flink_master=host:8081 --parallelism=64'."
    flags.DEFINE_string("pipeline_options", "", options, flag_values=f)
    flags.DEFINE_bool("overwrite", False, "Make files again that are there.", flag_values=f)
    flags.DEFINE_bool(
        "only_list",
        False,
        "List the problems that --problem names, or all, and stop.",
        flag_values=f,
    )
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)
    define_raw_file_flags(f)
    define_vocabulary_flags(f)
    exact = "Build as many subwords as tensor2tensor, 2^15, where a problem does not say how many, "
    exact += "and write as many files."
    flags.DEFINE_bool("t2t_exact", False, exact, flag_values=f)
    define_check_flags(f)
    only = "Check the files that --train_source and the like name, or the problem's own, write the "
    only += "report to --data_dir, and stop; the exit code is 1 where there are errors."
    flags.DEFINE_bool("check_only", False, only, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Generates every problem that the flags name."""
    if args.only_list:
        print("\n".join(chosen_problems(args.problem or "*", args.exclude_problems)))
        return
    cli.check_given({name: args[name].value for name in ("problem", "data_dir")}, _HINTS)
    names = chosen_problems(args.problem, args.exclude_problems)
    machine = machine_of(args)
    vocabulary = vocabulary_options(args)
    if args.t2t_exact and any(vocabulary.values()):
        raise UserError(
            "Expected --t2t_exact or a vocabulary (--vocab_size, --vocab). Received: both. "
            "tensor2tensor's sizes are those of the problems: leave one out."
        )
    from t2t_repro.data.corpus_check import check_only
    from t2t_repro.data.job import Job, summary_path

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
            options=raw_file_options(args),
            check=check_of(args, problem),
            **({"vocab_size": t2t_vocab_size(problem)} if args.t2t_exact else vocabulary),
        )
        for problem in problems
    ]
    if args.check_only:
        reports = [check_only(job, progress.track, print) for job in jobs]
        sys.exit(any(report.errors for report in reports))
    for job in jobs:
        print_proposal(job, run(job, machine, args.vocab_from), args.vocab_from)
        path = summary_path(job.problem, job.data_dir)
        if path.exists():
            print(f"Written to {args.data_dir}; this summary is in {path.name}.")


def t2t_num_shards(problem: Problem) -> int:
    """Returns into how many files tensor2tensor deals the training samples."""
    splits = {entry["split"]: entry["shards"] for entry in problem.dataset_splits}
    return splits.get(Split.TRAIN, 0)


def t2t_vocab_size(problem: Problem) -> int:
    """Returns how many subwords tensor2tensor builds where the problem does not say it; 0: none."""
    if not isinstance(problem, Text2TextProblem) or problem.says_vocab_size:
        return 0
    return problem.approx_vocab_size if problem.vocab_type == VocabType.SUBWORD else 0


def machine_of(args: flags.FlagValues) -> Any:
    """Returns the machine that the flags describe.

    Raises:
        UserError: if they do not.
    """
    cli.check_needs(args, {"pipeline_options": "runner"})
    if args.runner and args.num_concurrent_processes:
        raise UserError(
            "--num_concurrent_processes has no effect with --runner, whose own options say how "
            "many work. Received: both. Leave one of them out."
        )
    try:
        options = shlex.split(args.pipeline_options)
    except ValueError as error:
        raise UserError(
            f"Expected --pipeline_options as a shell reads them. Received: {error} in "
            f"{args.pipeline_options!r}."
        ) from None
    if not args.runner:
        return this_machine(args.t2t_usr_dir, args.num_concurrent_processes)
    from t2t_repro.data.beam import Beam

    return Beam(args.runner, options, functools.partial(load_problem, usr_dir=args.t2t_usr_dir))


def this_machine(usr_dir: str | None, processes: int | None = None) -> Any:
    """Returns this machine; `processes` None: one for each core."""
    from t2t_repro.data.generate import Local
    from t2t_repro.process import available_cores

    load = functools.partial(load_problem, usr_dir=usr_dir)
    return Local(processes or available_cores(), load)


def run(job: "Job", machine: Any, parent: str | None) -> dict:
    """Makes the files of a job, says how far it is, prints and returns the summary.

    `parent` is the run whose vocabulary they get, if any.
    """
    from t2t_repro.data import overlap
    from t2t_repro.data.generate import generate_data

    say = functools.partial(print, file=sys.stderr)
    summary = generate_data(job, machine, track=progress.track, report=say)
    print_summary(summary)
    if parent and (new := overlap.texts(job.problem, job.data_dir)):
        of = trained_run(parent)
        for warning in overlap.warnings(new, overlap.texts(of.problem, of.config.data_dir), parent):
            print(f"  warning: {warning}")
    return summary


def print_proposal(job: "Job", summary: dict, parent: str | None) -> None:
    """Prints how to train on what was made, if that can be said.

    `parent` is the run whose vocabulary it has, if any.
    """
    from t2t_repro.data import preset
    from t2t_repro.data.text_size import TextSize

    if parent:
        flag = shlex.quote(f"--warm_start_from={parent}")
        print(f"  proposed: {flag} (its weights belong to this vocabulary)")
    elif preset.is_for(job.problem) and Split.TRAIN in summary["splits"]:
        proposed = preset.proposed(job.problem, job.data_dir, TextSize.of(summary))
        print(f"  proposed: {proposed.flags()} ({proposed.reason})")


def load_problem(name: str, usr_dir: str | None) -> Problem:
    """Returns a problem in a process that knows none yet."""
    if usr_dir:
        load_usr_dir(usr_dir)
    return registry.get_problem(name)


def load_usr_dir(path: str) -> None:
    """Loads the user's package in a process that knows nothing of it; who started it has warned."""
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
    out = [part for part in excluded.split(",") if part]
    names = [name for name in dict.fromkeys(names) if not any(part in name for part in out)]
    if not names:
        raise UserError(
            f"Expected a problem. Received: --problem={wanted} --exclude_problems={excluded}, "
            "which leave none. --only_list lists all problems."
        )
    return names


def print_summary(summary: dict) -> None:
    """Prints what was generated as a table."""
    sizes = dict.fromkeys(summary["vocab_size"].values())
    print(f"{summary['problem']}: vocabulary of {' and '.join(map(str, sizes))}")
    for split, made in summary["splits"].items():
        tokens, longest, empty = made["tokens"], made["longest"], made["empty"]
        print(
            f"  {split}: {made['examples']:,} examples in {made['files']} files; tokens "
            f"{tokens['inputs']:,} -> {tokens['targets']:,}; longest {longest['inputs']} -> "
            f"{longest['targets']}; empty lines {empty['inputs']} -> {empty['targets']}"
        )
    for warning in summary["warnings"]:
        print(f"  warning: {warning['message']}")


console = cli.program(__name__, "t2t-datagen", __doc__, define_flags, main)
