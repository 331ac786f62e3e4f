"""Translate a file with every checkpoint of a run, and score the translations, as they appear.

    t2t-translate-all --model_dir=RUN --source=FILE --translations_dir=OUT --reference=RIGHT
    t2t-translate-all --model_dir=RUN --source=FILE --wait_minutes=60      (beside a training)

OUT gets PROBLEM-STEP for each checkpoint, under the time at which it was saved, so that t2t-bleu
--translations_dir=OUT draws them rightly into TensorBoard. With --reference it also gets
scores.json, scores.csv and scores.png: every BLEU of every step, and the curve. --engine is
t2t-decoder's.

Killed and started again, it goes on: what is translated is not translated again. A checkpoint that
the trainer has removed in the meantime, or that is not whole, is named and passed over.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags

from t2t_repro import cli, progress, schema
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.output_files import best_translations
from t2t_repro.decoding.request import ENGINES, DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import (
    INCOMPLETE,
    appearing,
    check_file,
    check_outputs,
    sha256,
    write_text_atomic,
)
from t2t_repro.problem import OutputType
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.scoring.files import StepFile, files_by_step, score_files
from t2t_repro.text import raw
from t2t_repro.views import scores as view

_SETTINGS = "settings.json"  # what the translations in a folder were made with
_COMMAND = "t2t-decoder {params}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateAllRequest:
    """The flags of t2t-translate-all, but for those that name the run."""

    source: str = flag(
        dataclasses.MISSING, "The sentences to translate, one a line; UTF-8, plain or .gz."
    )
    reference: str | None = flag(None, "The right translations: score and draw the curve.")
    translations_dir: str = flag("translations", "Where the translations go.")
    min_steps: int = flag(0, "Pass over checkpoints of fewer steps.", least=0)
    wait_minutes: float = flag(0, "Wait up to this many minutes for a next checkpoint.", least=0)
    beam_size: int | None = flag(
        None, "Beams; 1 is greedy search. Default: what t2t-avg-all --tune chose, or 4."
    )
    alpha: float | None = flag(None, "Exponent of the length penalty. Default: so, or 0.6.")
    decode_hparams: str = flag("", 'More of how to decode: "name=value,name=value".')
    engine: str = flag("tensorflow", "What computes, as in t2t-decoder.", choices=tuple(ENGINES))

    def settings(self, run: TrainedRun) -> DecodeHParams:
        """Returns how to decode with a run.

        Raises:
            UserError: on what has no effect on whole files of text.
        """
        beams = {"beam_size": self.beam_size, "alpha": self.alpha}
        given = [f"{name}={value}" for name, value in beams.items() if value is not None]
        text = ",".join([*given, *filter(None, [self.decode_hparams])])
        settings = run.decode_settings(text, say=progress.on_stderr)
        settings = dataclasses.replace(settings, return_token_scores=False)
        if self.reference and settings.identity_output:
            raise UserError(
                "--reference scores text. Received: it with the decode hparam identity_output, "
                "which writes ids. Leave one of the two out."
            )
        return settings


def define_flags(f: flags.FlagValues) -> None:
    cli.define_request_flags(f, TranslateAllRequest)

    def string(name: str, default: str | None, text: str) -> None:
        flags.DEFINE_string(name, default, text, flag_values=f)

    string("model_dir", None, "The run whose checkpoints translate.")
    string("data_dir", None, "The folder of the vocabulary; default: the run's own.")
    string("problem", None, "The run's; it need not be given.")
    string("hparams_set", None, "The run's; it need not be given.")
    string("t2t_usr_dir", None, "Your own package of problems.")
    string("decoder_command", _COMMAND, "Nothing else: this process decodes.")


def main(args: flags.FlagValues) -> None:
    named = {name: args[name].value for name in ("model_dir", "source")}
    cli.check_given(named, dict.fromkeys(named, "t2t-translate-all --help says it."))
    if args.decoder_command != _COMMAND:
        raise UserError(
            "Expected no --decoder_command: this process loads the model once and decodes with "
            f"every checkpoint. Received: {args.decoder_command!r}. Leave it out."
        )
    for name, path in {"--source": args.source, "--reference": args.reference}.items():
        if path is not None:
            check_file(name, path)
    raw.check_lines(args.source)
    run = trained_run(
        args.model_dir, args.data_dir, problem=args.problem, hparams_set=args.hparams_set
    )
    request, results = cli.request(args, TranslateAllRequest), []
    for file, scores in translate_all(run, request):
        print(f"{file.path}: " + (f"{scores.sacrebleu.score:.2f} BLEU" if scores else "translated"))
        if scores:
            results.append((file, scores))
            view.write_curve(pathlib.Path(request.translations_dir), results)
    if results:
        view.print_step_table(results)
        print(f"Written to {request.translations_dir}: scores.json, scores.csv, scores.png")


def translate_all(
    run: TrainedRun,
    request: TranslateAllRequest,
    *,
    say: Callable[[str], None] = progress.on_stderr,
    clock: Any = time,
) -> Iterator[tuple[StepFile, Any]]:
    """Yields the translation of each checkpoint, and its BLEU scores (None without a reference).

    Args:
        run: the run.
        request: what to translate, and how.
        say: receives messages and the progress.
        clock: as in `files.appearing`.

    Raises:
        UserError: if there is no checkpoint at all, or none that is whole; the problem is one of
            trees; the folder holds translations of something else; or the source changes meanwhile.
    """
    problem, folder = run.problem, pathlib.Path(request.translations_dir).expanduser()
    if problem.output_type == OutputType.TREE:
        raise UserError(
            f"Expected a run that translates. Received: {run.path}, of {problem.name}, which "
            "writes trees. Take t2t-decoder --checkpoint_path for "
            "each, and python -m t2t_repro.parsing.score."
        )
    settings = request.settings(run)
    of_file = DecodeRequest(decode_from_file=request.source, engine=request.engine)
    of_file.check(settings, problem)
    scored = dataclasses.replace(of_file, decode_reference=request.reference)
    DecodeJob(scored, settings, run).check_reference()
    from t2t_repro.training import checkpoints

    translations = functools.partial(best_translations, settings=settings)

    def name_of(step: int) -> str:
        return f"{run.config.problem}-{step}"

    def steps() -> dict[int, int]:
        """Those of all checkpoints, and of translations whose checkpoint may be gone."""
        saved = [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(run.path)]
        made = [step for step in files_by_step(folder) if (folder / name_of(step)).exists()]
        return {step: step for step in saved + made}

    least, minutes = request.min_steps, request.wait_minutes
    if not minutes and not any(step >= least for step in steps()):
        raise _none(run, least)
    written = (*map(name_of, steps()), "scores.json", "scores.csv", "scores.png", _SETTINGS)
    check_outputs(
        {f"{name} of --translations_dir": folder / name for name in written},
        {"--source": request.source, "--reference": request.reference},
    )
    decoding: dict[str, Any] = dict(vars(settings))
    made_with = {
        "decode_hparams": decoding,
        "problem": problem.name,
        "model_dir": os.path.realpath(run.path),
    }
    if request.engine == "ctranslate2":
        from t2t_repro.export import ctranslate2

        ctranslate2.library()
        run.check_transformer("CTranslate2")
        made_with["engine"] = request.engine
    made_with["source"] = sha256(request.source)
    usual = vars(DecodeHParams())
    _check_folder(folder, _begun(folder), made_with, usual)
    with contextlib.suppress(ValueError, IndexError):  # a command of a foreign run.json
        training = datetime.datetime.fromisoformat(run.config.commands[0].split()[0]).timestamp()
        os.utime(folder / _SETTINGS, (training, training))  # the oldest file is t2t-bleu's step 0
    from t2t_repro.decoding.decode import ModelEngine  # here, because these are slow to load
    from t2t_repro.decoding.files import translate_file
    from t2t_repro.training import devices, model_state

    # Before the threads of the searches are set. CTranslate2 takes the weights of one copy.
    where = devices.ONE if request.engine == "ctranslate2" else devices.here()
    searches = DecodeJob(of_file, settings, run).searches()
    model = run.on(where).new_model(with_weights=settings.return_alignments)
    own = ModelEngine(model, searches)
    seen = done = 0
    for step in appearing(steps, min_steps=least, wait_minutes=minutes, clock=clock):
        path, target = run.directory.checkpoints_dir / f"ckpt-{step}", folder / name_of(step)
        seen += 1
        if target.is_file() and not _is_newer(path, target):
            say(f"{target} exists already and is not translated again.")
            _set_time(target, path)  # which a kill may have left undone
        else:
            try:
                saved = path.stat().st_mtime
                checkpoints.verify(path)
                model_state.load_weights(model, path)
            except (OSError, UserError) as error:
                say(f"Passing over {path.name}, which is gone or not whole. {error}")
                continue
            if sha256(request.source) != made_with["source"]:
                raise UserError(
                    f"Expected {request.source} to stay as it is while checkpoints translate it. "
                    "Received: another. Put it back, or give another --translations_dir."
                )
            _check_folder(folder, [target], made_with, usual)  # another command may have begun it
            say(f"Translating with {path}")
            engine: Any = own
            if request.engine == "ctranslate2":
                from t2t_repro.export import ctranslate2

                engine = ctranslate2.of_weights(model, run.encoders)
            translator = run.translator(engine, settings, warn=say)
            translate_file(translator, request.source, target, report=say)
            os.utime(target, (saved, saved))
        scores = request.reference and score_files(target, request.reference, translations)
        done += 1
        yield StepFile(target, step), scores or None
    if not seen:
        raise _none(run, least)
    if not done:
        raise UserError(
            f"Expected a whole checkpoint in {run.directory.checkpoints_dir}. Received: {seen}, of "
            "which none could be read, see above. Train on, or restore one."
        )


def _none(run: TrainedRun, least: int) -> UserError:
    """Returns what is said where there is no checkpoint from step `least` on."""
    return UserError(
        f"Expected a checkpoint in {run.directory.checkpoints_dir}. Received: none"
        f"{f' from step {least} on' if least else ''}. Give --wait_minutes to wait."
    )


def _set_time(translation: pathlib.Path, checkpoint: pathlib.Path) -> None:
    """Gives a translation the time of its checkpoint, if that is still there."""
    with contextlib.suppress(FileNotFoundError):
        saved = checkpoint.stat().st_mtime
        os.utime(translation, (saved, saved))


def _is_newer(checkpoint: pathlib.Path, translation: pathlib.Path) -> bool:
    """Returns whether a checkpoint is another one than the one of the translation, made since."""
    try:  # a translation has the time of its checkpoint, in whole seconds on some file systems
        return checkpoint.stat().st_mtime >= translation.stat().st_mtime + 1
    except FileNotFoundError:
        return False


def _check_folder(
    folder: pathlib.Path, made: Sequence[pathlib.Path], made_with: dict[str, Any], usual: dict
) -> None:
    """Writes what the translations of a folder are made with, or checks it where there are some.

    A decode hparam that the folder does not name, as a newer one, has its `usual` value there; one
    of old does not name its run.
    """
    path, before = folder / _SETTINGS, made_with
    if made and not path.exists():
        raise UserError(
            f"Expected {folder} to hold no translations, or {_SETTINGS} beside them, which says "
            f"what they were made with. Received: {made[0].name} without it. Give another "
            "--translations_dir."
        )
    ours = False
    with contextlib.suppress(FileNotFoundError):
        before = schema.read(path, dict[str, Any], "Give another --translations_dir.")
        ours = "decode_hparams" in before
        before["decode_hparams"] = usual | before.get("decode_hparams", {})
        before.setdefault("model_dir", made_with["model_dir"])
    names = [n for n in {**before, **made_with} if before.get(n) != made_with.get(n)]
    if names and (made or not ours):  # ours is left by a command that made nothing
        raise UserError(
            f"Expected {folder} to hold translations made with the same {', '.join(names)}. "
            f"Received: another; {path} has it. Give another --translations_dir."
        )
    if names or not path.exists():  # its time is that of the run's beginning
        write_text_atomic(path, json.dumps(made_with, indent=1) + "\n")


def _begun(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the translations in a folder, of whichever run, also of a part of the source."""
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in there if re.search(rf"-\d+({re.escape(INCOMPLETE)})?$", path.name)]


console = cli.program(__name__, "t2t-translate-all", __doc__, define_flags, main)
