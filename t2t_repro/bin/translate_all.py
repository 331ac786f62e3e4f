"""t2t-translate-all: translates a file with every checkpoint of a run, and scores it.

    t2t-translate-all --model_dir=RUN --source=FILE --translations_dir=OUT --reference=RIGHT
    t2t-translate-all --model_dir=RUN --source=FILE --wait_minutes=60      (beside a training)

The translation by each checkpoint is written to OUT/PROBLEM-STEP. The file gets the checkpoint's
modification time, so that t2t-bleu --translations_dir=OUT draws it at the right time in
TensorBoard. With --reference, OUT also gets scores.json, scores.csv and scores.png: all BLEU scores
of all steps, and the curve.

If interrupted, run the same command to resume; translated checkpoints are not translated again. A
checkpoint that is damaged, or that the trainer has removed meanwhile, is reported and skipped.
"""

import contextlib
import dataclasses
import datetime
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from absl import flags

from t2t_repro import cli, progress, schema
from t2t_repro.decoding.decode_files import (
    DecodeJob,
    DecodeRequest,
    best_translations,
    translate_file,
)
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import appearing, sha256, write_json
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.scoring.files import StepFile, files_by_step, score_files
from t2t_repro.views import scores as view

_SETTINGS = "settings.json"  # what the translations in a folder were made with


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateAllRequest:
    """The flags of t2t-translate-all."""

    model_dir: str | None = flag(None, "The run whose checkpoints to use.")
    data_dir: str | None = flag(None, "The folder of the vocabulary; default: the run's data_dir.")
    t2t_usr_dir: str | None = flag(None, "Your Python package of problems.")
    source: str = flag(dataclasses.MISSING, "The source file: UTF-8 or .gz, one sentence a line.")
    reference: str | None = flag(None, "The reference translations, to score and plot each step.")
    translations_dir: str = flag("translations", "The folder of the translations.")
    min_steps: int = flag(0, "Skip checkpoints before this step.", least=0)
    wait_minutes: float = flag(0, "Wait up to this many minutes for another checkpoint.", least=0)
    beam_size: int | None = flag(
        None, "Beam size; 1: greedy search. Default: as t2t-avg-all --tune chose, or 4."
    )
    alpha: float | None = flag(None, "Length penalty. Default: from t2t-avg-all --tune, or 0.6.")
    decode_hparams: str = flag("", 'Other decode hparams: "name=value,name=value".')


def main(args: flags.FlagValues) -> None:
    hint = "Run t2t-translate-all --help for an example."
    cli.check_given(args.flag_values_dict(), {"model_dir": hint, "source": hint})
    run = trained_run(**cli.run_flags(args, "model_dir"))
    request, results = cli.request(args, TranslateAllRequest), []
    for file, scores in translate_all(run, request):
        print(f"{file.path}: " + (f"{scores.sacrebleu.score:.2f} BLEU" if scores else "translated"))
        if scores:
            results.append((file, scores))
            view.write_curve(pathlib.Path(request.translations_dir), results)
    if results:
        view.print_step_table(results)
        print(f"Written to {request.translations_dir}: scores.json, scores.csv, scores.png")


def translate_all(run: TrainedRun, request: TranslateAllRequest) -> Iterator[tuple[StepFile, Any]]:
    """Yields the translation of each checkpoint, and its BLEU scores (None without a reference).

    Args:
        run: the run.
        request: what to translate, and how.

    Raises:
        UserError: if there is no whole checkpoint, or the folder holds translations of something
            else.
    """
    problem, folder = run.problem, pathlib.Path(request.translations_dir).expanduser()
    search = request.beam_size, request.alpha, request.decode_hparams
    settings = run.line_settings(*search, progress.on_stderr)
    of_file = DecodeRequest(decode_from_file=request.source, decode_reference=request.reference)
    job = DecodeJob(of_file, settings, run)
    job.check_files()
    from t2t_repro.training import checkpoints

    def name_of(step: int) -> str:
        return f"{problem.name}-{step}"

    def steps() -> dict[int, int]:
        """Those of all checkpoints, and of translations whose checkpoint may be gone."""
        saved = [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(run.path)]
        made = [step for step in files_by_step(folder) if (folder / name_of(step)).exists()]
        return {step: step for step in saved + made}

    nothing = UserError(
        f"Expected a complete checkpoint in {run.checkpoints_dir}, from step {request.min_steps} "
        "on. Received: none. Give --wait_minutes to wait for one."
    )
    made_with = {
        "decode_hparams": dict(vars(settings)),
        "problem": problem.name,
        "model_dir": os.path.realpath(run.path),
        "source": sha256(request.source),
    }
    _check_folder(folder, made_with)
    with contextlib.suppress(ValueError, IndexError):  # a command of a foreign run.json
        training = datetime.datetime.fromisoformat(run.config.commands[0].split()[0]).timestamp()
        os.utime(folder / _SETTINGS, (training, training))  # the oldest file is t2t-bleu's step 0
    from t2t_repro.decoding.engine import ModelEngine  # here, because these are slow to load
    from t2t_repro.training import devices

    where = devices.here()  # before the threads of the searches are set
    searches = job.searches()
    model = run.on(where).new_model(with_weights=settings.return_alignments)
    translator = run.translator(ModelEngine(model, searches), settings, warn=progress.on_stderr)
    translations = functools.partial(best_translations, settings=settings)
    done, say = False, progress.on_stderr
    least, minutes = request.min_steps, request.wait_minutes
    for step in appearing(steps, min_steps=least, wait_minutes=minutes):
        path, target = run.checkpoints_dir / f"ckpt-{step}", folder / name_of(step)
        saved = path.stat().st_mtime if path.exists() else 0
        # A translation has the time of its checkpoint, in whole seconds on some file systems.
        if target.is_file() and saved < target.stat().st_mtime + 1:
            say(f"{target} exists already; its checkpoint is skipped.")
        else:
            try:
                checkpoints.verify(path)
                checkpoints.load_weights(model, path)
            except (OSError, UserError) as error:
                say(f"Skipping {path.name}: missing or damaged. {error}")
                continue
            say(f"Translating with {path}")
            translate_file(translator, request.source, target, report=say)
        if saved:
            os.utime(target, (saved, saved))
        scores = request.reference and score_files(target, request.reference, translations)
        done = True
        yield StepFile(target, step), scores or None
    if not done:
        raise nothing


def _check_folder(folder: pathlib.Path, made_with: dict[str, Any]) -> None:
    """Records the settings of a folder's translations, or checks them against its record."""
    path = folder / _SETTINGS
    how = "Give another --translations_dir."
    before = schema.read(path, dict[str, Any], how) if path.exists() else {}
    made = bool(files_by_step(folder))
    if before != made_with and (before or made):
        names = [n for n in {**before, **made_with} if before.get(n) != made_with.get(n)]
        raise UserError(
            f"Expected {folder} to hold only translations made with this command's "
            f"{', '.join(names)}. Received: other translations, or no {_SETTINGS}. {how}"
        )
    if not before:
        write_json(path, made_with)


console = cli.program(__name__, "t2t-translate-all", __doc__, (TranslateAllRequest,), main)
