"""When a step cannot be made: its batch is written down, or the flag to lower is named."""

import contextlib
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t_repro import process
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import RunDirectory

FOLDER = "nonfinite"
WHAT_TO_DO = "Lower learning_rate_constant, raise learning_rate_warmup_steps, or set clip_grad_norm"


def write_batch(
    run: RunDirectory,
    batch: Mapping[str, Any],
    *,
    number: int,
    step: int,
    loss: float,
    encoders: Mapping[str, Any] | None = None,
) -> pathlib.Path:
    """Writes the ids of a batch whose loss or gradients are not finite into the run.

    Args:
        run: gets `nonfinite/batch-NUMBER.json`.
        batch: {"inputs": (B, S), "targets": (B, T)}.
        number: the batch's, counted from 1 since the run began.
        step: the step that was not made.
        loss: that of the batch.
        encoders: turn the ids of each side into text; None: there is no text.

    Returns:
        The file.
    """
    ids = {side: np.asarray(value).tolist() for side, value in batch.items()}
    examples: list[dict[str, Any]] = []
    for sides in zip(*ids.values(), strict=True):
        example: dict[str, Any] = dict(zip(ids, sides, strict=True))
        for side, encoder in (encoders or {}).items():
            example[f"{side}_text"] = encoder.decode([i for i in example[side] if i > 1])
        examples.append(example)
    content = {
        "step": step,
        "batch": number,
        "loss": loss if math.isfinite(loss) else str(loss),
        "shapes": shapes(batch),
        "examples": examples,
    }
    path = run.path / FOLDER / f"batch-{number}.json"
    write_text_atomic(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def shapes(batch: Mapping[str, Any]) -> str:
    """Returns such as "inputs 31 x 128, targets 31 x 120"."""
    sizes = {side: np.shape(value) for side, value in batch.items()}
    return ", ".join(f"{side} {rows} x {length}" for side, (rows, length) in sizes.items())


@contextlib.contextmanager
def naming_the_batch(what: str, batch: Mapping[str, Any]) -> Iterator[None]:
    """Turns a lack of memory into a UserError that names the batch and the flags to lower.

    Args:
        what: what is done with it, such as "step 7".
        batch: that batch.
    """
    with process.explain_out_of_memory(
        lambda: f"{what} on a batch of {shapes(batch)} (sentences x tokens)",
        "Lower --hparams=batch_size=TOKENS, or max_length=TOKENS if only the longest sentences are "
        "too much, in another --output_dir; t2t-trainer --find_batch_size finds one "
        "that fits.",
    ):
        yield
