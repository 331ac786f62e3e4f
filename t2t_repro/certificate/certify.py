"""Writing a certificate: of a run when it was trained or finished, of an export when it is made."""

import dataclasses
import os
import pathlib
import shlex
from collections.abc import Callable

from t2t_repro.certificate import environment, golden, provenance, record
from t2t_repro.certificate.record import Certificate, Data, File, Score
from t2t_repro.decoding import tuned
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.run_directory import TRAINING_DATA, TUNED, usr_dir_flag
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.training import checkpoints
from t2t_repro.training.state import BLEU_SIGNATURE, DECODED_BLEU

_WHEN_THERE = ("hparams.json", TRAINING_DATA, TUNED)  # of a run; run.json grows


def certify_run(
    path: str | os.PathLike,
    program: str,
    parent: str | os.PathLike | None = None,
    say: Callable[[str], None] = print,
    *,
    data_dir: str | None = None,
) -> None:
    """Writes the certificate of a run's newest checkpoint, unless that is there.

    What cannot be known is left out, and a run that cannot be certified is as good as before.

    Args:
        path: the run.
        program: what has made it.
        parent: the run that it was made of.
        say: gets a line.
        data_dir: the folder of its data; None: where it was trained.
    """
    try:
        run = trained_run(path, data_dir)
        checkpoint = run.checkpoint()
        step = checkpoints.step_of(checkpoint)
        files = _files_of(run, checkpoint)
        before = record.read_or_none(run.path)
        if before and before.files == files:
            return
        from_parent = record.read_or_none(parent) if parent else None
        settings, texts = run.decode_settings(), golden.sources(run)
        written: list[tuple[str, float]] = []
        if texts:
            from t2t_repro.decoding.decode import ModelEngine

            engine = ModelEngine(run.model(checkpoint))
            written = golden.translations(engine, run.encoders, settings, texts)
        found = Certificate(
            kind=record.RUN,
            problem=run.config.problem,
            hparams_set=run.config.hparams_set,
            random_seed=run.config.random_seed,
            step=step,
            made=(*(from_parent.made if from_parent else ()), environment.made_by(program)),
            data=provenance.of_run(run),
            files=files,
            decoding=golden.decoding(settings),
            scores=_scores(run, checkpoint),
            golden=golden.of(texts, written),
        )
        found.write(run.path)
    except (UserError, OSError) as error:
        say(f"No {record.NAME} is written: {error}")
        return
    flags = shlex.quote(str(run.path)) + usr_dir_flag(run.config.t2t_usr_dir)
    say(f"Certified: {run.path / record.NAME}. t2t-show {flags} --verify checks it.")


def certify_export(
    run: TrainedRun,
    checkpoint: pathlib.Path,
    folder: pathlib.Path,
    kind: str,
    settings: DecodeHParams,
    translate: Callable[[list[str]], list[tuple[str, float]]],
) -> None:
    """Writes the certificate of an export into its folder, in which everything else is.

    Args:
        run: the run that was exported.
        checkpoint: the one that was taken.
        folder: the export.
        kind: its form, as --format names it.
        settings: how it decodes.
        translate: returns the translations of texts by the export, and their scores.
    """
    before = record.read_or_none(run.path)
    try:
        if before and before.files != _files_of(run, checkpoint):
            before = None
    except FileNotFoundError:  # a trainer has removed it since it was exported
        before = None
    texts = [each.source for each in before.golden] if before else golden.sources(run)
    data = before.data if before else provenance.of_run(run)
    step = checkpoints.step_of(checkpoint)
    here = sorted(path for path in folder.rglob("*") if path.is_file())
    found = Certificate(
        kind=kind,
        problem=run.config.problem,
        hparams_set=run.config.hparams_set,
        random_seed=run.config.random_seed,
        step=step,
        made=(*(before.made if before else ()), environment.made_by("t2t-exporter")),
        data=_names_alone(data),
        files=tuple(File.of(path, folder) for path in here),
        decoding=golden.decoding(settings),
        scores=before.scores if before else _scores(run, checkpoint),
        golden=golden.of(texts, translate(texts) if texts else []),
    )
    found.write(folder)


def _files_of(run: TrainedRun, checkpoint: pathlib.Path) -> tuple[File, ...]:
    """Returns the files of a run that do not change while it is not trained."""
    there = [run.path / name for name in _WHEN_THERE if (run.path / name).is_file()]
    there += sorted(path for path in checkpoint.iterdir() if path.is_file())
    return tuple(File.of(path, run.path) for path in there)


def _names_alone(data: Data) -> Data:
    """Returns it without folders: an export goes to others."""

    def of(files: tuple[File, ...]) -> tuple[File, ...]:
        return tuple(File(pathlib.PurePath(each.path).name, each.sha256) for each in files)

    return dataclasses.replace(
        data,
        raw_files=of(data.raw_files),
        raw_text=of(data.raw_text),
        reports=of(data.reports),
        splits={split: of(files) for split, files in data.splits.items()},
        vocabulary=of(data.vocabulary),
    )


def scores_in(run: TrainedRun, step: int) -> tuple[Score, ...]:
    """Returns the scores that metrics.jsonl has of a step, each of its last evaluation."""
    found: dict[tuple[str, str], Score] = {}
    for row in run.directory.read_metrics():
        if row.get("kind") != "eval" or row.get("step") != step:
            continue
        of = f"{row.get('split')} ({row.get('sample', 'all')})"
        for name, value in row.items():
            if isinstance(value, float):
                signature = f"tensor2tensor 1.15.7, {name}, teacher-forced"
                if name == DECODED_BLEU:
                    signature = row.get(BLEU_SIGNATURE, "sacreBLEU; the run says no signature")
                if name != "time":
                    found[name, of] = Score(name, value, of, signature)
    return tuple(found.values())


def _scores(run: TrainedRun, checkpoint: pathlib.Path) -> tuple[Score, ...]:
    """Returns the scores of a checkpoint: of its evaluation, or of how it was tuned.

    What lies elsewhere, such as an average, has other weights at the same step, and no scores here.
    """
    folder = checkpoint.parent.resolve()
    choice = tuned.read(run.path)
    own = [run.path] if choice else [run.path, run.path / "best"]  # the best are copies
    if folder not in [(each / "checkpoints").resolve() for each in own]:
        return ()
    if choice:
        of = f"{choice.sentences}, decoded with {choice.search}"
        return (Score(DECODED_BLEU, choice.search.bleu, of, choice.signature),)
    return scores_in(run, checkpoints.step_of(checkpoint))
