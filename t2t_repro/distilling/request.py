"""What t2t-distill is asked for."""

import dataclasses
import os

from t2t_repro.decoding.request import ENGINES
from t2t_repro.errors import UserError
from t2t_repro.fields import flag, flags_of, parse_overrides

TAG = "♻ "
_FOLDERS = ("teacher", "reverse_teacher", "ensemble", "data_dir")
_MAY_CHANGE = ("output_dir", "train_steps", "only_data")  # in a folder that is there


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillRequest:
    """The flags of t2t-distill."""

    teacher: str = flag("", "The run that translates.")
    output_dir: str = flag("", "The folder of all that is made.")
    data_dir: str = flag("", "The folder of the teacher's data; default: the run's.")
    ensemble: str = flag("", "RUN2,RUN3: runs that translate together with --teacher.")
    training_sources: bool = flag(
        True, "Let the teacher translate the sources of its own training data."
    )
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
    reverse_teacher: str = flag(
        "",
        "A run of the other direction: it writes sources for the targets of the teacher's training "
        "data, which the student learns beside the teacher's translations and the pairs as they "
        "are (data diversification).",
    )
    source_tag: str | None = flag(
        None,
        "With --back_translate: what stands before each source that the teacher wrote; default: "
        f"{TAG!r}.",
    )
    repeat_gold: int | None = flag(
        None,
        "How often the pairs of the teacher's training data are taken as they are; default: 0, "
        "with --back_translate or --reverse_teacher 1.",
        least=0,
        most=1000,
    )
    n_best: int = flag(
        1, "Take so many of the teacher's translations of each sentence.", least=1, most=1000
    )
    decode_hparams: str = flag("", "How the teacher decodes; default: as the run says.")
    engine: str = flag("tensorflow", "What the teacher decodes with.", choices=tuple(ENGINES))
    hparams_set: str = flag(
        "",
        "The student's configuration; default: the teacher's, but of one that was fine-tuned only "
        "with --warm_start.",
    )
    hparams: str = flag(
        "",
        'Changes to it: "name=value,name=value". Without --hparams_set a student has 6 encoder '
        "layers and 2 decoder layers where these do not say otherwise; with --back_translate or "
        "--reverse_teacher as many as the teacher. One of fewer decoder layers decodes greedily.",
    )
    warm_start: bool = flag(False, "The student begins with the teacher's weights.")
    train_steps: int = flag(
        0, "Train so many steps; 0: as many as the set or the teacher.", least=0
    )
    random_seed: int = flag(
        0, "Of the student's weights and the order of the data.", least=0, most=2**32 - 2
    )
    only_data: bool = flag(False, "Make the student's data, and stop.")
    t2t_usr_dir: str | None = flag(None, "Your own package of problems.")

    def __post_init__(self) -> None:
        for name in _FOLDERS:  # a shell's completion ends them with "/"
            folders = getattr(self, name).split(",")
            object.__setattr__(self, name, ",".join(each.rstrip("/") or each for each in folders))
        missing = [f"--{name}" for name in ("teacher", "output_dir") if not getattr(self, name)]
        if missing:
            raise UserError(
                f"Expected {' and '.join(missing)}. Received: none. --teacher is a run that "
                "t2t-trainer or t2t-avg-all made."
            )
        for name in ("monolingual", "reverse_teacher", "warm_start"):  # of the teacher's direction
            if self.back_translate and getattr(self, name):
                raise UserError(
                    f"Expected --{name} or --back_translate, whose student is of the other "
                    "direction. Received: both. Leave one out."
                )
        if not (self.training_sources or self.texts):
            raise UserError(
                "Expected something for the teacher to translate. Received: --notraining_sources "
                "without --monolingual. Add it, or leave the other out."
            )
        parse_overrides(self.hparams)
        for path in self.texts:
            if not os.path.isfile(path):
                name = "back_translate" if self.back_translate else "monolingual"
                raise UserError(
                    f"Expected --{name} to be files of one sentence a line. Received: {path!r}, "
                    "which is no file. Correct the path."
                )

    @property
    def texts(self) -> list[str]:
        """The files of --monolingual or --back_translate."""
        named = self.back_translate or self.monolingual
        return [os.path.expanduser(path) for path in named.split(",")] if named else []

    @property
    def tag(self) -> str:
        """What stands before a source that the teacher wrote."""
        if not self.back_translate:
            return ""
        return TAG if self.source_tag is None else self.source_tag

    @property
    def gold(self) -> int:
        """How often the pairs of the teacher's training data are taken."""
        return int(self.is_peer) if self.repeat_gold is None else self.repeat_gold

    @property
    def is_peer(self) -> bool:
        """Whether the student is to be as good as can be, not small and quick."""
        return bool(self.back_translate or self.reverse_teacher)

    def begun_with(self) -> dict[str, str]:
        """Returns what stays in a folder, {flag: value}."""
        names = (name for name in flags_of(type(self)) if name not in _MAY_CHANGE)
        values = {name: getattr(self, name) for name in names}
        return {name: str(value) for name, value in values.items() if value is not None}
