"""What hparams determine of a training; it loads nothing heavy.

With hparam effective_batch_size a step is an update, of several batches if the optimizer gathers.
Otherwise a step is a batch, as tensor2tensor counts, also with multistep_adam.
"""

import dataclasses

from t2t_repro.config import FACTORS, OPTIMIZERS, SCHEMES, HParams, snake_case
from t2t_repro.errors import UserError, unknown

# Set by `batch_size.choose`; a resumed run keeps it.
CHOSEN = ("batch_size", "optimizer", "optimizer_multistep_accumulate_steps")


def check(hparams: HParams) -> None:
    """Refuses unknown names; hparams that only decode may have them.

    Raises:
        UserError: if the optimizer, a factor of the learning rate's schedule or its decay is
            unknown.
    """
    if snake_case(hparams.optimizer) not in OPTIMIZERS:
        raise unknown("optimizer", hparams.optimizer, OPTIMIZERS)
    for name in hparams.factors:
        if name not in FACTORS:
            raise unknown("factor in learning_rate_schedule", name, FACTORS)
        scheme = hparams.learning_rate_decay_scheme or "none"
        if name == "legacy" and scheme not in SCHEMES:
            raise unknown("learning_rate_decay_scheme", scheme, SCHEMES)


def gathered(hparams: HParams) -> int:
    """Returns how many batches make an update."""
    return hparams.optimizer_multistep_accumulate_steps or 1


def batches_per_step(hparams: HParams) -> int:
    """Returns how many batches make a step."""
    return gathered(hparams) if hparams.effective_batch_size else 1


def requested(hparams: HParams) -> HParams:
    """Returns a run's hparams as the user requested them, without what was chosen."""
    if not hparams.effective_batch_size:
        return hparams
    return dataclasses.replace(hparams, optimizer="adam", optimizer_multistep_accumulate_steps=0)


def resumed(hparams: HParams, before: HParams) -> HParams:
    """Returns the hparams of a command with what the run that it resumes has chosen.

    Raises:
        UserError: if they contradict what was chosen.
    """
    wanted = hparams.effective_batch_size
    if not wanted or wanted != before.effective_batch_size:
        return hparams
    batches = hparams.optimizer_multistep_accumulate_steps
    another = batches not in (0, before.optimizer_multistep_accumulate_steps)
    if hparams.batch_size < before.batch_size or another:
        name = "optimizer_multistep_accumulate_steps" if another else "batch_size"
        raise UserError(
            f"Expected {name}={getattr(before, name)}, which the run chose for "
            f"effective_batch_size={wanted}. Received: {getattr(hparams, name)}. Remove this "
            "override, or give another --output_dir."
        )
    return dataclasses.replace(hparams, **{name: getattr(before, name) for name in CHOSEN})
