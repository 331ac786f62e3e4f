"""The runs of t2t-compare: each trained by t2t-trainer, then measured in a process of its own."""

import dataclasses
import itertools
import json
import shutil
import time
from typing import Any

import numpy as np

from t2t_repro import process, registry, schema
from t2t_repro.errors import UserError, changes
from t2t_repro.files import write_text_atomic
from t2t_repro.problem import Problem, Split
from t2t_repro.progress import duration
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.study import engine, results
from t2t_repro.study.results import RESULT_FILE, run_of
from t2t_repro.study.variants import Cell, Grid, Request

GRID_FILE = "compare.json"
_AXES = ("depths", "warmups", "seeds", "variants", "data_dir")  # may change as it goes on
_REPORTS = 100  # lines of training in metrics.jsonl
_MEASURED = 2  # batches whose gradients are measured
_COUNTED = 200  # batches whose words are counted


def run(request: Request, program: engine.Program = process.run_program) -> None:
    """Makes the cells that are not finished, writes the report, and prints its sentences.

    Raises:
        UserError: if the folder holds another comparison, or a cell failed; all others are in the
            report.
    """
    from t2t_repro.study import report

    grid, where = request.grid, request.output_dir
    _begin(request)
    cells = grid.cells()
    todo = [cell for cell in cells if not results.is_finished(where, grid, cell)]
    print(f"{len(cells) - len(todo)} of {len(cells)} cells are finished.", flush=True)
    began = time.monotonic()

    def after(cell: Cell, failed: bool) -> None:
        ended = "failed" if failed else results.load_cell(where, grid, cell).ending()
        done, spent = todo.index(cell) + 1, time.monotonic() - began
        left = duration(spent * (len(todo) - done) / done)
        print(f"[{done}/{len(todo)}] {cell}: {ended} | {left} left", flush=True)
        report.write(grid, where, request.command)

    failed = engine.make_all(
        todo,
        lambda cell: _make(request, cell, program),
        lambda cell: run_of(where, grid, cell),
        after,
    )
    written = report.write(grid, where, request.command)
    print("\n".join(written.summary))
    print(f"Written to {written.html}, {written.markdown} and {written.results}.")
    if failed:
        raise UserError(
            f"Expected all {len(cells)} cells to end. Received: {len(failed)} that failed, the "
            f"first {failed[0]}. The same command tries again."
        )


def _begin(request: Request) -> None:
    """Writes what is compared, or checks it against what is there but for the axes."""
    file, values = request.output_dir / GRID_FILE, dataclasses.asdict(request.grid)
    now = {name: values[name] for name in values if name not in _AXES}
    now["worker_gpu"] = request.worker_gpu
    before = schema.read(file, dict[str, Any]) if file.exists() else now
    if differs := changes(before, now):
        raise UserError(
            f"{request.output_dir} holds another comparison: {'; '.join(differs)}. Give the same "
            "flags to continue it (depths, warm-ups, seeds and what is compared may change), or "
            "another --output_dir."
        )
    request.output_dir.mkdir(parents=True, exist_ok=True)
    write_text_atomic(file, json.dumps(now, indent=1) + "\n")


def _make(request: Request, cell: Cell, program: engine.Program) -> None:
    """Trains and measures a cell, and writes its result last.

    A loss or gradient that is not finite ends the training and is part of the result.
    """
    grid = request.grid
    run = run_of(request.output_dir, grid, cell)
    flags = {
        "eval_steps": grid.eval_steps,
        "log_step_count_steps": max(1, grid.train_steps // _REPORTS),
        "worker_gpu": request.worker_gpu,
        "t2t_usr_dir": request.usr_dir,
        "yes": True,
    }
    command = engine.trainer_command(
        problem=grid.problem,
        hparams_set=grid.variant(cell.variant).hparams_set,
        hparams=grid.changes_of(cell),
        data_dir=grid.data_dir,
        output_dir=str(run.path),
        every=max(1, grid.train_steps // grid.evaluations),
        keep=0,  # they are measured, and then all but the last go
        seed=cell.seed,
        more=[f"--{name}={value}" for name, value in flags.items() if value is not None],
    )
    stopped_at = None
    try:
        program(command, str(cell))
    except UserError:
        steps = [json.loads(f.read_text())["step"] for f in run.path.glob("nonfinite/batch-*.json")]
        if not steps:
            raise
        stopped_at = max(steps)
    print(f"Measuring {cell} ...", flush=True)
    measured = process.call(measure, grid, str(run.path), request.usr_dir, stopped_at is None)
    result = {
        "cell": dataclasses.asdict(cell),
        "hparams": dataclasses.asdict(grid.hparams_of(cell)),
        "stopped_at": stopped_at,
        **measured,
    }
    write_text_atomic(run.path / RESULT_FILE, json.dumps(result, ensure_ascii=False) + "\n")
    saved = run.checkpoints_dir.glob("ckpt-*")
    for checkpoint in sorted(saved, key=lambda path: int(path.name[5:]))[:-1]:
        shutil.rmtree(checkpoint)


def measure(grid: Grid, path: str, usr_dir: str | None, ended: bool) -> dict[str, Any]:
    """Measures the initial model, its first checkpoint and its last.

    Gradients and activations by layers are those of a Transformer.

    Args:
        grid: the comparison.
        path: a run of it.
        usr_dir: the user's own package.
        ended: whether the training came to its end, and is evaluated and decoded.
    """
    from t2t_repro.interop import usr_dir as users
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.study import norms
    from t2t_repro.training import checkpoints, distribution, trainer

    if usr_dir:
        users.load(usr_dir)
    run = RunDirectory(path)
    config, problem = run.config(), registry.get_problem(grid.problem)
    model = trainer.build_model(config, problem)  # as it was before the first step
    batches = _first_batches(config, problem)
    gradients = norms.GradientNorms(model)
    saved = checkpoints.list_checkpoints(run.path)
    ends = {checkpoints.step_of(path): path for path in (*saved[:1], *saved[-1:])}
    measured: dict[str, dict[str, Any]] = {"gradients": {}, "activations": {}}
    losses = []
    for step, checkpoint in [(0, None), *ends.items()]:
        if checkpoint is not None:
            checkpoints.load_weights(model, checkpoint)
        try:
            loss, of_places = gradients.measure(batches[:_MEASURED])
        except distribution.NotFinite:
            break
        losses.append(loss)
        if isinstance(model, Transformer):
            measured["gradients"][str(step)] = of_places
            measured["activations"][str(step)] = norms.activation_scales(model, batches[0])
    result: dict[str, Any] = {
        "parameters": model.count_params(),
        "initial_loss": losses[0] if losses else None,
        **dict.fromkeys(("unigram_loss", "dev_loss", "accuracy", "hypotheses", "references")),
        **measured,
    }
    if ended:
        checkpoints.load_weights(model, run.path)
        result |= _evaluate(model, batches, config, problem)
        if grid.bleu_sentences and hasattr(model, "decode_step"):
            result |= _translate(model, grid, problem)
    return result


def _first_batches(config: RunConfig, problem: Problem) -> list[dict[str, np.ndarray]]:
    """Returns the batches with which the training of a run begins."""
    from t2t_repro.data import pipeline

    where = (config.hparams, config.data_dir)
    seed = config.random_seed
    data = pipeline.make_dataset(problem, Split.TRAIN, *where, training=True, seed=seed)
    return list(itertools.islice(data.as_numpy_iterator(), _COUNTED))


def _evaluate(model, batches: list, config: RunConfig, problem: Problem) -> dict[str, float]:
    """Returns loss and accuracy of all dev tokens, and the loss of word frequencies alone.

    Those are of the first batches of training, each word of the vocabulary counted once more. Of
    which sentences batches are made is the same in all cells, whatever their sets say.
    """
    from t2t_repro.training.evaluation import Evaluator, evaluation_data

    all_of_them = dataclasses.replace(
        config.hparams, use_fixed_batch_size=False, max_length=0, eval_drop_long_sequences=False
    )
    config = dataclasses.replace(config, hparams=all_of_them)
    counts = np.ones(model.targets_vocab_size)
    for batch in batches:
        counts += np.bincount(batch["targets"].ravel(), minlength=len(counts))
    counts[0] = 0  # padding
    costs = -np.log(np.maximum(counts, 1e-9) / counts.sum())
    data = evaluation_data(problem, Split.EVAL, config).as_numpy_iterator()
    ids = np.concatenate([batch["targets"].ravel() for batch in data])
    found = Evaluator(model, ["accuracy"]).evaluate(evaluation_data(problem, Split.EVAL, config))
    return {
        "dev_loss": float(found["loss"]),
        "accuracy": float(found["accuracy"]),
        "unigram_loss": float(costs[ids[ids != 0]].mean()),
    }


def _translate(model, grid: Grid, problem: Problem) -> dict[str, list[str]]:
    """Returns translations of dev sentences spread over the split, and their references."""
    from t2t_repro.decoding.dev_bleu import DevSample
    from t2t_repro.decoding.engine import ModelEngine
    from t2t_repro.decoding.settings import DecodeHParams

    sample = DevSample(problem, grid.data_dir, count=grid.bleu_sentences)
    settings = DecodeHParams.of(problem, grid.decode_hparams)
    written = sample.written(ModelEngine(model), settings)
    return {"hypotheses": written, "references": sample.references}
