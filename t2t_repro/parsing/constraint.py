"""The constraint of a parser's search: linearised tags of one tree over the source's words.

A `TreeConstraint` is a constraint as `decoding/search.py` defines them.
Legend: B batch, K beams, V vocabulary, W words, D depth.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.parsing.lexicon import UNKNOWN_WORD
from t2t_repro.parsing.trees import split
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID, TokenTextEncoder

Tensor = Any


class TreeConstraint:
    """Linearised tags that are one tree over the words of the source.

    Every phrase is closed by its own tag, holds a word, and lies inside the first one; there are as
    many parts of speech as words, and each is one that its word may have. No phrase is opened that
    could not be closed within the limit of the sentence.

    Args:
        tokens: the vocabulary. "/NP" closes what "NP" opens; every other token is a part of speech.
        forbidden: tokens that are never written.
        lexicon: the parts of speech that a word may have; those of UNKNOWN_WORD are for the words
            that are not there. Without it every word may have every one.
    """

    DEPTH = 64  # phrases inside one another, at most
    CHAIN = 6  # phrases opened one after another, at most: a weak model would go on to the limit

    def __init__(
        self,
        tokens: Sequence[str],
        forbidden: Sequence[str] = (),
        lexicon: Mapping[str, Sequence[str]] | None = None,
    ):
        ids = {token: i for i, token in enumerate(tokens)}
        size = len(tokens)
        self._opens, self.writes_word = np.zeros(size, "int32"), np.ones(size, "int32")
        self._closing = np.zeros(size, "int32")  # the id that closes what an id opens
        closes = np.zeros(size, "int32")
        for token, i in ids.items():
            if len(token) > 1 and token.startswith("/") and token[1:] in ids:
                opening = ids[token[1:]]
                self._opens[opening], self._closing[opening], closes[i] = 1, i, 1
        self.writes_word -= self._opens + closes
        self.writes_word[: EOS_ID + 1] = 0
        for token in forbidden:
            self.writes_word[ids[token]] = self._opens[ids[token]] = 0
        self._closes = closes
        # Words of the same parts of speech are one class: its row says which tokens these are.
        rows, self._classes = [self.writes_word], {}
        for word, parts_of_speech in (lexicon or {}).items():
            row = np.zeros(size, "int32")
            row[[ids[label] for label in parts_of_speech if label in ids]] = 1
            if (row & self.writes_word).any():
                self._classes[word] = len(rows)
                rows.append(row & self.writes_word)
        self._leaves = np.stack(rows)

    def facts(self, sources: Sequence[str]) -> np.ndarray:
        """Returns the class of each word, int32 (B, W), -1 behind the last."""
        sentences = list(map(split, sources))
        facts = np.full((len(sentences), max(map(len, sentences), default=0)), -1, "int32")
        unknown = self._classes.get(UNKNOWN_WORD, 0)
        for row, words in zip(facts, sentences, strict=True):
            row[: len(words)] = [self._classes.get(word, unknown) for word in words]
        return facts

    def initial_state(self, facts: Tensor, limits: Tensor, beams: int) -> dict[str, Tensor]:
        """Returns the state at the start.

        words (B, K, W): the facts. limit (B, K): the most tokens. left (B, K): words without a part
        of speech yet. depth (B, K): open phrases. stack (B, K, D): the ids that close them.
        chain (B, K): how many of them the last tokens opened.
        """
        words = ops.tile(ops.cast(facts, "int32")[:, None], (1, beams, 1))
        left = ops.sum(ops.cast(words >= 0, "int32"), axis=-1)
        return {
            "words": words,
            "limit": ops.tile(ops.cast(limits, "int32")[:, None], (1, beams)),
            "left": left,
            "depth": ops.zeros_like(left),
            "chain": ops.zeros_like(left),
            "stack": ops.tile(ops.zeros_like(left)[:, :, None], (1, 1, self.DEPTH)),
        }

    def progress(self, state: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Returns how many words have a part of speech, and how many have none yet, (B, K)."""
        count = ops.sum(ops.cast(state["words"] >= 0, "int32"), axis=-1)
        return count - state["left"], state["left"]

    def allowed(
        self, ids: Tensor, step: Tensor, state: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns which tokens may follow `ids`, which is nothing at step 0."""
        begun = ops.cast(step > 0, "int32")
        opens = ops.take(self._opens, ids) * begun
        left = state["left"] - ops.take(self.writes_word, ids) * begun
        here = ops.equal(ops.arange(self.DEPTH), state["depth"][..., None])  # the free place
        place = ops.logical_and(here, ops.equal(opens, 1)[..., None])
        stack = ops.where(place, ops.take(self._closing, ids)[..., None], state["stack"])
        depth = state["depth"] + opens - ops.take(self._closes, ids) * begun
        last = ops.equal(ops.arange(self.DEPTH), depth[..., None] - 1)
        top = ops.sum(ops.where(last, stack, 0), axis=-1)  # 0 where nothing is open

        words = state["words"]
        written, _ = self.progress({**state, "left": left})
        next_word = ops.equal(ops.arange(ops.shape(words)[2]), written[..., None])
        leaves = ops.take(self._leaves, ops.sum(ops.where(next_word, words, 0), axis=-1), axis=0)

        words_left = left > 0
        inside = depth > 0
        # This one, the words, the ends of all phrases with this one's, and the end.
        room = step + 1 + left + (depth + 1) + 1 <= state["limit"]
        chain = (state["chain"] + 1) * opens
        may_open = (
            words_left
            & room
            & (chain < self.CHAIN)
            & (depth < self.DEPTH)
            & (inside | ops.equal(step, 0))
        )
        may_close = inside & ops.equal(opens, 0) & ((depth > 1) | ~words_left)
        may_end = ~inside & ~words_left
        tokens = np.arange(len(self._opens))
        allowed = (
            (may_open[..., None] & (self._opens == 1))
            | ((words_left & inside)[..., None] & ops.equal(leaves, 1))
            | (may_close[..., None] & ops.equal(tokens, top[..., None]))
            | (may_end[..., None] & (tokens == EOS_ID))
        )
        return allowed, {**state, "left": left, "depth": depth, "chain": chain, "stack": stack}


def tree_constraint(encoder: Any, lexicon: str | os.PathLike | None = None) -> TreeConstraint:
    """Returns the constraint to tags that are a tree.

    Args:
        encoder: the vocabulary of the tags.
        lexicon: a file whose lines hold a word and the parts of speech that it may have.

    Raises:
        UserError: if the vocabulary cuts tags into pieces.
    """
    if not isinstance(encoder, TokenTextEncoder):
        raise UserError(
            "Expected decode hparam well_formed only with a problem whose tags are whole tokens, "
            "as in parsing_wsj16k. Received: a vocabulary that splits tags into subwords."
        )
    tokens = encoder.decode_list(range(encoder.vocab_size))
    entries = list(map(split, raw.lines(lexicon))) if lexicon else []
    forbidden = [UNKNOWN_WORD] if UNKNOWN_WORD in tokens else []  # a tag of no training tree
    return TreeConstraint(tokens, forbidden, {word: labels for word, *labels in entries if labels})
