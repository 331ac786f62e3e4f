"""Small Transformers that learn to copy, for the experiments that train.

The task is that of T2T's algorithmic_identity problems: write the symbols that were read. Who
copies must know where he is in both sentences. The batches are drawn on the way, without files.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.models.transformer import Transformer
from t2t_repro.text.encoders import EOS_ID, NUM_RESERVED_TOKENS, PAD_ID
from t2t_repro.training import distribution, optimizers
from t2t_repro.training.evaluation import Evaluator

METRICS = ("accuracy", "accuracy_per_sequence")

Batch = dict[str, np.ndarray]


def draw_batch(
    draw: np.random.Generator, sentences: int, lengths: tuple[int, int], symbols: int
) -> Batch:
    """Returns sentences to copy: {"inputs", "targets"}, both the same int32 (B, longest + 1).

    Args:
        draw: decides the symbols, which are all as likely.
        sentences: B.
        lengths: the shortest and the longest, without the end mark; all between are as likely.
        symbols: how many there are.
    """
    shortest, longest = lengths
    length = draw.integers(shortest, longest + 1, (sentences, 1))
    ids = draw.integers(0, symbols, (sentences, longest + 1), "int32") + NUM_RESERVED_TOKENS
    place = np.arange(longest + 1)
    ids = np.where(place < length, ids, np.where(place == length, EOS_ID, PAD_ID)).astype("int32")
    return {"inputs": ids, "targets": ids}


def small(layers: int, **changes: Any) -> HParams:
    """Returns a configuration of width 64, with `layers` a side and changes to its hparams."""
    return dataclasses.replace(
        registry.get_hparams("transformer_quickstart"),
        num_hidden_layers=layers,
        hidden_size=64,
        filter_size=128,
        **changes,
    )


def transformer(hparams: HParams, symbols: int) -> Transformer:
    """Returns a model for `symbols` that is not built yet, so that its parts may be exchanged."""
    size = symbols + NUM_RESERVED_TOKENS
    return Transformer(hparams, inputs_vocab_size=size, targets_vocab_size=size)


class Learner:
    """A model that is compiled once and may begin anew with other seeds.

    Args:
        make: returns a new model, as `transformer`.
    """

    def __init__(self, make: Callable[[], Any]):
        self._make = make
        self.model = make()
        self.model.build()
        # The paper's Adam (section 5.3). The rate is a variable, which `learn` sets.
        self._adam = optimizers.Adam(1.0, beta1=0.9, beta2=0.98, epsilon=1e-9)
        self.model.compile(optimizer=self._adam, jit_compile=keras.backend.backend() == "jax")
        self._step = distribution.step_function(self.model)
        self._evaluator = Evaluator(self.model, METRICS)

    def begin(self, seed: int) -> None:
        """Gives the model the first weights of a seed, and its optimizer none of its past.

        What dropout draws goes on from before.
        """
        keras.utils.set_random_seed(seed)
        other = self._make()
        other.build()
        self.model.set_weights(other.get_weights())
        for variable in self._adam.variables:
            variable.assign(keras.ops.zeros_like(variable))

    def learn(self, batch: Batch, rate: float) -> float:
        """Makes one step, and returns its loss.

        Raises:
            distribution.NotFinite: if the loss or a gradient is not finite; there was no step.
        """
        self._adam.learning_rate = rate
        return self._step(batch)

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """Returns "loss" and METRICS, of each token given those before it in the target."""
        return self._evaluator.evaluate(_Batches([batch]))


def train(
    learner: Learner,
    batches: Iterable[Batch],
    rate: float,
    warmup: int,
    advance: Callable[[], object],
) -> None:
    """Makes a step of each batch, at a rate that rises to `rate` in `warmup` steps."""
    for step, batch in enumerate(batches, 1):
        learner.learn(batch, rate * min(1.0, step / warmup))
        advance()


class _Batches(list):
    """What an Evaluator takes."""

    def as_numpy_iterator(self):
        return iter(self)


def spread(values: Sequence[float]) -> str:
    """Returns "0.51 (0.42 to 0.60)": the mean over the seeds, the least and the greatest."""
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
