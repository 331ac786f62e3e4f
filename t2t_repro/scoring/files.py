"""Scores of translated files: one, or those of a directory as they appear."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.files import appearing
from t2t_repro.scoring import bleu
from t2t_repro.text import raw


@dataclasses.dataclass(frozen=True)
class StepFile:
    """A translated file, and the training step that its name ends in."""

    path: Path
    step: int


def score_files(
    translation: str | os.PathLike,
    reference: str | os.PathLike,
    read: Callable[[str | os.PathLike], Iterable[str]] = raw.lines,
) -> bleu.BleuScores:
    """Returns the scores of a translated file by a reference file.

    Args:
        translation: the translations.
        reference: the reference translations, equally many.
        read: yields the translations of the file, one a line of `reference`.
    """
    return bleu.score(*lines_of(translation, reference, read))


def lines_of(
    translation: str | os.PathLike,
    reference: str | os.PathLike,
    read: Callable[[str | os.PathLike], Iterable[str]] = raw.lines,
) -> tuple[list[str], list[str]]:
    """Returns the lines of a translated file, and those of its reference file, equally many."""
    # Blanks stay: behind a last full stop they part it from a number for tensor2tensor's tokeniser.
    lines = raw.parallel_lines(
        translation, reference, may_be_blank=True, strip=False, read_inputs=read
    )
    pairs = list(lines)
    return [pair["inputs"] for pair in pairs], [pair["targets"] for pair in pairs]


def files_by_step(directory: Path) -> dict[int, StepFile]:
    """Returns the files "...-STEPS" of a directory: {step: file}; {} where there is none yet.

    Raises:
        UserError: if two are of one step.
    """
    found: dict[int, StepFile] = {}
    for path in directory.iterdir() if directory.is_dir() else ():
        _, dash, step = path.name.rpartition("-")
        if dash and step.isdecimal() and path.is_file():
            if int(step) in found:
                names = sorted([found[int(step)].path.name, path.name])
                raise UserError(
                    f"Expected one file of step {int(step)} in {directory}. Received: "
                    f"{' and '.join(names)}. Move one of them elsewhere."
                )
            found[int(step)] = StepFile(path, int(step))
    return found


def step_files(
    directory: str | os.PathLike, *, min_steps: int = 0, wait_minutes: float = 0
) -> Iterator[StepFile]:
    """Yields the files "...-STEPS" of a directory by step, and new ones as they appear.

    Args:
        directory: the folder of the translations; it may appear while waiting.
        min_steps: files of earlier steps are skipped.
        wait_minutes: for how long to wait for the next file.

    Raises:
        UserError: if there is no such directory in that time.
    """
    directory = Path(directory).expanduser()
    yield from appearing(
        lambda: files_by_step(directory),
        min_steps=min_steps,
        wait_minutes=wait_minutes,
    )
    if not directory.is_dir():
        raise UserError(
            f"Expected a directory of translations. Received: {str(directory)!r}. Correct "
            "--translations_dir, or wait with --wait_minutes."
        )
