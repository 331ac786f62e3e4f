"""t2t-eval: evaluates a run's checkpoint with all of tensor2tensor's metrics.

  t2t-eval --output_dir=t2t_runs/quickstart

takes the hparams, the problem and the data from the run, evaluates the newest checkpoint on the dev
split, prints a table and writes eval-SPLIT-STEP.json into the run. With --eval_steps, or with a
checkpoint of another run, the file's name says so. The metrics are teacher-forced: each token is
predicted from the reference tokens before it. approx_bleu_score and rouge compare ids, padding
included, batch by batch, as in T2T. With a small vocabulary or short sentences even an untrained
model scores above 0 there. For a BLEU to publish, decode and use t2t-bleu.
"""

import dataclasses
import hashlib
import os
import pathlib
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.fields import flag
from t2t_repro.files import write_json
from t2t_repro.runs import TrainedRun, trained_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The flags of t2t-eval, except those that name the run."""

    checkpoint_path: str | None = flag(
        None, "A ckpt-STEP folder, or a run: its newest checkpoint is used (RUN/best: the best)."
    )
    eval_use_test_set: bool = flag(False, "Evaluate the test split instead of dev.")
    eval_steps: int = flag(
        0, "Evaluate this many batches, of all sentence lengths; 0: the whole split.", least=0
    )
    worker_gpu: int | None = flag(None, "Number of GPUs; default: all, or CPU if none.", least=1)


def main(args: flags.FlagValues) -> None:
    """Evaluates what the flags name."""
    run, request = trained_run(**cli.run_flags(args)), cli.request(args, EvalRequest)
    result = evaluate(run, request)
    for name, value in result["metrics"].items():
        print(f"{name:24}{value:10.4f}")
    what = f"{result['split']} ({result['sample']}; teacher-forced)"
    print(f"{result['problem']}, {what}, {result['checkpoint']}")
    apart = _apart(run, result, request.eval_steps)
    path = run.path / f"eval-{result['split']}-{result['step']}{apart}.json"
    write_json(path, result)
    print(f"Written to {path}.")


def _apart(run: TrainedRun, result: dict[str, Any], steps: int) -> str:
    """Returns what distinguishes a result's name from that of the run's weights on the whole
    split."""
    sample = f"-{steps}-batches" if steps else ""
    own, folder = run.path.resolve(), pathlib.Path(result["checkpoint"]).resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    if folder == own:
        return sample
    if folder.is_relative_to(own):  # such as its averages
        return f"{sample}-{'-'.join(folder.relative_to(own).parts)}"
    place = hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]
    return f"{sample}-{folder.name}-{place}"


def evaluate(run: TrainedRun, request: EvalRequest) -> dict[str, Any]:
    """Evaluates a checkpoint of a run with every metric.

    Returns:
        {"problem", "split", "sample", "step", "checkpoint", "metrics": {name: value}}.
    """
    config = dataclasses.replace(run.config, data_dir=run.data_dir)
    run.check_checkpoint(request.checkpoint_path)
    from t2t_repro.training import checkpoints, devices, evaluation, metrics

    split, steps = "test" if request.eval_use_test_set else "dev", request.eval_steps
    where = devices.here(request.worker_gpu)
    path = run.checkpoint(request.checkpoint_path)
    dataset = evaluation.evaluation_data(run.problem, split, config, steps)
    evaluator = evaluation.Evaluator(run.on(where).model(path), list(metrics.METRICS))
    values = evaluator.evaluate(dataset)
    return {
        "problem": config.problem,
        "split": split,
        "sample": dataset.part,
        "step": checkpoints.step_of(path),
        "checkpoint": str(path),
        "metrics": values,
    }


console = cli.program(__name__, "t2t-eval", __doc__, (cli.RunFlags, EvalRequest), main)
