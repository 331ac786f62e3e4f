"""Reads a model's tags as trees over the source's words."""

import dataclasses
import json
from typing import Any

from t2t_repro.parsing import trees
from t2t_repro.parsing.trees import PENN, PhraseLabels
from t2t_repro.text.encoders import TokenTextEncoder


class TreeReader:
    """Reads tags as valid trees, and counts repairs.

    Args:
        phrase_labels: as `tree_from_words_and_tags` takes them.
    """

    def __init__(self, phrase_labels: PhraseLabels = PENN) -> None:
        self._phrase_labels = phrase_labels
        self.sentences = self.repaired = 0
        self.repairs = dict.fromkeys(dataclasses.asdict(trees.Repairs()), 0)

    def read(
        self, words: str, tags: str, parts_of_speech: list[str] | None = None, *, count: bool = True
    ) -> str:
        """Returns the tree on one line.

        Args:
            words: the source, cut at blanks.
            tags: what the model wrote.
            parts_of_speech: as `tree_from_words_and_tags` takes them.
            count: whether its repairs count; those of further beams do not.
        """
        labels = self._phrase_labels
        tree, repairs = trees.tree_from_words_and_tags(words, tags, parts_of_speech, labels)
        if count:
            self.sentences += 1
            self.repaired += repairs.total > 0
            for name, number in dataclasses.asdict(repairs).items():
                self.repairs[name] += number
        return str(tree)

    def as_json(self) -> str:
        """Returns {"sentences", "repaired", "repairs": {kind: number}} as a JSON text."""
        names = ("sentences", "repaired", "repairs")
        return json.dumps({name: getattr(self, name) for name in names}, indent=1) + "\n"

    def __str__(self) -> str:
        kinds = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in self.repairs.items())
        return f"Trees repaired: {self.repaired} of {self.sentences}; phrases and leaves: {kinds}"


def phrase_labels(encoder: Any) -> PhraseLabels:
    """Returns the labels that open a phrase in a vocabulary of the tags.

    Where it has every tag whole, those that it can close: a treebank of the user's own may have any
    labels. Of tags in pieces nothing is known, and they are the Penn Treebank's.
    """
    if not isinstance(encoder, TokenTextEncoder):
        return PENN
    tokens = frozenset(encoder.decode_list(range(encoder.vocab_size)))
    phrases = frozenset(token for token in tokens if f"/{token}" in tokens)
    return PhraseLabels((trees.PHRASE_LABELS - tokens) | phrases, tokens - phrases)
