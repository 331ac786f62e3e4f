"""What engines search: `Search` holds the settings, `Sentences` the batch.

An `Engine` decodes. Neither Keras nor TensorFlow is loaded. What steers the search of a sentence
besides the model are its facts, arrays whose first axis is B:

    "words"     int32 (B, W): what `constraint.facts` returned, padded with -1
    "least"     int32 (B,): the fewest tokens before the end
    "prefixes"  int32 (B, P): the tokens that a translation begins with, padded with 0
    "draws"     float32 (B, L): the random number of each step

Legend: B sentences, K beams, S tokens of a source, V vocabulary, W words, P tokens of a prefix,
L tokens of a translation.
"""

import abc
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from t2t_repro.decoding.settings import DecodeHParams, Sampling
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import EOS_ID

Tensor = Any
State = Any
Advance = Callable[[int], None]  # gets the number of sentences of each finished batch
Pair = tuple[list[int], list[int]]  # ids of a source and of its translation
FEW_ROWS = 64  # a product with fewer does not make up for reading its weights
_MOST = np.float32(1 - 2**-22)  # a draw times a sum must stay below the sum in float32


def ignore(count: int) -> None:
    """An `Advance` that reports nothing."""


class Constraint(Protocol):
    """Forbids tokens of a search, step by step.

    A constraint is made once for a vocabulary. It reads the facts of each source sentence, and
    carries a state along each beam, which `constrained` moves with the beams:

        facts(sources) -> int32 (B, W)                 of source texts, as wide as they need
        initial_state(facts (B, W), limits (B,), beams) -> state, leaves int32 (B, K, ...)
        allowed(ids (B, K), step, state) -> (allowed bool (B, K, V), state)
        progress(state) -> (written, left), int32 (B, K): words of the source
        writes_word: int32 (V,), 1 for the tokens that each write a word of the source

    The forbidden tokens get probability 0, and the others keep theirs: a hypothesis is not worth
    more because the model had no choice. `parsing/constraint.py` has the one for trees.

    A beam compares hypotheses of equal numbers of tokens. Those that delay the words would win, and
    pay later. So each is charged its future cost, as in phrase-based translation (Koehn et al.,
    2003): a price for every word that is left. The price is a word's entropy, of the model's
    choices along the best hypothesis so far. At the end no word is left, and the score of a
    hypothesis is the model's; one that meets its limit before keeps the charge.
    """

    def facts(self, sources: Sequence[str]) -> np.ndarray: ...

    def initial_state(self, facts: Tensor, limits: Tensor, beams: int) -> State: ...

    def allowed(self, ids: Tensor, step: Tensor, state: State) -> tuple[Tensor, State]: ...

    def progress(self, state: State) -> tuple[Tensor, Tensor]: ...

    writes_word: np.ndarray


@dataclass(frozen=True)
class Search:
    """The settings of a search, the same for all sentences of a batch.

    beam_size: 1 is greedy search.
    alpha: exponent of the length penalty.
    top_beams: how many hypotheses of a sentence are returned.
    per_sentence: each sentence stops by itself; if not, all stop together, as in tensor2tensor.
    force_length: greedy search continues to the limit, and the ids after the end are returned.
    constraint: forbids tokens; None: none. It reads the fact "words".
    sampling: how to draw tokens, with beam_size=1; None: search. It reads the fact "draws".
    """

    beam_size: int = 4
    alpha: float = 0.6
    top_beams: int = 1
    per_sentence: bool = True
    force_length: bool = False
    constraint: Constraint | None = None
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Sentences:
    """A batch to decode; the first axis of each array is B.

    inputs: int32 (B, S), padded with 0.
    limits: int32 (B,): the most tokens that each translation may have, its end included.
    facts: as above.
    """

    inputs: np.ndarray
    limits: np.ndarray
    facts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "inputs", np.asarray(self.inputs, "int32"))
        object.__setattr__(self, "limits", np.asarray(self.limits, "int32"))

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, rows: np.ndarray) -> "Sentences":
        """Returns some of the sentences."""
        facts = {name: x[rows] for name, x in self.facts.items()}
        return Sentences(self.inputs[rows], self.limits[rows], facts)


class Engine(abc.ABC):
    """Decodes batches.

    Attributes:
        cannot: the decode hparams that it does not support, which are refused.
        learned_positions: how many positions its model has learned, the longest translation; None:
            any number.
        sees_padding: whether padding of a source changes the outputs, so that a batch has sources
            of one length.
    """

    cannot: frozenset[str] = frozenset(
        {"force_decode_length", "well_formed", "min_length_ratio", "sampling_method"}
        | {"return_token_scores", "return_alignments"}
    )
    learned_positions: int | None = None
    sees_padding: bool = False

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Engines with the same fingerprint decode alike."""

    @abc.abstractmethod
    def decode(self, sentences: Sentences, search: Search) -> tuple[np.ndarray, np.ndarray]:
        """Decodes a batch.

        Returns:
            ids int32 (B, K, L), K = top_beams, best first: they end at the first 1 and are padded
            with 0. scores float32 (B, K): log-probabilities divided by the length penalty; those of
            greedy search, and of unfinished hypotheses, are not divided.
        """

    def decode_all(
        self, batches: Sequence[Sentences], search: Search
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields what `decode` returns of each batch, in order; several may be in work at once."""
        for sentences in batches:
            yield self.decode(sentences, search)

    def token_log_probs(
        self, pairs: list[Pair], batch_size: int = 0, progress: Advance = ignore
    ) -> list[np.ndarray]:
        """Returns the log-probability of each target token, float32 (T,) for each pair.

        Args:
            pairs: ids of (inputs, targets), both ended by 1.
            batch_size: pairs in a batch. 0: as many as make a good batch, at most 64.
            progress: gets the number of pairs of each finished batch.
        """
        raise NotImplementedError

    def align(self, pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
        """Returns the links between the words of each pair, as decoding/pairs.py has them.

        Args:
            pairs: ids of (inputs, targets), the inputs ended by 1.
            encoders: {"inputs": TextEncoder, "targets": TextEncoder}; None: tokens are words.
        """
        raise NotImplementedError


def check_follows(engine: Engine | type[Engine], settings: DecodeHParams) -> None:
    """Refuses decode hparams that an engine cannot follow.

    Raises:
        UserError: naming them.
    """
    if beyond := [name for name in settings.changed() if name in engine.cannot]:
        raise UserError(
            "Expected decode hparams that this engine and model support. Received: "
            f"{', '.join(beyond)}. Remove them, or use another engine or model."
        )


def searches_for(rows: int, cores: int) -> int:
    """Returns how many threads should search on `cores`; rows: sentences times beams of a batch."""
    return max(1, min(cores, rows // FEW_ROWS))


def padded(
    sentences: list[list[int]], rows: int = 0, multiple: int = 1, most: int | None = None
) -> np.ndarray:
    """Returns sentences of ids as rows, int32 (B, S), S at least 1, padded with 0.

    Args:
        sentences: the ids.
        rows: how many rows to make, at least; those beyond the sentences hold an end alone.
        multiple: S is a multiple of it, so that lengths are few.
        most: S is never more.
    """
    length = -(-max(1, *map(len, sentences)) // multiple) * multiple
    array = np.zeros((max(rows, len(sentences)), min(length, most or length)), "int32")
    array[len(sentences) :, 0] = EOS_ID
    for row, sentence in zip(array, sentences, strict=False):
        row[: len(sentence)] = sentence
    return array


def draws(seed: int, ids: Sequence[int], count: int) -> np.ndarray:
    """Returns the `count` random numbers of a sentence, float32 in [0, 1).

    The first ones are the same whatever `count` is.

    Args:
        seed: any whole number.
        ids: the sentence.
        count: one number for each token to draw.
    """
    content = ",".join(map(str, (seed, *ids)))
    key = int.from_bytes(hashlib.sha256(content.encode()).digest()[:16])
    numbers = np.random.Generator(np.random.Philox(key=key)).random(count)
    return np.minimum(numbers.astype("float32"), _MOST)
