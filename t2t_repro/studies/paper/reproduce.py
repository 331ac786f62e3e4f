"""Carries a recipe out by this project's programs: train, average, translate, score.

What is done is not done again, so that a recipe that was stopped goes on by the same call.
"""

import dataclasses
import json
import os
import pathlib
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.errors import UserError, changes
from t2t_repro.files import locked, write_text_atomic, writing
from t2t_repro.problem import Problem, Split
from t2t_repro.processes import run_program
from t2t_repro.run_directory import RunDirectory
from t2t_repro.studies.paper import run_records, run_scores
from t2t_repro.studies.paper.recipes import Recipe
from t2t_repro.translation import check_text

Say = Callable[[str], None]
Program = Callable[[Sequence[str], str], None]
RECIPE_FILE = "recipe.json"  # in a run: what was to be done
DECODED = "decoded"  # a folder of a run
_SCORES = {Split.EVAL: run_records.DEV_BLEU_FILE, Split.TEST: run_scores.BLEU_FILE}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where recipes are carried out, and what all of them add to their commands.

    Attributes:
        data_dir, tmp_dir: as t2t-datagen takes them.
        output_dir: has a run for each recipe.
        hparams: changes to all, such as another batch_size.
        train_steps: updates of each run; None: the recipe's own.
        save_checkpoints_secs: save by the clock instead; 0: by updates.
        worker_gpu: devices; None: all.
        yes: go to work even where the machine plainly cannot end it.
    """

    data_dir: str
    tmp_dir: str
    output_dir: str
    hparams: str = ""
    train_steps: int | None = None
    save_checkpoints_secs: int = 0
    worker_gpu: int | None = None
    yes: bool = False

    def __post_init__(self) -> None:
        for name in ("data_dir", "tmp_dir", "output_dir"):
            object.__setattr__(self, name, os.path.expanduser(getattr(self, name)))


def carry_out(
    recipe: Recipe, place: Place, say: Say = print, program: Program = run_program
) -> RunDirectory:
    """Makes everything of a recipe that is not there yet; returns its run.

    Another process that makes the same is waited for, and what it has made is not made again.
    Where a run has fewer checkpoints than the recipe averages, all are averaged, and it says so.

    Args:
        recipe: what.
        place: where.
        say: gets lines.
        program: runs a command; as `processes.run_program`.

    Raises:
        UserError: if a program fails; it has said why. Or if the problem has no text to score.
        Interrupted: on a signal.
    """
    problem = registry.get_problem(recipe.problem)
    check_problem(problem)
    run = RunDirectory(folder_of(recipe, place))
    _begin(recipe, place, run)
    with locked([run.path], say):
        _make(recipe, place, problem, run, say, program)
    return run


def _make(
    recipe: Recipe, place: Place, problem: Problem, run: RunDirectory, say: Say, program: Program
) -> None:
    averaged, decoded = run.path / run_records.AVERAGED, run.path / DECODED

    def do(command: list[str], doing: str) -> None:
        say(f"\n{recipe.name}: {doing}\n  {shlex.join(command)}")
        program(command, doing)

    # The description of a run follows the first of its checkpoints.
    if not (RunDirectory(averaged).exists() and any(averaged.glob("checkpoints/ckpt-*"))):
        # Where it is trained, too: the last evaluation and provenance.json follow the checkpoint.
        do(training(recipe, place), "training")
        n = min(recipe.averaged, there := len(list(run.checkpoints_dir.glob("ckpt-*"))))
        if there < recipe.averaged:  # as where they were saved by the clock
            say(
                f"{recipe.name} has {there} checkpoints, of which the recipe averages the last "
                f"{recipe.averaged}: all of them are averaged."
            )
        flags = [f"--model_dir={run.path}", f"--output_dir={averaged}", f"--n={n}"]
        what = "the last checkpoint" if n == 1 else f"the mean of {n} checkpoints"
        do(["t2t-avg-all", *flags, "--last_only"], what)
    if run_records.evaluation_of(run) is None:
        flags = [f"--output_dir={averaged}", f"--data_dir={place.data_dir}"]
        do(["t2t-eval", *flags], "perplexity of dev")
    for split in recipe.splits:
        if (run.path / _SCORES[split]).is_file():
            continue
        source, reference = write_texts(problem, place, split, decoded)
        translation = decoded / f"{split}.translation"
        flags = [f"--decode_from_file={source}", f"--decode_to_file={translation}"]
        do(["t2t-decoder", f"--output_dir={averaged}", *flags], f"translating {split}")
        flags = [f"--translation={translation}", f"--reference={reference}"]
        score = run.path / _SCORES[split]
        do(["t2t-bleu", *flags, f"--json_file={score}"], f"scoring {split}")


def check_problem(problem: Problem) -> None:
    """Refuses a problem whose splits have no text of their own.

    Raises:
        UserError: naming it.
    """
    check_text(problem, "t2t-reproduce")
    if not problem.is_generate_per_split:
        raise UserError(
            "Expected a problem that has a text for each split, of which dev is translated. "
            f"Received: {problem.name}, which deals one text to all. Take another --problem."
        )


def folder_of(recipe: Recipe, place: Place) -> pathlib.Path:
    """Returns the folder of a recipe's run."""
    return pathlib.Path(place.output_dir).expanduser() / recipe.name


def hparams_of(recipe: Recipe, place: Place) -> str:
    """Returns how a recipe's run differs from its set, "name=value,name=value"."""
    return ",".join(filter(None, [recipe.hparams, place.hparams]))


def training(recipe: Recipe, place: Place) -> list[str]:
    """Returns the command that trains a recipe's run; it makes the data too.

    Raises:
        UserError: if the hparams are none.
    """
    hparams = hparams_of(recipe, place)
    registry.get_hparams(recipe.hparams_set, hparams)  # what is wrong is said before anything runs
    every = recipe.updates
    if place.train_steps:  # tried out: there are to be checkpoints to average all the same
        every = min(every, max(1, place.train_steps // (recipe.averaged + 1)))
    return [
        "t2t-trainer",
        f"--problem={recipe.problem}",
        f"--hparams_set={recipe.hparams_set}",
        *([f"--hparams={hparams}"] if hparams else []),
        "--generate_data",
        f"--tmp_dir={place.tmp_dir}",
        f"--data_dir={place.data_dir}",
        f"--output_dir={folder_of(recipe, place)}",
        *([f"--train_steps={place.train_steps}"] if place.train_steps else []),
        f"--local_eval_frequency={every}",
        *(
            [f"--save_checkpoints_secs={place.save_checkpoints_secs}"]
            if place.save_checkpoints_secs
            else []
        ),
        f"--keep_checkpoint_max={recipe.averaged}",
        f"--random_seed={recipe.seed}",
        *([f"--worker_gpu={place.worker_gpu}"] if place.worker_gpu else []),
        *(["--yes"] if place.yes else []),
    ]


def _begin(recipe: Recipe, place: Place, run: RunDirectory) -> None:
    """Writes what is to be done into a run, or checks it against what was begun there."""
    if differs := differing(recipe, place, run):
        raise UserError(
            f"Expected what {run.path} was begun with. Received: {'; '.join(differs)}. Give the "
            "same flags to go on, or another --output_dir."
        )
    run.path.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps(_wanted(recipe, place), indent=1)
    write_text_atomic(run.path / RECIPE_FILE, wanted + "\n")


def differing(recipe: Recipe, place: Place, run: RunDirectory) -> list[str]:
    """Returns in what a run was begun with something else, in words.

    One without a recipe was in nothing, nor one whose training was refused: it left no more.
    """
    file, wanted = run.path / RECIPE_FILE, _flat(_wanted(recipe, place))
    if not (file.is_file() and run.exists()):
        return []
    there = _flat(schema.read(file, dict[str, Any]))
    return changes({name: there.get(name) for name in wanted | there}, wanted)


def _flat(wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns what is to be done with the user's changes to the recipe by the names of flags."""
    flags = {f"--{name}": value for name, value in wanted.get("changes", {}).items()}
    return {**{name: value for name, value in wanted.items() if name != "changes"}, **flags}


def _wanted(recipe: Recipe, place: Place) -> dict[str, Any]:
    """What is to be done, as JSON has it."""
    settings = {"hparams": place.hparams, "train_steps": place.train_steps}
    wanted: dict[str, Any] = json.loads(
        json.dumps({**dataclasses.asdict(recipe), "changes": settings})
    )
    return wanted


def write_texts(
    problem: Problem, place: Place, split: str, folder: pathlib.Path
) -> list[pathlib.Path]:
    """Writes the sentences of a split, a line each; returns the files of source and reference."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{split}.{kind}" for kind in ("source", "reference")]
    samples = problem.generate_samples(place.data_dir, place.tmp_dir, split)  # type: ignore
    with writing(paths[0]) as source, writing(paths[1]) as reference:
        for sample in samples:
            source.write(sample["inputs"] + "\n")
            reference.write(sample["targets"] + "\n")
    return paths
