"""Table 3 made smaller: all rows as runs, one seed after another, and what they say of the paper.

After each run the page is written anew, so that it is there whenever one stops. What runs ended
with, and which failed, is kept in a file of its own: they need not lie there any more for others to
be added.
"""

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from t2t_repro import fields, registry, schema
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.files import locked, write_text_atomic
from t2t_repro.models import parameters
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.paper import conclusions, published, recipes, reproduce, run_records
from t2t_repro.studies.paper.conclusions import Result
from t2t_repro.studies.paper.recipes import Scale
from t2t_repro.studies.paper.reproduce import Place
from t2t_repro.studies.tables import Table, columns

ROWS = tuple(recipes.row_name(row.hparams_set) for row in published.TABLE3)
PAGE = "table3"
RUNS = f"{PAGE}-runs.json"
Results = dict[str, dict[int, Result]]  # {row: {seed: result}}
Failed = dict[str, list[int]]  # {row: seeds}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Which rows, by what they are made smaller, on what, and with how many seeds."""

    rows: Sequence[str]
    scale: Scale
    problem: str
    seeds: int
    place: Place

    @property
    def runs_file(self) -> pathlib.Path:
        return pathlib.Path(self.place.output_dir).expanduser() / RUNS

    @property
    def settings(self) -> dict[str, Any]:
        """What all runs have in common."""
        scale = dataclasses.asdict(self.scale)
        return {"problem": self.problem, "scale": scale, "hparams": self.place.hparams}


@dataclasses.dataclass(frozen=True)
class Kept:
    """What the file RUNS holds: a study's settings, what its runs ended with, and which failed."""

    settings: dict[str, Any]
    runs: Results
    failed: Failed = dataclasses.field(default_factory=dict)


def run(
    study: Study,
    say: Callable[[str], None] = print,
    program: reproduce.Program = reproduce.run_program,
) -> list[pathlib.Path]:
    """Makes the runs that are not there yet, a seed of all rows before the next; returns the page.

    One that fails after it has trained, as by a loss that is not finite, or whose dev loss has no
    perplexity, does not stop the others, and is in the page as failed until the same command brings
    it to its end.

    Raises:
        UserError: if a run failed, or what is there was begun with other settings.
        Interrupted: on a signal.
    """

    def noted(command: Sequence[str], doing: str) -> None:
        try:
            program(command, doing)
        except UserError as error:
            raise _ProgramFailed(str(error)) from error

    there, failed = kept(study), []
    written = write(study) if there.runs or there.failed else []
    for seed in range(study.seeds):
        for row in study.rows:
            if seed in kept(study).runs.get(row, {}):
                continue
            recipe = recipes.table3(row, study.problem, study.scale, seed)
            try:
                reproduce.carry_out(recipe, study.place, say, noted)
                ended = "" if seed in results(study).get(row, {}) else "diverged"
            except _ProgramFailed:
                if not RunDirectory(reproduce.folder_of(recipe, study.place)).read_metrics():
                    raise  # it never began, which the others would not either
                ended = "failed"
            if ended:
                say(f"{recipe.name} {ended}. Going on with the others.")
                failed.append(recipe.name)
            written = write(study, [(row, seed)] if ended else [])
    if failed:
        raise UserError(
            f"Expected all runs to end. Received: {', '.join(failed)} failed, as said above; the "
            f"others are in {study.runs_file.parent / PAGE}.md. The same command tries again."
        )
    return written


class _ProgramFailed(UserError):
    """A program ended with an error."""


def kept(study: Study) -> Kept:
    """Returns what the file RUNS has of runs; they may be gone.

    Raises:
        UserError: if it is of other settings, or not as it was written.
    """
    file = study.runs_file
    if not file.is_file():
        return Kept(study.settings, {})
    there = schema.read(file, Kept, "Remove it: what runs are there will be read again.")
    if there.settings != study.settings:
        wanted, begun = _flat(study.settings), _flat(there.settings)
        differs = [
            f"{name}={wanted.get(name, 'none')}, there {begun.get(name, 'none')}"
            for name in sorted(wanted.keys() | begun)
            if wanted.get(name) != begun.get(name)
        ]
        raise UserError(
            f"Expected what {file} was begun with. Received: {'; '.join(differs)}. Give the same "
            "flags to go on, or another --output_dir."
        )
    return there


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns settings with those of a group as "group.name"."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        inner = value if isinstance(value, dict) else {}
        flat |= {f"{name}.{each}": of_it for each, of_it in inner.items()} or {name: value}
    return flat


def results(study: Study) -> Results:
    """Returns what the runs that are done ended with; where one is there, by its own files."""
    found = {row: dict(of_row) for row, of_row in kept(study).runs.items()}
    for row in study.rows:
        for seed in range(study.seeds):
            recipe = recipes.table3(row, study.problem, study.scale, seed)
            directory = RunDirectory(reproduce.folder_of(recipe, study.place))
            if not directory.exists() or reproduce.differing(recipe, study.place, directory):
                continue
            record = run_records.of(directory)
            if record.dev_bleu is None:
                continue
            if record.perplexity is None:  # it diverged
                found.get(row, {}).pop(seed, None)
                continue
            hours = record.cost.hours if record.cost else None
            result = Result(record.dev_bleu, record.perplexity, hours)
            found.setdefault(row, {})[seed] = result
    return found


def failures(study: Study, found: Results, new: Sequence[tuple[str, int]] = ()) -> Failed:
    """Returns the runs that failed and have not ended since: those kept and `new`, (row, seed)."""
    failed: Failed = {}
    before = {(row, seed) for row, seeds in kept(study).failed.items() for seed in seeds}
    for row, seed in sorted(before.union(new)):
        if seed not in found.get(row, {}):
            failed.setdefault(row, []).append(seed)
    return failed


def check_hparams(changes: str) -> None:
    """Refuses what would make rows alike, or another thing than their names say.

    Args:
        changes: of every row, "name=value,name=value".

    Raises:
        UserError: naming those of which rows are made.
    """
    sets = [registry.get_hparams(row.hparams_set) for row in published.TABLE3]
    of_rows = {
        field.name
        for field in dataclasses.fields(sets[0])
        if len({getattr(each, field.name) for each in sets}) > 1
    }
    of_rows |= {"num_encoder_layers", "num_decoder_layers"}  # which go before num_hidden_layers
    if taken := [name for name in fields.parse_overrides(changes) if name in of_rows]:
        raise UserError(
            "Expected --hparams that leave the rows of table 3 what they are. Received: "
            f"{' and '.join(taken)}, in which rows differ. Leave them out; t2t-trainer trains "
            "whatever you like."
        )


def tables(study: Study, found: Results, failed: Failed) -> list[Table]:
    """Returns table 3 made smaller, and the paper's conclusions beside ours."""
    scale = study.scale
    rows, there = [], {*study.rows, *found, *failed}
    shown = [name for name in ROWS if name in there]
    for row in (row for row in published.TABLE3 if recipes.row_name(row.hparams_set) in shown):
        name = recipes.row_name(row.hparams_set)
        of = list(found.get(name, {}).values())
        recipe = recipes.table3(name, study.problem, scale, 0)
        changes = reproduce.hparams_of(recipe, study.place)
        hparams = registry.get_hparams(recipe.hparams_set, changes)
        hours, _ = _mean([result.hours for result in of if result.hours is not None])
        rows.append(
            (
                *(name, *_shape(hparams), parameters.count(hparams, 2).without_tables / 1e6),
                *(len(of), len(failed.get(name, [])), hours),
                *_mean([result.perplexity for result in of]),
                *_mean([result.bleu for result in of]),
                *(row.perplexity, row.bleu),
            )
        )
    tried = (seed for of in (*found.values(), *failed.values()) for seed in of)
    width, seeds = scale.width, [study.seeds, *(1 + seed for seed in tried)]
    steps = scale.train_steps
    notes = (
        f"All widths (d_model, d_ff, and with them d_k and d_v) are divided by {width}; layers, "
        "heads, dropout, label smoothing and positions are the paper's. base has "
        f"{steps:,} updates of {scale.batch:,} tokens a side, {scale.warmup_steps:,} of them "
        f"warm-up; big three times as many. {study.problem}, dev; the last checkpoint alone, as in "
        "the paper (section 6.2); PPL of a word piece, BLEU: sacreBLEU, cased, beam 4. "
        "+-: half of the 95 % interval over the seeds. failed: runs that an error ended, as a loss "
        "that is not finite, or whose dev loss is none of a model (100 nats and more); they are in "
        "no mean. parameters: in millions, without the embeddings. hours: of the steps of one run, "
        "on what it was trained. then: the paper's, at its own widths, on newstest2013.",
        f"t2t-reproduce --table=3 --problem={study.problem} --scale={width} --seeds={max(seeds)} "
        f"--train_steps={steps} --batch={scale.batch} --warmup_steps={scale.warmup_steps}"
        + (f" --rows={','.join(shown)}" if len(shown) < len(ROWS) else "")
        + (f" --hparams={study.place.hparams}" if study.place.hparams else "")
        + " makes it.",
    )
    heads = columns(
        "row | N | d_model | d_ff | h | d_k | P_drop | e_ls | updates :, | parameters :.2f | seeds "
        "| failed | hours :.2f | PPL :.2f | +- :.2f | BLEU :.2f | +-  :.2f | PPL then :.2f "
        "| BLEU then"
    )
    made = Table("3-scaled", f"Table 3 at 1/{width} of the widths", heads, rows, notes)
    return [made, _conclusions(shown, found, failed)]


def _shape(hparams: HParams) -> tuple[float, ...]:
    """Returns the columns of the paper's table 3 that say what a row is."""
    return (
        *(hparams.num_hidden_layers, hparams.hidden_size, hparams.filter_size, hparams.num_heads),
        (hparams.attention_key_channels or hparams.hidden_size) // hparams.num_heads,
        *(hparams.layer_prepostprocess_dropout, hparams.label_smoothing, hparams.train_steps),
    )


def _conclusions(shown: Sequence[str], found: Results, failed: Failed) -> Table:
    then = {recipes.row_name(row.hparams_set): row for row in published.TABLE3}
    rows = []
    for each in conclusions.CONCLUSIONS:
        if not {each.better, each.worse} <= set(shown):
            continue
        sign = -1 if each.by == "perplexity" else 1
        better, worse = (getattr(then[row], each.by) for row in (each.better, each.worse))
        gain = sign * (better - worse)
        verdict = conclusions.judge(each, found, gain)
        what = (each.text, {"bleu": "BLEU", "perplexity": "PPL"}[each.by], gain)
        lost = {seed for row in (each.better, each.worse) for seed in failed.get(row, [])}
        numbers = (verdict.difference, verdict.interval, verdict.seeds, len(lost))
        rows.append((*what, *numbers, verdict.word))
    return Table(
        "3-conclusions",
        "The paper's conclusions (section 6.2), and what they are here",
        columns(
            "conclusion | by | then :+.2f | here :+.2f | +- :.2f | seeds | failed | here it is"
        ),
        rows,
        (
            "then and here: by how much the better row is better. Rows are compared seed by seed. "
            "failed: seeds of which a run of either row failed. confirmed: the 95 % interval of "
            "the difference (Student's t over the seeds) leaves zero out; of as good: it lies "
            f"within {conclusions.EQUAL_WITHIN} BLEU. not testable: fewer than two seeds, or an "
            "interval that is too wide to tell: it holds both zero and the paper's difference, or, "
            "of as good, zero and more than that. not confirmed: else.",
        ),
    )


def _mean(values: list[float]) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    return statistics.mean(values), conclusions.half_interval(values)


def write(study: Study, failed: Sequence[tuple[str, int]] = ()) -> list[pathlib.Path]:
    """Writes the tables as Markdown and JSON, and what is kept; returns the files of the tables.

    Args:
        study: of which runs.
        failed: those that have failed now, (row, seed).
    """
    folder = study.runs_file.parent
    folder.mkdir(parents=True, exist_ok=True)
    with locked([folder], lambda text: None):  # several may train rows beside one another
        found = results(study)
        lost = failures(study, found, failed)
        runs = {
            row: {seed: result._asdict() for seed, result in sorted(of_row.items())}
            for row, of_row in found.items()
        }
        text = json.dumps({"settings": study.settings, "runs": runs, "failed": lost}, indent=1)
        write_text_atomic(study.runs_file, text + "\n")
        made = tables(study, found, lost)
        paths = [folder / f"{PAGE}.json", folder / f"{PAGE}.md"]
        values = {table.name: table.as_dict() for table in made}
        write_text_atomic(paths[0], json.dumps(values, indent=1) + "\n")
        head = f"# Table 3 of the paper at 1/{study.scale.width} of its widths\n"
        write_text_atomic(paths[1], "\n".join([head, *(table.markdown() for table in made)]))
    return paths
