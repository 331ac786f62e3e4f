"""What t2t-trainer takes where its flags say nothing.

A run that is there says it first; then text of the user's, which is a problem and, by the number of
its pairs, a set; then the set, which was made for a problem; and where nothing of these is named,
the embedded default.
"""

import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.bin import quickstart
from t2t_repro.bin.data_flags import raw_file_options, vocabulary_options
from t2t_repro.fields import flags_of
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import problem_of
from t2t_repro.training.request import Plan

DATA_DIR, RUNS_DIR = "t2t_data", "t2t_runs"
TEXT = "text2text_tmpdir"  # the problem of the user's own files
_KEPT = ("random_seed", "xla_compile")  # of a run that goes on, beside its hparams
_ONE_SHOT = "restart_damaged_run"  # what is done once, and not again
# Flags that a run keeps in its run.json: how it trains and is evaluated, not what it is.
KEPT = (
    *(name for name in flags_of(Plan) if name != _ONE_SHOT),
    *("schedule", "warm_start_from", "warm_start_partial", "worker_gpu", "finish", "certify"),
    *("eval_steps", "eval_use_test_set", "eval_bleu_sentences", "samples_every"),
    *("keep_best", "best_metric", "eval_early_stopping_steps", "eval_early_stopping_metric"),
    *("eval_early_stopping_metric_delta", "eval_early_stopping_metric_minimize"),
)
_HINTS = {
    "problem": "--registry_help lists the problems.",
    "hparams_set": "--registry_help lists the sets; transformer_base_v1 is the paper's, by T2T.",
    "data_dir": "It is the folder that t2t-datagen wrote, or that --generate_data shall write.",
    "output_dir": "It is the folder of the run.",
}


def is_quickstart(args: flags.FlagValues) -> bool:
    """Whether the flags leave all to the embedded default, or name its set alone."""
    own = ("problem", "data_dir", "train_source", "find_batch_size", "warm_start_from")
    named = any(args[name].value for name in own)
    of_its_set = args.hparams_set in (None, quickstart.HPARAMS_SET)
    return of_its_set and not named and not _run_in(args.output_dir)


def run_before(args: flags.FlagValues) -> RunConfig | None:
    """Returns what the run is that these flags continue; None: they begin one."""
    if is_quickstart(args):
        config = _config_in(args.output_dir or quickstart.OUTPUT_DIR)
        return config if config and config.problem == quickstart.PROBLEM else None
    return _run_in(args.output_dir or _of_the_set(args).get("output_dir"))


def known(args: flags.FlagValues) -> dict[str, Any]:
    """Returns {flag: value} of what is known without being said.

    Raises:
        UserError: if the run that is there is of a problem that needs --t2t_usr_dir.
    """
    before = run_before(args)
    if is_quickstart(args):
        found = quickstart.defaults(args.output_dir)
        if before:
            del found["hparams_set"]  # the run's hparams may be others
            found |= {name: getattr(before, name) for name in _KEPT}
            found |= of_the_run(args, before)
        return found
    found = _of_the_set(args)
    made_for = found.get("problem")
    found |= _of_the_text(args, args.output_dir or found.get("output_dir"))
    if before:
        problem_of(before)  # names the --t2t_usr_dir that is missing
        kept = ("problem", "data_dir", *_KEPT)
        found |= {name: getattr(before, name) for name in kept}
        found |= of_the_run(args, before)
    if made_for and found["problem"] == made_for:
        from t2t_repro.data import tfrecord

        data_dir = args.data_dir or found["data_dir"]
        there = tfrecord.are_there(registry.get_problem(made_for), data_dir)
        found["generate_data"] = bool(args.train_source) or not there
    if not (before or args.hparams_set or args.warm_start_from):
        found |= _set_of_the_text(args, found)
    return found


def flags_to_persist(args: flags.FlagValues, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {flag: text} of what a run keeps: what is not as it is by default."""
    kept = {name: values.get(name) for name in KEPT if values.get(name) != args[name].default}
    if path := kept.get("warm_start_from"):
        kept["warm_start_from"] = os.path.abspath(path)
    return {name: str(value) for name, value in kept.items()}


def of_the_run(args: flags.FlagValues, before: RunConfig) -> dict[str, Any]:
    """Returns {flag: value} of what a run has kept."""
    options = (before.options or {}).items()
    found = {name: args[name].parser.parse(text) for name, text in options if name in KEPT}
    if args["local_eval_frequency"].present:  # which counts where no seconds are named
        found.pop("save_checkpoints_secs", None)
    return found


def check_complete(values: Mapping[str, Any], before: RunConfig | None) -> None:
    """Refuses flags that say too little, naming all that is missing.

    Args:
        values: {flag: value}, `known` included.
        before: the run that is there.

    Raises:
        UserError: if a problem, a set or a folder is missing.
    """
    named = {name: values[name] for name in _HINTS}
    text_alone = values["train_source"] and not values["output_dir"]  # a set will follow from it
    if before or values["warm_start_from"] or text_alone:
        del named["hparams_set"]
    cli.check_given(named, _HINTS)


def _of_the_set(args: flags.FlagValues) -> dict[str, Any]:
    """Returns what a set alone means: the problem that it was made for, in folders of the usual."""
    if args.problem or not args.hparams_set:
        return {}
    problem = registry.problem_of_hparams(args.hparams_set)
    if not problem:
        return {}
    output_dir = os.path.join(RUNS_DIR, args.hparams_set)
    return {"problem": problem, "data_dir": DATA_DIR, "output_dir": output_dir}


def _of_the_text(args: flags.FlagValues, output_dir: str | None) -> dict[str, Any]:
    """Returns what files of the user's text mean: their problem, made within the run."""
    if not args.train_source:
        return {}
    of_the_run = {"data_dir": "data", "tmp_dir": "text"}
    folders = {name: os.path.join(output_dir or "", folder) for name, folder in of_the_run.items()}
    return {"problem": TEXT, "generate_data": True, **folders}


def _set_of_the_text(args: flags.FlagValues, found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the set that fits the user's own text, and says why; {}: there is no such text.

    Raises:
        UserError: if the text is not there, or cannot be read.
    """
    names = ("problem", "data_dir", "tmp_dir", "generate_data")
    values: dict[str, Any] = {name: args[name].value for name in names}
    values |= {name: found[name] for name in names if name in found and not args[name].present}
    if not (values["problem"] and values["data_dir"] and args.output_dir):
        return {}
    from t2t_repro.data import preset, text_size

    problem = registry.get_problem(values["problem"]).forward()
    if not preset.is_for(problem):
        return {}
    folders = [os.path.expanduser(values[name]) for name in ("data_dir", "tmp_dir")]
    raw = folders[1] if values["generate_data"] else None
    text = text_size.of_training(problem, folders[0], raw, raw_file_options(args))
    if text is None:
        return {}
    files = vocabulary_options(args)["vocabularies"] if raw else {}
    if files:
        problem.ask_vocabularies(files)

    def tokens(row: preset.Row) -> float:
        return preset.tokens_of(row.hparams_set, args.train_steps)

    chosen = preset.proposed(problem, folders[0], text, files, tokens).beside(args.hparams)
    name = chosen.hparams_set
    steps = args.train_steps or registry.get_hparams(name, args.hparams).train_steps
    of_length = preset.of_length(name, args.hparams, steps)
    hparams = ",".join(filter(None, [args.hparams, chosen.hparams, of_length]))
    print(f"No --hparams_set: {name}, for {chosen.reason}.", flush=True)
    return {"hparams_set": name, "hparams": hparams}


def _run_in(output_dir: str | None) -> RunConfig | None:
    """Returns what the run there is, if there is one that is not the embedded default's."""
    config = _config_in(output_dir)
    return config if config and config.problem != quickstart.PROBLEM else None


def _config_in(output_dir: str | None) -> RunConfig | None:
    run = RunDirectory(output_dir) if output_dir else None
    return run.config() if run and run.exists() else None
