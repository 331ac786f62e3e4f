"""The flags that name the user's text: corpora of the splits."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_repro.corpora import formats
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.formats import Sides
from t2t_repro.errors import UserError
from t2t_repro.fields import flag, flags_of

SPLITS = ("train", "dev", "test")
SHORT = {"train_source": "source", "train_target": "target"}  # as t2t-own-text calls these
_FILES = "source sentences, one a line, or .tsv, .csv, .jsonl or .tmx files with both sides"
_LANGUAGE = 'language code in .tmx, or in the field "translation" of .jsonl, such as {} or {}-{}.'


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A file that holds both sides, or two side by side.

    Attributes:
        split: "train", "dev" or "test".
        source: the file.
        target: its other side; None: `source` holds both.
        weight: how often its pairs are written.
    """

    split: str
    source: str
    target: str | None
    weight: float = 1.0

    def paths(self) -> list[str]:
        """Returns its files."""
        return [path for path in (self.source, self.target) if path]


@dataclasses.dataclass(frozen=True)
class RawText:
    """The flags that name the user's text, of whatever form."""

    train_source: str | None = flag(
        None,
        f"For text2text_tmpdir, your training text: {_FILES}. Files may be .gz; separate several "
        "by commas. The text becomes the problem's raw files in --tmp_dir.",
    )
    train_target: str | None = flag(None, "The target files, one for each file of --train_source.")
    dev_source: str | None = flag(
        None, "The source files of dev; default: pairs drawn from training."
    )
    dev_target: str | None = flag(None, "The target files, one for each file of --dev_source.")
    test_source: str | None = flag(None, "The source files of test; no TFRecords are made of them.")
    test_target: str | None = flag(None, "The target files, one for each file of --test_source.")
    source_language: str | None = flag(None, "The source's " + _LANGUAGE.format("en", "en", "GB"))
    target_language: str | None = flag(None, "The target's " + _LANGUAGE.format("de", "de", "AT"))
    columns: str | None = flag(
        None, "The source and target columns of .tsv and .csv, or keys of .jsonl, as 1,2 or en,de."
    )
    dev_size: int | None = flag(
        None,
        "How many pairs to draw for dev; their near-duplicates are dropped from training. "
        "Default without --dev_source: 5%, at most 2000.",
        least=1,
        most=50_000,
    )
    test_size: int | None = flag(
        None,
        "How many pairs to draw for test; default: none; in t2t-own-text 5%, at most 1000.",
        least=1,
        most=50_000,
    )
    train_weights: str | None = flag(None, "How often to use each training corpus, such as 1,2.5.")

    @classmethod
    def from_flags(cls, options: Mapping[str, Any]) -> tuple["RawText", dict[str, Any]]:
        """Returns the request of given flags, and the remaining flags."""
        mine = flags_of(cls)
        rest = {name: value for name, value in options.items() if name not in mine}
        return cls(**{name: options[name] for name in options if name in mine}), rest

    def __post_init__(self) -> None:
        given = [name for name in flags_of(type(self)) if getattr(self, name) is not None]
        for name in given:
            split, _, what = name.partition("_")
            needed = f"{split}_source" if what == "target" and split in SPLITS else "train_source"
            if needed not in given:
                raise UserError(f"Expected --{needed} with --{name}. Received: only --{name}.")
            if what == "size" and f"{split}_source" in given:
                raise UserError(f"Expected --{split}_source or --{split}_size, not both.")
        self.sides()

    def __bool__(self) -> bool:
        return self.train_source is not None

    def sides(self) -> Sides:
        """Returns how to tell apart the sides of one file.

        Raises:
            UserError: if the flags are missing.
        """
        languages = columns = None
        if self.source_language and self.target_language:
            languages = (self.source_language, self.target_language)
        if self.columns:
            source, _, target = (name.strip() for name in self.columns.partition(","))
            columns = (source, target)
            if not target or source.isdecimal() != target.isdecimal():
                raise UserError(
                    "Expected --columns to be the numbers or names of two columns, such as 1,2 or "
                    f"en,de. Received: {self.columns!r}."
                )
        return Sides(languages, columns)

    def corpora(self) -> list[Corpus]:
        """Returns the corpora of all splits, in the order of the flags.

        Raises:
            UserError: on files that have no partner.
        """
        found = []
        for split in SPLITS:
            sources, targets = self._files(f"{split}_source"), self._files(f"{split}_target")
            targets = targets or [""] * len(sources)
            if "" in sources or len(sources) != len(targets):
                raise UserError(
                    f"Expected sources of {split} without empty names, and equally many targets. "
                    f"Received: {len(sources)} and {len(targets)}."
                )
            weights = self._weights(len(sources)) if split == "train" else [1.0] * len(sources)
            for source, target, weight in zip(sources, targets, weights, strict=True):
                found.append(Corpus(split, source, target or None, weight))
                formats.reader_of(source, target or None)
        return found

    def pairs(self, split: str) -> Iterator[Pair]:
        """Returns the pairs of a split's files, one corpus after the other, each once.

        Raises:
            UserError: as `corpora`, and on text that cannot be read.
        """
        corpora = [corpus for corpus in self.corpora() if corpus.split == split]
        return itertools.chain.from_iterable(map(self.pairs_of, corpora))

    def pairs_of(self, corpus: Corpus) -> Iterator[Pair]:
        """Returns the pairs of a corpus."""
        return formats.pairs(corpus.source, corpus.target, self.sides())

    def _files(self, name: str) -> list[str]:
        """Returns the files of a flag, "" for an empty place."""
        paths = [path.strip() for path in (getattr(self, name) or "").split(",")]
        return list(map(os.path.expanduser, paths)) if any(paths) else []

    def _weights(self, count: int) -> list[float]:
        if not self.train_weights:
            return [1.0] * count
        try:
            weights = [float(text) for text in self.train_weights.split(",")]
        except ValueError:
            weights = []
        if len(weights) != count or not all(0 < weight <= 1000 for weight in weights):
            raise UserError(
                f"Expected --train_weights to be {count} numbers above 0, up to 1000: one for each "
                f"corpus. Received: {self.train_weights!r}."
            )
        return weights
