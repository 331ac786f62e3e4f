"""Which files hold the user's text, as the flags name them: corpora of the splits."""

import dataclasses
import glob
import itertools
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from t2t_repro.corpora import formats
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.formats import Sides, check_readable, kind_of
from t2t_repro.errors import UserError, unset
from t2t_repro.requests import flag, flags_of

SPLITS = ("train", "dev", "test")
SHORT = {"source": "train_source", "target": "train_target"}  # as some programs call these
_FILES = "files of one sentence a line, or .tsv, .csv, .jsonl or .tmx, which hold both sides"
_TABLES = {"tsv", "csv", "json"}
# For which kinds of files a flag tells the sides apart.
_TOLD_APART = {"columns": _TABLES, "source_language": {*_TABLES, "tmx"}}
_LANGUAGE = 'language of TMX, or of a JSON line\'s "translation", such as {} or {}-{}.'


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files that belong together, in order.

    Attributes:
        split: "train", "dev" or "test".
        name: as the flag has it.
        files: (source, target) of each pair of files; target None: source holds both sides.
        weight: how often its pairs are written.
    """

    split: str
    name: str
    files: tuple[tuple[str, str | None], ...]
    weight: float = 1.0

    def paths(self) -> Iterator[str]:
        """Yields every file."""
        return (path for pair in self.files for path in pair if path is not None)


@dataclasses.dataclass(frozen=True)
class RawText:
    """The flags that name the user's text, of whatever form.

    `short` holds those fields of training whose flag the program calls --source or --target.
    """

    train_source: str | None = flag(
        None,
        f"For text2text_tmpdir: {_FILES}; also .gz, patterns, and several with commas between. "
        "They become the problem's own files in --tmp_dir.",
    )
    train_target: str | None = flag(None, "The other side of --train_source, file by file.")
    dev_source: str | None = flag(None, "As --train_source, for dev; default: drawn from training.")
    dev_target: str | None = flag(None, "The other side of --dev_source.")
    test_source: str | None = flag(None, "As --train_source, for a test set, which is text alone.")
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
        None, "How often each corpus of --train_source is taken, such as 1,2.5."
    )
    short: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> tuple["RawText", dict[str, Any]]:
        """Returns the request of flags that were given, by name, and those of others."""
        mine = flags_of(cls)
        rest = {name: value for name, value in options.items() if name not in mine}
        return cls(**{name: options[name] for name in options if name in mine}), rest

    def __post_init__(self) -> None:
        if not any(getattr(self, name) is not None for name in flags_of(type(self))):
            return
        for name in flags_of(type(self)):
            if getattr(self, name) == "":
                raise unset(self.flag_of(name))
        if not self.train_source:
            given = next(name for name in flags_of(type(self)) if getattr(self, name) is not None)
            other = "" if self.short else ", or put the problem's own files into --tmp_dir"
            raise UserError(
                f"Expected {self.flag_of('train_source')} with {self.flag_of(given)}. Received: "
                f"none. Add it{other}."
            )
        for split in SPLITS:
            source, target = f"{split}_source", f"{split}_target"
            if getattr(self, target) and not getattr(self, source):
                raise UserError(
                    f"Expected {self.flag_of(source)} with {self.flag_of(target)}. Received: the "
                    "target alone."
                )
        for split in ("dev", "test"):
            size = getattr(self, f"{split}_size")
            if size is not None and getattr(self, f"{split}_source"):
                raise UserError(
                    f"Expected --{split}_source or --{split}_size. Received: both. Leave one out."
                )
        if (self.source_language is None) != (self.target_language is None):
            raise UserError(
                "Expected --source_language and --target_language. Received: one of them. Add the "
                "other."
            )
        self.sides()

    def __bool__(self) -> bool:
        return self.train_source is not None

    def flag_of(self, name: str) -> str:
        """Returns a field's flag as the program has it, for messages."""
        return f"--{name.removeprefix('train_') if name in self.short else name}"

    def sides(self) -> Sides:
        """Returns how the sides of a file that holds both are told apart.

        Raises:
            UserError: if the flags do not say it.
        """
        languages = columns = None
        if self.source_language is not None and self.target_language is not None:
            languages = (self.source_language, self.target_language)
            if "" in languages or languages[0].casefold() == languages[1].casefold():
                raise UserError(
                    "Expected --source_language and --target_language to be two languages. "
                    f"Received: {languages[0]!r} and {languages[1]!r}."
                )
        if self.columns is not None:
            names = [name.strip() for name in self.columns.split(",")]
            numbers = {name.isdecimal() for name in names}
            names = [name.lstrip("0") if name.isdecimal() else name for name in names]
            if len(names) != 2 or names[0] == names[1] or "" in names or len(numbers) != 1:
                raise UserError(
                    "Expected --columns to be the numbers or the names of two columns, such as 1,2 "
                    f"or en,de. Received: {self.columns!r}."
                )
            columns = (names[0], names[1])
        return Sides(languages, columns)

    def corpora(self) -> list[Corpus]:
        """Returns the corpora of all splits, in the order of the flags.

        Raises:
            UserError: on files that are not there, have no partner, or are named twice, and on a
                flag that none of them needs.
        """
        found = [corpus for split in SPLITS for corpus in self._of_split(split)]
        kinds = {kind_of(*files) for corpus in found for files in corpus.files}
        for name in ("columns", "source_language"):
            if getattr(self, name) is not None and not kinds & _TOLD_APART[name]:
                raise UserError(
                    f"Expected --{name} with files that hold both sides. Received: "
                    f"{', '.join(sorted(kinds))} alone, where it has no effect. Leave it out."
                )
        names: dict[str, str] = {}
        for path in itertools.chain.from_iterable(corpus.paths() for corpus in found):
            check_readable(path)
            real = os.path.realpath(path)
            if real in names:
                also = "" if names[real] == path else f", also as {names[real]}"
                raise UserError(
                    f"Expected each file once. Received: {path} twice{also}. Leave one out"
                    + ("." if self.short else "; --train_weights takes a corpus more often.")
                )
            names[real] = path
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
                for source, pairs in self.pairs_of(corpus):
                    for pair in pairs:
                        number += 1
                        yield pair
                    if last is not None:
                        last[source] = number

        return read()

    def pairs_of(self, corpus: Corpus) -> Iterator[tuple[str, Iterator[Pair]]]:
        """Yields the pairs of each of a corpus's files, behind the file of the source."""
        sides = self.sides()
        for source, target in corpus.files:
            yield source, formats.pairs(source, target, sides)

    def _of_split(self, split: str) -> Iterator[Corpus]:
        sources = getattr(self, f"{split}_source")
        targets = getattr(self, f"{split}_target")
        if not sources:
            return
        for side, names in (("source", sources), ("target", targets)):
            one = names and "," in names and os.path.exists(os.path.expanduser(names))
            if one and not all(map(os.path.exists, names.split(","))):
                raise UserError(
                    f"Expected {self.flag_of(f'{split}_{side}')} to be files with commas between. "
                    f"Received: {names}, the name of one file. Rename what has the comma."
                )
        sources = [item.strip() for item in sources.split(",")]
        targets = [item.strip() for item in targets.split(",")] if targets else [""] * len(sources)
        flags = [self.flag_of(f"{split}_{side}") for side in ("source", "target")]
        if len(sources) != len(targets):
            raise UserError(
                f"Expected as many files in {flags[0]} as in {flags[1]}. Received: {len(sources)} "
                f"and {len(targets)}."
            )
        weights = self._weights(len(sources)) if split == "train" else [1.0] * len(sources)
        for source, target, weight in zip(sources, targets, weights, strict=True):
            files = _files(flags[0], source, flags[1], target)
            yield Corpus(split, source, tuple(files), weight)

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


def _files(
    source_flag: str, source: str, target_flag: str, target: str
) -> list[tuple[str, str | None]]:
    """Returns the pairs of files that two patterns name."""
    sources = _matching(source_flag, source)
    if not target:
        return [(path, None) for path, _ in sources]
    targets = _matching(target_flag, target)
    if len(sources) == len(targets) == 1:
        return [(sources[0][0], targets[0][0])]
    for one, other in itertools.zip_longest(sources, targets, fillvalue=("nothing", ())):
        if one[1] != other[1]:
            raise UserError(
                f"Expected {source_flag}={source} and {target_flag}={target} to name files in "
                f"pairs. Received: {len(sources)} and {len(targets)} files, of which "
                f"{one[0]} would stand beside {other[0]}. Name them one by one."
            )
    return [(one[0], other[0]) for one, other in zip(sources, targets, strict=True)]


def _matching(name: str, pattern: str) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the files of a pattern, in order, each with what stands for its "*" and "?"."""
    path = os.path.expanduser(pattern)
    if not pattern or os.path.exists(path) or not glob.has_magic(path):
        return [(_present(name, path), ())]
    found = sorted(path for path in glob.glob(path) if os.path.isfile(path))
    if not found:
        raise UserError(
            f"Expected files that match {name}={pattern}. Received: none. Correct the pattern; "
            "quotes keep the shell from reading it."
        )
    holes = re.compile(re.sub(r"\\\*|\\\?|\\\[.*?\\\]", "(.*)", re.escape(path)), re.DOTALL)
    matches = [(file, holes.fullmatch(file)) for file in found]
    pairs = [(file, match.groups() if match else ()) for file, match in matches]
    return sorted(pairs, key=lambda pair: pair[1])


def _present(name: str, path: str) -> str:
    if not path:
        raise UserError(f"Expected a file between the commas of {name}. Received: nothing.")
    if not os.path.exists(path):
        raise UserError(
            f"Expected {name} to be files. Received: {path}, which is not there. Correct the path."
        )
    if not pathlib.Path(path).is_file():
        raise UserError(
            f"Expected {name} to be files that can be read more than once. Received: {path}, which "
            f"is a {'folder' if os.path.isdir(path) else 'device or pipe'}. Name its files."
        )
    return path
