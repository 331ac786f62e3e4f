"""What an export is asked for."""

import dataclasses
from collections.abc import Iterable

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag

# The decode hparams that an export keeps, in its graph or provenance.json, and so all by which it
# can be measured and verified.
SETTINGS = ("beam_size", "alpha", "extra_length", "max_input_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The flags of t2t-exporter, but for those that name the run; `given` holds those named.

    A folder's default name has the form's own before the step, and -QUANTIZE behind it where that
    is not float32.
    """

    format: str = flag("saved_model", "What to write.", choices=("saved_model", "ctranslate2"))
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

    @property
    def is_measured(self) -> bool:
        """Whether what is lost is measured; without a limit it is where something can be lost."""
        return self.quantize != "float32" or self.max_bleu_drop is not None


def at_defaults(names: Iterable[str]) -> list[str]:
    """Returns "name=value" for each of some decode hparams, with its default."""
    return [f"{name}={getattr(DecodeHParams(), name)}" for name in names]


def check_settings(settings: DecodeHParams) -> None:
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
