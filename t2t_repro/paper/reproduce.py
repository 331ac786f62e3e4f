"""The paper's rows of tables 2 and 3 as runs of this project's programs.

Section 5.2: base for 100,000 steps in 12 hours, big for 300,000 in 3.5 days. Section 6.1: the mean
of the last 5 and 20 checkpoints, one every ten minutes, which were as many updates as 8 P100 make
in ten minutes; beam 4, alpha 0.6, at most the input's length and 50 more. Section 6.2: of table 3
the same search, but no averages.

What is done is not done again, so that a row that was stopped goes on by the same command.
"""

import dataclasses
import json
import pathlib
import shlex
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.errors import UserError, changes, unknown
from t2t_repro.fields import INT64, flag, parse_overrides
from t2t_repro.files import write_text_atomic, writing
from t2t_repro.paper import published
from t2t_repro.paper import runs as records
from t2t_repro.problem import Problem, Split, check_text
from t2t_repro.process import run_program
from t2t_repro.run_directory import RunDirectory
from t2t_repro.study import engine

RECIPE_FILE = "recipe.json"  # in a run: what was to be done
DECODED = "decoded"  # a folder of a run
STEPS = 2000  # of table 3's base: a seed of all rows in two hours, on two cores
_MINUTES = 10  # between two checkpoints of the paper
_AVERAGED = {"base": 5, "big": 20}
_CHECKPOINTS = 5  # of a run of table 3, whose last is the table's; the others are for who stops it
_OF_WIDTH = ("hidden_size", "filter_size", "attention_key_channels", "attention_value_channels")
_ENDE, _ENFR = "translate_ende_wmt14", "translate_enfr_wmt14"
_SCORES = {Split.EVAL: records.DEV_BLEU_FILE, Split.TEST: records.BLEU_FILE}

# The rows of table 2, and beside them what the paper leaves open: see docs/paper.md.
TABLE2 = {
    "ende_base": (_ENDE, "paper_table3_base"),
    "ende_big": (_ENDE, "paper_table3_big"),
    "enfr_base": (_ENFR, "paper_table2_base_enfr"),
    "enfr_big": (_ENFR, "paper_table2_big_enfr"),
    "ende_base_bpe": (f"{_ENDE}_bpe37k", "paper_table3_base"),
    "ende_big_bpe": (f"{_ENDE}_bpe37k", "paper_table3_big"),
    "enfr_big_separate": (_ENFR, "paper_table2_big_enfr_separate"),
    "enfr_big_attention_dropout": (_ENFR, "paper_table2_big_enfr_attention_dropout"),
}
TABLE3 = {row.name: row for row in published.TABLE3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The flags of t2t-paper reproduce.

    Raises:
        UserError: if they name no row, or one that is not there.
    """

    table: int = flag(2, "Of which table the rows are: 2 or 3.", least=2, most=3)
    rows: str = flag("", f"Which, with commas between; of 3 all. Table 2: {', '.join(TABLE2)}.")
    output_dir: str = flag("paper_runs", "The folder of the runs.")
    data_dir: str = flag("t2t_data", "The folder of the data; they are made if need be.")
    tmp_dir: str = flag("/tmp/t2t_datagen", "The folder of raw files.")
    hparams: str = flag("", "Changes to all rows, such as batch_size=8192 on large devices.")
    train_steps: int | None = flag(
        None, f"Updates of a run; default: the paper's; table 3's: {STEPS:,}.", least=1, most=INT64
    )
    save_checkpoints_secs: int = flag(
        0, "Save by the clock, as 600; 0: by the updates that 8 P100 made in 600 seconds.", least=0
    )
    worker_gpu: int | None = flag(None, "On how many GPUs; default: all, or one CPU.", least=1)
    plan: bool = flag(False, "Print the commands that train, and stop.")
    yes: bool = flag(False, "Go to work even where this machine plainly cannot end it.")
    scale: int = flag(8, "Table 3: divide all widths by this: 1, 2, 4, 8 or 16.", least=1, most=16)
    seeds: int = flag(3, "Table 3: how many runs of each row.", least=1, most=engine.MOST_SEEDS)
    batch: int = flag(2048, "Table 3: tokens of each side in an update.", least=1)
    warmup_steps: int | None = flag(
        None, "Table 3: updates of warm-up; default: half of base's.", least=1, most=INT64
    )
    problem: str = flag("translate_ende_multi30k", "Table 3: on what.")

    def __post_init__(self):
        known = TABLE2 if self.table == 2 else TABLE3
        for name in self.names:
            if name not in known:
                raise unknown(f"row of table {self.table}", name, known)
        if not self.names:
            raise UserError(f"Expected --rows of table 2: {', '.join(TABLE2)}. Received: none.")

    @property
    def names(self) -> list[str]:
        """The rows."""
        asked = [name.strip() for name in self.rows.split(",") if name.strip()]
        return asked or (list(TABLE3) if self.table == 3 else [])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """A row of a table as a run.

    Attributes:
        name: of the run's folder.
        problem: on what it is trained; its dev split chooses, its test split is scored.
        hparams_set: its settings.
        hparams: changes to them, "name=value,name=value".
        averaged: how many of the last checkpoints are averaged; 1: the last alone.
        updates: between two checkpoints.
        seed: of the run.
        splits: what is translated and scored.
    """

    name: str
    problem: str
    hparams_set: str
    hparams: str
    averaged: int
    updates: int
    seed: int = 0
    splits: tuple[str, ...] = (Split.EVAL, Split.TEST)


def table2(name: str, request: Request) -> Recipe:
    """Returns the recipe of a row of table 2."""
    problem, hparams_set = TABLE2[name]
    model = published.TRAINING["_big" in hparams_set]
    steps = registry.get_hparams(hparams_set).train_steps
    averaged = _AVERAGED[model.model]
    updates = round(steps / (model.hours * 60 / _MINUTES))
    changed = request.hparams
    if request.train_steps:  # tried out: there are to be checkpoints to average all the same
        changed = ",".join(filter(None, [changed, f"train_steps={request.train_steps}"]))
        updates = min(updates, max(1, request.train_steps // (averaged + 1)))
    return Recipe(
        name=name,
        problem=problem,
        hparams_set=hparams_set,
        hparams=changed,
        averaged=averaged,
        updates=updates,
    )


def table3(name: str, request: Request, seed: int) -> Recipe:
    """Returns the recipe of a row of table 3, made smaller: every width by one factor, and every
    length by another. big has three times as many steps as base, as in the paper.

    Raises:
        UserError: if the user's changes take something of which rows are made.
    """
    rows = {row: registry.get_hparams(of.hparams_set) for row, of in TABLE3.items()}
    full, base = rows[name], rows["base"]
    fields = [field.name for field in dataclasses.fields(base)]
    of_rows = {each for each in fields if len({getattr(row, each) for row in rows.values()}) > 1}
    of_rows |= {"num_encoder_layers", "num_decoder_layers"}  # which go before num_hidden_layers
    if taken := sorted(of_rows & parse_overrides(request.hparams).keys()):
        raise UserError(
            "Expected --hparams that leave the rows of table 3 what they are. Received: "
            f"{' and '.join(taken)}, in which rows differ. Leave them out."
        )
    of_base = request.train_steps or STEPS
    steps = of_base * full.train_steps // base.train_steps
    sizes = {n: getattr(full, n) // request.scale for n in _OF_WIDTH if getattr(full, n)}
    changed = sizes | {
        "train_steps": steps,
        "learning_rate_warmup_steps": request.warmup_steps or max(1, of_base // 2),
        "effective_batch_size": request.batch,
    }
    text = [*(f"{each}={value}" for each, value in changed.items()), request.hparams]
    return Recipe(
        name=f"{name}-{seed}",
        problem=request.problem,
        hparams_set=TABLE3[name].hparams_set,
        hparams=",".join(filter(None, text)),
        averaged=1,
        updates=max(1, steps // _CHECKPOINTS),
        seed=seed,
        splits=(Split.EVAL,),
    )


def run_of(recipe: Recipe, request: Request) -> RunDirectory:
    """Returns the run of a recipe."""
    return RunDirectory(pathlib.Path(request.output_dir) / recipe.name)


def training(recipe: Recipe, request: Request) -> list[str]:
    """Returns the command that trains a recipe's run; it makes the data too.

    Raises:
        UserError: if the hparams are none, or the problem's dev split has no text of its own.
    """
    registry.get_hparams(recipe.hparams_set, recipe.hparams)
    problem = registry.get_problem(recipe.problem)
    check_text(problem, "t2t-paper reproduce")
    if not problem.is_generate_per_split:
        raise UserError(
            "Expected a problem that has a text for each split, of which dev is translated. "
            f"Received: {problem.name}, which deals one text to all. Take another --problem."
        )
    flags = {
        "save_checkpoints_secs": request.save_checkpoints_secs or None,
        "worker_gpu": request.worker_gpu,
    }
    return engine.trainer_command(
        problem=recipe.problem,
        hparams_set=recipe.hparams_set,
        hparams=recipe.hparams,
        data_dir=request.data_dir,
        output_dir=str(run_of(recipe, request).path),
        every=recipe.updates,
        keep=recipe.averaged,
        seed=recipe.seed,
        more=[
            *("--generate_data", f"--tmp_dir={request.tmp_dir}"),
            *(f"--{name}={value}" for name, value in flags.items() if value),
            *(["--yes"] if request.yes else []),
        ],
    )


def carry_out(
    recipe: Recipe, request: Request, program: engine.Program = run_program
) -> RunDirectory:
    """Makes everything of a recipe that is not there yet; returns its run.

    Where a run has fewer checkpoints than the recipe averages, all are averaged, and it says so.

    Raises:
        UserError: if a program fails; it has said why. Or if the run was begun with another recipe.
        Interrupted: on a signal.
    """
    run, train = run_of(recipe, request), training(recipe, request)
    _begin(recipe, run)
    averaged, decoded = run.path / records.AVERAGED, run.path / DECODED

    def do(command: list[str], doing: str) -> None:
        print(f"\n{recipe.name}: {doing}\n  {shlex.join(command)}", flush=True)
        program(command, doing)

    # The description of a run follows the first of its checkpoints.
    if not (RunDirectory(averaged).exists() and any(averaged.glob("checkpoints/ckpt-*"))):
        do(train, "training")  # the last evaluation follows the last checkpoint
        there = len(list(run.checkpoints_dir.glob("ckpt-*")))
        if there < recipe.averaged:  # as where they were saved by the clock
            print(f"{recipe.name} has {there} checkpoints: all of them are averaged.")
        flags = [f"--model_dir={run.path}", f"--output_dir={averaged}"]
        number = f"--n={min(recipe.averaged, there)}"
        do(["t2t-avg-all", *flags, number, "--last_only"], "the mean of the last checkpoints")
    if records.evaluation_of(run) is None:
        flags = [f"--output_dir={averaged}", f"--data_dir={request.data_dir}"]
        do(["t2t-eval", *flags], "perplexity of dev")
    for split in recipe.splits:
        score = run.path / _SCORES[split]
        if not score.is_file():
            problem = registry.get_problem(recipe.problem)
            source, reference = write_texts(problem, request, split, decoded)
            out = decoded / f"{split}.translation"
            flags = [f"--decode_from_file={source}", f"--decode_to_file={out}"]
            do(["t2t-decoder", f"--output_dir={averaged}", *flags], f"translating {split}")
            flags = [f"--translation={out}", f"--reference={reference}", f"--json_file={score}"]
            do(["t2t-bleu", *flags], f"scoring {split}")
    return run


def _begin(recipe: Recipe, run: RunDirectory) -> None:
    """Writes what is to be done into a run, or checks it against what was begun there."""
    if differs := differing(recipe, run):
        raise UserError(
            f"Expected what {run.path} was begun with. Received: {'; '.join(differs)}. Give the "
            "same flags to go on, or another --output_dir."
        )
    run.path.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps(dataclasses.asdict(recipe), indent=1)
    write_text_atomic(run.path / RECIPE_FILE, wanted + "\n")


def differing(recipe: Recipe, run: RunDirectory) -> list[str]:
    """Returns in what a run was begun with another recipe, in words; none where it never was."""
    file = run.path / RECIPE_FILE
    if not (file.is_file() and run.exists()):
        return []
    wanted = json.loads(json.dumps(dataclasses.asdict(recipe)))
    there: dict[str, Any] = schema.read(file, dict[str, Any])
    return changes({name: there.get(name) for name in wanted}, wanted)


def write_texts(
    problem: Problem, request: Request, split: str, folder: pathlib.Path
) -> list[pathlib.Path]:
    """Writes the sentences of a split, a line each; returns the files of source and reference."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{split}.{kind}" for kind in ("source", "reference")]
    samples = problem.generate_samples(request.data_dir, request.tmp_dir, split)  # type: ignore
    with writing(paths[0]) as source, writing(paths[1]) as reference:
        for sample in samples:
            source.write(sample["inputs"] + "\n")
            reference.write(sample["targets"] + "\n")
    return paths
