"""What is learned of a corpus in a first pass, and used on every pair in the second."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from t2t_repro.corpora.checks import languages, lengths, lexical
from t2t_repro.corpora.checks.block import Block, Pair, Side
from t2t_repro.corpora.checks.fingerprints import TRAIN, Fingerprints, Repeated

SAMPLE = 40_000  # pairs, from all over the training split
_ESCAPED, _PLAIN = re.compile(r"& ?(?:apos|quot) ?;"), re.compile(r"['\"]|& ?#(?:34|39) ?;")
_TAG = re.compile(r"<[^<>\n]*>")


@dataclasses.dataclass(frozen=True)
class Models:
    """What is known of a corpus.

    Attributes:
        repeated: {split: which of its pairs are there again}.
        ratio: how the lengths of two sides go together.
        language: which side a line belongs to.
        lexicon: which words go with which.
        moses_escaped: for each side, whether it is written as Moses' tokenizer does: there
            &apos; is no markup that was left over.
    """

    repeated: Mapping[str, Repeated]
    ratio: lengths.Ratio
    language: languages.Languages
    lexicon: lexical.Lexicon
    moses_escaped: tuple[bool, bool]


class Sample:
    """Every so many pairs, as many as SAMPLE at most."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._step, self._seen = 1, 0

    def add(self, block: Block) -> None:
        """Takes some of a block's pairs."""
        first = -self._seen % self._step
        texts = (side.texts[first :: self._step] for side in block.sides)
        self._pairs += zip(*texts, strict=True)
        self._seen += len(block)
        while len(self._pairs) > SAMPLE:
            self._pairs, self._step = self._pairs[::2], 2 * self._step

    def block(self, most: int | None = None) -> Block:
        """Returns them, or as many from all over them."""
        step = 1 if most is None else max(1, -(-len(self._pairs) // max(1, most)))
        pairs = [pair for pair in self._pairs[::step] if all(map(str.strip, pair))] or [("", "")]
        sources, targets = map(list, zip(*pairs, strict=True))
        return Block(TRAIN, 0, Side(sources), Side(targets))


def fit(blocks: Iterable[Block]) -> Models:
    """Returns what all blocks of a corpus tell."""
    fingerprints, sample = Fingerprints(), Sample()
    for block in blocks:
        fingerprints.add(block)
        if block.split == TRAIN:
            sample.add(block)
    repeated = fingerprints.repeated()
    del fingerprints  # before the models take their part of the memory
    every = sample.block()
    some = sample.block(1000)
    words = [len(side.tokens) / len(some) for side in some.sides]
    few = sample.block(int(lexical.MOST / max(1.0, 1.3 * words[0] * words[1])))
    escaped = tuple(map(_is_moses_escaped, every.sides))
    return Models(
        repeated,
        lengths.fit(every),
        languages.fit(every),
        lexical.fit(few),
        (escaped[0], escaped[1]),
    )


def _is_moses_escaped(side: Side) -> bool:
    """Tells by spaces before full stops, and by quotes, most of which must be escaped."""
    ends = [text for text in side.texts if text.endswith((".", "?", "!"))]
    tokenized = sum(text[-2:-1] == " " for text in ends) > len(ends) / 2
    text = _TAG.sub(" ", side.joined)
    escaped, plain = (len(each.findall(text)) for each in (_ESCAPED, _PLAIN))
    return tokenized and escaped > plain
