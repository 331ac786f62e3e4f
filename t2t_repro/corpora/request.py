"""Which files hold the user's text, as the flags name them: corpora of the splits."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_repro.corpora import formats
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.formats import Sides, kind_of
from t2t_repro.errors import UserError, unset
from t2t_repro.fields import flag, flags_of

SPLITS = ("train", "dev", "test")
SHORT = {"train_source": "source", "train_target": "target"}  # as t2t-own-text calls these
_FILES = "files of one sentence a line, or .tsv, .csv, .jsonl or .tmx, which hold both sides"
_LANGUAGE = 'language of TMX, or of a JSON line\'s "translation", such as {} or {}-{}.'


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
    """The flags that name the user's text, of whatever form.

    `short` says that the program calls the two of training as `SHORT` has it.
    """

    train_source: str | None = flag(
        None,
        f"For text2text_tmpdir: {_FILES}; also .gz, and several with commas between. "
        "They become the problem's own files in --tmp_dir.",
    )
    train_target: str | None = flag(None, "The other side of --train_source, file by file.")
    dev_source: str | None = flag(None, "The same for dev; default: drawn from training.")
    dev_target: str | None = flag(None, "The other side of --dev_source.")
    test_source: str | None = flag(None, "The same for a test set, which is text alone.")
    test_target: str | None = flag(None, "The other side of --test_source.")
    source_language: str | None = flag(None, "The source's " + _LANGUAGE.format("en", "en", "GB"))
    target_language: str | None = flag(None, "The target's " + _LANGUAGE.format("de", "de", "AT"))
    columns: str | None = flag(
        None,
        "Which columns of .tsv and .csv, or names of .jsonl, hold source and target: 1,2 or en,de.",
    )
    dev_size: int | None = flag(
        None,
        "How many pairs to draw for dev, none of which nearly repeats in training; default: 5%, at "
        "most 2000, where no --dev_source is given.",
        least=1,
        most=50_000,
    )
    test_size: int | None = flag(
        None,
        "How many pairs to draw for test; default: none, or of t2t-own-text 5%, at most 1000.",
        least=1,
        most=50_000,
    )
    train_weights: str | None = flag(
        None, "How often each corpus of training is taken, such as 1,2.5."
    )
    short: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> tuple["RawText", dict[str, Any]]:
        """Returns the request of flags that were given, by name, and those of others."""
        mine = flags_of(cls)
        rest = {name: value for name, value in options.items() if name not in mine}
        return cls(**{name: options[name] for name in options if name in mine}), rest

    def __post_init__(self) -> None:
        given = {n: v for n in flags_of(type(self)) if (v := getattr(self, n)) is not None}
        for name, value in given.items():
            if value == "":
                raise unset(self.flag_of(name))
            split, _, what = name.partition("_")
            needed = f"{split}_source" if what == "target" and split in SPLITS else "train_source"
            if needed not in given:
                raise UserError(
                    f"Expected {self.flag_of(needed)} with {self.flag_of(name)}. Received: none. "
                    "Add it."
                )
            if what == "size" and f"{split}_source" in given:
                raise UserError(
                    f"Expected --{split}_source or --{split}_size. Received: both. Leave one out."
                )
        if ("source_language" in given) != ("target_language" in given):
            raise UserError(
                "Expected --source_language and --target_language. Received: one of them. Add the "
                "other."
            )
        self.sides()

    def __bool__(self) -> bool:
        return self.train_source is not None

    def flag_of(self, name: str) -> str:
        """Returns a field's flag as the program has it, for messages."""
        return f"--{SHORT.get(name, name) if self.short else name}"

    def sides(self) -> Sides:
        """Returns how the sides of a file that holds both are told apart.

        Raises:
            UserError: if the flags do not say it.
        """
        languages = columns = None
        if self.source_language is not None and self.target_language is not None:
            languages = (self.source_language, self.target_language)
        if self.columns is not None:
            names = [name.strip() for name in self.columns.split(",")]
            if len(names) != 2 or len({name.isdecimal() for name in names}) != 1:
                raise UserError(
                    "Expected --columns to be the numbers or the names of two columns, such as 1,2 "
                    f"or en,de. Received: {self.columns!r}."
                )
            columns = (names[0], names[1])
        return Sides(languages, columns)

    def corpora(self) -> list[Corpus]:
        """Returns the corpora of all splits, in the order of the flags.

        Raises:
            UserError: on files that are not there, have no partner, or are named twice.
        """
        found = [corpus for split in SPLITS for corpus in self._of_split(split)]
        seen: set[str] = set()
        for path in itertools.chain.from_iterable(corpus.paths() for corpus in found):
            if os.path.realpath(path) in seen:
                raise UserError(
                    f"Expected each file once. Received: {path} twice. Leave one out; "
                    "--train_weights takes a corpus more often."
                )
            seen.add(os.path.realpath(path))
        for corpus in found:
            kind_of(corpus.source, corpus.target)
        return found

    def pairs(self, split: str, last: dict[str, int] | None = None) -> Iterator[Pair]:
        """Returns the pairs of a split's files, one corpus after the other, each once.

        Args:
            split: which.
            last: gets {file of the source: number of its last pair, of all from 1} as they are
                read.

        Raises:
            UserError: as `corpora`, and on text that cannot be read.
        """
        corpora = [corpus for corpus in self.corpora() if corpus.split == split]

        def read() -> Iterator[Pair]:
            number = 0
            for corpus in corpora:
                for pair in self.pairs_of(corpus):
                    number += 1
                    yield pair
                if last is not None:
                    last[corpus.source] = number

        return read()

    def pairs_of(self, corpus: Corpus) -> Iterator[Pair]:
        """Returns the pairs of a corpus."""
        return formats.pairs(corpus.source, corpus.target, self.sides())

    def _of_split(self, split: str) -> Iterator[Corpus]:
        names = getattr(self, f"{split}_source"), getattr(self, f"{split}_target")
        if not names[0]:
            return
        sources = [_file(self.flag_of(f"{split}_source"), name) for name in names[0].split(",")]
        targets: list[str | None] = [None] * len(sources)
        if names[1]:
            target_flag = self.flag_of(f"{split}_target")
            targets = [
                _file(target_flag, name) if name.strip() else None for name in names[1].split(",")
            ]
        if len(sources) != len(targets):
            raise UserError(
                f"Expected as many files in --{split}_source as in --{split}_target. Received: "
                f"{len(sources)} and {len(targets)}."
            )
        weights = self._weights(len(sources)) if split == "train" else [1.0] * len(sources)
        for source, target, weight in zip(sources, targets, weights, strict=True):
            yield Corpus(split, source, target, weight)

    def _weights(self, count: int) -> list[float]:
        if not self.train_weights:
            return [1.0] * count
        try:
            weights = [float(text) for text in self.train_weights.split(",")]
        except ValueError:
            weights = []
        if len(weights) != count or not all(0 < weight <= 1000 for weight in weights):
            raise UserError(
                f"Expected --train_weights to be {count} numbers above 0, at most 1000, one for "
                f"each of {self.flag_of('train_source')}. Received: {self.train_weights!r}."
            )
        return weights


def _file(name: str, path: str) -> str:
    path = os.path.expanduser(path.strip())
    if not os.path.isfile(path):  # a pipe neither: it is read more than once
        raise UserError(f"Expected {name} to be files. Received: {path!r}. Correct the path.")
    return path
