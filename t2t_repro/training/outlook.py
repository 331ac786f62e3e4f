"""Looks ahead before a run goes to work: says what it will take, and stops where it cannot end."""

import keras

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.training import alternatives, estimate, machine, trial, updates
from t2t_repro.training.devices import Devices
from t2t_repro.training.forecast import Forecast
from t2t_repro.training.request import TrainRequest

_TRIED_OUT = 100  # steps: a training of fewer only tries out whether it works
MEASURED_FROM = 1.0  # hours: what is shorter shows its own rate sooner than a trial would


def look_ahead(request: TrainRequest, where: Devices) -> Forecast | None:
    """Prints what a run will take, and returns it; None: it goes on from a checkpoint.

    A run of hours is measured by a few steps, in a process of its own; one that is short, or
    plainly cannot end, is not. Of several workers the chief alone looks, and goes on whatever it
    sees.

    Args:
        request: the run; its `foresight` says what to do.
        where: the devices that it has.

    Raises:
        UserError: if this machine plainly cannot do it; with what it can do.
    """
    wishes = request.foresight
    assert wishes is not None
    resumed = request.run.newest_step() > 0
    if not where.cluster.is_chief:
        return None
    if resumed and not wishes.plan:
        print(f"Training on {machine.names(where)}.", flush=True)
        return None
    config = request.config
    how = (where, config.hparams.activation_dtype)
    plan = estimate.of(request, machine.examine(*how))
    if plan.hours >= MEASURED_FROM:
        plan = estimate.of(request, machine.examine(*how, patiently=True))
    if where.cluster.size == 1 and _is_worth_a_trial(plan):
        plan = estimate.measured(plan, request, _trial(request, plan))
    print(f"{plan.hparams_set} on {plan.problem}:\n{plan}", flush=True)
    of_parts = _of_both_directions, _of_subword_dropout, _of_the_end
    for said in (of_part(config.hparams) for of_part in of_parts):
        if said:
            print(said, flush=True)
    if not plan.obstacles:
        return plan
    why = "; ".join(map(str, plan.obstacles))
    if wishes.yes and not wishes.plan:
        print(f"Going on, though this machine plainly cannot do it: {why}.", flush=True)
        return plan
    instead = alternatives.text(request, plan)
    if wishes.plan or where.cluster.size > 1:
        print(f"This machine plainly cannot do it: {why}.\n{instead}")
        return plan
    raise UserError(
        f"Expected a machine that can do this. Received: {why}. --yes goes on "
        f"all the same.\n{instead}"
    )


def _of_both_directions(hparams: HParams) -> str:
    """Returns what to do where most of a training is in both directions; "": it is not."""
    steps, turned = hparams.train_steps, hparams.bidirectional_steps
    if 2 * turned <= steps or steps < _TRIED_OUT:
        return ""
    return (
        f"{min(turned, steps):,} of the {steps:,} steps train in both directions, which is for the "
        "first third of them. Make more steps, or give "
        f"--hparams=bidirectional_steps={steps // 3}."
    )


def _of_subword_dropout(hparams: HParams) -> str:
    """Returns what to do where none of the steps cuts words anew; "": some do."""
    steps, last = hparams.train_steps, hparams.subword_dropout_final_steps
    if not hparams.subword_dropout or last < steps or steps < _TRIED_OUT:
        return ""
    return (
        f"None of the {steps:,} steps has subword dropout: the last {last:,} are without. Make "
        f"more steps, or give --hparams=subword_dropout_final_steps={steps // 6}."
    )


def _of_the_end(hparams: HParams) -> str:
    """Returns what to know of a rate that falls from the first step on, or not to 0; ""."""
    steps, last = hparams.train_steps, hparams.learning_rate_decay_steps
    ends = {"train_steps", "learning_rate_decay_steps"} <= hparams.read_by_schedule
    batches = updates.gathered(hparams)
    if batches > 1 and "train_steps" in hparams.read_by_schedule:
        return (
            "The learning rate ends far above 0, as tensor2tensor's would: its schedule counts "
            f"updates, of {batches} batches each, and falls to 0 after {steps:,} of these."
        )
    if not ends or last < steps or steps < _TRIED_OUT:
        return ""
    return (
        f"The learning rate falls in all of the {steps:,} steps: to 0, in the last {last:,}. Make "
        f"more steps, or give --hparams=learning_rate_decay_steps={steps // 4}."
    )


def _is_worth_a_trial(plan: Forecast) -> bool:
    """Whether steps can be made in the time, and beside this process."""
    fits = 3 * plan.step_seconds < trial.MOST_SECONDS
    # JAX takes a GPU's memory for itself.
    shares = keras.backend.backend() == "tensorflow" or plan.machine.kind == "CPU"
    return not plan.obstacles and plan.hours >= MEASURED_FROM and fits and shares


def _trial(request: TrainRequest, plan: Forecast) -> trial.Trial:
    print("Making a few steps, to see what one takes ...", flush=True)
    shape = estimate.shape_of(request, plan.data)
    config = request.config
    how = (request.worker_gpu, request.threads, config.xla_compile)
    return trial.run(config.hparams, plan.vocabulary, shape, *how, request.load_user_code)
