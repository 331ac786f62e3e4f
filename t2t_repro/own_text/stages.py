"""From raw files to a served model: which programs run, in which order, with which flags."""

import dataclasses
import importlib.util
import itertools
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from t2t_repro import files, registry, stages
from t2t_repro.corpora.raw_record import RawFile
from t2t_repro.data import preset
from t2t_repro.errors import UserError
from t2t_repro.own_text import page, plan
from t2t_repro.own_text.record import Plan, plan_of
from t2t_repro.own_text.request import OwnTextRequest
from t2t_repro.process import run_program
from t2t_repro.provenance import Score, add_scores
from t2t_repro.run_directory import TRAINING_DATA, RunDirectory
from t2t_repro.scoring.files import score_files
from t2t_repro.stages import Record, Stage, Stages

PROBLEM = "text2text_tmpdir"
_TEST_SHARE, _MOST_TEST = 20, 1000  # one pair in so many is drawn for test, at most so many
_SPLITS = {"train": "train", "dev": "eval", "test": "test"}


class Folder:
    """Where everything lies."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.text, self.data, self.run = path / "text", path / "data", path / "run"
        self.trial, self.plan = path / "trial", path / "plan.json"
        self.model = path / "model"
        self.translations = path / "test" / "translations.txt"
        self.export, self.page = path / "export", path / "index.html"
        self.summary = self.data / f"datagen.{PROBLEM}.json"
        self.record = path / "own-text.json"

    def sides(self, split: str) -> list[pathlib.Path]:
        """The two text files of a split."""
        return [self.text / f"{side}.{_SPLITS[split]}.txt" for side in ("inputs", "targets")]


def run(request: OwnTextRequest, say: Callable[[str], None] = print) -> Record:
    """Makes everything that is not there yet; returns the record of it.

    Args:
        request: what is asked for.
        say: gets lines.

    Raises:
        UserError: if the text is not that with which the folder was begun, a program fails, or
            there is no space.
        Interrupted: on a signal.
    """
    path = pathlib.Path(request.output_dir).expanduser()
    folder = Folder(path if path.parts else path.absolute())  # "." names nothing in a command
    stages.check_folder(folder.record)  # before all of the text is read
    plan.check_model(folder.run, folder.model)
    if request.hparams_set:
        registry.get_hparams(request.hparams_set, request.hparams)
    corpora = request.raw.corpora()
    paths = [path for corpus in corpora for path in corpus.paths()]
    paths += request.vocabulary_files
    raw = {path: RawFile.of(path) for path in paths}
    found = {each.path: each.sha256 for each in raw.values()}
    size = _test_size(request)
    with stages.begin(folder.record, request.begun_with(raw), found, say) as doing:
        tests = bool(request.raw.test_source or request.raw.test_size or size)
        doing.run(_text(request, folder, size, tests))
        decided = _plan(request, folder, doing, say)
        doing.run(_training(request, folder, decided))
        doing.run(_tuning(folder))
        if tests:
            _test(folder, doing)
        for stage in _exports(folder):
            doing.run(stage)
        record = doing.record
        page.write(folder.page, folder.path, record, folder.run, folder.model)
    say("\n" + "\n".join(page.summary(folder.path, record)))
    say(f"\nThe whole on one page: {folder.page}\nWhat to try next:")
    for line in page.next_steps(folder.path, record):
        say(f"  {line}")
    return record


def _test_size(request: OwnTextRequest) -> int:
    """Returns how many pairs to draw for test; 0: the request says which they are."""
    raw = request.raw
    if raw.test_source or raw.test_size:
        return 0
    most = _TEST_SHARE * _MOST_TEST
    count = sum(1 for _ in itertools.islice(raw.pairs("train"), most))
    if count < _TEST_SHARE:
        raise UserError(
            f"Expected at least {_TEST_SHARE} pairs of sentences. Received: {count}. A model needs "
            "thousands."
        )
    return count // _TEST_SHARE


def _text(request: OwnTextRequest, folder: Folder, test_size: int, tests: bool) -> Stage:
    splits = ("train", "dev", "test") if tests else ("train", "dev")
    command = [
        "t2t-datagen",
        f"--problem={PROBLEM}",
        *request.text_flags(test_size),
        f"--tmp_dir={folder.text}",
        f"--data_dir={folder.data}",
    ]
    makes = [path for split in splits for path in folder.sides(split)]
    return Stage(
        name="text",
        says="Text: intake, splits, check, vocabulary, records",
        command=command,
        outputs=[*makes, folder.summary],
    )


def _plan(
    request: OwnTextRequest, folder: Folder, doing: Stages, say: Callable[[str], None]
) -> Plan:
    """Returns the plan, made by a trial where it is not there."""
    text = plan.Text.of(folder.summary)
    problem = registry.get_problem(PROBLEM)
    chosen = plan.chosen_set(request, text, problem, folder.data)
    steps = plan.TRIAL_STEPS

    def trial(of: preset.Preset) -> list[str]:
        return [
            *_trainer(request, folder.trial, folder, of.hparams_set, of.hparams),
            f"--train_steps={steps}",
            f"--log_step_count_steps={steps // plan.REPORTS}",
            f"--local_eval_frequency={steps // 2}",
            f"--eval_bleu_sentences={min(plan.BLEU_SENTENCES, text.dev)}",
            "--nocertify",  # it is removed
        ]

    stage = Stage(
        name="plan",
        says="Plan: a few steps of trial",
        command=trial(chosen),
        outputs=[folder.plan],
        clear=[folder.trial, folder.plan],
        limits=f"{request.train_steps} {request.train_minutes}",
    )

    def made_of(of: preset.Preset) -> Plan:
        run_program(trial(of), stage.says)
        room = plan.room(folder.path, (folder.trial, folder.run, folder.model, folder.export))
        made = plan.make(request, text, of, RunDirectory(folder.trial), room, begun)
        shutil.rmtree(folder.trial)
        return made

    def work() -> dict[str, Any]:
        made = made_of(chosen)
        fits = plan.chosen_set(request, text, problem, folder.data, tried=made)
        if fits.hparams_set != made.hparams_set:
            made = made_of(fits)
        made = dataclasses.replace(made, reason=fits.reason)
        if begun is None:
            made = dataclasses.replace(made, hparams=fits.hparams)
        plan.check_not_shorter(RunDirectory(folder.run), made.train_steps)
        found = dataclasses.asdict(made)
        files.write_text_atomic(folder.plan, json.dumps(found, indent=1) + "\n")
        return found

    there = RunDirectory(folder.run).exists() and "plan" in doing.record.stages
    begun = plan_of(doing.record) if there else None
    if begun and not doing.is_done(stage):
        plan.check_length(begun, plan.hparams_of(request, chosen))
        if request.train_steps:
            plan.check_not_shorter(RunDirectory(folder.run), request.train_steps)
    decided = Plan(**doing.run(stage, work))
    say(plan.said(decided))
    return decided


def _trainer(
    request: OwnTextRequest,
    output_dir: pathlib.Path,
    folder: Folder,
    hparams_set: str,
    *hparams: str,
) -> list[str]:
    changed = ",".join(filter(None, [request.hparams, *hparams]))
    changes = [f"--hparams={changed}"] if changed else []
    return [
        "t2t-trainer",
        f"--problem={PROBLEM}",
        f"--data_dir={folder.data}",
        f"--output_dir={output_dir}",
        f"--hparams_set={hparams_set}",
        *changes,
        f"--random_seed={request.random_seed}",
    ]


def _training(request: OwnTextRequest, folder: Folder, decided: Plan) -> Stage:
    return Stage(
        name="training",
        says="Training, the best by BLEU kept",
        command=[
            *_trainer(
                request,
                folder.run,
                folder,
                decided.hparams_set,
                decided.hparams,
                decided.of_length,
            ),
            f"--train_steps={decided.train_steps}",
            f"--local_eval_frequency={decided.local_eval_frequency}",
            f"--eval_bleu_sentences={decided.bleu_sentences}",
            f"--keep_checkpoint_max={plan.KEPT}",
            f"--keep_best={plan.BEST}",
            "--best_metric=bleu",
            f"--eval_early_stopping_steps={decided.patience}",
            "--eval_early_stopping_metric=bleu",
        ],
        outputs=[folder.run / TRAINING_DATA],
    )


def _tuning(folder: Folder) -> Stage:
    return Stage(
        name="tuning",
        says="Checkpoints or their mean, beams and alpha, by dev",
        command=[
            *("t2t-avg-all", "--tune"),
            *(f"--model_dir={folder.run}", f"--output_dir={folder.model}"),
        ],
        outputs=[folder.model / "decoding.json"],
    )


def _test(folder: Folder, doing: Stages) -> None:
    """Decodes the test set, and keeps its scores."""
    source, reference = folder.sides("test")
    stage = Stage(
        name="test",
        says="Test",
        command=[
            "t2t-decoder",
            f"--output_dir={folder.model}",
            f"--decode_from_file={source}",
            f"--decode_to_file={folder.translations}",
            f"--decode_reference={reference}",
        ],
        outputs=[folder.translations],
        clear=[folder.translations.parent],
    )

    def work() -> dict[str, Any]:
        run_program(stage.command, stage.says)
        return score_files(folder.translations, reference).as_dict()

    found = doing.run(stage, work)
    of = f"test ({found['sentences']} sentences)"
    scored = [
        Score(name, value["score"], of, value["signature"])
        for name, value in found.items()
        if name != "sentences"
    ]
    add_scores(folder.model, scored)  # which the exports take along


def _exports(folder: Folder) -> list[Stage]:
    forms = {"saved_model": "saved_model.pb"}
    if importlib.util.find_spec("ctranslate2"):
        forms["ctranslate2"] = "model.bin"
    return [
        Stage(
            name=f"export_{name}",
            says=f"Export: {name}",
            command=[
                "t2t-exporter",
                f"--output_dir={folder.model}",
                f"--format={name}",
                f"--export_dir={folder.export / name}",
            ],
            outputs=[folder.export / name / file],
            clear=[folder.export / name],
        )
        for name, file in forms.items()
    ]
