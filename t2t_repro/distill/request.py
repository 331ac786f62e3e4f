"""What t2t-distill is asked for."""

import dataclasses
import os

from t2t_repro.errors import UserError
from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The flags of t2t-distill."""

    teacher: str = flag("", "The run that translates.")
    output_dir: str = flag("", "The folder of all that is made.")
    monolingual: str = flag(
        "",
        "More sentences in the language that the teacher reads, one a line, plain or .gz; several "
        "files with commas between.",
    )
    back_translate: str = flag(
        "",
        "The same for a student of the other direction: it learns to write these sentences, from "
        "what the teacher makes of them.",
    )
    n_best: int = flag(
        1, "Take so many of the teacher's translations of each sentence.", least=1, most=1000
    )
    repeat_gold: int | None = flag(
        None,
        "How often the pairs of the teacher's training data are taken as they are; default: 0, "
        "with --back_translate 1.",
        least=0,
        most=1000,
    )
    decode_hparams: str = flag("", "How the teacher decodes; default: as the run says.")
    hparams_set: str = flag("", "The student's configuration; default: the teacher's.")
    hparams: str = flag(
        "",
        'Changes to it: "name=value,name=value". Without --hparams_set a student has 6 encoder '
        "layers and 2 decoder layers where these do not say otherwise; with --back_translate as "
        "many as the teacher.",
    )
    warm_start: bool = flag(False, "The student begins with the teacher's weights.")
    train_steps: int = flag(
        0, "Train so many steps; 0: as many as the set or the teacher.", least=0
    )
    t2t_usr_dir: str | None = flag(None, "Your own package of problems.")

    def __post_init__(self) -> None:
        for name in ("monolingual", "warm_start"):  # of the teacher's direction
            if self.back_translate and getattr(self, name):
                raise UserError(
                    f"Expected --{name} or --back_translate, whose student is of the other "
                    "direction. Received: both. Leave one out."
                )

    @property
    def texts(self) -> list[str]:
        """The files of --monolingual or --back_translate."""
        named = self.back_translate or self.monolingual
        return [os.path.expanduser(path) for path in named.split(",")] if named else []

    @property
    def gold(self) -> int:
        """How often the pairs of the teacher's training data are taken."""
        return bool(self.back_translate) if self.repeat_gold is None else self.repeat_gold
