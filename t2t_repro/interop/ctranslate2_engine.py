"""Decoding with a CTranslate2 model, which ctranslate2.py writes.

CTranslate2's beam search divides by length ** alpha, not by ((5 + length) / 6) ** alpha, and ends
when as many hypotheses are finished as there are beams; so more of them are asked for, and ranked
again here.
"""

import contextlib
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from t2t_repro import provenance, registry, schema
from t2t_repro.decoding.engine import USUAL, Engine, Search, Sentences
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.interop import ctranslate2
from t2t_repro.interop.ctranslate2 import DETAILS, library
from t2t_repro.interop.form import ExportRequest
from t2t_repro.runs import TrainedRun
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.token_names import tokens_of, without_blanks

# How many hypotheses are waited for, for each beam. Two find tensor2tensor's best in 999 of 1,000
# sentences, one in 995, for a fifth of the time more; int8, which is for speed, changes 70 anyhow.
PATIENCE, QUICK_PATIENCE = 2, 1


class CTranslate2Engine(Engine):
    """Decodes with a CTranslate2 model: beam search and greedy search, and no more.

    Args:
        path: the folder that `ctranslate2.export` wrote.
        compute_type: "default" (as the weights are stored), "float32", "int8", "auto", ...
        threads: of one batch; 0: CTranslate2's own choice.
        searches: how many threads may decode a batch each at the same time.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot load the folder so.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        compute_type: str = "default",
        threads: int = 0,
        searches: int = 1,
    ):
        path = self.path = pathlib.Path(path)
        try:
            self.translator = library().Translator(
                os.fspath(path),
                device="cpu",
                compute_type=compute_type,
                intra_threads=threads,
                inter_threads=searches,
            )
            self.source, self.target = _vocabulary(path, "source"), _vocabulary(path, "target")
            details = schema.read(path / DETAILS, dict[str, Any])
            self.learned_positions = details["positions"]
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            raise UserError(
                f"Expected a CTranslate2 model in {path} that can be computed in {compute_type}. "
                f"Received: {error}. Write it by t2t-exporter --format=ctranslate2, or choose "
                "another --compute_type."
            ) from error
        self.ids = {token: i for i, token in enumerate(self.target)}
        self.compute_type = self.translator.compute_type
        self.patience = PATIENCE if self.compute_type == "float32" else QUICK_PATIENCE
        with open(path / "model.bin", "rb") as file:
            self._digest = hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def fingerprint(self) -> str:
        return f"{self.compute_type} patience {self.patience} {self._digest}"

    def check_vocabularies(self, encoders: dict[str, Any]) -> None:
        """Refuses encoders whose ids mean something else to the engine.

        Raises:
            UserError: naming the side.
        """
        for side, names in (("inputs", self.source), ("targets", self.target)):
            same = tokens_of(encoders[side], len(names)) == list(map(without_blanks, names))
            with contextlib.suppress(NotImplementedError):  # numbers have no bound
                same &= len(names) >= encoders[side].vocab_size
            if not same:
                raise UserError(
                    f"Expected a CTranslate2 model with the run's vocabulary. Received: one of "
                    f"{len(names)} {side} that differ from it, {self.path}. Give the --engine_dir "
                    "of this run, or leave it out. If it is of this run, an earlier version wrote "
                    "it: remove it, and have it made again."
                )

    def decode(self, sentences: Sentences, search: Search = USUAL) -> tuple[np.ndarray, np.ndarray]:
        top_beams = search.top_beams
        tokens = [[self.source[i] for i in row if i] for row in sentences.inputs]
        limits = sentences.limits
        if self.learned_positions:
            limits = np.minimum(limits, self.learned_positions)
        most = int(np.max(limits, initial=1))
        alpha = 0.0 if search.beam_size == 1 else search.alpha
        results = self._search(tokens, most, search.beam_size, alpha)
        # CTranslate2 has one limit for a batch: what went beyond its own is decoded again.
        long = [i for i, r in enumerate(results) if max(map(len, r.hypotheses)) > limits[i]]
        for limit in {int(limits[i]) for i in long}:
            rows = [i for i in long if limits[i] == limit]
            again = self._search([tokens[i] for i in rows], limit, search.beam_size, alpha)
            for i, result in zip(rows, again, strict=True):
                results[i] = result
        ids = np.zeros((len(tokens), top_beams, most), "int32")
        scores = np.zeros((len(tokens), top_beams), "float32")
        for row, result in enumerate(results):
            hypotheses = [
                self._ranked(names, score, alpha)
                for names, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            # The finished ones first, as beam search itself prefers them.
            hypotheses.sort(key=lambda h: (h[0][-1:] != [EOS_ID], -h[1]))
            for beam, (some, score) in enumerate(hypotheses[:top_beams]):
                ids[row, beam, : len(some)] = some
                scores[row, beam] = score
        return ids, scores

    def _search(self, sentences: list[list[str]], limit: int, beam_size: int, alpha: float) -> list:
        patience = self.patience if beam_size > 1 else 1
        return self.translator.translate_batch(
            sentences,
            beam_size=beam_size,
            patience=patience,
            num_hypotheses=beam_size * patience,
            length_penalty=alpha,
            max_decoding_length=limit,
            min_decoding_length=0,  # 1, its default, would forbid the end at the first position
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )

    def _ranked(self, tokens: list[str], score: float, alpha: float) -> tuple[list[int], float]:
        """The ids of a hypothesis, and tensor2tensor's score for it."""
        ids = [self.ids[token] for token in tokens]
        log_prob = score * len(ids) ** alpha
        penalty = ((5 + len(ids)) / 6) ** alpha if ids[-1:] == [EOS_ID] else 1.0
        return ids, log_prob / penalty


def of_weights(
    model: Any,
    encoders: dict[str, Any],
    threads: int = 0,
    searches: int = 1,
) -> CTranslate2Engine:
    """Returns an engine with the weights that a model has, in float32; no file is left behind.

    Arguments as of `CTranslate2Engine` and `ctranslate2.export`.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot compute this model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        ctranslate2.export(model, encoders, path)
        return CTranslate2Engine(path, threads=threads, searches=searches)


class _CTranslate2:
    """The form of `interop.export`."""

    prefix = "ctranslate2-"
    use = "t2t-decoder --engine=ctranslate2 --engine_dir={path} decodes with it."

    def check(self, request: ExportRequest) -> None:
        ctranslate2.check_quantization(request.quantize)
        library()

    def write(
        self,
        run: TrainedRun,
        model: Any,
        path: pathlib.Path,
        request: ExportRequest,
        accept: Callable[[pathlib.Path], None],
    ) -> None:
        ctranslate2.export(
            model,
            run.encoders,
            path,
            request.quantize,
            run.vocabulary_files,
            accept,
        )

    def translate(
        self, run: TrainedRun, folder: pathlib.Path, settings: DecodeHParams, texts: list[str]
    ) -> list[tuple[str, float]]:
        return provenance.translations(CTranslate2Engine(folder), run.encoders, settings, texts)

    def engine(self, folder: pathlib.Path, model: Any) -> Engine:
        return CTranslate2Engine(folder)


FORM = _CTranslate2()


def repeat(folder: pathlib.Path, found: provenance.Provenance) -> provenance.Translations:
    """Returns the golden sentences of an export's record, translated by it again."""
    encoders = registry.get_problem(found.problem).feature_encoders(os.fspath(folder))
    settings = DecodeHParams(**found.decoding)  # type: ignore[arg-type]
    texts = [each.source for each in found.golden]
    return provenance.translations(CTranslate2Engine(folder), encoders, settings, texts)


def _vocabulary(path: pathlib.Path, side: str) -> list[str]:
    name = "shared" if (path / "shared_vocabulary.json").exists() else side
    return schema.read(path / f"{name}_vocabulary.json", list[str])
