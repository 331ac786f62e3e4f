"""BLEU for people: in a terminal, in TensorBoard, and as a curve over the steps of a run."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_repro.fields import flag
from t2t_repro.files import write_csv, write_json, write_text_atomic
from t2t_repro.scoring.bleu import BleuScores
from t2t_repro.scoring.files import StepFile, score_files, step_files

_LABELS = {  # how a score is called in a list, and above a column
    "sacrebleu": ("sacreBLEU, cased: the score to report", "sacreBLEU"),
    "sacrebleu_lowercase": ("sacreBLEU, lower-cased", "lower"),
    "chrf2": ("chrF2", "chrF2"),
    "t2t_uncased": ("t2t-bleu, uncased", "t2t uncased"),
    "t2t_cased": ("t2t-bleu, cased", "t2t cased"),
    "compound_split": ("tokenised, compounds split, as for the paper's En-De BLEU", "split"),
}
VARIANTS = {"both": ("uncased", "cased"), "uncased": ("uncased",), "cased": ("cased",)}
LAST_STEP_FILE = "last_evaluated_step.txt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectoryRequest:
    """The flags of t2t-bleu for a directory of translations."""

    translations_dir: str = flag(
        dataclasses.MISSING, "A directory of translated files whose names end in -STEP."
    )
    reference: str = flag(dataclasses.MISSING, "The reference translations.")
    event_dir: str | None = flag(
        None, "A folder for TensorBoard's events (with --translations_dir)."
    )
    bleu_variant: str = flag(
        "both",
        "Which of T2T's BLEU variants to print and write to TensorBoard.",
        choices=tuple(VARIANTS),
    )
    tag_suffix: str = flag("", "A suffix for TensorBoard's tags BLEU_cased and BLEU_uncased.")
    min_steps: int = flag(
        -1, f"First step scored; -1: start after the step in EVENT_DIR/{LAST_STEP_FILE}.", least=-1
    )
    wait_minutes: float = flag(0, "Wait up to this many minutes for another file.", least=0)
    report_zero: bool | None = flag(
        None,
        "Start TensorBoard's curve with BLEU 0 at the time of the oldest file, so that relative "
        "times count from this file; default: only if scoring starts at step 0.",
    )

    def first_step(self) -> int:
        """Returns from which step on files are scored."""
        if self.min_steps != -1:
            return self.min_steps
        last = Path(self.event_dir, LAST_STEP_FILE) if self.event_dir else None
        return int(last.read_text()) + 1 if last and last.exists() else 0


def score_directory(request: DirectoryRequest) -> Iterator[tuple[StepFile, BleuScores]]:
    """Yields the scores of every translated file, by step, and writes them for TensorBoard.

    An event has T2T's tags, and the time at which the translation was made.
    """
    first = request.first_step()
    zero = first == 0 if request.report_zero is None else request.report_zero
    found = step_files(request.translations_dir, min_steps=first, wait_minutes=request.wait_minutes)
    if request.event_dir is None:
        for file in found:
            yield file, score_files(file.path, request.reference)
        return
    from t2t_repro.training.log import EventWriter

    tags = {name: f"BLEU_{name}{request.tag_suffix}" for name in VARIANTS[request.bleu_variant]}
    with contextlib.closing(EventWriter(request.event_dir)) as writer:
        for number, file in enumerate(found):
            scores = score_files(file.path, request.reference)
            if zero and number == 0:
                files = [path for path in file.path.parent.iterdir() if path.is_file()]
                start = min(path.stat().st_mtime for path in files)
                writer.scalars("", 0, dict.fromkeys(tags.values(), 0.0), start)
            values = {tag: _t2t_score(scores, name) for name, tag in tags.items()}
            writer.scalars("", file.step, values, file.path.stat().st_mtime)
            write_text_atomic(Path(request.event_dir, LAST_STEP_FILE), f"{file.step}\n")
            yield file, scores


def as_rows(results: Sequence[tuple[StepFile, BleuScores]]) -> list[dict]:
    """Returns the scores of translations as JSON has them: file, step, every score."""
    return [
        {"translation": str(file.path), "step": file.step, **scores.as_dict()}
        for file, scores in results
    ]


def write_curve(folder: Path, results: Sequence[tuple[StepFile, BleuScores]]) -> None:
    """Writes scores.json, scores.csv and the curve scores.png of some translations."""
    from t2t_repro.views import pictures

    rows = as_rows(results)
    write_json(folder / "scores.json", rows)
    names = [name for name, value in rows[0].items() if isinstance(value, dict)]
    table = [[row["step"], *(row[name]["score"] for name in names)] for row in rows]
    write_csv(folder / "scores.csv", [["step", *names], *table])
    figure, axes = pictures.figure(title=folder.name)
    steps = [row["step"] for row in rows]
    for name, label in (("sacrebleu", "sacreBLEU, cased"), ("t2t_uncased", "t2t-bleu, uncased")):
        values = [row[name]["score"] for row in rows]
        axes.plot(steps, values, marker=".", label=label)
        best = max(range(len(values)), key=values.__getitem__)
        axes.annotate(f"{values[best]:.2f}", (steps[best], values[best]), fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel("BLEU")
    axes.legend(fontsize=8)
    pictures.save(figure, folder / "scores.png")


def _t2t_score(scores: BleuScores, variant: str) -> float:
    return {"uncased": scores.t2t_uncased, "cased": scores.t2t_cased}[variant].score


def print_t2t_lines(scores: BleuScores, variant: str, prefix: str = "") -> None:
    """Prints the lines that T2T's program prints, which scripts look for."""
    for name in VARIANTS[variant]:
        print(f"{prefix}BLEU_{name} = {_t2t_score(scores, name):6.2f}", flush=True)


def print_table(scores: BleuScores) -> None:
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


def print_step_table(results: Sequence[tuple[StepFile, BleuScores]]) -> None:
    """Prints the scores of all steps."""
    from rich import console, table

    rows = table.Table("step", *(heading for _, heading in _LABELS.values()))
    for file, scores in results:
        rows.add_row(str(file.step), *(f"{getattr(scores, name).score:.2f}" for name in _LABELS))
    console.Console().print(rows)
