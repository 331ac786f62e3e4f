"""A SavedModel of t2t-exporter, called from Python: texts in, translations and attention out."""

import dataclasses
import hashlib
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from t2t_repro import imports, schema
from t2t_repro.decoding.settings import FILLER, LONGEST_INPUT
from t2t_repro.errors import UserError


@dataclasses.dataclass(frozen=True)
class Question:
    """A text to translate.

    beams: whether all hypotheses are asked for, or the best alone, which takes less time.
    """

    text: str
    beams: bool = True


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A translation and its score, a log-probability divided by the length penalty."""

    translation: str
    score: float | None  # None where a model gives no number


@dataclasses.dataclass(frozen=True)
class Attention:
    """What the model looks at: weights[t][s] of source token s where it predicts target token t."""

    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]


def find(path: str | os.PathLike) -> pathlib.Path:
    """Returns the folder of an export, without loading it.

    Raises:
        UserError: if it is no folder, or holds something else.
    """
    folder = pathlib.Path(path).expanduser()
    if (folder / "saved_model.pb").is_file():
        return folder
    received = f"the file {folder}" if folder.is_file() else f"{folder}, which does not exist"
    mend = "Write one by t2t-exporter --output_dir=RUN, and give the folder that it names."
    if folder.is_dir():
        received = f"{folder}, which has no saved_model.pb"
        versions = [file.parent for file in folder.glob("*/saved_model.pb")]
        if versions:
            newest = max(versions, key=lambda p: (p.name.isdecimal() and int(p.name), p.name))
            mend = f"Give one of the exports in it, such as --model={newest}."
    raise UserError(f"Expected --model, the folder of a SavedModel. Received: {received}. {mend}")


class ExportedModel:
    """What serves: loaded once, called from any thread.

    Attributes:
        beam_size: how many hypotheses a text gets.
        alpha: the exponent of the length penalty.
        has_attention: whether `attend` works.
        longest: how many tokens of a text the model reads.
        counts_at_once: whether `count_tokens` of a sentence takes less than another thread would.
        sha256: of the file of its weights.

    Args:
        path: the folder that t2t-exporter wrote.

    Raises:
        UserError: if it cannot be loaded, or was not written by t2t-exporter.
    """

    counts_at_once = False

    def __init__(self, path: str | os.PathLike):
        folder = find(path)
        imports.quiet_tensorflow()
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  its operations are in the graph

        self._tf = tf
        try:
            self._loaded = tf.saved_model.load(os.fspath(folder))  # kept: it owns the variables
            signatures = self._loaded.signatures
            fixed = schema.read(folder / "decode_hparams.json", dict[str, Any])
            hparams = schema.read(folder / "hparams.json", dict[str, Any])
            self._text, self._best = signatures["text"], signatures["best"]
            self._attention = signatures.get("attention")
            self._tokens, self._target_tokens = self._loaded.tokens, self._loaded.target_tokens
            self.beam_size, self.alpha = int(fixed["beam_size"]), float(fixed["alpha"])
            self.longest = fixed["max_input_size"] if fixed["max_input_size"] > 0 else LONGEST_INPUT
            if hparams["pos"] == "emb":  # it has learned so many positions
                self.longest = min(self.longest, hparams["max_length"])
            for beams in (False, True):  # the first call takes seconds
                self.translate([Question("a", beams=beams)])
        except Exception as error:  # TensorFlow raises many kinds for a file that is not right
            first = str(error).strip().partition("\n")[0][:300]
            raise UserError(
                f"Expected an export by t2t-exporter in {folder}. Received: one that cannot be "
                f"loaded: {type(error).__name__}: {first}. Export the run again."
            ) from error
        with open(folder / "variables" / "variables.data-00000-of-00001", "rb") as weights:
            self.sha256 = hashlib.file_digest(weights, "sha256").hexdigest()
        self.has_attention = self._attention is not None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has."""
        return self._tokens(self._strings(texts)).numpy().tolist()

    def count_target_tokens(self, texts: Sequence[str]) -> list[int]:
        """As `count_tokens`, of translations."""
        return self._target_tokens(self._strings(texts)).numpy().tolist()

    def translate(self, questions: Sequence[Question]) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each question, best first, `beam_size` of them or fewer."""
        texts = self._strings([question.text for question in questions])
        if not any(question.beams for question in questions):
            result = self._best(inputs=texts)
            rows = zip(result["outputs"].numpy(), result["scores"].numpy(), strict=True)
            return [_hypotheses([text], score[None]) for text, score in rows]
        result = self._text(inputs=texts)
        rows = zip(result["beams"].numpy(), result["beam_scores"].numpy(), strict=True)
        return [_hypotheses(texts, scores) for texts, scores in rows]

    def attend(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Returns the attention of each text and its translation."""
        sources, targets = zip(*pairs, strict=True)
        result = self._attention(inputs=self._strings(sources), targets=self._strings(targets))
        arrays = (result[name].numpy() for name in ("source_tokens", "target_tokens", "attention"))
        return [_attention(*row) for row in zip(*arrays, strict=True)]

    def _strings(self, texts: Sequence[str]) -> Any:
        return self._tf.constant([text.encode() for text in texts], self._tf.string)


def _hypotheses(texts: Any, scores: Any) -> list[Hypothesis]:
    """Those of one text; the best stays whatever its score."""
    beams = zip(texts, scores.tolist(), strict=True)
    return [
        Hypothesis(text.decode(errors="replace"), score if math.isfinite(score) else None)
        for number, (text, score) in enumerate(beams)
        if number == 0 or score > FILLER
    ]


def _attention(source: Any, target: Any, weights: Any) -> Attention:
    """Those of one pair, padding left out."""
    source, target = ([t.decode(errors="replace") for t in side if t] for side in (source, target))
    rows = weights[: len(target), : len(source)].astype(float).round(4).tolist()
    return Attention(source, target, rows)
