"""What an engine is: it decodes a batch of sentences, and says what else it can do.

decoding/decode.py makes one of a model; export/ctranslate2.py has that of CTranslate2, which does
nothing but search.

Legend: B sentences, K beams, S tokens of a source, L tokens of a translation.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.decoding.settings import BEYOND_SEARCH
from t2t_repro.decoding.steering import UNSTEERED, Steering
from t2t_repro.errors import UserError

Pair = tuple[list[int], list[int]]  # ids of a source and of its translation


@dataclasses.dataclass(frozen=True)
class Search:
    """How a batch is decoded, the same for all of its sentences.

    beam_size: 1 is greedy search.
    alpha: exponent of the length penalty.
    top_beams: how many hypotheses of a sentence are returned.
    per_sentence: each sentence stops by itself; if not, all stop together, as in tensor2tensor.
    force_length: greedy search goes on to the limit, and the ids behind the end are returned.
    steering: a constraint of what may be written; how to draw samples (with beam_size=1).
    """

    beam_size: int = 4
    alpha: float = 0.6
    top_beams: int = 1
    per_sentence: bool = True
    force_length: bool = False
    steering: Steering = UNSTEERED

    def __post_init__(self):
        if not 1 <= self.top_beams <= self.beam_size:
            raise UserError(
                "decode expects 1 <= top_beams <= beam_size. Received: beam_size="
                f"{self.beam_size}, top_beams={self.top_beams}. Give a larger beam_size."
            )


USUAL = Search()


@dataclasses.dataclass(frozen=True)
class Sentences:
    """A batch to decode; the first axis of each array is B.

    inputs: int32 (B, S), padded with 0.
    limits: int32 (B,): the most tokens that each translation may have, its end included.
    facts: what steers the search of each: see decoding/steering.py.
    """

    inputs: np.ndarray
    limits: np.ndarray
    facts: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

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
        cannot: the decode hparams that it cannot follow, which are refused.
        learned_positions: how many positions its model has learned, where a translation ends at
            the latest; None: any number.
        sees_padding: whether its model reads the padding of a source as well, so that only what is
            as long goes in one batch.
    """

    cannot: frozenset[str] = frozenset(BEYOND_SEARCH)
    learned_positions: int | None = None
    sees_padding: bool = False

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Two engines of the same fingerprint decode alike."""

    @abc.abstractmethod
    def decode(self, sentences: Sentences, search: Search = USUAL) -> tuple[np.ndarray, np.ndarray]:
        """Decodes a batch.

        Returns:
            ids int32 (B, K, L), K = top_beams, best first: they end at the first 1 and are padded
            with 0. scores float32 (B, K): log-probabilities divided by the length penalty; those of
            greedy search, and of what has not reached its end, are not divided.
        """

    def decode_all(
        self, batches: Sequence[Sentences], search: Search = USUAL
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields what `decode` returns of each batch, in order; several may be in work at once."""
        for sentences in batches:
            yield self.decode(sentences, search)

    def token_log_probs(
        self,
        pairs: list[Pair],
        batch_size: int = 0,
        progress: Callable[[int], None] = lambda count: None,
    ) -> list[np.ndarray]:
        """Returns the log-probability of each target token, float32 (T,) for each pair.

        Args:
            pairs: ids of (inputs, targets), both ended by 1.
            batch_size: pairs in a batch. 0: as many as make a good batch, at most 64.
            progress: is told how many pairs each finished batch had.
        """
        raise NotImplementedError

    def align(self, pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
        """Returns the links between the words of each pair, as decoding/pairs.py has them.

        Args:
            pairs: ids of (inputs, targets), the inputs ended by 1.
            encoders: {"inputs": TextEncoder, "targets": TextEncoder}; None: tokens are words.
        """
        raise NotImplementedError
