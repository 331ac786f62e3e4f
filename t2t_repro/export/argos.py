"""A trained model as a package of Argos Translate and LibreTranslate: a zip with one folder in it.

The folder has the CTranslate2 model, `sentencepiece.model` and metadata.json. Argos passes
SentencePiece's pieces to the model, unknown text as the unknown piece. It searches with its own
settings, and writes a blank for each `_`.
"""

import json
import os
import pathlib
import shutil
import tempfile
import zipfile

from t2t_repro import __version__, provenance
from t2t_repro.decoding.ctranslate2_engine import library
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import ctranslate2
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.files import write_json
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.transfer import tokens_of

USE = "argospm install {path}/*.argosmodel"
QUANTIZATIONS = ctranslate2.QUANTIZATIONS
MODEL = "sentencepiece.model"
_BEAMS, _ALPHA = 4, 0.2  # what Argos searches with


def check(request: ExportRequest) -> None:
    """Refuses malformed languages, and a machine without CTranslate2.

    Raises:
        UserError: naming it.
    """
    ctranslate2.check(request)
    if len((request.languages or "").split("-")) != 2:
        raise UserError(
            "Expected --languages=SOURCE-TARGET for an Argos package, in ISO 639 codes such "
            f"as de-en. Received: {request.languages}."
        )


def write(job: ExportJob) -> None:
    """Writes translate-SOURCE_TARGET.argosmodel.

    Raises:
        UserError: if CTranslate2 cannot compute the model, or its vocabulary is not one
            SentencePiece model.
    """
    encoder, files = job.run.encoders["inputs"], job.run.vocabulary_files
    if not isinstance(encoder, SentencePieceEncoder) or len(set(files)) != 1:
        raise UserError(
            "Expected one SentencePiece model for both languages, which Argos needs to segment "
            f"text. Received: {', '.join(file.name for file in files)}. For T2T's subwords use "
            "--format=ctranslate2, or t2t-server, which speaks LibreTranslate's protocol."
        )
    source, target = (job.request.languages or "").split("-")
    name = f"translate-{source}_{target}"
    about = {"from_code": source, "to_code": target, "from_name": source, "to_name": target}
    about |= {"package_version": __version__, "argos_version": "1.9"}
    with tempfile.TemporaryDirectory() as path:
        there = pathlib.Path(path, name)
        ctranslate2.convert(job.model, job.run.encoders, there / "model", job.request.quantize)
        config = json.loads((there / "model" / "config.json").read_text(encoding="utf-8"))
        names = tokens_of(encoder, encoder.vocab_size)
        unknown = encoder.encode("\ufdd0")[-1]  # no character
        config["unk_token"] = names[unknown]
        write_json(there / "model" / "config.json", config, ensure_ascii=False)
        write_json(there / "metadata.json", about, ensure_ascii=False)
        shutil.copy(files[0], there / MODEL)
        shutil.make_archive(str(job.folder / name), "zip", path)
    (job.folder / f"{name}.zip").rename(job.folder / f"{name}.argosmodel")


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> provenance.Translations:
    """Returns the best translation of each text, and its score, as Argos finds it."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as path:
        for archive in folder.glob("*.argosmodel"):
            zipfile.ZipFile(archive).extractall(path)
        (there,) = pathlib.Path(path).iterdir()
        processor = sentencepiece.SentencePieceProcessor(model_file=os.fspath(there / MODEL))
        translator = library().Translator(os.fspath(there / "model"), intra_threads=1)
        found = translator.translate_batch(
            [processor.encode(text, out_type=str) for text in texts],
            beam_size=_BEAMS,
            length_penalty=_ALPHA,
            replace_unknowns=True,
            return_scores=True,
        )
    decoded = (processor.decode_pieces(each.hypotheses[0]) for each in found)
    best = (text.replace("\u2581", " ").replace("_", " ").removeprefix(" ") for text in decoded)
    return list(zip(best, (each.scores[0] for each in found), strict=True))
