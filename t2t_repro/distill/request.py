"""The request of t2t-distill."""

import dataclasses
import os

from t2t_repro.errors import UserError
from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The flags of t2t-distill."""

    teacher: str = flag("", "The run directory of the trained teacher.")
    output_dir: str = flag("", "The folder for all outputs; the student is in OUTPUT_DIR/model.")
    monolingual: str = flag(
        "",
        "Comma-separated files, also .gz, of further sentences in the teacher's source language, "
        "one sentence a line.",
    )
    back_translate: str = flag(
        "",
        "Files of sentences in the teacher's source language, in the format of --monolingual. The "
        "student learns the other direction: from the teacher's translations to these sentences.",
    )
    n_best: int = flag(
        1, "How many translations of each sentence to learn from.", least=1, most=1000
    )
    repeat_gold: int | None = flag(
        None,
        "How often to add the teacher's training pairs; default: 0, or 1 with --back_translate.",
        least=0,
        most=1000,
    )
    decode_hparams: str = flag("", "Decode hparams of the teacher; default: those of its run.")
    hparams_set: str = flag("", "The student's hparam set; default: the teacher's.")
    hparams: str = flag(
        "",
        'Overrides of the student\'s hparam set: "name=value,name=value". Without '
        "--hparams_set, layers: 6 encoder, 2 decoder; with --back_translate, the teacher's.",
    )
    warm_start: bool = flag(False, "Start the student from the teacher's weights.")
    train_steps: int = flag(
        0, "Training steps; 0: as in --hparams_set if given, else as the teacher.", least=0
    )
    t2t_usr_dir: str | None = flag(None, "Your Python package of problems.")

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
