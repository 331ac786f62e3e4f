"""provenance.json: the inputs, programs and sample translations of a run or an export.

`verify` checks it: the hashes of data, vocabulary and weights, and the golden sentences.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_repro import __version__, registry, schema
from t2t_repro.data import tfrecord
from t2t_repro.data.job import summary_path
from t2t_repro.decoding import tune
from t2t_repro.decoding.settings import KEPT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import sha256, write_json
from t2t_repro.problem import check_text
from t2t_repro.run_directory import PROVENANCE, TRAINING_DATA, TUNED
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.training import checkpoints, state

RUN = "run"  # what a record is of, if not of an export, whose --format it names
OK, CHANGED, MISSING, NOT_HERE, NOTE = "ok", "CHANGED", "MISSING", "not here", "note"
TOLERANCE = 0.01  # of a score, which other hardware computes a little otherwise
COUNT = 20  # golden sentences
_PACKAGES = {"tensorflow", "tensorflow-text", "keras", "numpy", "jax", "sacrebleu", "ctranslate2"}
_Path = str | os.PathLike
Translations = list[tuple[str, float]]  # the best of each sentence, and its score
Translate = Callable[[list[str]], Translations]


@dataclasses.dataclass(frozen=True)
class Score:
    """A score, of which sentences, and how it was computed."""

    name: str
    value: float
    of: str
    signature: str


@dataclasses.dataclass(frozen=True)
class Golden:
    """A sentence, its best translation, and the score by which it is ranked."""

    source: str
    translation: str
    score: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provenance:
    """The record of a run or an export.

    Attributes:
        kind: RUN, or the form of an export.
        problem, hparams_set, random_seed: those of the run.
        step: of the weights.
        programs: those that worked on it, oldest first, each with versions and device.
        data: {"raw file", "summary" of t2t-datagen, which has the seeds and the hashes of the text,
            "vocabulary", and splits: {path: SHA-256}}; in an export names without folders.
        files: {path in the folder: SHA-256} of files that do not change.
        decoding: the decode hparams of `golden`.
        scores: the known ones.
        golden: sentences of dev.
    """

    kind: str
    problem: str
    hparams_set: str
    random_seed: int
    step: int
    programs: tuple[dict[str, str], ...]
    data: dict[str, dict[str, str]]
    files: dict[str, str]
    decoding: dict[str, int | float]
    scores: tuple[Score, ...]
    golden: tuple[Golden, ...]

    @property
    def example(self) -> Golden | None:
        """The shortest sentence that has a translation; None: there is none."""
        with_text = (each for each in self.golden if each.translation)
        return min(with_text, key=lambda each: len(each.source), default=None)

    def write(self, folder: pathlib.Path) -> None:
        """Writes it into a folder."""
        write_json(folder / PROVENANCE, dataclasses.asdict(self), ensure_ascii=False)


def read(folder: _Path) -> Provenance | None:
    """Returns the record in a folder; None: there is no readable one."""
    with contextlib.suppress(OSError, UserError):
        return schema.read(pathlib.Path(folder, PROVENANCE), Provenance)
    return None


def add_scores(folder: pathlib.Path, scores: Sequence[Score]) -> None:
    """Adds scores to the record in a folder, replacing those of the same name and sentences."""
    if found := read(folder):
        known = {(score.name, score.of): score for score in (*found.scores, *scores)}
        dataclasses.replace(found, scores=tuple(known.values())).write(folder)


def write_of_run(
    path: _Path, program: str, parent: _Path | None = None, *, data_dir: str | None = None
) -> None:
    """Writes the record of a run's newest checkpoint, unless it exists.

    If it cannot be written, the run is still good.

    Args:
        path: the run.
        program: the one that made it.
        parent: the run from which it was made.
        data_dir: the folder of its data; None: where it was trained.
    """
    try:
        run = trained_run(path, data_dir)
        checkpoint, there = run.checkpoint(), read(run.path)
        if there and there.files == _files_of(run, checkpoint):
            return
        settings, earlier = run.decode_settings(), read(parent) if parent else there
        translate = _by_model(run, checkpoint, settings)
        write(run, checkpoint, run.path, RUN, settings, translate, program, earlier)
        command = shlex.join(["t2t-show", os.fspath(run.path), "--verify"])
        print(f"Hashes and versions: {run.path / PROVENANCE}. To check them: {command}")
    except (UserError, OSError) as error:
        print(f"No {PROVENANCE} was written: {error}")


def write(
    run: TrainedRun,
    checkpoint: pathlib.Path,
    folder: pathlib.Path,
    kind: str,
    settings: DecodeHParams,
    translate: Translate,
    program: str = "t2t-exporter",
    earlier: Provenance | None = None,
) -> None:
    """Writes the record of a run, or of an otherwise complete export.

    Args:
        run: the new or exported run.
        checkpoint: the one used.
        folder: where it is written.
        kind: RUN, or the form of the export, as --format names it.
        settings: how it decodes.
        translate: returns the translations of texts, and their scores.
        program: the one that made it.
        earlier: the record of the run's origin.
    """
    config, files, same = run.config, _files_of(run, checkpoint), None
    if kind != RUN and (of_run := read(run.path)) and of_run.files == files:
        same = earlier = of_run
    data = same.data if same else _data(run)
    if kind != RUN:  # it goes to others: names without folders
        files = _hashes(folder.rglob("*"), folder)
        data = {part: {os.path.basename(p): d for p, d in of.items()} for part, of in data.items()}
    texts = [each.source for each in earlier.golden] if earlier else _sources(run)
    pairs = zip(texts, translate(texts) if texts else [], strict=True)
    Provenance(
        kind=kind,
        problem=config.problem,
        hparams_set=config.hparams_set,
        random_seed=config.random_seed,
        step=checkpoints.step_of(checkpoint),
        programs=(*(earlier.programs if earlier else ()), _program(program)),
        data=data,
        files=files,
        decoding={name: getattr(settings, name) for name in KEPT},
        scores=same.scores if same else _scores(run, checkpoint),
        golden=tuple(Golden(text, best, round(float(s), 6)) for text, (best, s) in pairs),
    ).write(folder)


def verify(folder: pathlib.Path, translate: Translate | None = None) -> Iterator[tuple[str, str]]:
    """Yields (state, what) for each check of a run or an export.

    Args:
        folder: the run, or the export.
        translate: translates by an export.

    Raises:
        UserError: if the record is broken, or a run cannot be loaded.
        OSError: if there is none.
    """
    found = schema.read(folder / PROVENANCE, Provenance)
    parts = {found.kind: found.files} | (found.data if found.kind == RUN else {})
    another = False
    for part, files in parts.items():
        for name, digest in files.items():
            result = _state(folder / name, digest)
            another |= result in (CHANGED, MISSING) and part in (found.kind, "vocabulary")
            yield result, f"{part}: {name}"
    if another:
        yield NOTE, "the translations were not checked, because the model or vocabulary has changed"
        return
    if translate is None:
        run = trained_run(folder)
        settings = run.decode_settings(",".join(f"{k}={v}" for k, v in found.decoding.items()))
        checkpoint = run.checkpoints_dir / f"ckpt-{found.step}"
        translate = _by_model(run, checkpoint, settings)
    written = translate([each.source for each in found.golden])
    for number, (each, (text, rank)) in enumerate(zip(found.golden, written, strict=True), 1):
        same = text == each.translation and abs(rank - each.score) <= TOLERANCE
        was = f": {each.source!r} gives {text!r} (score {rank:.4f}), was {each.translation!r}"
        yield OK if same else CHANGED, f"sentence {number}{'' if same else was}"


def translations(
    engine: Any, encoders: Mapping[str, Any], settings: DecodeHParams, texts: Sequence[str]
) -> Translations:
    """Returns the best translation of each text by an engine, and its score."""
    from t2t_repro.decoding.translate import Translator

    translator = Translator(engine, dict(encoders), settings, warn=lambda text: None)
    return [(best.text, best.score) for best, *_ in translator.translate_lines(texts)]


def _by_model(run: TrainedRun, checkpoint: pathlib.Path, settings: DecodeHParams) -> Translate:
    """Returns the function that translates with a run's model."""
    from t2t_repro.decoding.engine import ModelEngine

    return lambda texts: translations(
        ModelEngine(run.model(checkpoint)), run.encoders, settings, texts
    )


def _sources(run: TrainedRun) -> list[str]:
    """Returns sentences of a run's dev split, spread over it; [] where there is no such text, or
    the model, the user's own, does not decode."""
    from t2t_repro.decoding.dev_bleu import DevSample

    if not hasattr(registry.get_model(run.config.hparams.model), "decode_step"):
        return []
    try:
        check_text(run.problem, "")
        sample = DevSample(run.problem, run.data_dir, count=COUNT)
    except UserError:
        return []
    return [text for text in dict.fromkeys(map(str.strip, sample.texts())) if text]


def _data(run: TrainedRun) -> dict[str, dict[str, str]]:
    """Returns the hashes of a run's inputs, as far as known."""
    folder = pathlib.Path(os.path.expanduser(run.asked_data_dir or run.config.data_dir))
    problem, raw = run.problem, []
    summary = summary_path(problem, folder)
    with contextlib.suppress(OSError, ValueError):  # data of tensor2tensor's have none
        raw = json.loads(summary.read_text("utf-8")).get("raw_files", [])
    parts = {"summary": [summary], "vocabulary": run.vocabulary_files}
    for split in dict.fromkeys(entry["split"] for entry in problem.dataset_splits):
        sets = tfrecord.shard_sets(problem, split, folder)
        parts[split] = [pathlib.Path(path) for paths in sets.values() for path in paths]
    found = {part: _hashes(paths, run.path) for part, paths in parts.items()}
    return {"raw file": {each["path"]: each["sha256"] for each in raw}} | found


def _files_of(run: TrainedRun, checkpoint: pathlib.Path) -> dict[str, str]:
    """Returns the files of a run that only training changes; run.json grows."""
    names = ("hparams.json", TRAINING_DATA, TUNED)
    return _hashes([*(run.path / name for name in names), *checkpoint.glob("*")], run.path)


def _hashes(paths: Iterable[pathlib.Path], folder: pathlib.Path) -> dict[str, str]:
    """Returns {path in the folder, or absolute: SHA-256} of the files among paths."""
    base = os.path.abspath(folder) + os.sep
    found = sorted(os.path.abspath(path) for path in paths if path.is_file())
    return {path.removeprefix(base): sha256(path) for path in found}


def _state(path: pathlib.Path, digest: str) -> str:
    if path.is_file():
        return OK if sha256(path) == digest else CHANGED
    return MISSING if path.parent.is_dir() else NOT_HERE  # whole folders need not be here


def _scores(run: TrainedRun, checkpoint: pathlib.Path) -> tuple[Score, ...]:
    """Returns the scores of a checkpoint, from its evaluation or tuning.

    A checkpoint elsewhere, such as an average, has other weights at the same step, so no scores.
    """
    choice, step = tune.read(run.path), checkpoints.step_of(checkpoint)
    own = [run.path] if choice else [run.path, run.path / "best"]  # the best are copies
    if checkpoint.parent.resolve() not in [(each / "checkpoints").resolve() for each in own]:
        return ()
    if choice:
        of = f"{choice.sentences}, decoded with {choice.search}"
        return (Score(state.DECODED_BLEU, choice.search.bleu, of, choice.signature),)
    rows = [row for row in run.read_metrics() if row.get("kind") == "eval"]
    scores = []
    for row in {row.get("split"): row for row in rows if row.get("step") == step}.values():
        decoded = {state.DECODED_BLEU: row.get(state.BLEU_SIGNATURE, "")}
        of = f"{row.get('split')} ({row.get('sample', 'all')})"
        for name in (n for n, v in row.items() if isinstance(v, float) and n != "time"):
            scores.append(Score(name, row[name], of, decoded.get(name, "teacher-forced")))
    return tuple(scores)


def _program(name: str) -> dict[str, str]:
    """Returns a program's versions and device here; it loads Keras for the device."""
    from t2t_repro.training import devices

    of = {"program": name, "t2t_repro": __version__}
    versions = ((each.name, each.version) for each in importlib.metadata.distributions())
    return of | {n: v for n, v in versions if n in _PACKAGES} | {"device": devices.described()}
