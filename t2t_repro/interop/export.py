"""Writing the model of a run in another form, if that does not cost too much."""

import dataclasses
import functools
import itertools
import pathlib
import shlex
from collections.abc import Callable, Iterable
from typing import Any

from t2t_repro import fields
from t2t_repro.decoding.settings import OF_OUTPUT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import check_new_folder
from t2t_repro.outputs import check_outputs, check_room
from t2t_repro.problem import Split
from t2t_repro.progress import on_stderr
from t2t_repro.requests import flag
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints

# The decode hparams that an export keeps, in its graph or in its certificate, and so all by which
# it can be measured and verified.
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


def export(
    run: TrainedRun, request: ExportRequest, say: Callable[[str], None] = print
) -> pathlib.Path:
    """Writes a checkpoint of a run as `request` asks for it.

    Args:
        run: the run.
        request: in which form, where, and what it may cost.
        say: gets a line about what was written, and what was lost.

    Returns:
        The folder.

    Raises:
        UserError: if the form cannot follow the request or hold the model, or too much is lost.
            Nothing was written then.
    """
    run.check_transformer("an export")
    request = _of_search(run, request)
    settings = run.decode_settings(request.decode_hparams, say=say)
    check_settings(settings)
    run.check_checkpoint(request.checkpoint_path)
    if request.export_dir:
        check_folder(pathlib.Path(request.export_dir).expanduser())
    from t2t_repro.certificate.certify import certify_export
    from t2t_repro.interop import quality

    form: Any
    if request.format == "ctranslate2":
        from t2t_repro.interop.ctranslate2_engine import FORM as form
    else:
        from t2t_repro.interop.saved_model import FORM as form
    form.check(request)
    source = run.checkpoint(request.checkpoint_path)
    name = f"{form.prefix}{checkpoints.step_of(source)}"
    name += "" if request.quantize == "float32" else f"-{request.quantize}"
    path = pathlib.Path(request.export_dir or run.path / "export" / name).expanduser()
    check_folder(path)
    examples = _examples(run, request, say) if request.is_measured else []
    model = run.model(source, say=on_stderr)

    def accept(folder: pathlib.Path) -> None:
        if examples:
            engine = form.engine(folder, model)
            lost = quality.compare(model, engine, run.encoders, examples, settings)
            say(str(lost))
            quality.check(lost, request.max_bleu_drop)
        translate = functools.partial(form.translate, run, folder, settings)
        certify_export(run, source, folder, request.format, settings, translate)

    form.write(run, model, path, request, accept)
    say(f"Wrote {path} from {source}. {form.use.format(path=shlex.quote(str(path)))}")
    return path


def check_folder(path: pathlib.Path) -> None:
    """Refuses, before the work, a folder into which nothing can be exported.

    Raises:
        UserError: if it is not empty, or a run's own.
        OSError: if it cannot be written.
    """
    check_outputs({"--export_dir": path}, {}, folders=True)
    check_new_folder(path)
    check_room(path.parent)  # where it gets its name, also in the place of an empty one


def at_defaults(names: Iterable[str]) -> list[str]:
    """Returns "name=value" for each of some decode hparams, with its default."""
    return [f"{name}={getattr(DecodeHParams(), name)}" for name in names]


def _of_search(run: TrainedRun, request: ExportRequest) -> ExportRequest:
    """Returns the request less what the problem says of its own about output and batches."""
    changed = DecodeHParams.of(run.problem, request.decode_hparams).changed()
    given = fields.parse_overrides(request.decode_hparams or "")
    own = [n for n in changed if n in (*OF_OUTPUT, "batch_size") and n not in given]
    asked = [request.decode_hparams] if request.decode_hparams else []
    return dataclasses.replace(request, decode_hparams=",".join([*at_defaults(own), *asked]))


def _examples(
    run: TrainedRun,
    request: ExportRequest,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Returns the examples of the dev split by which it is measured what is lost.

    Where there is no dev split, and no limit, there are none, and `say` gets the reason.
    """
    from t2t_repro.data import pipeline

    try:
        found = pipeline.read_split(run.problem, Split.EVAL, run.data_dir)
        return list(itertools.islice(found, request.gate_samples))
    except UserError as error:
        if request.max_bleu_drop is not None:
            raise
        say(f"What {request.quantize} costs is not measured. {error}")
        return []


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
