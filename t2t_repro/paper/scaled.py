"""Table 3 made smaller: all rows as runs, one seed after another, and what they say of the paper.

After each run the page is written anew, so that it is there whenever one stops. What runs ended
with is kept in a file of its own: they need not lie there any more for others to be added.
"""

import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_repro import registry, schema
from t2t_repro.errors import UserError, changes
from t2t_repro.files import locked, write_text_atomic
from t2t_repro.models import parameters
from t2t_repro.paper import reproduce
from t2t_repro.paper import runs as records
from t2t_repro.paper.reproduce import TABLE3, Request
from t2t_repro.process import run_program
from t2t_repro.run_directory import RunDirectory
from t2t_repro.study import engine
from t2t_repro.study.tables import Table, columns

PAGE = "table3"
RUNS = f"{PAGE}-runs.json"
CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable"
EQUAL_WITHIN = 0.5  # BLEU; the paper calls 25.8 and 25.7 nearly identical


class Result(NamedTuple):
    """What a run ended with, on dev, and the hours of its steps, where they are known."""

    bleu: float
    perplexity: float
    hours: float | None = None


class Conclusion(NamedTuple):
    """The paper's: one row is better than another by a score, or is equal to it.

    better, worse: rows of table 3 by their short names.
    by: "bleu" or "perplexity", of which less is better.
    equal: whether they are to be equal.
    """

    text: str
    better: str
    worse: str
    by: str = "bleu"
    equal: bool = False


CONCLUSIONS = (
    Conclusion("(A) one head is worse than eight", "base", "a_h1"),
    Conclusion("(A) too many heads, 32, are worse than eight", "base", "a_h32"),
    Conclusion("(B) keys of 16 are worse than of 64", "base", "b_dk16"),
    Conclusion("(B) keys of 32 are worse than of 64", "base", "b_dk32"),
    Conclusion("(C) four layers are better than two", "c_n4", "c_n2"),
    Conclusion("(C) six layers are better than four", "base", "c_n4"),
    Conclusion("(C) d_model 512 is better than 256", "base", "c_dmodel256"),
    Conclusion("(C) d_model 1024 is better than 512", "c_dmodel1024", "base"),
    Conclusion("(C) d_ff 2048 is better than 1024", "base", "c_dff1024"),
    Conclusion("(C) d_ff 4096 is better than 2048", "c_dff4096", "base"),
    Conclusion("(D) dropout helps", "base", "d_dropout0"),
    Conclusion("(D) label smoothing helps BLEU", "base", "d_smoothing0"),
    Conclusion("5.4 label smoothing hurts perplexity", "d_smoothing0", "base", "perplexity"),
    Conclusion("(E) learned positions are as good", "base", "e_learned_positions", equal=True),
    Conclusion("big is better than base", "big", "base"),
)


class Verdict(NamedTuple):
    """What runs say of a conclusion.

    difference: how much better the better row is, mean over the seeds; None: rows are missing.
    interval: half of its 95 % interval, by Student's t over the seeds; None: of fewer than two.
    """

    word: str
    difference: float | None
    interval: float | None
    seeds: int


Results = dict[str, dict[int, Result]]  # {row: {seed: result}}


class Cell(NamedTuple):
    """A run: a row and a seed."""

    row: str
    seed: int


def run(request: Request, program: engine.Program = run_program) -> list[pathlib.Path]:
    """Makes the runs that are not there yet, a seed of all rows before the next; returns the page.

    Raises:
        UserError: if a run failed, or what is there was begun with other settings.
        Interrupted: on a signal.
    """
    written = write(request)
    there = results(request)
    cells = [Cell(row, seed) for seed in range(request.seeds) for row in request.names]
    todo = [cell for cell in cells if cell.seed not in there.get(cell.row, {})]

    def recipe_of(cell: Cell) -> reproduce.Recipe:
        return reproduce.table3(cell.row, request, cell.seed)

    def make(cell: Cell) -> None:
        directory = reproduce.carry_out(recipe_of(cell), request, program)
        if records.of(directory).perplexity is None:
            raise UserError(f"{directory.path} diverged.")

    failed = engine.make_all(
        todo,
        make,
        lambda cell: reproduce.run_of(recipe_of(cell), request),
        lambda cell, _: write(request),
    )
    if failed:
        raise UserError(
            f"Expected all runs to end. Received: {', '.join(f'{c.row}-{c.seed}' for c in failed)} "
            f"failed, as said above; the others are in {written[1]}. The same command tries again."
        )
    return written


def settings_of(request: Request) -> dict[str, Any]:
    """Returns what all runs have in common, but for the user's hparams as t2t-trainer's flags."""
    base = request.train_steps or reproduce.STEPS
    return {
        "problem": request.problem,
        "scale": {
            "width": request.scale,
            "train_steps": base,
            "warmup_steps": request.warmup_steps or max(1, base // 2),
            "batch": request.batch,
        },
        "hparams": request.hparams,
    }


def results(request: Request) -> Results:
    """Returns what runs ended with: by their own files, or where they are gone by the file RUNS.

    Raises:
        UserError: if that is of other settings.
    """
    file, found = pathlib.Path(request.output_dir) / RUNS, {}
    if file.is_file():
        kept = schema.read(file, dict[str, Any])
        if differs := changes(kept["settings"], settings_of(request)):
            raise UserError(
                f"Expected what {file} was begun with. Received: {'; '.join(differs)}. Give the "
                "same flags to go on, or another --output_dir."
            )
        for row, seeds in kept["runs"].items():
            found[row] = {int(seed): Result(**values) for seed, values in seeds.items()}
    for run_file in pathlib.Path(request.output_dir).glob("*-*/run.json"):
        directory = RunDirectory(run_file.parent)
        row, _, seed = directory.path.name.rpartition("-")
        if row not in TABLE3 or not seed.isdigit():
            continue
        if reproduce.differing(reproduce.table3(row, request, int(seed)), directory):
            continue
        record = records.of(directory)
        if record.dev_bleu is not None and record.perplexity is not None:
            hours = record.cost and record.cost.hours
            result = Result(record.dev_bleu, record.perplexity, hours)
            found.setdefault(row, {})[int(seed)] = result
    return found


def write(request: Request) -> list[pathlib.Path]:
    """Writes the tables as JSON and Markdown, and what is kept; returns the files of the tables."""
    folder = pathlib.Path(request.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with locked([folder], lambda text: None):  # several may train rows beside one another
        found = results(request)
        kept = {
            row: {seed: result._asdict() for seed, result in sorted(seeds.items())}
            for row, seeds in found.items()
        }
        text = json.dumps({"settings": settings_of(request), "runs": kept}, indent=1)
        write_text_atomic(folder / RUNS, text + "\n")
        made = tables(request, found)
        paths = [folder / f"{PAGE}.json", folder / f"{PAGE}.md"]
        values = {table.name: table.as_dict() for table in made}
        write_text_atomic(paths[0], json.dumps(values, indent=1) + "\n")
        write_text_atomic(paths[1], "\n".join(table.markdown() for table in made))
    return paths


def tables(request: Request, found: Results) -> list[Table]:
    """Returns table 3 made smaller, and the paper's conclusions beside ours."""
    rows, shown = [], [name for name in TABLE3 if name in request.names or name in found]
    for name in shown:
        of = list(found.get(name, {}).values())
        recipe = reproduce.table3(name, request, 0)
        hparams = registry.get_hparams(recipe.hparams_set, recipe.hparams)
        keys = (hparams.attention_key_channels or hparams.hidden_size) // hparams.num_heads
        rows.append(
            (
                *(name, hparams.num_hidden_layers, hparams.hidden_size, hparams.filter_size),
                *(hparams.num_heads, keys, hparams.layer_prepostprocess_dropout),
                *(hparams.label_smoothing, hparams.train_steps),
                *(parameters.count(hparams, 0).total / 1e6, len(of)),
                _mean([result.hours for result in of if result.hours is not None])[0],
                *_mean([result.perplexity for result in of]),
                *_mean([result.bleu for result in of]),
                *(TABLE3[name].perplexity, TABLE3[name].bleu),
            )
        )
    scale = settings_of(request)["scale"]
    flags = {"problem": request.problem, "scale": request.scale, "seeds": request.seeds}
    flags |= {name: scale[name] for name in ("train_steps", "batch", "warmup_steps")}
    flags |= {"rows": ",".join(shown)} if len(shown) < len(TABLE3) else {}
    flags |= {"hparams": request.hparams} if request.hparams else {}
    notes = (
        f"All widths are divided by {request.scale}. big has three times as many updates. Dev; the "
        "last checkpoint alone, as in the paper (section 6.2); PPL of a word piece, BLEU: "
        "sacreBLEU, cased, beam 4. ±: half of the 95 % interval over the seeds that ended. "
        "parameters: in millions, without the embeddings. hours: of the steps of one run. then: "
        "the paper's, at its own widths, on newstest2013.",
        f"t2t-paper reproduce --table=3 {' '.join(f'--{n}={v}' for n, v in flags.items())}",
    )
    heads = columns(
        "row | N | d_model | d_ff | h | d_k | P_drop | e_ls | updates :, | parameters :.2f | seeds "
        "| hours :.2f | PPL :.2f | ± :.2f | BLEU :.2f | ±  :.2f | PPL then :.2f | BLEU then"
    )
    title = f"Table 3 at 1/{request.scale} of the widths"
    return [Table("3-scaled", title, heads, rows, notes), _conclusions(shown, found)]


def judge(
    conclusion: Conclusion, results: Mapping[str, Mapping[int, Result]], then: float
) -> Verdict:
    """Returns what runs say of a conclusion.

    Args:
        conclusion: the paper's.
        results: {row: {seed: result}}; rows are compared seed by seed.
        then: by how much the better row was better in the paper. An interval that holds both zero
            and this is too wide to tell.
    """
    ours, theirs = (results.get(row, {}) for row in (conclusion.better, conclusion.worse))
    sign = -1 if conclusion.by == "perplexity" else 1
    gains = [
        sign * (getattr(ours[seed], conclusion.by) - getattr(theirs[seed], conclusion.by))
        for seed in sorted(ours.keys() & theirs.keys())
    ]
    mean, half = statistics.mean(gains) if gains else None, engine.half_interval(gains)
    if mean is None or half is None:
        return Verdict(NOT_TESTABLE, mean, half, len(gains))
    if conclusion.equal:
        near = abs(mean) + half <= EQUAL_WITHIN
        word = CONFIRMED if near else NOT_CONFIRMED if abs(mean) > half else NOT_TESTABLE
    else:
        wide = abs(mean) <= half and mean + half >= then
        word = CONFIRMED if mean > half else NOT_TESTABLE if wide else NOT_CONFIRMED
    return Verdict(word, mean, half, len(gains))


def _conclusions(shown: Sequence[str], found: Results) -> Table:
    rows = []
    for each in CONCLUSIONS:
        if {each.better, each.worse} <= set(shown):
            better, worse = (getattr(TABLE3[row], each.by) for row in (each.better, each.worse))
            gain = worse - better if each.by == "perplexity" else better - worse
            by = {"bleu": "BLEU", "perplexity": "PPL"}[each.by]
            word, *numbers = judge(each, found, gain)
            rows.append((each.text, by, gain, *numbers, word))
    return Table(
        "3-conclusions",
        "The paper's conclusions (section 6.2), and what they are here",
        columns("conclusion | by | then :+.2f | here :+.2f | ± :.2f | seeds | here it is"),
        rows,
        (
            "then and here: by how much the better row is better, seed by seed. confirmed: the "
            "95 % interval of the difference (Student's t over the seeds) leaves zero out; of as "
            f"good: it lies within {EQUAL_WITHIN} BLEU. not testable: fewer than two "
            "seeds, or an interval that holds both zero and the paper's difference (of as good: "
            "zero and more than that). not confirmed: else.",
        ),
    )


def _mean(values: list[float]) -> tuple[float | None, float | None]:
    return (statistics.mean(values) if values else None), engine.half_interval(values)
