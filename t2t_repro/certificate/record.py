"""certificate.json: what it holds, typed; how it is read and written."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import ClassVar

from t2t_repro import schema
from t2t_repro.certificate import verify_export
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import CERTIFICATE as NAME

RUN = "run"  # what a certificate is of, if not of an export, whose --format it names


@dataclasses.dataclass(frozen=True)
class File:
    """A file: its path, in the folder of the certificate or absolute, and its SHA-256."""

    path: str
    sha256: str

    @classmethod
    def of(cls, path: str | os.PathLike, folder: pathlib.Path) -> "File":
        """Returns it as it is."""
        path = pathlib.Path(os.path.abspath(path))
        base = pathlib.Path(os.path.abspath(folder))
        inside = path.is_relative_to(base)
        shown = os.fsencode(path.relative_to(base) if inside else path)
        return cls(shown.decode("utf-8", "backslashreplace"), verify_export.sha256(path))


@dataclasses.dataclass(frozen=True)
class Made:
    """A program that worked on it: where, and with what.

    Attributes:
        program: such as "t2t-trainer".
        version: of this package.
        commit: of its repository, "-changed" behind it where files differ; else the version.
        packages: {package: version}, Python's too.
        device: what it computed on.
    """

    program: str
    version: str
    commit: str
    packages: dict[str, str]
    device: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """What a model was made of. What is not known is empty.

    Attributes:
        raw_files: the user's own files, from which the text was taken.
        raw_text: the text of the splits; the SHA-256 is that of the text, also of a .gz.
        reports: of t2t-datagen: its summary, and that of the checks of the corpus.
        splits: {split: its TFRecord files}.
        vocabulary: its files.
        seeds: {"datagen": of the order of the records, "splits": of what was drawn for dev}.
    """

    raw_files: tuple[File, ...] = ()
    raw_text: tuple[File, ...] = ()
    reports: tuple[File, ...] = ()
    splits: dict[str, tuple[File, ...]] = dataclasses.field(default_factory=dict)
    vocabulary: tuple[File, ...] = ()
    seeds: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Score:
    """A score, of which sentences, and how it was computed."""

    name: str
    value: float
    of: str
    signature: str


@dataclasses.dataclass(frozen=True)
class Golden:
    """A sentence, its best translation, and the score by which it is ranked."""

    source: str
    translation: str
    score: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was made of what.

    Attributes:
        kind: RUN, or the form of an export.
        problem, hparams_set, random_seed: those of the run.
        step: of the weights.
        made: the programs that worked on it, the first one first.
        data: what it was made of.
        files: those of the folder that do not change.
        decoding: the decode hparams of `golden`.
        scores: what is known.
        golden: sentences of dev.
        seal: of the text of the file.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    kind: str
    problem: str
    hparams_set: str
    random_seed: int
    step: int
    made: tuple[Made, ...]
    data: Data
    files: tuple[File, ...]
    decoding: dict[str, int | float]
    scores: tuple[Score, ...]
    golden: tuple[Golden, ...]
    seal: str = 64 * "0"

    @property
    def example(self) -> Golden | None:
        """The shortest of `golden` that has a translation; None: there is none."""
        with_text = (each for each in self.golden if each.translation)
        return min(with_text, key=lambda each: len(each.source), default=None)

    def write(self, folder: pathlib.Path) -> None:
        """Writes it, sealed, into a folder."""
        unsealed = dataclasses.asdict(dataclasses.replace(self, seal=64 * "0"))
        text = json.dumps(unsealed, indent=1, ensure_ascii=False) + "\n"
        write_text_atomic(folder / NAME, verify_export.sealed(text))


def read(folder: str | os.PathLike) -> Certificate | None:
    """Returns the certificate in a folder; None: there is none.

    Raises:
        UserError: if it is not as it was written.
    """
    path = pathlib.Path(folder, NAME)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    found = schema.parse(content, Certificate, os.fspath(path), "Delete it to have it made again.")
    if not verify_export.is_sealed(content.decode(errors="replace")):
        raise UserError(
            f"Expected {path} as it was written. Received: one that was changed. Delete it to have "
            "it made again."
        )
    return found


def read_or_none(folder: str | os.PathLike) -> Certificate | None:
    """Returns the certificate in a folder; None: there is none that is as it was written."""
    try:
        return read(folder)
    except UserError:
        return None


def add_scores(folder: str | os.PathLike, scores: Sequence[Score]) -> bool:
    """Puts scores into the certificate in a folder, for those of the same name and sentences.

    Returns:
        Whether there is a certificate.

    Raises:
        UserError: if it is not as it was written.
    """
    found = read(folder)
    if found is None:
        return False
    new = {(score.name, score.of) for score in scores}
    kept = (score for score in found.scores if (score.name, score.of) not in new)
    dataclasses.replace(found, scores=(*kept, *scores)).write(pathlib.Path(folder))
    return True
