"""A trained model as a TensorFlow SavedModel: raw text in, raw text out.

It loads with TensorFlow and tensorflow-text, without this package. signatures.py has the graph,
saved_model_readme.md its calls.
"""

import importlib.resources
import json
import os
import pathlib
import shlex
import string
from typing import Any

import keras
import tensorflow as tf

from t2t_repro import provenance
from t2t_repro.decoding.settings import KEPT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.export.signatures import STORAGES, Served
from t2t_repro.files import check_new_folder, literal, writing_folder
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.sentence_piece import field

USE = "{path}/README.md shows how to call each signature."
QUANTIZATIONS = STORAGES
EXAMPLE = "A man is sleeping.", "Ein Mann schläft."  # where no sentence of the model's is known
_BATCH = 64  # texts of about one length that are translated at once


def check(request: ExportRequest) -> None:
    """Refuses another backend of Keras than TensorFlow.

    Raises:
        UserError: naming it.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Expected Keras on TensorFlow, the only backend that writes SavedModels. Received: "
            f"KERAS_BACKEND={keras.backend.backend()}. Unset KERAS_BACKEND."
        )


def write(job: ExportJob) -> None:
    """Writes the graph, decode_hparams.json, README.md and a warm-up, of a sentence of the run's.

    Raises:
        UserError: if an encoder is neither of subwords nor SentencePiece, or float16 cannot hold a
            weight.
    """
    run, settings, request = job.run, job.settings, job.request
    serving = request.t2t_serving
    served = convert(
        job.model, run.encoders, job.folder, settings, request.quantize, t2t_serving=serving
    )
    record = provenance.read(run.path)
    golden = record and record.example
    example = (golden.source, golden.translation) if golden else EXAMPLE
    text = readme(served, run.encoders["inputs"], settings, request, example)
    (job.folder / "README.md").write_text(text, encoding="utf-8")
    write_warm_up(job.folder, example[0])


def export_saved_model(
    model: keras.Model,
    folder: str | os.PathLike,
    encoder: Any = None,
    *,
    targets_encoder: Any = None,
    beam_size: int = 4,
    alpha: float = 0.6,
) -> None:
    """Writes a model and its search as a SavedModel, which needs no code of this package.

    Its signature "serving_default" translates `inputs`: string (B,) where there is an encoder, or
    else int32 (B, S), each ended by 1 and padded with 0. It gives "outputs", the best translations,
    and "scores".

    Args:
        model: a trained `Transformer`.
        folder: new or empty.
        encoder: of subwords or SentencePiece; None: ids are served, and no text.
        targets_encoder: that of the targets; None: the same.
        beam_size: 1 is greedy search.
        alpha: exponent of the length penalty.

    Raises:
        UserError: if there is something in the folder, the encoder is of another kind, or Keras is
            not on TensorFlow.
    """
    path = pathlib.Path(folder).expanduser()
    check(ExportRequest())
    check_new_folder(path)
    encoders = encoder and {"inputs": encoder, "targets": targets_encoder or encoder}
    with writing_folder(path) as new:
        convert(model, encoders, new, DecodeHParams(beam_size=beam_size, alpha=alpha))


def convert(
    model: keras.Model,
    encoders: dict[str, Any] | None,
    folder: pathlib.Path,
    settings: DecodeHParams,
    storage: str = "float32",
    *,
    t2t_serving: bool = False,
) -> Served:
    """Writes a SavedModel and decode_hparams.json into a folder.

    Args:
        model: a trained `Transformer`.
        encoders: {"inputs": encoder, "targets": encoder}: of subwords or SentencePiece; None: ids
            are served, and no text.
        folder: where to.
        settings: how to decode.
        storage: the type in which the weights are kept, one of QUANTIZATIONS.
        t2t_serving: make tensor2tensor's signature the default one.

    Returns:
        What is served.
    """
    served = Served(model, encoders, settings, storage)
    kept = tf.Module(name="translator")
    kept.weights = served.weights
    if served.source is not None:
        kept.resources = [*served.source.resources, *served.target.resources]
        kept.tokens, kept.target_tokens = served.tokens, served.target_tokens
    tf.saved_model.save(kept, os.fspath(folder), served.signatures(t2t_serving))
    fixed = {name: getattr(settings, name) for name in KEPT}
    (folder / "decode_hparams.json").write_text(json.dumps(fixed, indent=1) + "\n")
    return served


def write_warm_up(folder: pathlib.Path, text: str) -> None:
    """Writes requests that TensorFlow Serving answers before it opens.

    They are its PredictionLogs (tensorflow_serving/apis).
    """
    inputs = field(1, b"inputs") + field(2, tf.make_tensor_proto([text]).SerializeToString())
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir()
    with tf.io.TFRecordWriter(os.fspath(path)) as file:
        for signature in (b"text", b"best"):
            model = field(1, b"translate") + field(3, signature)
            file.write(field(6, field(1, field(1, model) + field(2, inputs))))


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> provenance.Translations:
    """Returns the best translation of each text by an export, which has its own settings."""
    loaded = tf.saved_model.load(literal(folder))  # kept: it owns the variables
    found: dict[int, tuple[str, float]] = {}
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), _BATCH):
        numbers = order[begin : begin + _BATCH]
        result = loaded.signatures["best"](inputs=tf.constant([texts[i].encode() for i in numbers]))
        written = (text.decode(errors="replace") for text in result["outputs"].numpy())
        pairs = zip(written, result["scores"].numpy().tolist(), strict=True)
        found |= dict(zip(numbers, pairs, strict=True))
    return [found[i] for i in range(len(texts))]


def readme(
    served: Served,
    encoder: Any,
    settings: DecodeHParams,
    request: ExportRequest,
    example: tuple[str, str],
) -> str:
    """Returns README.md, with a call of each signature of the SavedModel.

    Args:
        served: what was written.
        encoder: of the inputs.
        settings: how to decode.
        request: `export_dir` is the folder.
        example: a sentence and its translation.
    """
    source, target = (json.dumps(text, ensure_ascii=False) for text in example)
    path = pathlib.Path(request.export_dir or "")
    text = importlib.resources.files(__package__).joinpath("saved_model_readme.md")
    return string.Template(text.read_text(encoding="utf-8")).substitute(
        vars(settings),
        default="tf_example" if request.t2t_serving else "text",
        expression=shlex.quote(f"inputs=[{source}]"),
        ids=[*encoder.encode(example[0]), EOS_ID],
        longest=served.longest,
        path=path,
        rows=shlex.quote(f'{{"signature_name": "best", "instances": [{{"inputs": {source}}}]}}'),
        columns=shlex.quote(f'{{"signature_name": "text", "inputs": [{source}]}}'),
        source=source,
        storage=request.quantize,
        target=target,
        tensorflow=tf.__version__,
        version=path.name if path.name.isdecimal() else 1,
    )
