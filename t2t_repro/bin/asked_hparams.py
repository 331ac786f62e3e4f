"""Which hparams the flags of t2t-trainer ask for: those of a run, a parent or a set, changed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_repro import fields, registry
from t2t_repro.bin import fine_tuning
from t2t_repro.config import HParams
from t2t_repro.run_directory import RunConfig
from t2t_repro.training import trainable, updates

_FLAGS = ("train_steps", "freeze", "model")  # those that are hparams, too


def of(values: Mapping[str, Any], before: RunConfig | None) -> tuple[str, HParams]:
    """Returns the set's name and the hparams.

    Args:
        values: {flag: value}, what `defaults` knows included.
        before: the run that is there.

    Raises:
        UserError: on an unknown set or hparam, or one that would have no effect.
    """
    overrides = values["hparams"]
    asked = fields.parse_overrides(overrides)
    if before and not values["hparams_set"]:  # those of the run, which may be of a set of its own
        hparams_set, hparams = before.hparams_set, before.hparams.override(overrides)
        if "train_steps" in asked:
            steps = hparams.train_steps * updates.batches_of_an_update(hparams)
            hparams = dataclasses.replace(hparams, train_steps=steps)
    elif values["warm_start_from"] and not values["hparams_set"]:
        hparams_set, hparams = fine_tuning.proposed(
            values["warm_start_from"], overrides, values["train_steps"]
        )
    else:
        hparams_set = values["hparams_set"]
        hparams = registry.get_hparams(hparams_set, overrides, values["model"])
        hparams = updates.resumed(hparams, before.hparams) if before else hparams
    changes = {name: values[name] for name in _FLAGS}
    for name in asked.keys() & changes.keys():
        if changes[name] and str(changes[name]) != asked[name]:
            said = f"--{name}={changes[name]} goes before the {name}={asked[name]} of --hparams."
            print(said, flush=True)
    if end := changes["train_steps"]:
        changes["train_steps"] = end * updates.batches_of_an_update(hparams)
    given = {name: value for name, value in changes.items() if value is not None}
    hparams = dataclasses.replace(hparams, **given)
    if before and hparams.train_steps > before.hparams.train_steps:
        _say_where_the_rate_rises_again(hparams)
    return hparams_set, hparams


def _say_where_the_rate_rises_again(hparams: HParams) -> None:
    """Says so of a run that was made longer than the fall of its rate, such as a fine-tuned one."""
    if "multi_cycle_cos_decay" not in trainable.factors(hparams):
        return
    falls = hparams.learning_rate_warmup_steps + hparams.learning_rate_decay_steps
    end = falls * updates.gathered(hparams)
    if hparams.train_steps > end:
        print(
            f"Warning: by multi_cycle_cos_decay the learning rate has fallen to 0 at step {end:,}, "
            "and rises again behind it. A new run with --warm_start_from would begin with these "
            "weights and fall once more.",
            flush=True,
        )
