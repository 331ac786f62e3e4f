"""The request of t2t-distill."""

import dataclasses
import os

from t2t_repro.errors import UserError
from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The flags of t2t-distill."""

    teacher: str = flag("", "The run that translates.")
    output_dir: str = flag("", "The folder of all outputs.")
    monolingual: str = flag(
        "",
        "More sentences in the language that the teacher reads, one a line, plain or .gz; "
        "several files separated by commas.",
    )
    back_translate: str = flag(
        "",
        "The same, for a student of the other direction: these sentences become its targets, "
        "the teacher's translations its sources.",
    )
    n_best: int = flag(
        1, "Take this many of the teacher's translations of each sentence.", least=1, most=1000
    )
    repeat_gold: int | None = flag(
        None,
        "How many times the teacher's own training pairs are added; default: 0, with "
        "--back_translate 1.",
        least=0,
        most=1000,
    )
    decode_hparams: str = flag("", "How the teacher decodes; default: as the run says.")
    hparams_set: str = flag("", "The student's configuration; default: the teacher's.")
    hparams: str = flag(
        "",
        'Changes to it: "name=value,name=value". Without --hparams_set and unless changed '
        "here, a student has 6 encoder and 2 decoder layers; with --back_translate as many as "
        "the teacher.",
    )
    warm_start: bool = flag(False, "The student begins with the teacher's weights.")
    train_steps: int = flag(
        0, "Steps of the student; 0: as many as the set or the teacher.", least=0
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
        """How many times the teacher's training pairs are added."""
        return bool(self.back_translate) if self.repeat_gold is None else self.repeat_gold
