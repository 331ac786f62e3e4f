"""The trainer's embedded default: a model that learns to write digits backwards, and shows it.

It needs no download. The score is that of decoding, which sees its own output, not the reference.
"""

import time
from collections.abc import Callable
from typing import Any

from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import TrainedRun, trained_run

PROBLEM, HPARAMS_SET = "algorithmic_reverse_quickstart", "transformer_quickstart"
OUTPUT_DIR = "t2t_runs/quickstart"
SHOWN = 4  # samples


def train_and_show(directory: RunDirectory, train: Callable[[], Any]) -> float:
    """Trains, decodes held-out sentences, prints some beside their references and the score.

    Args:
        directory: where `train` trains the default.
        train: does it.

    Returns:
        The share of decoded sentences that equal their reference.
    """
    started = time.monotonic()
    print(
        f"No --problem and no --data_dir: training {HPARAMS_SET} on {PROBLEM} into "
        f"{directory.path}, in about two minutes on two cores.",
        flush=True,
    )
    train()
    score = show(trained_run(directory.path))
    print(f"Done in {time.monotonic() - started:.0f} s.\n\n{next_steps(directory)}")
    return score


def show(run: TrainedRun) -> float:
    """Decodes held-out sentences of a run, prints samples, and returns the share that is right."""
    from t2t_repro.decoding.engine import decode
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.training.evaluation import evaluation_data

    settings, model, encoder = DecodeHParams(), run.model(), run.encoders["targets"]
    lines = []
    for batch in evaluation_data(run.problem, "dev", run.config).as_numpy_iterator():
        ids, _ = decode(model, batch["inputs"], beam_size=settings.beam_size, alpha=settings.alpha)
        for sides in zip(batch["inputs"], batch["targets"], ids[:, 0], strict=True):
            lines.append([_words(side, encoder) for side in sides])
    for source, reference, decoded in lines[:: -(-len(lines) // SHOWN)]:
        print(f"\ninput      {source}\nreference  {reference}\ndecoded    {decoded}")
    right = sum(reference == decoded for _, reference, decoded in lines)
    print(
        f"\nAccuracy per sequence, decoded with beam {settings.beam_size}: "
        f"{right / len(lines):.4f} ({right} of {len(lines)} held-out sentences)."
    )
    return right / len(lines)


def next_steps(directory: RunDirectory) -> str:
    """Returns what to try after the default, as commands."""
    output_dir = directory.path
    return f"""What to try next:
  t2t-eval --output_dir={output_dir}                           all metrics on all held-out sentences
  t2t-avg-all --model_dir={output_dir} --output_dir={output_dir}-avg --n=2
  t2t-decoder --output_dir={output_dir} --decode_interactive   type digits, such as: 3 1 4 1 5
  t2t-trainer --registry_help                                  all problems and configurations
  t2t-trainer --problem=translate_ende_multi30k --hparams_set=transformer_multi30k \\
      --generate_data --tmp_dir=RAW_FILES --data_dir=t2t_data --output_dir=t2t_runs/multi30k"""


def _words(ids, encoder) -> str:
    ids = ids.tolist()
    return encoder.decode(ids[: ids.index(1)] if 1 in ids else [i for i in ids if i])
