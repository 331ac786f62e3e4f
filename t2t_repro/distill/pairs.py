"""The text: the teacher's sources, and the student's pairs, in tensor2tensor's files."""

import contextlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator

from t2t_repro import progress
from t2t_repro.data.pipeline import read_split
from t2t_repro.distill.request import DistillRequest
from t2t_repro.files import writing
from t2t_repro.problem import Split, TranslateDistillProblem
from t2t_repro.runs import TrainedRun
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID

TAG = "♻ "  # stands before a source that was translated back
FILES = TranslateDistillProblem.FILES


def training_pairs(teacher: TrainedRun, split: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs on which a run was trained, or those of its dev split.

    Those without a source are left out.

    Raises:
        UserError: if the files are missing.
    """
    encoders = teacher.encoders
    for sample in read_split(teacher.problem, split, teacher.data_dir):
        source, target = (
            _one_line(encoders[side].decode([i for i in sample[side] if i != EOS_ID]))
            for side in ("inputs", "targets")
        )
        if source:
            yield source, target


def write_sources(
    teacher: TrainedRun, request: DistillRequest, sources: pathlib.Path, references: pathlib.Path
) -> int:
    """Writes the teacher's sources, and the known references.

    Sentences of the given files that are in dev are skipped: otherwise they would be learned.

    Args:
        teacher: the run.
        request: what is asked for.
        sources: gets a sentence a line.
        references: gets the translation of each, an empty line where none is known.

    Returns:
        How many were left out.
    """
    dev, left_out = {source for source, _ in training_pairs(teacher, Split.EVAL)}, 0
    with writing(sources) as source_file, writing(references) as reference_file:

        def add(source: str, reference: str) -> None:
            source_file.write(source + "\n")
            reference_file.write(reference + "\n")

        if not request.back_translate:
            pairs = training_pairs(teacher, Split.TRAIN)
            for pair in progress.track(pairs, "Sources", unit="sentences"):
                add(*pair)
        for path in request.texts:
            for text in map(raw.joined, raw.lines(path)):
                left_out += text in dev
                if text and text not in dev:
                    add(text, "")
    return left_out


def write_pairs(
    teacher: TrainedRun,
    request: DistillRequest,
    taught: tuple[pathlib.Path, pathlib.Path, pathlib.Path],
    folder: pathlib.Path,
) -> dict[str, int]:
    """Writes the files of the student's training and dev splits.

    Args:
        teacher: the run.
        request: what is asked for.
        taught: the files of `write_sources`, and t2t-decoder's JSON lines of them.
        folder: gets train/inputs, train/gold, train/prediction, and the same in dev.

    Returns:
        {what: how many pairs}.
    """
    gold, made, none = "pairs of the teacher's training data", "translated", "without a translation"
    counts = dict.fromkeys((gold, made, none), 0)
    with _split(folder / Split.TRAIN) as add:
        for _ in range(request.gold):
            for source, target in _gold(teacher, request, Split.TRAIN):
                add(source, target, target)
                counts[gold] += 1
        lessons = zip(*map(raw.lines, taught), strict=True)
        for line, reference, written in progress.track(lessons, "Pairs", unit="sentences"):
            stripped = (_one_line(each["text"]) for each in json.loads(written)["hypotheses"])
            different = dict.fromkeys(filter(None, stripped))  # the best first
            found = list(itertools.islice(different, request.n_best))
            for text in found:
                if request.back_translate:
                    add(TAG + text, line, line)
                else:
                    add(line, reference or text, text)
            counts[made] += len(found)
            counts[none] += not found
    with _split(folder / Split.EVAL) as add:
        for source, target in _gold(teacher, request, Split.EVAL):
            add(source, target, target)
    return counts


@contextlib.contextmanager
def _split(folder: pathlib.Path) -> Iterator[Callable[..., None]]:
    """Yields the writer of a line to each file of a split; they appear when the block ends."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(writing(folder / name)) for name in FILES]

        def add(*lines: str) -> None:
            for file, line in zip(files, lines, strict=True):
                file.write(line + "\n")

        yield add


def _gold(teacher: TrainedRun, request: DistillRequest, split: str) -> Iterator[tuple[str, str]]:
    """Yields the teacher's own pairs in the student's direction, where both sides have text."""
    for source, target in training_pairs(teacher, split):
        if target:
            yield (target, source) if request.back_translate else (source, target)


def _one_line(text: str) -> str:
    """Returns text as one line of a file."""
    return raw.joined(text.replace("\0", ""))
