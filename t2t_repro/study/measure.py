"""Measures a finished run, in a process of its own."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from t2t_repro import registry
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import RunConfig, RunDirectory

_MEASURED = 2  # batches whose gradients are measured
_COUNTED = 200  # batches whose words are counted


def measure(path: str, bleu_sentences: int, ended: bool) -> dict[str, Any]:
    """Measures the initial model of a run, its first checkpoint and its last.

    Gradients and activations by layers are those of a Transformer.

    Args:
        path: the run directory.
        bleu_sentences: how many sentences of dev to translate; 0: none.
        ended: whether the training came to its end, and is evaluated and decoded.

    Returns:
        The fields of `results.CellResult`, as JSON.
    """
    from t2t_repro.data import pipeline
    from t2t_repro.interop import usr_dir
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.study import norms
    from t2t_repro.training import checkpoints, trainer

    config = RunDirectory(path).config
    if config.t2t_usr_dir:
        usr_dir.load(config.t2t_usr_dir)
    problem = registry.get_problem(config.problem)
    model = trainer.build_model(config, problem)  # as it was before the first step
    data = (problem, Split.TRAIN, config.hparams, config.data_dir)
    made = pipeline.make_dataset(*data, training=True, seed=config.random_seed)
    batches = list(itertools.islice(made, _COUNTED))  # with which the training begins
    gradients = norms.GradientNorms(model)
    saved = checkpoints.list_checkpoints(RunDirectory(path).path)
    ends = {checkpoints.step_of(each): each for each in (*saved[:1], *saved[-1:])}
    measured: dict[str, dict[str, Any]] = {"gradients": {}, "activations": {}}
    losses = []
    for step, checkpoint in [(0, None), *ends.items()]:
        if checkpoint is not None:
            checkpoints.load_weights(model, checkpoint)
        try:
            loss, of_places = gradients.measure(batches[:_MEASURED])
        except FloatingPointError:
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
        checkpoints.load_weights(model, path)
        result |= _evaluate(model, batches, config, problem)
        if bleu_sentences and hasattr(model, "decode_step"):
            result |= _translate(model, config.data_dir, problem, bleu_sentences)
    return result


def _evaluate(model, batches: list, config: RunConfig, problem: Problem) -> dict[str, float]:
    """Returns loss and accuracy of all dev tokens, and the loss of word frequencies alone.

    Those are of the first batches of training, each word of the vocabulary counted once more. Of
    which sentences batches are made is the same in all runs, whatever their sets say.
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
    data = evaluation_data(problem, Split.EVAL, config)
    ids = np.concatenate([batch["targets"].ravel() for batch in data])
    found = Evaluator(model, ["accuracy"]).evaluate(data)
    return {
        "dev_loss": float(found["loss"]),
        "accuracy": float(found["accuracy"]),
        "unigram_loss": float(costs[ids[ids != 0]].mean()),
    }


def _translate(model, data_dir: str, problem: Problem, count: int) -> dict[str, list[str]]:
    """Returns translations of dev sentences spread over the split, and their references."""
    from t2t_repro.decoding.dev_bleu import DevSample
    from t2t_repro.decoding.engine import ModelEngine
    from t2t_repro.decoding.settings import DecodeHParams

    sample = DevSample(problem, data_dir, count=count)
    written = sample.written(ModelEngine(model), DecodeHParams.parse("", problem.decode_hparams))
    return {"hypotheses": written, "references": sample.references}
