"""Decoding for parsing: the tags that a model writes, read as trees over the source's words."""

import dataclasses
import json
import os
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.parsing.constraint import TreeConstraint
from t2t_repro.parsing.lexicon import UNKNOWN_WORD
from t2t_repro.parsing.trees import (
    PENN,
    PHRASE_LABELS,
    PhraseLabels,
    Repairs,
    tree_from_words_and_tags,
)
from t2t_repro.text import raw
from t2t_repro.text.encoders import TokenTextEncoder

UNKNOWN = "<UNK>"  # a tag that no training tree had


class TreeReader:
    """Reads tags as trees, always valid ones, and counts what had to be repaired.

    Args:
        phrase_labels: as `tree_from_words_and_tags` takes them.
    """

    def __init__(self, phrase_labels: PhraseLabels = PENN) -> None:
        self._phrase_labels = phrase_labels
        self.sentences = self.repaired = 0
        self.repairs = dict.fromkeys(dataclasses.asdict(Repairs()), 0)

    def read(self, words: str, tags: str, *, count: bool = True) -> str:
        """Returns the tree on one line.

        Args:
            words: the source, cut at blanks.
            tags: what the model wrote.
            count: whether its repairs count; those of further beams do not.
        """
        tree, repairs = tree_from_words_and_tags(words, tags, phrase_labels=self._phrase_labels)
        if count:
            self.sentences += 1
            self.repaired += repairs.total > 0
            for name, number in dataclasses.asdict(repairs).items():
                self.repairs[name] += number
        return str(tree)

    def counts(self) -> dict[str, Any]:
        """Returns {"sentences", "repaired", "repairs": {kind: number}}."""
        return {name: getattr(self, name) for name in ("sentences", "repaired", "repairs")}

    def restore(self, counts: dict[str, Any]) -> None:
        """Counts on from `counts`, which were another reader's."""
        vars(self).update(counts)

    def as_json(self) -> str:
        """Returns `counts` as a JSON text."""
        return json.dumps(self.counts(), indent=1) + "\n"

    def __str__(self) -> str:
        kinds = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in self.repairs.items())
        return f"Repaired {self.repaired} of {self.sentences} trees ({kinds})"


def phrase_labels(encoder: Any) -> PhraseLabels:
    """Returns the labels that open a phrase in a vocabulary of the tags.

    Where it has every tag whole, those that it can close: a treebank of the user's own may have any
    labels. Of tags in pieces nothing is known, and they are the Penn Treebank's.
    """
    if not isinstance(encoder, TokenTextEncoder):
        return PENN
    tokens = frozenset(encoder.decode_list(range(encoder.vocab_size)))
    phrases = frozenset(token for token in tokens if f"/{token}" in tokens)
    return PhraseLabels((PHRASE_LABELS - tokens) | phrases, tokens - phrases)


def tree_constraint(encoder: Any, lexicon: str | os.PathLike | None = None) -> TreeConstraint:
    """Returns the constraint to tags that are a tree.

    Args:
        encoder: the vocabulary of the tags.
        lexicon: a file whose lines hold a word and the parts of speech that it may have.

    Raises:
        UserError: if the vocabulary cuts tags into pieces, or the lexicon is none.
    """
    if not isinstance(encoder, TokenTextEncoder):
        raise UserError(
            "Expected decode hparam well_formed with a problem whose tags are whole tokens, such "
            "as parsing_wsj16k. Received: one whose vocabulary cuts them into pieces. Leave it out."
        )
    tokens = encoder.decode_list(range(encoder.vocab_size))
    entries = [line.split() for line in raw.lines(lexicon)] if lexicon else []
    nothing = [UNKNOWN_WORD]  # is known of words that no training tree has
    short = [n for n, entry in enumerate(entries, start=1) if len(entry) < 2 and entry != nothing]
    if short:
        raise UserError(
            f"Expected a word and its parts of speech at line {short[0]} of {lexicon}. Received: "
            f"{' '.join(entries[short[0] - 1])!r}. Make the data again by t2t-datagen --overwrite."
        )
    return TreeConstraint(
        tokens,
        [UNKNOWN] if UNKNOWN in tokens else [],
        {word: labels for word, *labels in entries if labels},
    )
