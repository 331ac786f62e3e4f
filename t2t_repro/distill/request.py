"""The request of t2t-distill."""

import dataclasses
import os

from t2t_repro.errors import UserError
from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The flags of t2t-distill."""

    teacher: str = flag("", "The trained run that translates.")
    output_dir: str = flag("", "The folder of all outputs.")
    monolingual: str = flag(
        "",
        "Further sentences in the teacher's source language, one a line, plain or .gz; separate "
        "several files by commas.",
    )
    back_translate: str = flag(
        "",
        "Sentences in the teacher's source language, in files as for --monolingual. The "
        "student learns the other direction: from the teacher's translations to these sentences.",
    )
    n_best: int = flag(
        1, "How many translations of each sentence to learn from.", least=1, most=1000
    )
    repeat_gold: int | None = flag(
        None,
        "How often to add the teacher's own training pairs; default: 0, or 1 if --back_translate.",
        least=0,
        most=1000,
    )
    decode_hparams: str = flag("", "The teacher's decode hparams; default: its run's.")
    hparams_set: str = flag("", "The student's hparam set; default: the teacher's.")
    hparams: str = flag(
        "",
        'Overrides of the set: "name=value,name=value". By default a student without --hparams_set '
        "has 6 encoder and 2 decoder layers; with --back_translate, as many layers as the teacher.",
    )
    warm_start: bool = flag(False, "Start the student from the teacher's weights.")
    train_steps: int = flag(
        0, "Training steps of the student; 0: those of its set or the teacher.", least=0
    )
    t2t_usr_dir: str | None = flag(None, "Your own package of problems.")

    def __post_init__(self) -> None:
        for name in ("monolingual", "warm_start"):  # of the teacher's direction
            if self.back_translate and getattr(self, name):
                raise UserError(
                    f"Expected --{name} or --back_translate, not both: with --back_translate the "
                    "student learns the other direction. Received: both. Remove one."
                )

    @property
    def texts(self) -> list[str]:
        """The files of --monolingual or --back_translate."""
        named = self.back_translate or self.monolingual
        return [os.path.expanduser(path) for path in named.split(",")] if named else []

    @property
    def gold(self) -> int:
        """How many times the teacher's training pairs are added."""
        return bool(self.back_translate) if self.repeat_gold is None else self.repeat_gold
