"""What an export is asked for, and what a form is in which a model can be written."""

import dataclasses
import math
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from t2t_repro.errors import UserError
from t2t_repro.requests import flag
from t2t_repro.runs import TrainedRun

if TYPE_CHECKING:  # they load Keras, and --help reads FORMS
    from t2t_repro.decoding.engine import Engine
    from t2t_repro.decoding.settings import DecodeHParams


# What --format names, and the module of this package that has the form.
FORMS = {"saved_model": "saved_model", "ctranslate2": "ctranslate2_engine"}
# The decode hparams that an export keeps, in its graph or in its certificate, and so all by which
# it can be measured and verified.
SETTINGS = ("beam_size", "alpha", "extra_length", "max_input_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The flags of t2t-exporter, but for those that name the run; `given` holds those named.

    A folder's default name has the form's own before the step, and -QUANTIZE behind it where that
    is not float32.
    """

    format: str = flag("saved_model", "What to write.", choices=tuple(FORMS))
    export_dir: str | None = flag(
        None, "The folder to write; default: export/STEP in --output_dir."
    )
    checkpoint_path: str | None = flag(
        None, "The checkpoint; default: the newest of --output_dir, of RUN/best the best."
    )
    decode_hparams: str | None = flag(None, 'How to decode: "name=value,name=value".')
    quantize: str = flag(
        "float32",
        "How the weights are stored: float32 or float16; for CTranslate2 also bfloat16, int16, "
        "int8 or int8_float32.",
    )
    max_bleu_drop: float | None = flag(
        None,
        "Refuse a quantized model whose translations lose more BLEU than this on the dev split.",
        least=0.0,
    )
    gate_samples: int = flag(
        500, "How many sentences of the dev split say how much BLEU is lost.", least=1
    )
    t2t_serving: bool = flag(
        False,
        "Make T2T's signature, of tf.Examples, the SavedModel's default, for T2T's own clients.",
    )

    given: frozenset[str] = frozenset()

    def __post_init__(self):
        if self.max_bleu_drop is not None and math.isnan(self.max_bleu_drop):
            raise UserError(
                "Expected --max_bleu_drop to be a number, which a drop can be compared with. "
                "Received: nan. Give one, or leave it out."
            )
        if self.t2t_serving and self.format != "saved_model":
            raise UserError(
                "Expected --t2t_serving with --format=saved_model. Received: "
                f"--format={self.format}. Leave it out."
            )

    @property
    def is_measured(self) -> bool:
        """Whether what is lost is measured; without a limit it is where something can be lost."""
        return self.quantize != "float32" or self.max_bleu_drop is not None


def check_settings(settings: "DecodeHParams") -> None:
    """Refuses decode hparams that no export keeps.

    Raises:
        UserError: naming them.
    """
    others = [f"{n}={getattr(settings, n)}" for n in settings.changed() if n not in SETTINGS]
    if others:
        raise UserError(
            f"An export keeps the decode hparams {', '.join(SETTINGS)} only. Received: "
            f"{', '.join(others)}. Leave that out."
        )


class Form(Protocol):
    """A form in which a model is written; it stands as FORM in a module of FORMS.

    Attributes:
        prefix: what stands before the step in the name of a folder.
        use: what follows in the line that says what was written; {path} is the folder.
    """

    prefix: str
    use: str

    def check(self, request: ExportRequest, settings: "DecodeHParams") -> None:
        """Refuses, before the model is loaded, what the form cannot follow."""

    def write(
        self,
        run: TrainedRun,
        model: Any,
        path: pathlib.Path,
        request: ExportRequest,
        accept: Callable[[pathlib.Path], None],
    ) -> None:
        """Writes the model of a run; the folder appears when `accept` has not refused it."""

    def translate(
        self, run: TrainedRun, folder: pathlib.Path, settings: "DecodeHParams", texts: list[str]
    ) -> list[tuple[str, float]]:
        """Returns the translations of texts by what was written into a folder, and their scores."""

    def engine(self, folder: pathlib.Path, model: Any) -> "Engine":
        """Returns what decodes with the model that was written into a folder."""
