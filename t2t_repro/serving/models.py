"""The served models: exports, called from Python, each for a pair of languages."""

import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, cast

from t2t_repro import provenance, registry, schema
from t2t_repro.corpora.checks.languages import load_identifier
from t2t_repro.decoding.ctranslate2_engine import WEIGHTS, CTranslate2Engine
from t2t_repro.decoding.settings import FILLER, LONGEST_INPUT, DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.errors import UserError
from t2t_repro.files import literal, sha256
from t2t_repro.process import available_cores

_CODE = "[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?"
_MODEL = re.compile(f"(?:({_CODE})-({_CODE})=)?(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A translation and its score, a log-probability divided by the length penalty."""

    translation: str
    score: float | None  # None where a model gives no number


@dataclasses.dataclass(frozen=True)
class Attention:
    """Attention: weights[t][s] of source token s for target token t."""

    input: str
    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]


class SavedModel:
    """A SavedModel of t2t-exporter: loaded once, called from any thread.

    Attributes:
        has_attention: whether `attend` works.
        counts_at_once: whether `count_tokens` of a sentence takes less than another thread would.
        longest: the most tokens of a text that the model reads.
        sha256: of the file of its weights.
    """

    counts_at_once = False

    def __init__(self, folder: pathlib.Path, record: provenance.Provenance):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  its operations are in the graph

        self._tf = tf
        self._loaded = tf.saved_model.load(literal(folder))  # kept: it owns the variables
        self.has_attention = "attention" in self._loaded.signatures
        limit = int(record.decoding["max_input_size"])
        self.longest = limit if limit > 0 else LONGEST_INPUT
        hparams = schema.read(folder / "hparams.json", dict[str, Any])
        if hparams["pos"] == "emb":  # it has learned so many positions
            self.longest = min(self.longest, hparams["max_length"])
        for beams in (False, True):  # the first call takes seconds
            self.translate(["a"], beams)
        self.sha256 = sha256(folder / "variables" / "variables.data-00000-of-00001")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has."""
        return self._loaded.tokens(self._strings(texts)).numpy().tolist()

    def count_target_tokens(self, texts: Sequence[str]) -> list[int]:
        """As `count_tokens`, of translations."""
        return self._loaded.target_tokens(self._strings(texts)).numpy().tolist()

    def translate(self, texts: Sequence[str], beams: bool) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each text, best first: all, or one, which takes less time."""
        names = ("beams", "beam_scores") if beams else ("outputs", "scores")
        result = self._call("text" if beams else "best", inputs=texts)
        written, scores = (result[name].reshape(len(texts), -1) for name in names)
        rows = ([text.decode(errors="replace") for text in row] for row in written)
        return list(map(_hypotheses, rows, scores.tolist()))

    def attend(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """Returns the attention of each text and its translation."""
        sources, targets = zip(*pairs, strict=True)
        result = self._call("attention", inputs=sources, targets=targets)
        arrays = (result[name] for name in ("source_tokens", "target_tokens", "attention"))
        return [_attention(*pair, *row) for pair, *row in zip(pairs, *arrays, strict=True)]

    def _call(self, signature: str, **texts: Sequence[str]) -> dict[str, Any]:
        given = {name: self._strings(some) for name, some in texts.items()}
        result = self._loaded.signatures[signature](**given)
        return {name: value.numpy() for name, value in result.items()}

    def _strings(self, texts: Sequence[str]) -> Any:
        return self._tf.constant([text.encode() for text in texts], self._tf.string)


class CTranslate2Model:
    """A CTranslate2 model of t2t-exporter, as `SavedModel`, without attention.

    Args:
        folder: of the export.
        record: its provenance.
        searches: the batches that are decoded at the same time.

    Raises:
        UserError: if CTranslate2 is missing or cannot compute the model, or the model's vocabulary
            differs from the one beside it.
    """

    has_attention, counts_at_once = False, True

    def __init__(self, folder: pathlib.Path, record: provenance.Provenance, searches: int):
        encoders = registry.get_problem(record.problem).feature_encoders(os.fspath(folder))
        threads = available_cores() // searches
        engine = CTranslate2Engine(folder, threads=threads, searches=searches)
        engine.check_vocabularies(encoders)
        settings = DecodeHParams(**record.decoding, batch_size=1 << 30)  # type: ignore[arg-type]
        self._best, self._beams = (
            Translator(engine, encoders, each, warn=lambda text: None)
            for each in (settings, dataclasses.replace(settings, return_beams=True))
        )
        self.longest = self._best.longest
        self.sha256 = sha256(folder / WEIGHTS)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Returns how many tokens each text has."""
        encode = self._best.encoders["inputs"].encode
        return [1 + len(encode(text.strip())) for text in texts]

    def translate(self, texts: Sequence[str], beams: bool) -> list[list[Hypothesis]]:
        """As `SavedModel.translate`; in one batch, since the server limits its size."""
        found = (self._beams if beams else self._best).translate_lines(texts)
        return [
            _hypotheses([one_line(h.text) for h in row], [h.score for h in row]) for row in found
        ]


@dataclasses.dataclass
class ServedModel:
    """An export that --model names, and its model once it is loaded.

    Attributes:
        name: its languages, such as "de-en"; the folder's name if unknown.
        source, target: their codes in ISO 639, or "".
        path: its folder.
        record: that of t2t-exporter.
        model: a `SavedModel` or a `CTranslate2Model`.
    """

    name: str
    source: str
    target: str
    path: pathlib.Path
    record: provenance.Provenance
    model: Any = None

    def load(self, searches: int) -> None:
        """Loads the model, to compute `searches` batches at the same time."""
        if self.record.kind == "ctranslate2":
            self.model = CTranslate2Model(self.path, self.record, searches)
        else:
            self.model = SavedModel(self.path, self.record)


def find(given: Sequence[str]) -> list[ServedModel]:
    """Returns the exports that --model names: "DIR" or "de-en=DIR".

    Raises:
        UserError: if there is none, one is no export, or two have the same name.
    """
    found = {}
    for text in given:
        source, target, path = cast(re.Match, _MODEL.fullmatch(text)).groups()
        folder = pathlib.Path(path).expanduser()
        record = provenance.read(folder)
        if record is None or record.kind == provenance.RUN:
            raise UserError(
                "Expected --model to be a folder written by t2t-exporter, such as RUN/export/STEP. "
                f"Received: {folder}, without an export's {provenance.PROVENANCE}."
            )
        pair = (source, target) if source else languages_of(record.problem)
        name = "-".join(pair) if pair[0] else folder.resolve().name
        if name in found:
            raise UserError(f"Expected one --model=de-en=DIR for a pair. Received: {name} twice.")
        found[name] = ServedModel(name, pair[0], pair[1], folder, record)
    if not found:
        raise UserError("Expected --model, a folder written by t2t-exporter. Received: none.")
    return list(found.values())


def languages_of(problem: str) -> tuple[str, str]:
    """Returns the codes that a problem's name has, as in translate_ende_wmt32k_rev, or "", "".

    Another name may look like codes (translate_text_...): those of no known language are none.
    """
    found = re.match("translate_([a-z]{2})([a-z]{2})_", problem)
    known = found and set(load_identifier().nb_classes).issuperset(found.groups())
    pair = (found[1], found[2]) if found and known else ("", "")
    return pair[::-1] if problem.endswith("_rev") else pair


def _hypotheses(texts: Sequence[str], scores: Sequence[float]) -> list[Hypothesis]:
    """Those of one text; the best stays whatever its score."""
    return [
        Hypothesis(text, score if math.isfinite(score) else None)
        for number, (text, score) in enumerate(zip(texts, scores, strict=True))
        if number == 0 or score > FILLER
    ]


def _attention(input: str, translation: str, source: Any, target: Any, weights: Any) -> Attention:
    """Those of one pair, padding left out."""
    source, target = ([t.decode(errors="replace") for t in side if t] for side in (source, target))
    rows = weights[: len(target), : len(source)].astype(float).round(4).tolist()
    return Attention(input, translation, source, target, rows)
