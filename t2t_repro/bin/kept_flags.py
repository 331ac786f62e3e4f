"""Which flags of t2t-trainer a run keeps, in its run.json, so that it goes on as it was begun.

They say how it trains and is evaluated, not what it is; the text of each is that of the command
line. Where the command that continues the run gives a flag, that goes before what is kept.
"""

import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_repro.bin.unread_flags import EARLY_STOPPING, OF_EARLY_STOPPING
from t2t_repro.errors import UserError
from t2t_repro.requests import flags_of
from t2t_repro.run_directory import RunConfig
from t2t_repro.training.request import Plan

_OF_EVALUATIONS = (
    *("eval_steps", "eval_use_test_set", "eval_bleu_sentences", "samples_every"),
    *("eval_throttle_seconds", "keep_best", "best_metric"),
    *(f"{EARLY_STOPPING}{name}" for name in ("steps", *OF_EARLY_STOPPING)),
)
_AT_THE_END = ("finish", "certify")
_AN_ACT = "restart_damaged_run"  # what is done once, and not again
KEPT = (
    *(name for name in flags_of(Plan) if name not in (_AN_ACT, *_OF_EVALUATIONS)),
    *("schedule", "warm_start_from", "warm_start_partial", "worker_gpu"),
    *_OF_EVALUATIONS,
    *_AT_THE_END,
)
_OF_THE_MACHINE = ("worker_gpu",)  # that trains; another may evaluate
_PATHS = ("warm_start_from",)


def to_keep(
    args: flags.FlagValues, values: Mapping[str, Any], before: RunConfig | None
) -> dict[str, str]:
    """Returns {flag: text} of what a run keeps: what is not as it is by default.

    Args:
        args: says the defaults, and what was given.
        values: {flag: value}, of the command line and of what is known without being said.
        before: of the run that goes on, if one does. What it has kept for evaluations stays while
            it has none.
    """
    kept = {name: values[name] for name in KEPT if values[name] != args[name].default}
    found = {n: os.path.abspath(v) if n in _PATHS else str(v) for n, v in kept.items()}
    if before and values["schedule"] == "train":
        options = before.options or {}
        names = (name for name in _OF_EVALUATIONS if name in options and not args[name].present)
        found |= {name: options[name] for name in names}
    return found


def of_the_run(args: flags.FlagValues, before: RunConfig) -> dict[str, Any]:
    """Returns {flag: value} of what a run has kept, but for what is not read now.

    Raises:
        UserError: if its run.json holds what is no such flag, or no value of it.
    """
    options = before.options or {}
    schedule = args.schedule if args["schedule"].present else options.get("schedule", args.schedule)
    unread: tuple[str, ...] = _OF_EVALUATIONS if schedule == "train" else ()
    if args.schedule == "evaluate" or args.find_batch_size:
        unread += _AT_THE_END
    if args.schedule == "evaluate":
        unread += _OF_THE_MACHINE
    if args["local_eval_frequency"].present:  # which counts where no seconds are named
        unread += ("save_checkpoints_secs",)
    found = {}
    for name, text in options.items():
        try:
            if name not in KEPT:
                raise ValueError
            value = args[name].parser.parse(text)
        except ValueError:
            raise UserError(
                "Expected options in the run's run.json to be flags of t2t-trainer and their "
                f"values. Received: {name}={text!r}. Delete it there, and give the flag."
            ) from None
        if name not in unread:
            found[name] = value
    return found
