"""Measures how many real target tokens a second the input pipeline delivers, and training takes.

  python benchmarks/input_pipeline.py --problem=translate_ende_multi30k --data_dir=data \\
      --hparams_set=transformer_multi30k

The problem's files must be there (t2t-datagen). Prints one line of JSON.
"""

import itertools
import json
import time

from absl import flags

from t2t_repro import cli, registry


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    cli.define_run_flags(f)
    cli.define_task_flags(f)
    flags.DEFINE_integer("batches", 2000, "How many batches to read.", flag_values=f)
    flags.DEFINE_integer("steps", 50, "How many steps to train.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Reads, trains, and prints both rates."""
    from t2t_repro.data.pipeline import make_dataset
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import distribution, optimizers

    hparams = registry.get_hparams(args.hparams_set, args.hparams)
    problem = registry.get_problem(args.problem)
    dataset = make_dataset(problem, "train", hparams, args.data_dir, training=True)

    def rate(batches, use) -> float:
        tokens, started = 0, time.perf_counter()
        for batch in batches:
            tokens += distribution.count_tokens(batch)
            use(batch)
        return tokens / (time.perf_counter() - started)

    delivered = rate(itertools.islice(dataset, args.batches), lambda batch: None)
    model = Transformer.from_hparams(
        hparams,
        inputs_vocab_size=problem.inputs_vocab_size(args.data_dir),
        targets_vocab_size=problem.targets_vocab_size(args.data_dir),
    )
    model.compile(optimizer=optimizers.from_hparams(hparams))
    step = distribution.step_function(model)
    batches = iter(dataset)
    for _ in range(5):
        step(next(batches))
    taken = rate((next(batches) for _ in range(args.steps)), step)
    result = {"delivered_tokens_per_s": delivered, "trained_tokens_per_s": taken}
    print(json.dumps(result | {"ratio": delivered / taken}))


if __name__ == "__main__":
    cli.run("input_pipeline", __doc__, define_flags, main)
