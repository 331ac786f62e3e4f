"""t2t-eval: evaluates a run's checkpoint with all of tensor2tensor's metrics.

  t2t-eval --output_dir=t2t_runs/quickstart

takes the hparams, the problem and the data from the run, evaluates the newest checkpoint on the dev
split, prints a table and writes eval-SPLIT-STEP.json into the run; with --eval_steps, and of
another run's checkpoint, under a name that says so. The metrics are teacher-forced: each prediction
sees the reference before it. approx_bleu_score and rouge are of ids, padding included, batch by
batch, as T2T's: where there are few ids or short sentences, an untrained model has some. For a BLEU
to publish, decode and use t2t-bleu.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

from absl import flags

from t2t_repro import cli, progress
from t2t_repro.files import write_text_atomic
from t2t_repro.runs import TrainedRun, trained_run


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-eval's flags."""
    cli.define_run_flags(f)
    text = "The checkpoint: a ckpt-STEP folder, or a run (its newest, of RUN/best the best)."
    flags.DEFINE_string("checkpoint_path", None, text, flag_values=f)
    text = "Evaluate the test split instead of dev."
    flags.DEFINE_bool("eval_use_test_set", False, text, flag_values=f)
    text = "At most this many batches, spread over all lengths; 0: the whole split."
    flags.DEFINE_integer("eval_steps", 0, text, lower_bound=0, flag_values=f)
    text = "On how many GPUs to evaluate; default: all, or one CPU."
    flags.DEFINE_integer("worker_gpu", None, text, lower_bound=1, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Evaluates what the flags name."""
    run = trained_run(**cli.run_flags(args))
    result = evaluate(
        run,
        checkpoint=args.checkpoint_path,
        split="test" if args.eval_use_test_set else "dev",
        steps=args.eval_steps,
        worker_gpu=args.worker_gpu,
    )
    for name, value in result["metrics"].items():
        print(f"{name:24}{value:10.4f}")
    what = f"{result['split']} ({result['sample']}; teacher-forced)"
    print(f"{result['problem']}, {what}, {result['checkpoint']}")
    path = run.path / f"eval-{result['split']}-{result['step']}{_apart(run, result, args)}.json"
    write_text_atomic(path, json.dumps(result, indent=1) + "\n")
    print(f"Written to {path}.")


def _apart(run: TrainedRun, result: dict[str, Any], args: flags.FlagValues) -> str:
    """Returns what parts a result's name from that of the run's own weights on the whole split."""
    sample = f"-{args.eval_steps}-batches" if args.eval_steps else ""
    own, folder = run.path.resolve(), pathlib.Path(result["checkpoint"]).resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    if folder == own:
        return sample
    if folder.is_relative_to(own):  # such as its averages
        return f"{sample}-{'-'.join(folder.relative_to(own).parts)}"
    place = hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]
    return f"{sample}-{folder.name}-{place}"


def evaluate(
    run: TrainedRun,
    *,
    checkpoint: str | None = None,
    split: str = "dev",
    steps: int = 0,
    worker_gpu: int | None = None,
) -> dict[str, Any]:
    """Evaluates a checkpoint of a run with every metric.

    Args:
        run: the run.
        checkpoint: a checkpoint or a run; None: the newest of `run`.
        split: "dev" or "test".
        steps: at most this many batches; 0: all.
        worker_gpu: on how many devices, as `devices.choose`.

    Returns:
        {"problem", "split", "sample", "step", "checkpoint", "metrics": {name: value}}.
    """
    config = dataclasses.replace(run.config, data_dir=run.data_dir)
    run.check_checkpoint(checkpoint)
    from t2t_repro.training import checkpoints, devices, evaluation, metrics

    where = devices.here(worker_gpu)
    for warning in devices.warnings(where, worker_gpu):
        progress.on_stderr(f"Warning: {warning}")
    path = run.checkpoint(checkpoint)
    dataset = evaluation.evaluation_data(run.problem, split, config, steps)
    evaluator = evaluation.Evaluator(run.on(where).model(path), list(metrics.METRICS))
    values = evaluator.evaluate(dataset)
    return {
        "problem": config.problem,
        "split": split,
        "sample": evaluation.evaluation_sample(run.problem, split, config, steps),
        "step": checkpoints.step_of(path),
        "checkpoint": str(path),
        "metrics": values,
    }


console = cli.program(__name__, "t2t-eval", __doc__, define_flags, main)
