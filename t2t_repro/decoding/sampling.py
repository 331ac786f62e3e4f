"""Sampling: the next token is drawn from the model's distribution instead of searched for.

As tensor2tensor's sample_with_temperature (layers/common_layers.py), with a nucleus besides
(Holtzman et al. 2020). One difference: tensor2tensor draws from one stream for a whole batch; here
every sentence has random numbers of its own, made of the seed and of the sentence itself, so that
its sample depends neither on its neighbours nor on its place in a file.
Legend: B batch, K beams (one where samples are drawn), V vocabulary, L tokens.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t_repro.decoding.beam_search import INF, StepFn
from t2t_repro.decoding.settings import Sampling

Tensor = Any

_MOST = np.float32(1 - 2**-22)  # a draw times a sum must stay below the sum in float32


def draws(seed: int, ids: Sequence[int], count: int) -> np.ndarray:
    """Returns the `count` random numbers of a sentence, float32 in [0, 1).

    The first ones are the same whatever `count` is.

    Args:
        seed: any whole number.
        ids: the sentence.
        count: one number for each token that is to be drawn.
    """
    content = ",".join(map(str, (seed, *ids)))
    key = int.from_bytes(hashlib.sha256(content.encode()).digest()[:16])
    numbers = np.random.Generator(np.random.Philox(key=key)).random(count)
    return np.minimum(numbers.astype("float32"), _MOST)


def choose(log_probs: Tensor, draw: Tensor, how: Sampling) -> Tensor:
    """Returns the drawn tokens, int32 (B, K).

    Args:
        log_probs: float32 (B, K, V), up to a constant; -INF is never drawn.
        draw: float32, broadcast to (B, K, 1): uniform in [0, 1).
        how: see `Sampling`.
    """
    size = log_probs.shape[-1]
    count = min(how.top_k, size) if how.top_k > 0 else size
    # No temperature makes what is forbidden possible.
    ids, logits = None, log_probs / how.temperature
    logits = ops.where(log_probs > -INF / 2, logits, float("-inf"))
    if count < size or how.top_p < 1:
        logits, ids = ops.top_k(logits, count)  # the most probable first
    probs = ops.softmax(logits, axis=-1)
    if how.top_p < 1:
        before = ops.cumsum(probs, axis=-1) - probs
        probs = ops.where(before < how.top_p, probs, 0.0)
    sums = ops.cumsum(probs, axis=-1)
    reached = ops.logical_and(sums > draw * sums[..., -1:], probs > 0)
    chosen = ops.argmax(ops.cast(reached, "int32"), axis=-1)
    if ids is not None:
        chosen = ops.take_along_axis(ids, chosen[..., None], axis=-1)[..., 0]
    return ops.cast(chosen, "int32")


def sampled(step_fn: StepFn, numbers: Tensor, how: Sampling) -> StepFn:
    """Returns a step function that leaves one token to choose, which it has drawn.

    Args:
        step_fn: returns log-probabilities (B, K, V), as the one that is returned does.
        numbers: float32 (B, L), the random number of each step.
        how: see `Sampling`.
    """
    last = ops.shape(numbers)[1] - 1

    def step(ids: Tensor, parents: Tensor, step: Tensor, state: Any) -> tuple[Tensor, Any]:
        log_probs, state = step_fn(ids, parents, step, state)
        draw = ops.take(numbers, ops.minimum(step, last), axis=1)  # (B,)
        chosen = choose(log_probs, draw[:, None, None], how)
        tokens = ops.arange(log_probs.shape[-1], dtype="int32")
        return ops.where(ops.equal(tokens, chosen[..., None]), log_probs, -INF), state

    return step
