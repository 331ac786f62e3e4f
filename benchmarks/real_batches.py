"""Measures training on a problem's own batches: what padding and what the loop cost.

  python benchmarks/real_batches.py --problem=translate_ende_multi30k --data_dir=data \\
      --hparams_set=transformer_multi30k

Steps on the batches of the data, and on batches without padding that hold as many real tokens, take
turns. Then the loop trains, with input pipeline, reports and logs: loop_share is the share of its
time that is not the steps'. Prints one line of JSON.
"""

import io
import itertools
import json
import tempfile
import time

from absl import flags

from t2t_repro import cli, registry


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    cli.define_run_flags(f)
    cli.define_task_flags(f)
    flags.DEFINE_integer("steps", 40, "Batches to measure with.", lower_bound=2, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    import numpy as np

    from t2t_repro.data.pipeline import make_dataset
    from t2t_repro.models.build import model_for
    from t2t_repro.training import distribution, optimizers

    hparams = registry.get_hparams(args.hparams_set, args.hparams)
    problem = registry.get_problem(args.problem)
    dataset = make_dataset(problem, "train", hparams, args.data_dir, training=True)
    model = model_for(problem, hparams, args.data_dir)
    model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=False)
    step = distribution.step_function(model)
    real = list(itertools.islice(dataset, args.steps))
    full = [unpadded(batch, problem.targets_vocab_size(args.data_dir)) for batch in real]
    seconds: dict[str, list[float]] = {"padded": [], "unpadded": []}
    for timed in (False, True):
        for pair in zip(real, full, strict=True):
            for name, batch in zip(seconds, pair, strict=True):
                start = time.perf_counter()
                step(batch)
                if timed:
                    seconds[name].append(time.perf_counter() - start)
    tokens = {
        name: sum(int(np.count_nonzero(batch["targets"])) for batch in batches)
        for name, batches in (("padded", real), ("unpadded", full))
    }
    rates = {name: tokens[name] / sum(seconds[name]) for name in seconds}
    padding = 1 - tokens["padded"] / sum(batch["targets"].size for batch in real)
    result = {f"{name}_tokens_per_s": round(rate) for name, rate in rates.items()}
    result |= {"padding": padding, "padded_to_unpadded": rates["padded"] / rates["unpadded"]}
    result["loop_share"] = loop_share(model, dataset, step, args.steps)
    print(json.dumps(result))


def unpadded(batch, vocab_size: int) -> dict:
    """Returns a batch of about as many real tokens in sentences of one length, the mean."""
    import numpy as np

    made = {}
    sentences = batch["inputs"].shape[0]
    for name, ids in batch.items():
        length = max(1, round(np.count_nonzero(ids) / sentences))
        rng = np.random.default_rng(0)
        made[name] = rng.integers(2, vocab_size, (sentences, length)).astype("int32")
    return made


def loop_share(model, dataset, step, steps: int) -> float:
    """Returns which share of the loop's time is not its steps': pipeline, reports, logs."""
    from t2t_repro.run_directory import RunDirectory
    from t2t_repro.training import distribution
    from t2t_repro.training.log import TrainingLog, make_writer
    from t2t_repro.training.request import Plan
    from t2t_repro.training.trainer import Trainer

    inside = [0.0]

    def counted(batch, observe=None):
        if not stamps:
            stamps.append(time.perf_counter())  # the loop's time begins with its first step
        start = time.perf_counter()
        loss = step(batch, observe)
        stamps.append(time.perf_counter())
        inside[0] += stamps[-1] - start
        return loss

    stamps: list[float] = []
    make, distribution.step_function = distribution.step_function, lambda *_, **__: counted
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory(folder)
            plan = Plan(train_steps=steps, local_eval_frequency=10**9)
            log = TrainingLog(run, steps, 10, io.StringIO(), writer=make_writer(run))
            Trainer(model, lambda batches: dataset, run, plan, log=log).train()
    finally:
        distribution.step_function = make
    return 1 - inside[0] / (stamps[-1] - stamps[0])


if __name__ == "__main__":
    cli.run("real_batches", __doc__, define_flags, main)
