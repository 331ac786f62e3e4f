"""One cell of t2t-compare: trains it as t2t-trainer would, and measures what the report needs."""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_repro import registry
from t2t_repro.data import pipeline
from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.dev_bleu import DevSample
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import locked, write_text_atomic
from t2t_repro.models.transformer import Transformer
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.studies.compare import cell_result, norms
from t2t_repro.studies.compare.grid import RESULT_FILE, Cell, Grid, run_of
from t2t_repro.text.encoders import PAD_ID
from t2t_repro.training import (
    checkpoints,
    devices,
    distribution,
    experiment,
    guards,
    model_state,
    trainer,
)
from t2t_repro.training.evaluation import Evaluator, evaluation_data
from t2t_repro.training.request import Plan, TrainRequest

_TO_BE_RESULT = f"{RESULT_FILE}.measured"  # gets that name when checkpoints have been deleted
_REPORTS = 100  # lines of training in metrics.jsonl
_MEASURED = 2  # batches whose gradients are measured
_FINGERPRINT = 16  # batches whose ids are hashed
_SCORED = 4096  # tokens to a batch of the dev split at the end
_SHORTEST, _BUCKET_STEP = 8, 1.1  # of the buckets of these batches: tensor2tensor's
_COUNTED = 200  # batches whose words are counted


def run(
    grid: Grid,
    cell: Cell,
    output_dir: pathlib.Path,
    command: Sequence[str],
    worker_gpu: int | None = None,
    usr_dir: str | None = None,
) -> None:
    """Trains a cell from where it stands, measures it, and writes RESULT_FILE last.

    A loss or gradient that is not finite ends the training and is part of the result. Another
    process that runs the same cell is waited for, and its result is this one's.

    Args:
        grid: the comparison.
        cell: which of its cells.
        output_dir: the comparison's folder.
        command: the command line, kept in the run directory.
        worker_gpu: on how many devices to train; None: as t2t-trainer finds them.
        usr_dir: the user's own package, which is loaded; the run directory names it.

    Raises:
        UserError: as t2t-trainer; or if other cells were trained on another number of devices.
    """
    directory = run_of(output_dir, grid, cell)
    where = devices.choose(worker_gpu)
    cell_result.check_replicas(output_dir, grid, where.replicas)
    request = TrainRequest(
        run=directory,
        config=dataclasses.replace(grid.config_of(cell), t2t_usr_dir=usr_dir),
        problem=registry.get_problem(grid.problem),
        plan=Plan(
            train_steps=grid.train_steps,
            local_eval_frequency=max(1, grid.train_steps // grid.evaluations),
            keep_checkpoint_max=0,  # they are measured below, and then all but the last go
            log_step_count_steps=max(1, grid.train_steps // _REPORTS),
        ),
        eval_steps=grid.dev_batches,
        worker_gpu=worker_gpu,
        command=command,
    )
    directory.path.mkdir(parents=True, exist_ok=True)
    # A trainer's own lock ends before what it has saved is measured, and deleted.
    with locked([directory.path], functools.partial(print, flush=True)):
        result, measured = directory.path / RESULT_FILE, directory.path / _TO_BE_RESULT
        if result.exists():
            return
        if not measured.exists():
            _train_and_measure(grid, cell, request, where)
        for path in checkpoints.list_checkpoints(directory.path)[:-1]:
            checkpoints.delete(path)
        os.replace(measured, result)  # last, as a cell with its result is left alone


def _train_and_measure(
    grid: Grid, cell: Cell, request: TrainRequest, where: devices.Devices
) -> None:
    stopped_at, directory = None, request.run
    try:
        experiment.run(request)
    except trainer.NoWholeCheckpoint:  # said by t2t-trainer, which has another flag for it
        raise UserError(
            f"Expected a whole checkpoint in {directory.checkpoints_dir}. Received: none. Remove "
            f"{directory.path}, and give the same command again: it trains that anew."
        ) from None
    except UserError as error:
        if not isinstance(error.__cause__, distribution.NotFinite):
            raise
        print(error, flush=True)
        stopped_at = _step_not_made(directory)
    result = _measure(grid, request, where, stopped_at is None)
    head = {"cell": dataclasses.asdict(cell), "stopped_at": stopped_at}
    text = json.dumps({**head, **result}, ensure_ascii=False) + "\n"
    write_text_atomic(directory.path / _TO_BE_RESULT, text)


def _step_not_made(directory: RunDirectory) -> int:
    """Returns the step that was not finite: that of the newest file that the guard has written."""
    files = (directory.path / guards.FOLDER).glob("batch-*.json")
    return max(json.loads(file.read_text(encoding="utf-8"))["step"] for file in files)


def _measure(
    grid: Grid, request: TrainRequest, where: devices.Devices, finished: bool
) -> dict[str, Any]:
    """Measures the initial model and its checkpoints; returns what `run` writes.

    Gradients and activations by layers are those of a Transformer.
    """
    config, problem, directory = request.config, request.problem, request.run
    print("Measuring gradients and activations ...", flush=True)
    model = experiment.build_model(config, problem)  # as it was before the first step
    batches = _first_batches(config, problem, max(_COUNTED, _FINGERPRINT))
    gradients = norms.GradientNorms(model)
    layered = isinstance(model, Transformer)
    measured: dict[str, dict[str, dict[str, float]]] = {"gradients": {}, "activations": {}}
    losses = []
    for step, path in _points(directory, request.plan.local_eval_frequency):
        if path is not None:
            model_state.load_weights(model, path)
        scales = norms.activation_scales(model, batches[0]) if layered else {}
        if not np.isfinite(list(scales.values())).all():
            break
        try:
            loss, of_places = gradients.measure(batches[:_MEASURED])
        except distribution.NotFinite:
            break
        losses.append(loss)
        if layered:
            measured["gradients"][str(step)] = of_places
            measured["activations"][str(step)] = scales
    result: dict[str, Any] = {
        "parameters": model.count_params(),
        "replicas": where.replicas,
        "fingerprint": _fingerprint(batches[:_FINGERPRINT]),
        "initial_loss": losses[0] if losses else None,
        "unigram_loss": None,
        "sentences": None,
        "hypotheses": None,
        "references": None,
        **measured,
    }
    if finished and checkpoints.list_checkpoints(directory.path):
        print("Scoring the dev split ...", flush=True)
        if where.strategy is not None:  # a copy on each device
            with where.scope():
                model = experiment.build_model(config, problem)
        model_state.load_weights(model, directory.path)
        result["sentences"] = _score_sentences(model, config, problem)
        result["unigram_loss"] = _unigram_loss(model, batches, config, problem)
        if grid.bleu_sentences:
            print("Decoding the dev split ...", flush=True)
            result |= _translate(model, grid, problem)
    return result


def _points(directory: RunDirectory, every: int) -> list[tuple[int, pathlib.Path | None]]:
    """Returns what is measured: step 0, the first planned checkpoint and the last.

    A signal has saved others, which a run that it did not stop does not have.
    """
    saved = checkpoints.list_checkpoints(directory.path)
    planned = [path for path in saved if checkpoints.step_of(path) % every == 0]
    ends = {checkpoints.step_of(path): path for path in (*planned[:1], *saved[-1:])}
    return [(0, None), *ends.items()]


def _first_batches(config: RunConfig, problem: Problem, count: int) -> list[dict[str, np.ndarray]]:
    """Returns the batches with which the training of this run begins."""
    dataset = pipeline.make_dataset(
        problem,
        Split.TRAIN,
        config.hparams,
        config.data_dir,
        training=True,
        seed=config.random_seed,
    )
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def _fingerprint(batches: Sequence[dict[str, np.ndarray]]) -> str:
    """Returns a hash of the ids of batches, in their order."""
    digest = hashlib.sha256()
    for batch in batches:
        for side in sorted(batch):
            ids = np.ascontiguousarray(batch[side], "<i4")
            digest.update(f"{side}{ids.shape}".encode() + ids.tobytes())
    return digest.hexdigest()[:16]


def _score_sentences(model, config: RunConfig, problem: Problem) -> dict[str, list[float]]:
    """Returns of each dev sentence: its cross entropy, its tokens, and how many are predicted.

    Batches are made by rules of this place, so that the sentences have one order in all cells,
    whatever their sets say of batches.
    """
    sentences: dict[str, list[float]] = {"loss": [], "tokens": [], "right": []}
    large = dataclasses.replace(
        config.hparams,
        batch_size=_SCORED,
        use_fixed_batch_size=False,
        max_length=0,
        min_length_bucket=_SHORTEST,
        length_bucket_step=_BUCKET_STEP,
        eval_drop_long_sequences=False,
    )
    config = dataclasses.replace(config, hparams=large)
    dataset = evaluation_data(problem, Split.EVAL, config)
    for statistics, labels in Evaluator(model).statistics(dataset):
        real = labels != PAD_ID
        right = (statistics["predictions"] == labels) & real
        loss = np.where(real, statistics["cross_entropy"], 0.0).sum(axis=1, dtype=np.float64)
        sentences["loss"] += [round(value, 5) for value in loss.tolist()]
        sentences["tokens"] += real.sum(axis=1).tolist()
        sentences["right"] += right.sum(axis=1).tolist()
    return sentences


def _unigram_loss(
    model, batches: Sequence[dict[str, np.ndarray]], config: RunConfig, problem: Problem
) -> float:
    """Returns the dev loss of a model that knows nothing but how frequent each target word is.

    The words of the first batches are counted, each word of the vocabulary once more.
    """
    counts = np.ones(model.targets_vocab_size)
    for batch in batches[:_COUNTED]:
        counts += np.bincount(batch["targets"].ravel(), minlength=len(counts))
    counts[PAD_ID] = 0
    costs = -np.log(np.maximum(counts, 1e-9) / counts.sum())
    dataset = evaluation_data(problem, Split.EVAL, config)
    labels = [batch["targets"].ravel() for batch in dataset.as_numpy_iterator()]
    ids = np.concatenate(labels)
    return float(costs[ids[ids != PAD_ID]].mean())


def _translate(model, grid: Grid, problem: Problem) -> dict[str, list[str]]:
    """Returns translations of dev sentences spread over the split, and their references."""
    sample = DevSample(problem, grid.data_dir, count=grid.bleu_sentences)
    settings = DecodeHParams.of(problem, grid.decode_hparams)
    written = sample.written(ModelEngine(model), settings)
    return {"hypotheses": written, "references": sample.references}
