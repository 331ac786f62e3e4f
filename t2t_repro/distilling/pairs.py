"""The text: what the teacher is to translate, and the student's pairs, in tensor2tensor's files."""

import contextlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from t2t_repro import progress
from t2t_repro.data.pipeline import read_split
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.problem import Split, TranslateDistillProblem
from t2t_repro.runs import TrainedRun
from t2t_repro.scoring import bleu
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID

FILES = TranslateDistillProblem.FILES
# A reverse teacher's BLEU against the sources that are known says which way it translates: one of
# the teacher's own direction has 0.1 on Multi30k, one of the other 50.
_LEAST_BLEU = 1.0
_JUDGED = range(100, 1001)  # sentences; fewer say nothing, and more no more


class Taught(NamedTuple):
    """Two files: what a teacher read, a sentence a line, and what it wrote of each line.

    The second is text, or JSON lines where more than the best translation is taken.
    """

    read: pathlib.Path
    wrote: pathlib.Path


def training_pairs(teacher: TrainedRun, split: str) -> Iterator[tuple[str, str]]:
    """Yields the sentences and their translations that a run was trained on, or its dev split's.

    Those without a source are left out.

    Raises:
        UserError: if the files are missing or broken.
    """
    encoders = teacher.encoders
    for sample in read_split(teacher.problem, split, teacher.data_dir):
        source, target = (_text(encoders[side], ids) for side, ids in sample.items())
        if source:
            yield source, target


def write_sources(teacher: TrainedRun, request: DistillRequest, path: pathlib.Path) -> None:
    """Writes what the teacher is to translate, a sentence a line.

    Raises:
        UserError: if there is nothing, or the text cannot be read.
    """
    with writing(path) as file:
        references = _references(teacher, request)
        for line, _ in progress.track(references, "Sources", unit="sentences"):
            file.write(line + "\n")
        if not file.tell():
            raise UserError(
                f"Expected sentences in {teacher.data_dir}. Received: none. Give the teacher's own "
                "--data_dir."
            )


def write_targets(teacher: TrainedRun, path: pathlib.Path) -> None:
    """Writes what the reverse teacher is to translate, a sentence a line."""
    with writing(path) as file:
        for line, _ in progress.track(_targets(teacher), "Targets", unit="sentences"):
            file.write(line + "\n")


def write_pairs(
    teacher: TrainedRun,
    request: DistillRequest,
    taught: Taught,
    taught_back: Taught,
    folder: pathlib.Path,
) -> dict[str, int]:
    """Writes the files of the student's training and dev splits.

    Args:
        teacher: the run.
        request: what is asked for.
        taught: what the teacher read, as `write_sources` has written it, and what it made of that.
        taught_back: the same of the reverse teacher, where there is one, and `write_targets`.
        folder: gets train/inputs, train/gold, train/prediction, and the same in dev.

    Returns:
        {what: how many pairs}.

    Raises:
        UserError: if the text is not that of `taught`, or the reverse teacher's sentences have
            nothing in common with the sources that are known.
    """
    if request.reverse_teacher:
        _check_direction(teacher, request, taught_back)
    gold, made, none = "pairs of the teacher's data", "translated", "without a translation"
    counts = dict.fromkeys((gold, made, none), 0)
    counts["left out, as they are in dev"] = sum(held for _, held in _given(teacher, request))
    with _split(folder / Split.TRAIN) as add:
        for _ in range(request.gold):
            for source, target in _gold(teacher, request, Split.TRAIN):
                add(source, target, target)
                counts[gold] += 1
        for line, reference, found in _lessons(teacher, request, taught):
            for text in found:
                if request.back_translate:
                    add(request.tag + text, line, line)
                else:
                    add(line, reference or text, text)
            counts[made] += len(found)
            counts[none] += not found
        if request.reverse_teacher:
            back = "translated by the reverse teacher"
            counts[back] = 0
            for line, _, found in _lessons(teacher, request, taught_back, back=True):
                for text in found:
                    add(text, line, line)
                counts[back] += len(found)
                counts[none] += not found
    with _split(folder / Split.EVAL) as add:
        for source, target in _gold(teacher, request, Split.EVAL):
            add(source, target, target)
    return counts


def _lessons(
    teacher: TrainedRun, request: DistillRequest, taught: Taught, back: bool = False
) -> Iterator[tuple[str, str, list[str]]]:
    """Yields lines that were translated, what is known to be right or "", and what was written."""
    three = itertools.zip_longest(
        _targets(teacher) if back else _references(teacher, request),
        raw.lines(taught.read),
        _translations(taught.wrote, request.n_best),
    )
    for now, line, found in progress.track(three, "Pairs", unit="sentences"):
        if now is None or line != now[0] or found is None:
            raise UserError(
                f"Expected the text that {taught.read} was made of. Received: another, in "
                f"{teacher.data_dir} or the files that were named. Give another --output_dir."
            )
        yield line, now[1], found


def _check_direction(teacher: TrainedRun, request: DistillRequest, taught_back: Taught) -> None:
    lessons = itertools.islice(_lessons(teacher, request, taught_back, back=True), _JUDGED[-1])
    both = [(found[0] if found else "", known) for _, known, found in lessons]
    if len(both) not in _JUDGED:
        return
    written, known = zip(*both, strict=True)
    score = bleu.SacreBleu(known).score(written)
    if score < _LEAST_BLEU:
        raise UserError(
            "Expected a --reverse_teacher that writes what its sentences are translations of. "
            f"Received: {request.reverse_teacher}, whose first {len(both):,} have {score:.2f} BLEU "
            f"against the sources in {teacher.data_dir}: it translates as --teacher does, or has "
            "hardly learned. Name another run, and another --output_dir."
        )


@contextlib.contextmanager
def _split(folder: pathlib.Path) -> Iterator[Callable[..., None]]:
    """Yields what adds a line to each file of a split; they appear when the block ends."""
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


def _references(teacher: TrainedRun, request: DistillRequest) -> Iterator[tuple[str, str]]:
    """Yields what the teacher translates, with what is known to be right, or ""."""
    if request.training_sources and not request.back_translate:
        yield from training_pairs(teacher, Split.TRAIN)
    yield from ((text, "") for text, held_out in _given(teacher, request) if not held_out)


def _given(teacher: TrainedRun, request: DistillRequest) -> Iterator[tuple[str, bool]]:
    """Yields the sentences of the files that were named, and whether they are sources of dev.

    Such a one would be a source of training, or with --back_translate a right translation of dev.
    """
    if not request.texts:
        return
    dev = {source for source, _ in training_pairs(teacher, Split.EVAL)}
    for path in request.texts:
        lines = enumerate(raw.lines(path), start=1)
        texts = filter(None, (raw.one_line(line, path, number) for number, line in lines))
        first = next(texts, None)
        if first is None:
            raise UserError(f"Expected sentences in {path}. Received: none. Name another file.")
        for text in itertools.chain([first], texts):
            yield text, text.strip() in dev


def _targets(teacher: TrainedRun) -> Iterator[tuple[str, str]]:
    """Yields what the reverse teacher translates, with what is known to be right."""
    for source, target in training_pairs(teacher, Split.TRAIN):
        if target:
            yield target, source


def _translations(path: pathlib.Path, n_best: int) -> Iterator[list[str]]:
    """Yields the different translations of each sentence, the best first; [] for none."""
    for line in raw.lines(path):
        texts: Iterable[str] = [line]
        if n_best > 1:
            texts = (beam["text"] for beam in json.loads(line)["hypotheses"])
        stripped = (_one_line(text) for text in texts)
        yield list(itertools.islice(dict.fromkeys(filter(None, stripped)), n_best))


def _text(encoder, ids: list[int]) -> str:
    return _one_line(encoder.decode([i for i in ids if i != EOS_ID]))


def _one_line(text: str) -> str:
    """Returns text as a line of a file, whatever a model has written."""
    return raw.joined(text.replace("\0", ""))
