"""Exports the model of a run in another form, if that does not cost too much BLEU.

A form is a module, named in FORMS, with two constants and three functions:

    USE                                           how to go on, with {path} for the folder
    QUANTIZATIONS                                 of --quantize
    check(request)                                refuses what the form cannot do, before the work
    write(job)                                    fills an empty folder
    translate(folder, problem, settings, texts)   [(best translation, its score)] by that folder

GREEDY marks a form with greedy search only.
"""

import dataclasses
import functools
import importlib
import os
import pathlib
import shlex
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from t2t_repro import fields
from t2t_repro.decoding.settings import KEPT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import check_new_folder, writing_folder
from t2t_repro.progress import on_stderr
from t2t_repro.runs import TrainedRun

if TYPE_CHECKING:
    from t2t_repro.decoding.dev_bleu import DevSample, Sample

FORMS = {
    "saved_model": "t2t_repro.export.saved_model",
    "ctranslate2": "t2t_repro.export.ctranslate2",
    "onnx": "t2t_repro.export.onnx",
    "transformers": "t2t_repro.export.transformers",
    "argos": "t2t_repro.export.argos",
}
_SAMPLES = 500  # sentences of the dev split that say what is lost
# What t2t-decoder writes and of which lines: without effect on the best translation of a search.
_OF_OUTPUT = (
    *("return_beams", "write_beam_scores", "identity_output", "raw_output", "num_samples"),
    *("return_token_scores", "return_alignments", "shards", "shard_id"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The flags of t2t-exporter, except those that name the run."""

    format: str = flag("saved_model", "The format of the export.", choices=tuple(FORMS))
    export_dir: str | None = flag(
        None,
        "The folder to write to; default: OUTPUT_DIR/export/[FORMAT-]STEP[-QUANTIZE], without "
        "FORMAT for a SavedModel.",
    )
    checkpoint_path: str | None = flag(
        None, "A ckpt-STEP folder; default: the newest in --output_dir (in RUN/best, the best)."
    )
    decode_hparams: str | None = flag(None, 'Decode hparams to export: "beam_size=4,alpha=0.6".')
    quantize: str = flag(
        "float32",
        "How the weights are stored: float32; float16 (not for ONNX); int8 (ONNX and CTranslate2); "
        "bfloat16, int16 or int8_float32 (CTranslate2).",
    )
    max_bleu_drop: float | None = flag(
        None,
        "Fail and write nothing if the export loses more BLEU than this on the dev split.",
        least=0.0,
    )
    languages: str | None = flag(
        None, "Languages for an Argos package or a model card, SOURCE-TARGET, such as de-en."
    )
    license: str | None = flag(None, "The license to name in a model card, such as cc-by-4.0.")
    t2t_serving: bool = flag(
        False, "Make tf_example the default signature of the SavedModel, for T2T's own clients."
    )


@dataclasses.dataclass(frozen=True)
class ExportJob:
    """The job of a form.

    Attributes:
        run: the exported run.
        model: its `Transformer`, with the weights of a checkpoint.
        folder: an empty folder.
        settings: how to decode.
        request: the flags; `export_dir` is where the folder will be.
    """

    run: TrainedRun
    model: Any
    folder: pathlib.Path
    settings: DecodeHParams
    request: ExportRequest


@dataclasses.dataclass(frozen=True)
class Comparison:
    """BLEU (sacrebleu's, in percent) of the model and of its other form, and how many agree."""

    before: float
    after: float
    identical: int
    sentences: int

    @property
    def drop(self) -> float:
        """How much BLEU is lost; negative if some is gained."""
        return self.before - self.after

    def __str__(self) -> str:
        change = "gain" if round(self.drop, 2) < 0 else "drop"
        return (
            f"BLEU {self.after:.2f}, before the export {self.before:.2f}: a {change} of "
            f"{abs(self.drop):.2f} on {self.sentences} dev sentences, of which {self.identical} "
            "are translated identically"
        )


def form_of(name: str) -> Any:
    """Returns the module of a form."""
    return importlib.import_module(FORMS[name])


def export(
    run: TrainedRun, request: ExportRequest, say: Callable[[str], None] = print
) -> pathlib.Path:
    """Writes a checkpoint of a run in the requested form.

    Args:
        run: the run.
        request: the form, the folder, and the accepted loss.
        say: gets a line about the export and its loss.

    Returns:
        The folder; it appears when it is complete.

    Raises:
        UserError: if the form does not support the request or the model, or too much is lost.
            Nothing is written then.
    """
    run.check_transformer("an export")
    settings = kept_settings(run, request, say)
    run.check_checkpoint(request.checkpoint_path)
    from t2t_repro import provenance
    from t2t_repro.training import checkpoints

    source = run.checkpoint(request.checkpoint_path)
    name = "" if request.format == "saved_model" else f"{request.format}-"
    name += str(checkpoints.step_of(source))
    name += "" if request.quantize == "float32" else f"-{request.quantize}"
    path = pathlib.Path(request.export_dir or run.path / "export" / name).expanduser()
    check_new_folder(path)
    form = form_of(request.format)
    if getattr(form, "GREEDY", False):
        settings = dataclasses.replace(settings, beam_size=1)
    if request.quantize not in form.QUANTIZATIONS:
        raise UserError(
            f"Expected --quantize to be one of {', '.join(form.QUANTIZATIONS)} with "
            f"--format={request.format}. Received: {request.quantize!r}."
        )
    form.check(request)
    sample = _sample(run, request, say)
    model = run.model(source, say=on_stderr)
    with writing_folder(path) as folder:
        asked = dataclasses.replace(request, export_dir=os.fspath(path.resolve()))
        form.write(ExportJob(run, model, folder, settings, asked))
        for file in run.vocabulary_files:
            shutil.copy(file, folder)
        (folder / "hparams.json").write_text(model.hparams.to_json(), encoding="utf-8")
        translate = functools.partial(form.translate, folder, run.config.problem, settings)
        if sample:
            lost = compare(model, translate, settings, sample)
            say(str(lost))
            check_drop(lost, request.max_bleu_drop)
        provenance.write(run, source, folder, request.format, settings, translate)
    say(f"Wrote {path} from {source}. {form.USE.format(path=shlex.quote(str(path)))}")
    return path


def kept_settings(
    run: TrainedRun, request: ExportRequest, say: Callable[[str], None] = on_stderr
) -> DecodeHParams:
    """Returns the decode hparams that an export keeps.

    The problem's own settings of output and batches are left out.

    Raises:
        UserError: naming others that would change a translation, or were given.
    """
    settings = run.decode_settings(request.decode_hparams, say=say)
    asked = fields.parse_overrides(request.decode_hparams or "")
    without_effect = {*_OF_OUTPUT, "batch_size"} - asked.keys()
    others = [n for n in settings.changed() if n not in (*KEPT, *without_effect)]
    if others:
        raise UserError(
            f"Expected only decode hparams that an export keeps: {', '.join(KEPT)}. Received: "
            f"{', '.join(f'{n}={getattr(settings, n)}' for n in others)}. Remove them."
        )
    return DecodeHParams(**{name: getattr(settings, name) for name in KEPT})


def _sample(
    run: TrainedRun, request: ExportRequest, say: Callable[[str], None]
) -> "DevSample | None":
    """Returns the sentences of the dev split that measure the loss.

    None if nothing can be lost and there is no limit. Without a dev split and a limit there are
    none either, and `say` gets the reason.
    """
    if request.quantize == "float32" and request.max_bleu_drop is None:
        return None
    from t2t_repro.decoding.dev_bleu import DevSample

    try:
        return DevSample(run.problem, run.data_dir, count=_SAMPLES)
    except UserError as error:
        if request.max_bleu_drop is not None:
            raise
        say(f"The BLEU loss by --quantize={request.quantize} was not measured. {error}")
        return None


def compare(
    model: Any,
    translate: Callable[[list[str]], list[tuple[str, float]]],
    settings: DecodeHParams,
    sample: "Sample",
) -> Comparison:
    """Decodes with a model and with another form of it.

    Args:
        model: a run's `Transformer`.
        translate: returns the best translations by the other form, and their scores.
        settings: how to decode.
        sample: the sentences.
    """
    from t2t_repro import provenance
    from t2t_repro.decoding.engine import ModelEngine

    sources = sample.texts()
    on_stderr(f"Decoding {sample.described} with the run and with the export")
    own = provenance.translations(ModelEngine(model), sample.encoders, settings, sources)
    before, after = ([text for text, _ in found] for found in (own, translate(sources)))
    return Comparison(
        before=sample.bleu(before),
        after=sample.bleu(after),
        identical=sum(a == b for a, b in zip(before, after, strict=True)),
        sentences=len(before),
    )


def check_drop(comparison: Comparison, max_bleu_drop: float | None) -> None:
    """Refuses a drop that is greater than `max_bleu_drop`; None accepts any.

    Raises:
        UserError: with the drop.
    """
    if max_bleu_drop is not None and comparison.drop > max_bleu_drop:
        raise UserError(
            f"Expected a loss of at most {max_bleu_drop} BLEU. Received: {comparison}. Nothing was "
            "written. Change --quantize, or raise --max_bleu_drop."
        )
