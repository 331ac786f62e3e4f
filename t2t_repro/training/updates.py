"""What a step counts where hparam effective_batch_size sets the size of updates: train_steps are
updates where the user says them, and batches in the run, as tensor2tensor's are.
"""

import dataclasses
import math

from t2t_repro.config import HParams
from t2t_repro.errors import UserError

NEAR = 0.005  # of the size that is asked for
CHOSEN = ("batch_size", "optimizer", "optimizer_multistep_accumulate_steps")


def batches_for(wanted: float, tokens: float) -> int:
    """Returns in how many batches of at most `tokens` tokens an update has the `wanted` ones."""
    return max(1, math.ceil((1 - NEAR) * wanted / max(tokens, 1)))


def gathered(hparams: HParams) -> int:
    """Returns how many batches make an update."""
    return hparams.optimizer_multistep_accumulate_steps or 1


def batches_of_an_update(hparams: HParams) -> int:
    """Returns how many batches a train step is that the user counts."""
    return gathered(hparams) if hparams.effective_batch_size else 1


def requested(hparams: HParams) -> HParams:
    """Returns a run's hparams as another run asks for them: what was chosen is chosen anew."""
    if not hparams.effective_batch_size:
        return hparams
    steps = hparams.train_steps // batches_of_an_update(hparams)
    return dataclasses.replace(
        hparams, optimizer="adam", optimizer_multistep_accumulate_steps=0, train_steps=steps
    )


def resumed(hparams: HParams, before: HParams) -> HParams:
    """Returns the hparams of a command with what the run that it continues has chosen.

    Raises:
        UserError: if they cannot be those that the run was begun with, of which it was chosen.
    """
    if hparams.effective_batch_size != before.effective_batch_size or not (
        hparams.effective_batch_size
    ):
        return hparams
    batches = hparams.optimizer_multistep_accumulate_steps
    another = batches not in (0, before.optimizer_multistep_accumulate_steps)
    if hparams.batch_size < before.batch_size or another:
        name = "optimizer_multistep_accumulate_steps" if another else "batch_size"
        raise UserError(
            f"Expected the run's own {name}, which it chose for updates of "
            f"{before.effective_batch_size:,} tokens. Received: {name} was "
            f"{getattr(before, name)}, now {getattr(hparams, name)}. Leave it out to continue the "
            "run, or give another --output_dir for a new one."
        )
    chosen = dataclasses.replace(hparams, **{name: getattr(before, name) for name in CHOSEN})
    steps = hparams.train_steps * batches_of_an_update(chosen)
    return dataclasses.replace(chosen, train_steps=steps)


def for_memory_probe(hparams: HParams) -> HParams:
    """Returns the hparams of a trial of memory: with the sums that several batches are gathered in.

    How many they will be is not known, and changes nothing of what two need.
    """
    if not hparams.effective_batch_size or gathered(hparams) > 1:
        return hparams
    return dataclasses.replace(
        hparams, optimizer="multistep_adam", optimizer_multistep_accumulate_steps=2
    )
