"""Flags of t2t-trainer that nothing reads beside its other flags: refused, not passed over."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.requests import flags_of
from t2t_repro.training.early_stopping import FLAGS as EARLY_STOPPING
from t2t_repro.training.request import Plan

OF_EARLY_STOPPING = ("metric", "metric_delta", "metric_minimize")
# {schedule: what it does not read}. --train_steps is no such flag: what a run is may depend on it.
_UNREAD = {
    "train": ("eval_steps", "eval_use_test_set", "eval_throttle_seconds", "samples_every"),
    "evaluate": (
        *flags_of(Plan),
        *("keep_best", "best_metric", f"{EARLY_STOPPING}steps", "samples_every"),
        *("xla_compile", "warm_start_from", "certify"),
        "find_batch_size",
    ),
}


def check(args: flags.FlagValues, kept: Mapping[str, Any]) -> None:
    """Refuses flags that were given and that nothing would read; one that says no says nothing.

    Args:
        args: the flags.
        kept: {flag: value} of those that the run which goes on has kept.

    Raises:
        UserError: naming the first of them, and why it is not read.
    """
    given = args["schedule"].present
    schedule = args.schedule if given else kept.get("schedule", args.schedule)
    for name in _UNREAD.get(schedule, ()):
        if args[name].present and args[name].value is not False:
            if given or "schedule" not in kept:
                raise _no_effect(f"--{name}", f"with --schedule={schedule}")
            raise UserError(
                f"--{name} has no effect with --schedule={schedule}, which the run has kept. "
                "Received: it alone. Leave it out, or name another --schedule."
            )
    if args.find_batch_size and args.finish:
        raise _no_effect("--finish", "with --find_batch_size, which leaves no run")
    keep_best = args.keep_best if args["keep_best"].present else kept.get("keep_best")
    if args["best_metric"].present and not keep_best:
        raise UserError(
            "--best_metric has no effect without --keep_best=N. Received: it alone. Leave it out, "
            "or say how many checkpoints to keep."
        )
    needs = {EARLY_STOPPING + name: f"{EARLY_STOPPING}steps" for name in OF_EARLY_STOPPING}
    if args["warm_start_from"].present and not args.warm_start_from:
        raise UserError(
            "Expected --warm_start_from to name a run or a checkpoint. Received: nothing. Leave it "
            "out to begin with random weights."
        )
    needs |= {"warm_start_partial": "warm_start_from", "memory_limit_mb": "find_batch_size"}
    cli.check_needs(args, {name: other for name, other in needs.items() if other not in kept})


def _no_effect(flag: str, why: str) -> UserError:
    return UserError(f"{flag} has no effect {why}. Received: both. Leave one of them out.")
