"""What must hold of hparams before they are trained by; it loads nothing heavy.

A configuration that is only decoded by, such as one of tensor2tensor's, may name what is not here.
"""

from t2t_repro.config import FACTORS, OPTIMIZERS, SCHEMES, HParams, snake_case
from t2t_repro.errors import UserError, unknown

# What a factor of the schedule, or a scheme of the factor "legacy", divides by.
_DIVIDES_BY = {
    "linear_decay": "learning_rate_decay_steps",
    "cosdecay": "learning_rate_decay_steps",
    "multi_cycle_cos_decay": "learning_rate_decay_steps",
    "rsqrt_normalized_decay": "learning_rate_warmup_steps",
    "exp_decay": "learning_rate_decay_steps",
}
_SCHEME_DIVIDES_BY = {
    "exp": "learning_rate_decay_steps",
    "cosine": "learning_rate_cosine_cycle_steps",
    "cyclelinear10x": "learning_rate_warmup_steps",
}


def check(hparams: HParams) -> None:
    """Refuses hparams that no training can follow.

    Raises:
        UserError: as `check_optimizer` and `check_schedule`; or if the schedule names no factor, by
            which tensor2tensor's rate is 1.
    """
    check_optimizer(hparams)
    check_schedule(hparams)
    if not factors(hparams):
        raise UserError(
            "Expected learning_rate_schedule to name a factor or a product of some, such as "
            f"constant*linear_warmup*rsqrt_decay. Received: {hparams.learning_rate_schedule!r}."
        )


def check_optimizer(hparams: HParams) -> None:
    """Raises a UserError if the optimizer is unknown."""
    if snake_case(hparams.optimizer) not in OPTIMIZERS:
        raise unknown("optimizer", hparams.optimizer, OPTIMIZERS)


def check_schedule(hparams: HParams) -> None:
    """Refuses a learning rate that is not defined everywhere.

    Raises:
        UserError: if a factor of its schedule is unknown, or divides by 0.
    """
    for name in factors(hparams):
        if name not in FACTORS:
            raise unknown("factor in learning_rate_schedule", name, FACTORS)
        part, field = name, _DIVIDES_BY.get(name)
        if name == "legacy":
            part = scheme(hparams)
            if part not in SCHEMES:
                raise unknown("learning_rate_decay_scheme", part, SCHEMES)
            field = _SCHEME_DIVIDES_BY.get(part)
        if field and getattr(hparams, field) <= 0:
            raise UserError(
                f"The learning rate's {part} needs {field} > 0. Received: "
                f"{getattr(hparams, field)}."
            )
        steps, warmup = hparams.train_steps, hparams.learning_rate_warmup_steps
        if name == "single_cycle_cos_decay" and steps <= warmup:
            raise UserError(
                "single_cycle_cos_decay falls from the end of the warmup to the last step: it "
                f"needs train_steps > learning_rate_warmup_steps. Received: train_steps={steps}, "
                f"learning_rate_warmup_steps={warmup}."
            )


def factors(hparams: HParams) -> list[str]:
    """Returns the names of the factors of `learning_rate_schedule`, known or not."""
    names = (name.strip() for name in hparams.learning_rate_schedule.split("*"))
    return [name for name in names if name]


def scheme(hparams: HParams) -> str:
    """Returns what the factor "legacy" decays by."""
    return hparams.learning_rate_decay_scheme or "none"
