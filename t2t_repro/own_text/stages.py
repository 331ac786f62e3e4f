"""From raw files to a served model: the programs, their order and flags."""

import contextlib
import dataclasses
import importlib.util
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_repro import registry, stages
from t2t_repro.data import preset
from t2t_repro.errors import UserError
from t2t_repro.own_text import page, plan
from t2t_repro.own_text.plan import Plan
from t2t_repro.own_text.request import PROBLEM, Folder, OwnTextRequest
from t2t_repro.process import run_program
from t2t_repro.provenance import Score, add_scores
from t2t_repro.run_directory import TRAINING_DATA, TUNED, RunDirectory
from t2t_repro.scoring.files import score_files
from t2t_repro.stages import Record, Stage, Stages, command
from t2t_repro.views import explainer

_TEST_SHARE, _MOST_TEST = 20, 1000  # one pair in so many is drawn for test, at most so many


def make_translator(request: OwnTextRequest, say: Callable[[str], None] = print) -> Record:
    """Runs the unfinished stages; returns the record.

    Args:
        request: what is asked for.
        say: gets lines.

    Raises:
        UserError: if the text is not that with which the folder was begun, or a program fails.
        Interrupted: on a signal.
    """
    path = Path(request.output_dir)
    folder = Folder(path if path.parts else path.absolute())  # "." names nothing in a command
    if request.hparams_set:
        registry.get_hparams(request.hparams_set, request.hparams)
    text = _text(request, folder)
    own = ("keep_bad_pairs", "hparams_set", "hparams")
    begun_with = request.text_flags() | {name: getattr(request, name) for name in own}
    with stages.begin(folder.record, begun_with, request.files(), say) as doing:
        doing.run(text)
        decided = _plan(request, folder, doing)
        say(str(decided))
        doing.run(_training(request, folder, decided))
        says = "Choosing weights, beam size and alpha on dev"
        tune = command("t2t-avg-all", "--tune", model_dir=folder.run, output_dir=folder.model)
        doing.run(Stage(name="tuning", says=says, command=tune, outputs=[folder.model / TUNED]))
        _test(folder, doing)
        for stage in _products(request, folder, decided):
            doing.run(stage)
        page.write(folder, doing.record, decided)
    lines = page.summary(folder, doing.record, decided)
    say("\n".join(["", *lines, "", f"All results on one page: {folder.page}", "What to try next:"]))
    for line in page.next_steps(folder, decided):
        say(f"  {line}")
    return doing.record


def _text(request: OwnTextRequest, folder: Folder) -> Stage:
    flags = request.text_flags()
    if not (request.raw.test_source or request.raw.test_size):
        pairs = itertools.islice(request.raw.pairs("train"), _TEST_SHARE * _MOST_TEST)
        count = sum(1 for _ in pairs)
        if count < _TEST_SHARE:
            raise UserError(
                f"Expected at least {_TEST_SHARE} sentence pairs. Received: {count}. A useful "
                "model needs thousands."
            )
        flags["test_size"] = count // _TEST_SHARE
    bad_pairs = "--keep_bad_pairs" if request.keep_bad_pairs else "--drop_bad_pairs"
    flags |= {"problem": PROBLEM, "tmp_dir": folder.text, "data_dir": folder.data}
    texts = [path for split in ("train", "eval", "test") for path in folder.sides(split)]
    return Stage(
        name="text",
        says="Text: reading, splitting, checking, vocabulary, TFRecords",
        command=command("t2t-datagen", bad_pairs, **flags),
        outputs=[*texts, folder.summary],
    )


def _plan(request: OwnTextRequest, folder: Folder, doing: Stages) -> Plan:
    """Returns the plan: by a trial, or that of a training that continues with another end."""
    text = plan.Text.read(folder.summary, folder.sides("train"))
    where = registry.get_problem(PROBLEM), folder.data
    chosen = plan.chosen_set(request, text, *where)

    steps, sentences = plan.TRIAL_STEPS, min(plan.BLEU_SENTENCES, text.dev)
    flags = {"train_steps": steps, "log_step_count_steps": steps // plan.REPORTS}
    flags |= {"local_eval_frequency": steps // 2, "eval_bleu_sentences": sentences}

    def trial(of: preset.Preset) -> list[str]:
        changes = of.hparams, preset.of_length(of.hparams_set, request.hparams, steps)
        return _trainer(request, folder, folder.trial, of.hparams_set, *changes, **flags)

    def tried(of: preset.Preset) -> plan.Measured:
        shutil.rmtree(folder.trial, ignore_errors=True)
        run_program(trial(of), stage.says)
        return plan.measured(RunDirectory(folder.trial))

    def work() -> dict[str, Any]:
        before = doing.record.stages.get("plan")
        if before and RunDirectory(folder.run).exists():
            begun = Plan(**before.found)
            same = preset.Preset(begun.hparams_set, begun.reason, begun.hparams)
            return dataclasses.asdict(plan.make(request, text, same, begun, begun.of_length))
        found = tried(chosen)
        fits = plan.chosen_set(request, text, *where, found)
        if fits.hparams_set != found.hparams_set:
            found = tried(fits)
        shutil.rmtree(folder.trial)
        return dataclasses.asdict(plan.make(request, text, fits, found))

    stage = Stage(
        name="plan",
        says="Plan: timing a short trial training",
        command=trial(chosen),
        depends=f"{request.train_steps} {request.train_minutes}",
    )
    return Plan(**doing.run(stage, work))


def _trainer(
    request: OwnTextRequest, folder: Folder, run: Path, name: str, *hparams: str, **flags: Any
) -> list[str]:
    flags |= {"hparams_set": name, "hparams": ",".join(filter(None, [request.hparams, *hparams]))}
    flags |= {"data_dir": folder.data, "output_dir": run, "random_seed": request.random_seed}
    return command("t2t-trainer", problem=PROBLEM, **flags)


def _training(request: OwnTextRequest, folder: Folder, decided: Plan) -> Stage:
    changes = decided.hparams, decided.of_length
    flags = plan.KEEPING | {
        "train_steps": decided.train_steps,
        "local_eval_frequency": decided.local_eval_frequency,
        "eval_bleu_sentences": decided.bleu_sentences,
        "eval_early_stopping_steps": decided.patience,
        "eval_early_stopping_metric": "bleu",
    }
    train = _trainer(request, folder, folder.run, decided.hparams_set, *changes, **flags)
    says = "Training; the best checkpoints by BLEU are kept"
    return Stage(name="training", says=says, command=train, outputs=[folder.run / TRAINING_DATA])


def _test(folder: Folder, doing: Stages) -> None:
    """Decodes the test set, and keeps its scores."""
    source, reference = folder.sides("test")
    files = {"decode_from_file": source, "decode_to_file": folder.translations}
    stage = Stage(
        name="test",
        says="Test",
        command=command("t2t-decoder", output_dir=folder.model, **files),
        outputs=[folder.translations],
        clear=[folder.translations.parent],
    )

    def work() -> dict[str, Any]:
        run_program(stage.command, stage.says)
        return score_files(folder.translations, reference).as_dict()

    found = doing.run(stage, work)
    of = f"test ({found['sentences']} sentences)"
    scores = {name: each for name, each in found.items() if name != "sentences"}
    scored = [Score(name, each["score"], of, each["signature"]) for name, each in scores.items()]
    add_scores(folder.model, scored)  # which the exports take along


def _products(request: OwnTextRequest, folder: Folder, decided: Plan) -> list[Stage]:
    """Returns the exports, and the page that computes, of a model that it can compute."""
    forms = {"saved_model": "saved_model.pb"}
    if importlib.util.find_spec("ctranslate2"):
        forms["ctranslate2"] = "model.bin"
    made = [
        Stage(
            name=f"export_{form}",
            says=f"Export: {form}",
            command=command("t2t-exporter", output_dir=folder.model, format=form, export_dir=place),
            outputs=[place / file],
            clear=[place],
        )
        for form, file in forms.items()
        for place in [folder.export / form]
    ]
    hparams = registry.get_hparams(decided.hparams_set, request.hparams)
    encoders = registry.get_problem(PROBLEM).feature_encoders(str(folder.data))
    with contextlib.suppress(UserError):
        explainer.check(hparams, decided.parameters, encoders)
        explain = command("t2t-visualize", output_dir=folder.model, explain=folder.explain)
        says = "Writing a page that runs the model in a browser"
        made.append(Stage(name="explain", says=says, command=explain, outputs=[folder.explain]))
    return made
