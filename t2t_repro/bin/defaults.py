"""What t2t-trainer takes where its flags say nothing.

A run that is there says it first; then the set, which was made for a problem; and where nothing of
these is named, the embedded default.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.bin import fine_tuning
from t2t_repro.config import HParams
from t2t_repro.fields import flags_of
from t2t_repro.run_directory import RunConfig, RunDirectory, problem_of
from t2t_repro.training import trainable
from t2t_repro.training.request import Plan

DATA_DIR, RUNS_DIR = "t2t_data", "t2t_runs"
# The embedded default: no download, two minutes.
PROBLEM, HPARAMS_SET = "algorithmic_reverse_quickstart", "transformer_quickstart"
OUTPUT_DIR = "t2t_runs/quickstart"
_EMBEDDED: dict[str, Any] = {
    **{"problem": PROBLEM, "hparams_set": HPARAMS_SET, "generate_data": True},
    **{"local_eval_frequency": 600, "eval_steps": 10},
}
# Flags that a run keeps in its run.json: how it trains and is evaluated, not what it is.
KEPT = (
    *flags_of(Plan),
    *("schedule", "warm_start_from", "warm_start_partial", "worker_gpu", "finish"),
    *("eval_steps", "eval_use_test_set", "eval_bleu_sentences", "keep_best", "best_metric"),
    *("eval_early_stopping_steps", "eval_early_stopping_metric"),
    "eval_early_stopping_metric_delta",
)
_HINTS = {
    "problem": "--registry_help lists the problems.",
    "hparams_set": "--registry_help lists the sets; t2t-datagen proposes one for text of yours.",
    "data_dir": "It is the folder that t2t-datagen wrote, or that --generate_data shall write.",
    "output_dir": "It is the folder of the run.",
}


class Values(dict):
    """{flag: value}, which knows what was read of it."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def is_quickstart(args: flags.FlagValues) -> bool:
    """Whether the flags leave all to the embedded default, or name its set alone."""
    own = ("problem", "data_dir", "find_batch_size", "warm_start_from")
    named = any(args[name].value for name in own)
    of_its_set = args.hparams_set in (None, HPARAMS_SET)
    before = _run_in(args.output_dir)
    return of_its_set and not named and (not before or before.problem == PROBLEM)


def fill(args: flags.FlagValues) -> tuple[Values, RunConfig | None]:
    """Returns {flag: value}, what is known without being said included, and the run that is there.

    Raises:
        UserError: if a problem, a set or a folder is missing, or the run that is there is of a
            problem that needs --t2t_usr_dir.
    """
    if is_quickstart(args):
        output_dir = args.output_dir or OUTPUT_DIR
        known = _EMBEDDED | {"output_dir": output_dir, "data_dir": os.path.join(output_dir, "data")}
        before = _run_in(known["output_dir"])
        if before and before.problem != PROBLEM:
            before = None  # it is refused
        elif before:
            del known["hparams_set"]  # the run's hparams may be others
    else:
        known = _of_the_set(args)
        before, made_for = _run_in(args.output_dir or known.get("output_dir")), known.get("problem")
        if before:
            problem_of(before)  # names the --t2t_usr_dir that is missing
            known |= {"problem": before.problem, "data_dir": before.data_dir}
        if made_for and made_for == known["problem"]:
            from t2t_repro.data import tfrecord

            there = args.data_dir or known["data_dir"]
            known["generate_data"] = not tfrecord.are_there(registry.get_problem(made_for), there)
    if before:
        known |= {"random_seed": before.random_seed, "xla_compile": before.xla_compile}
        known |= _kept_flags(args, before)
    given = {name: args[name].value for name in args}
    values = given | {name: v for name, v in known.items() if not args[name].present}
    named = {name: values[name] for name in _HINTS}
    if before or values["warm_start_from"]:
        del named["hparams_set"]
    cli.check_given(named, _HINTS)
    return Values(values), before


def flags_to_persist(args: flags.FlagValues, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {flag: text} of what a run keeps: what is not as it is by default."""
    kept = {name: values.get(name) for name in KEPT if values.get(name) != args[name].default}
    if path := kept.get("warm_start_from"):
        kept["warm_start_from"] = os.path.abspath(path)
    return {name: str(value) for name, value in kept.items()}


def hparams_of(values: Mapping[str, Any], before: RunConfig | None) -> tuple[str, HParams]:
    """Returns the set's name and the hparams: those of a run, a parent or a set, changed.

    Args:
        values: {flag: value}, of `fill`.
        before: the run that is there.

    Raises:
        UserError: on an unknown set or hparam, or one that would have no effect.
    """
    overrides, end = values["hparams"], values["train_steps"]
    if before and not values["hparams_set"]:  # those of the run, which may be of a set of its own
        hparams_set, hparams = before.hparams_set, before.hparams.override(overrides)
    elif values["warm_start_from"] and not values["hparams_set"]:
        hparams_set, hparams = fine_tuning.proposed(values["warm_start_from"], overrides, end)
    else:
        hparams_set = values["hparams_set"]
        hparams = registry.get_hparams(hparams_set, overrides, values["model"])
        hparams = trainable.resumed(hparams, before.hparams) if before else hparams
    changes = {"train_steps": end, "model": values["model"]}
    hparams = dataclasses.replace(hparams, **{n: v for n, v in changes.items() if v is not None})
    if before and hparams.train_steps > before.hparams.train_steps:
        _say_where_the_rate_rises_again(hparams)
    return hparams_set, hparams


def _say_where_the_rate_rises_again(hparams: HParams) -> None:
    """Says so of a run that was made longer than the fall of its rate, such as a fine-tuned one."""
    falls = hparams.learning_rate_warmup_steps + hparams.learning_rate_decay_steps
    end = falls * trainable.gathered(hparams) // trainable.batches_per_step(hparams)
    if "multi_cycle_cos_decay" in trainable.factors(hparams) and hparams.train_steps > end:
        print(
            f"Warning: by multi_cycle_cos_decay the learning rate has fallen to 0 at step {end:,}, "
            "and rises again behind it. A new run with --warm_start_from would begin with these "
            "weights and fall once more.",
            flush=True,
        )


def _kept_flags(args: flags.FlagValues, before: RunConfig) -> dict[str, Any]:
    """Returns {flag: value} of what a run has kept."""
    options = (before.options or {}).items()
    found = {name: args[name].parser.parse(text) for name, text in options if name in KEPT}
    if args["local_eval_frequency"].present:  # which counts where no seconds are named
        found.pop("save_checkpoints_secs", None)
    return found


def _of_the_set(args: flags.FlagValues) -> dict[str, Any]:
    """Returns what a set alone means: the problem that it was made for, in folders of the usual."""
    if args.problem or not args.hparams_set:
        return {}
    problem = registry.problem_of_hparams(args.hparams_set)
    if not problem:
        return {}
    output_dir = os.path.join(RUNS_DIR, args.hparams_set)
    return {"problem": problem, "data_dir": DATA_DIR, "output_dir": output_dir}


def _run_in(output_dir: str | None) -> RunConfig | None:
    """Returns what the run there is, if there is one."""
    run = RunDirectory(output_dir) if output_dir else None
    return run.config() if run and run.exists() else None
