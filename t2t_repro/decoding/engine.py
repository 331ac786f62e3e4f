"""A model as an engine of search.py, or several models as one.

`decode` is tensor2tensor's: one length limit for the batch. `translate` and the programs take an
engine with a limit for each sentence, so that a translation does not depend on its neighbours.

Where the search meets the model depends on the backend: TensorFlow compiles the whole of it
(graph_search.py), others each shape of a chunk (chunked_search.py). The engine keeps what is
compiled.

Legend: B sentences, K beams, S tokens of a source, L tokens of a translation.
"""

import dataclasses
import functools
import hashlib
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.decoding.beam_search import Rules
from t2t_repro.decoding.pairs import LogProbs, MostAttended, align, run_pairs
from t2t_repro.decoding.program import static_shapes
from t2t_repro.decoding.search import (
    FEW_ROWS,
    Advance,
    Engine,
    Pair,
    Search,
    Sentences,
    ignore,
)
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.steering import SteeredModel
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.models import copies


def decode(
    model: keras.Model,
    inputs: Any,
    beam_size: int = 4,
    alpha: float = 0.6,
    decode_length: int = 50,
    top_beams: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Decodes a batch as tensor2tensor does.

    Args:
        model: a `Transformer`, or another `SequenceModel`.
        inputs: int32 (B, S), padded with 0.
        beam_size: 1 is greedy search.
        alpha: exponent of the length penalty.
        decode_length: at most S + decode_length tokens, with S the padded length.
        top_beams: how many hypotheses to return, at most beam_size. With 1 the search stops as
            soon as it is certain.

    Returns:
        ids int32 (B, K, L), K = top_beams and L the steps that were taken: they end at the first 1
        and are padded with 0. scores float32 (B, K): log-probabilities divided by the length
        penalty; greedy search does not divide.

    Raises:
        UserError: if inputs are no batch of ids of the model's vocabulary.
    """
    engine, inputs = engine_of(model), np.asarray(inputs)
    size = getattr(model, "inputs_vocab_size", np.inf)
    least, most = inputs.min(initial=0), inputs.max(initial=0)
    if inputs.ndim != 2 or inputs.dtype.kind not in "iu" or least < 0 or most >= size:
        raise UserError(
            f"Expected integer ids of shape (batch, length), with 0 <= id < {size}. Received: "
            f"{inputs.dtype} of shape {inputs.shape}, with values {least} to {most}."
        )
    limits = np.full(len(inputs), inputs.shape[1] + decode_length, "int32")
    search = Search(beam_size, alpha, top_beams, per_sentence=False)
    return engine.decode(Sentences(inputs, limits), search)


def translate(
    model: Any,
    sentences: Sequence[str],
    encoder: Any,
    *,
    targets_encoder: Any = None,
    beam_size: int = 4,
    alpha: float = 0.6,
) -> list[str]:
    """Returns a model's translation of each sentence, which does not depend on the others.

    Args:
        model: a `Transformer`, or another `SequenceModel`.
        sentences: the sentences.
        encoder: `encode` makes ids of text, `decode` text of ids.
        targets_encoder: that of the targets; None: the same.
        beam_size: 1 is greedy search.
        alpha: exponent of the length penalty.

    Raises:
        UserError: on text alone.
    """
    encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
    settings = DecodeHParams(beam_size=beam_size, alpha=alpha)
    return Translator(engine_of(model), encoders, settings, warn=warnings.warn).write(sentences)


@functools.lru_cache(maxsize=2)
def engine_of(model: keras.Model) -> "ModelEngine":
    """Returns the engine of one of the last two models, whose programs are compiled once."""
    return ModelEngine(model)


class ModelEngine(Engine):
    """A model as an engine.

    Batches, or the parts of one, are searched side by side where several devices have a copy of the
    model (see `models.copies`), and on a CPU as `searches` says.

    Args:
        model: a `SequenceModel`, or an `Ensemble` of them.
        searches: threads that search at the same time on one device, if each sentence stops by
            itself; see `program.share_cores`.
    """

    def __init__(self, model: keras.Model, searches: int = 1):
        self.model = model
        self._devices, self._searches = copies.devices_of(model), searches
        self.learned_positions = getattr(model, "learned_positions", None)
        self.sees_padding = getattr(model, "sees_padding", False)
        models = getattr(model, "models", [model])
        attends = all(hasattr(each, "attention_weights") for each in models)
        self.cannot = frozenset(() if attends else ("return_alignments",))
        self._log_probs, self._most_attended = LogProbs(model), MostAttended(model)
        self._compiled: dict[tuple, Any] = {}  # by all but the penalty and the sentences
        self._compiling = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """The digest of the current weights."""
        digest = hashlib.sha256()
        for variable in self.model.weights:
            digest.update(variable.path.encode())
            digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
        return digest.hexdigest()

    def token_log_probs(
        self, pairs: list[Pair], batch_size: int = 0, progress: Advance = ignore
    ) -> list[np.ndarray]:
        return run_pairs(self._log_probs, pairs, batch_size, progress)

    def align(self, pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
        return align(self._most_attended, pairs, encoders)

    def decode_all(
        self, batches: Sequence[Sentences], search: Search
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As many batches at once as there are places; threads share the remaining ones."""
        places = self._places(search)
        whole = len(batches) if len(places) > 1 else 0
        if len(self._devices) == 1:
            whole -= whole % len(places)
        elif whole == 1:
            whole = 0

        def searched(sentences: Sentences, device: str) -> tuple[np.ndarray, np.ndarray]:
            return self._searched(sentences, search, device)

        yield from copies.map_over_devices(searched, batches[:whole], places)
        yield from super().decode_all(batches[whole:], search)

    def _places(self, search: Search) -> tuple[str, ...]:
        """Returns the device of each thread that searches."""
        if len(self._devices) > 1 or not search.per_sentence:
            return self._devices
        return self._devices * self._searches

    def decode(self, sentences: Sentences, search: Search) -> tuple[np.ndarray, np.ndarray]:
        places = self._places(search)
        parts = min(len(places), len(sentences)) if search.per_sentence else 1
        if len(self._devices) > 1:  # of which each traces the search first, for seconds
            parts = min(parts, len(sentences) * search.beam_size // FEW_ROWS)
        if parts <= 1:  # in the caller's thread, which alone knows the strategy and the device
            return self._searched(sentences, search, places[0])
        rows = [np.arange(part, len(sentences), parts) for part in range(parts)]

        def searched(some: np.ndarray, device: str) -> tuple[np.ndarray, np.ndarray]:
            return self._searched(sentences.take(some), search, device)

        found = list(copies.map_over_devices(searched, rows, places))
        steps = max(ids.shape[2] for ids, _ in found)
        ids = np.zeros((len(sentences), search.top_beams, steps), "int32")
        scores = np.zeros((len(sentences), search.top_beams), "float32")
        for some, (its_ids, its_scores) in zip(rows, found, strict=True):
            ids[some, :, : its_ids.shape[2]], scores[some] = its_ids, its_scores
        return ids, scores

    def _searched(
        self, sentences: Sentences, search: Search, device: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `decode`, by one search on a device."""
        top_beams = search.top_beams
        if not len(sentences):
            return np.zeros((0, top_beams, 0), "int32"), np.zeros((0, top_beams), "float32")
        if self.learned_positions is not None:
            limits = np.minimum(sentences.limits, self.learned_positions)
            sentences = dataclasses.replace(sentences, limits=limits)
        beam_size = search.beam_size
        rules = Rules(
            beam_size,
            greedy=beam_size == 1,
            stop_early=search.top_beams == 1,
            per_sentence=search.per_sentence,
            force_length=search.force_length,
            constrained=bool(sentences.facts),
        )
        steered = SteeredModel(self.model, search.constraint, search.sampling)
        key = rules, search.constraint, search.sampling, frozenset(sentences.facts)
        with self._compiling:
            if key not in self._compiled:
                self._compiled[key] = compiled(steered, rules)
        ids, scores = self._compiled[key].search(sentences, search.alpha, device)
        return ids[:, :top_beams], scores[:, :top_beams]


def compiled(steered: SteeredModel, rules: Rules) -> Any:
    """Returns the compiled search of the backend."""
    if static_shapes():
        from t2t_repro.decoding.chunked_search import ChunkedSearch

        return ChunkedSearch(steered, rules)
    from t2t_repro.decoding.graph_search import GraphSearch

    return GraphSearch(steered, rules)


class Ensemble(keras.Model):
    """Several models that decode as one, by the mean of their log-probabilities.

    It has the methods of a `Transformer` that a search calls. The models may be of any sizes; their
    ids must mean the same.

    Args:
        models: `Transformer`s, at least one.
    """

    def __init__(self, models: Sequence[keras.Model]):
        super().__init__(autocast=False, name="ensemble")
        self.models = list(models)
        self.built = True

    @property
    def learned_positions(self) -> int | None:
        """How many positions all of the models have; None where they are computed."""
        known = [m.learned_positions for m in self.models if m.learned_positions is not None]
        return min(known, default=None)

    @property
    def sees_padding(self) -> bool:
        """Whether the outputs of one of them depend on padding."""
        return any(model.sees_padding for model in self.models)

    def call(self, batch, training=False):
        """Returns the logits (B, T, V): the mean, normalized again."""
        return self._mean([model(batch, training=training) for model in self.models])

    def start_decoding(self, inputs) -> list:
        return [model.start_decoding(inputs) for model in self.models]

    def initial_state(self, batch: int, beams: int) -> list:
        return [model.initial_state(batch, beams) for model in self.models]

    def make_room(self, state, more) -> list:
        return [model.make_room(own, more) for model, own in zip(self.models, state, strict=True)]

    def layout(self) -> list:
        return [model.layout() for model in self.models]

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        layouts = [None] * len(self.models) if layout is None else layout
        pairs = [
            model.decode_step(ids, parents, step, own, kept, laid_out)
            for model, own, kept, laid_out in zip(self.models, state, memory, layouts, strict=True)
        ]
        return self._mean([logits for logits, _ in pairs]), [state for _, state in pairs]

    def _mean(self, logits):
        size = min(x.shape[-1] for x in logits)  # vocab_divisor makes tables larger
        total = 0.0
        for x in logits:
            total = total + ops.log_softmax(ops.cast(x[..., :size], "float32"), axis=-1)
        return total / len(logits)
