"""Scores translations: tensor2tensor's BLEU, sacreBLEU and the paper's compound-split BLEU.

One translated file:
    t2t-bleu --translation=my-wmt13.de --reference=wmt13_deen.de
Every file of a directory whose name ends in "-STEPS", as they appear:
    t2t-bleu --translations_dir=my-translations --reference=wmt13_deen.de --event_dir=events

The files are plain text (or .gz), one sentence a line, detokenised. The numbers of the table are
not comparable with each other; report "sacrebleu" with its signature.
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.scoring import bleu
from t2t_repro.text import raw

_LABELS = {  # how a score is called in a list, and above a column
    "sacrebleu": ("sacreBLEU, cased: the one to report", "sacreBLEU"),
    "sacrebleu_lowercase": ("sacreBLEU, lower-cased", "lower"),
    "chrf2": ("chrF2", "chrF2"),
    "t2t_uncased": ("t2t-bleu, uncased", "t2t uncased"),
    "t2t_cased": ("t2t-bleu, cased", "t2t cased"),
    "compound_split": ("tokenised, compounds split, as in the paper's En-De", "split"),
}
_VARIANTS = {"both": ("uncased", "cased"), "uncased": ("uncased",), "cased": ("cased",)}
_LAST_STEP_FILE = "last_evaluated_step.txt"


@dataclasses.dataclass(frozen=True)
class StepFile:
    """A translated file, and the training step that its name ends in."""

    path: Path
    step: int


def score_files(translation: str | os.PathLike, reference: str | os.PathLike) -> bleu.BleuScores:
    """Scores a translated file against a reference file of equally many lines."""
    pairs = list(raw.parallel_lines(translation, reference, may_be_blank=True))
    return bleu.score([pair["inputs"] for pair in pairs], [pair["targets"] for pair in pairs])


def step_files(
    directory: str | os.PathLike,
    *,
    min_steps: int = 0,
    wait_minutes: float = 0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Iterator[StepFile]:
    """Yields the files "...-STEPS" of a directory by step, and new ones as they appear.

    Args:
        directory: where the translations are; it may appear while waiting.
        min_steps: files of earlier steps are passed over.
        wait_minutes: for how long to wait for the next file, counted from the last one's time.
        sleep: waits some seconds.
        clock: tells the time.
    """
    directory = Path(directory).expanduser()
    until = clock() + 60 * wait_minutes
    while not directory.is_dir():
        if clock() >= until:
            raise UserError(
                f"Expected a directory of translations. Received: {str(directory)!r}, which does "
                "not exist. Correct --translations_dir, or wait for it by --wait_minutes."
            )
        sleep(10)
    while True:
        found = [file for file in _step_files_now(directory) if file.step >= min_steps]
        if found:
            first = min(found, key=lambda file: file.step)
            until = max(until, first.path.stat().st_ctime + 60 * wait_minutes)
            min_steps = first.step + 1
            yield first
        elif clock() >= until:
            return
        else:
            sleep(10)


def _step_files_now(directory: Path) -> Iterator[StepFile]:
    for path in directory.iterdir():
        _, dash, step = path.name.rpartition("-")
        if dash and step.isascii() and step.isdigit() and path.is_file():
            yield StepFile(path, int(step))


class EventWriter:
    """Writes BLEU for TensorBoard, under the times at which the translations were made."""

    def __init__(self, directory: str | os.PathLike, variant: str, tag_suffix: str):
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(directory))
        self._variants, self._suffix = _VARIANTS[variant], tag_suffix

    def write(self, step: int, wall_time: float, scores: bleu.BleuScores | None) -> None:
        """Writes T2T's tags of one step; None writes zeros."""
        values = [
            self._summary.Value(
                tag=f"BLEU_{variant}{self._suffix}",
                simple_value=0.0 if scores is None else _t2t_score(scores, variant),
            )
            for variant in self._variants
        ]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(step=step, wall_time=wall_time, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def score_directory(
    translations_dir: str | os.PathLike,
    reference: str | os.PathLike,
    *,
    event_dir: str | os.PathLike | None = None,
    variant: str = "both",
    tag_suffix: str = "",
    min_steps: int = -1,
    wait_minutes: float = 0,
    report_zero: bool | None = None,
) -> Iterator[tuple[StepFile, bleu.BleuScores]]:
    """Yields the scores of every translated file, by step; `main` says what the arguments mean."""
    if min_steps == -1:
        min_steps = _first_new_step(event_dir)
    if report_zero is None:
        report_zero = min_steps == 0
    writer = None
    try:
        for file in step_files(translations_dir, min_steps=min_steps, wait_minutes=wait_minutes):
            scores = score_files(file.path, reference)
            if event_dir is not None:
                if writer is None:
                    writer = EventWriter(event_dir, variant, tag_suffix)
                    if report_zero:
                        files = [path for path in file.path.parent.iterdir() if path.is_file()]
                        writer.write(0, min(path.stat().st_mtime for path in files), None)
                writer.write(file.step, file.path.stat().st_mtime, scores)
                Path(event_dir, _LAST_STEP_FILE).write_text(f"{file.step}\n")
            yield file, scores
    finally:
        if writer is not None:
            writer.close()


def _first_new_step(event_dir: str | os.PathLike | None) -> int:
    """Returns the step behind the one that an earlier call ended with, or 0."""
    if event_dir is None or not (path := Path(event_dir, _LAST_STEP_FILE)).exists():
        return 0
    content = path.read_text().strip()
    if not content.isdecimal():
        raise UserError(
            f"Expected {path} to hold the last step that was scored. Received: {content!r}. Remove "
            "the file, or give --min_steps."
        )
    return int(content) + 1


def _t2t_score(scores: bleu.BleuScores, variant: str) -> float:
    return {"uncased": scores.t2t_uncased, "cased": scores.t2t_cased}[variant].score


def print_t2t_lines(scores: bleu.BleuScores, variant: str, prefix: str = "") -> None:
    """Prints the lines that T2T's program prints, which scripts look for."""
    for name in _VARIANTS[variant]:
        print(f"{prefix}BLEU_{name} = {_t2t_score(scores, name):6.2f}", flush=True)


def print_table(scores: bleu.BleuScores) -> None:
    """Prints every score with its signature."""
    from rich import console, table

    rows = table.Table.grid(padding=(0, 2), pad_edge=True)
    rows.add_column(justify="right", style="bold")
    rows.add_column()
    for name, (label, _) in _LABELS.items():
        score = getattr(scores, name)
        rows.add_row(f"{score.score:.2f}", f"{label}\n[dim]{score.signature}[/dim]")
    out = console.Console()
    out.print(f"\n{scores.sentences} sentences", highlight=False)
    out.print(rows)


def print_step_table(results: list[tuple[StepFile, bleu.BleuScores]]) -> None:
    """Prints the scores of all steps, the best of each kind in bold."""
    from rich import console, table

    rows = table.Table("step", *(heading for _, heading in _LABELS.values()))
    best = {name: max(getattr(scores, name).score for _, scores in results) for name in _LABELS}
    for file, scores in results:
        values = {name: getattr(scores, name).score for name in _LABELS}
        cells = (
            f"[bold]{value:.2f}[/bold]" if value == best[name] else f"{value:.2f}"
            for name, value in values.items()
        )
        rows.add_row(str(file.step), *cells)
    console.Console().print(rows)


def define_flags(f: flags.FlagValues) -> None:
    def string(name: str, default: str | None, text: str) -> None:
        flags.DEFINE_string(name, default, text, flag_values=f)

    string("translation", None, "The translated file.")
    string("reference", None, "The reference translation.")
    string("translations_dir", None, 'A directory of translated files named "...-STEPS".')
    string("event_dir", None, "Where to write events for TensorBoard (with --translations_dir).")
    string("json_file", None, "Where to write every score and signature.")
    string("tag_suffix", "", "Follows BLEU_cased and BLEU_uncased in TensorBoard's tags.")
    string("source", None, "T2T's program never read it: leave it out.")
    flags.DEFINE_enum(
        "bleu_variant",
        "both",
        list(_VARIANTS),
        "Which of T2T's two BLEU lines and TensorBoard tags to write.",
        flag_values=f,
    )
    flags.DEFINE_integer(
        "min_steps",
        -1,
        f"Pass over earlier steps; -1: go on after the step in EVENT_DIR/{_LAST_STEP_FILE}.",
        lower_bound=-1,
        flag_values=f,
    )
    flags.DEFINE_float(
        "wait_minutes", 0, "Wait that long for a next file.", lower_bound=0, flag_values=f
    )
    flags.DEFINE_bool(
        "report_zero",
        None,
        "Begin TensorBoard's curve with 0 at the time of the oldest file, so that relative times "
        "are right; by default done when no step is passed over.",
        flag_values=f,
    )


def _refuse(args: flags.FlagValues, names: list[str], reason: str) -> None:
    for name in names:
        if args[name].present:
            raise UserError(f"--{name} has no effect here: {reason}. Leave it out.")


def main(args: flags.FlagValues) -> None:
    _refuse(args, ["source"], "BLEU needs --translation and --reference only")
    if (args.translation is None) == (args.translations_dir is None):
        received = "neither" if args.translation is None else "both"
        raise UserError(
            "Expected one of --translation=FILE and --translations_dir=DIRECTORY. "
            f"Received: {received}."
        )
    if args.reference is None:
        raise UserError("Expected --reference=FILE, the reference translation. Received: none.")
    if args.translation is not None:
        directory_only = ["event_dir", "tag_suffix", "min_steps", "wait_minutes", "report_zero"]
        _refuse(args, directory_only, "it goes with --translations_dir")
        scores = score_files(args.translation, args.reference)
        print_t2t_lines(scores, args.bleu_variant)
        print_table(scores)
        report: dict | list = {"translation": args.translation, **scores.as_dict()}
    else:
        if args.event_dir is None:
            _refuse(args, ["tag_suffix", "report_zero"], "it goes with --event_dir")
        results = []
        for file, scores in score_directory(
            args.translations_dir,
            args.reference,
            event_dir=args.event_dir,
            variant=args.bleu_variant,
            tag_suffix=args.tag_suffix,
            min_steps=args.min_steps,
            wait_minutes=args.wait_minutes,
            report_zero=args.report_zero,
        ):
            print_t2t_lines(scores, args.bleu_variant, prefix=f"{file.path}: ")
            results.append((file, scores))
        if not results:
            raise UserError(
                "Expected files whose names end in the step, such as translation-1000. Received: "
                f"none to score in {args.translations_dir!r}. Was it --min_steps or "
                f"EVENT_DIR/{_LAST_STEP_FILE} that passed them over?"
            )
        print_step_table(results)
        report = [
            {"translation": str(file.path), "step": file.step, **scores.as_dict()}
            for file, scores in results
        ]
    if args.json_file is not None:
        text = json.dumps(report, indent=2, ensure_ascii=False)
        write_text_atomic(args.json_file, text + "\n")


console = cli.program(__name__, "t2t-bleu", __doc__, define_flags, main)
