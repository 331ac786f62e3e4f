"""A trained model as a TensorFlow SavedModel: raw text in, raw text out.

What is written needs TensorFlow and tensorflow-text where it is loaded, and nothing of this
package. signatures.py has the graph, saved_model_readme.py how it is called.
"""

import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_repro import provenance
from t2t_repro.decoding.engine import USUAL, Engine, Search, Sentences
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import check_new_folder, writing_folder
from t2t_repro.interop.form import SETTINGS, ExportRequest, check_settings
from t2t_repro.interop.saved_model_readme import EXAMPLE, readme
from t2t_repro.interop.signatures import STORAGES, Served
from t2t_repro.runs import TrainedRun
from t2t_repro.training.system_errors import system_errors


def export(
    model: keras.Model,
    encoders: dict[str, Any],
    path: str | os.PathLike,
    settings: DecodeHParams | None = None,
    vocabularies: Iterable[str | os.PathLike] = (),
    *,
    storage: str = "float32",
    t2t_serving: bool = False,
    example: tuple[str, str] = EXAMPLE,
    accept: Callable[[pathlib.Path], None] = lambda folder: None,
) -> pathlib.Path:
    """Writes a SavedModel; its folder appears when all of it is there.

    Args:
        model: a trained `Transformer`, on the TensorFlow backend.
        encoders: {"inputs": encoder, "targets": encoder}: of subwords or SentencePiece.
        path: the folder, new or empty.
        settings: how to decode; only the fields in SETTINGS may differ from the
            defaults.
        vocabularies: files that are copied into the folder.
        storage: the type in which the weights are kept, one of STORAGES.
        t2t_serving: make tensor2tensor's signature the default one.
        example: a sentence and its translation, for the calls in README.md.
        accept: is called with the folder before it gets its name; what it raises refuses it.

    Returns:
        The folder.

    Raises:
        UserError: if the folder is not empty, an encoder is of another kind, a setting means
            nothing to a SavedModel, the storage is unknown or cannot hold a weight, or Keras runs
            on another backend.
    """
    path, settings = pathlib.Path(path).expanduser(), settings or DecodeHParams()
    check_settings(settings)
    check_storage(storage)
    check_new_folder(path)
    check_backend()
    served = Served(model, encoders, settings, storage)
    signatures = served.signatures(t2t_serving)
    kept = tf.Module(name="translator")
    kept.weights = served.weights
    kept.resources = [*served.source.resources, *served.target.resources]
    kept.tokens, kept.target_tokens = served.tokens, served.target_tokens
    with writing_folder(path) as unfinished, system_errors(path):
        tf.saved_model.save(kept, os.fspath(unfinished), signatures)
        for file in vocabularies:
            shutil.copy(file, unfinished)
        (unfinished / "hparams.json").write_text(model.hparams.to_json(), encoding="utf-8")
        fixed = {name: getattr(settings, name) for name in SETTINGS}
        (unfinished / "decode_hparams.json").write_text(json.dumps(fixed, indent=1) + "\n")
        how = (settings, storage, t2t_serving)
        text = readme(path, served, encoders["inputs"], *how, example)
        (unfinished / "README.md").write_text(text, encoding="utf-8")
        accept(unfinished)
    return path


def check_backend() -> None:
    """Refuses another backend of Keras than TensorFlow, which alone writes SavedModels."""
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Expected Keras on TensorFlow, which alone writes SavedModels. Received: "
            f"KERAS_BACKEND={keras.backend.backend()}. Leave it out."
        )


def check_storage(storage: str) -> None:
    """Refuses a type that is not in STORAGES."""
    if storage not in STORAGES:
        raise UserError(
            f"Expected one of {', '.join(STORAGES)} for a SavedModel. Received: {storage!r}. "
            "Correct --quantize, or choose --format=ctranslate2."
        )


class _SavedModel:
    """The form of `interop.export`."""

    prefix = ""
    use = "{path}/README.md has the calls."

    def check(self, request: ExportRequest) -> None:
        check_storage(request.quantize)
        check_backend()

    def write(
        self,
        run: TrainedRun,
        model: keras.Model,
        path: pathlib.Path,
        request: ExportRequest,
        accept: Callable[[pathlib.Path], None],
    ) -> None:
        of_run = provenance.read(run.path)
        golden = of_run and of_run.example
        export(
            model,
            run.encoders,
            path,
            run.decode_settings(request.decode_hparams),
            run.vocabulary_files,
            storage=request.quantize,
            t2t_serving=request.t2t_serving,
            example=(golden.source, golden.translation) if golden else EXAMPLE,
            accept=accept,
        )

    def translate(
        self, run: TrainedRun, folder: pathlib.Path, settings: DecodeHParams, texts: list[str]
    ) -> list[tuple[str, float]]:
        return translations(folder, texts)

    def engine(self, folder: pathlib.Path, model: keras.Model) -> Engine:
        return SavedModelEngine(folder, model.learned_positions)


FORM = _SavedModel()


def translations(folder: str | os.PathLike, texts: list[str]) -> list[tuple[str, float]]:
    """Returns the best translation of each text by an export, and its score."""
    loaded = tf.saved_model.load(os.fspath(folder))  # kept: it owns the variables
    result = loaded.signatures["text"](inputs=tf.constant([text.encode() for text in texts]))
    written = (text.decode(errors="replace") for text in result["outputs"].numpy())
    return list(zip(written, result["scores"].numpy().tolist(), strict=True))


def repeat(folder: pathlib.Path, found: provenance.Provenance) -> provenance.Translations:
    """Returns the golden sentences of an export's record, translated by it again."""
    return translations(folder, [each.source for each in found.golden])


class SavedModelEngine(Engine):
    """Decodes with a SavedModel: the best translation of each sentence.

    Limits, beam size and alpha are those of the export, whatever the caller asks for.

    Args:
        path: the folder that `export` wrote.
        learned_positions: how many positions the model has learned; None: it needs none.
    """

    def __init__(self, path: str | os.PathLike, learned_positions: int | None = None):
        self.learned_positions, self._path = learned_positions, pathlib.Path(path)
        self._loaded = tf.saved_model.load(os.fspath(path))  # kept: it owns the variables
        self._search = self._loaded.signatures["tf_example"]

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for file in sorted(path for path in self._path.rglob("*") if path.is_file()):
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def decode(self, sentences: Sentences, search: Search = USUAL) -> tuple[np.ndarray, np.ndarray]:
        examples = [_example([i for i in row if i]) for row in sentences.inputs.tolist()]
        best = self._search(input=tf.constant(examples, tf.string))
        return best["outputs"].numpy()[:, None], best["scores"].numpy()[:, None]


def _example(ids: list[int]) -> bytes:
    example = tf.train.Example()
    example.features.feature["inputs"].int64_list.value.extend(ids)
    return example.SerializeToString()
