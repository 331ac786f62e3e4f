"""Decoding with a CTranslate2 model that export/ctranslate2.py wrote: beam and greedy search.

CTranslate2's beam search divides by length ** alpha, not by ((5 + length) / 6) ** alpha, and ends
when as many hypotheses are finished as there are beams; so more of them are asked for, and ranked
again here.
"""

import contextlib
import os
import pathlib
from typing import Any

import numpy as np

from t2t_repro import schema
from t2t_repro.decoding.search import Engine, Search, Sentences
from t2t_repro.errors import UserError
from t2t_repro.files import sha256
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.transfer import tokens_of, without_blanks

WEIGHTS = "model.bin"
DETAILS = "t2t_repro.json"  # what CTranslate2 does not keep
# How many hypotheses to wait for, for each beam. Two find tensor2tensor's best in 999 of 1,000
# sentences, one in 995; two take a fifth more time. int8 changes 70 anyway.
PATIENCE, QUICK_PATIENCE = 2, 1


def library() -> Any:
    """Returns the module ctranslate2.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            "Expected the package ctranslate2 to be installed. Received: no such package. Install "
            "it: pip install 't2t_repro[ctranslate2]'."
        ) from error
    return ctranslate2


class CTranslate2Engine(Engine):
    """Decodes with a CTranslate2 model: beam search and greedy search, and no more.

    Args:
        path: the folder that `convert` wrote.
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
            self.adds_end = schema.read(path / "config.json", dict[str, Any])["add_source_eos"]
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            raise UserError(
                f"Expected a CTranslate2 model in {path} that loads with "
                f"--compute_type={compute_type}. Received: {error}. Write the model with "
                "t2t-exporter --format=ctranslate2, or choose another --compute_type."
            ) from error
        self.ids = {token: i for i, token in enumerate(self.target)}
        self.compute_type = self.translator.compute_type
        self.patience = PATIENCE if self.compute_type == "float32" else QUICK_PATIENCE
        self._digest = sha256(path / WEIGHTS)

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
                    "Expected a CTranslate2 model with the run's vocabulary. Received: "
                    f"{self.path}, with another vocabulary for {side} ({len(names)} tokens). Set "
                    "--engine_dir to an export of this run, or remove --engine_dir. If an "
                    "earlier version of t2t_repro wrote the model, delete its folder."
                )

    def decode(self, sentences: Sentences, search: Search) -> tuple[np.ndarray, np.ndarray]:
        top_beams = search.top_beams
        tokens = [[self.source[i] for i in row if i] for row in sentences.inputs]
        if self.adds_end:  # which each source has; exports of earlier versions do not add it
            tokens = [row[:-1] for row in tokens]
        limits = sentences.limits
        if self.learned_positions:
            limits = np.minimum(limits, self.learned_positions)
        most = int(np.max(limits, initial=1))
        alpha = 0.0 if search.beam_size == 1 else search.alpha
        results = self._search(tokens, most, search.beam_size, alpha)
        # CTranslate2 has one limit for a batch: translations beyond their own are decoded again.
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


def _vocabulary(path: pathlib.Path, side: str) -> list[str]:
    name = "shared" if (path / "shared_vocabulary.json").exists() else side
    return schema.read(path / f"{name}_vocabulary.json", list[str])
