"""What a run tells of itself beyond the loss: norms, padding, the plain loss, samples.

Everything is looked at only when a step is reported, so that the steps between cost nothing; and
nothing changes what is trained: no weight, no optimizer slot, no random seed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.training import moving_average, named_variables
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.events import TRAIN, EventWriter

# Called with the step; writes samples of what the model does at that step into the events.
Samples = Callable[[int, EventWriter], None]
_SUBLAYER = re.compile(r"((?:encoder|decoder)/layer_\d+/[^/]+)/")


class Summaries:
    """What is reported of the steps of one run.

    Args:
        model: the one that is trained.
        every: a step is reported if it is a multiple of this,
        last: or if it is this one.
        writer: gets what is too much for metrics.jsonl; None: nobody.
        evaluator: of the same model, for the plain loss; None: it is not reported.
        samples: called for samples; None: there are none.
        samples_every: at the steps that are multiples of this; 0: never.
    """

    def __init__(
        self,
        model: keras.Model,
        every: int,
        last: int,
        *,
        writer: EventWriter | None = None,
        evaluator: Evaluator | None = None,
        samples: Samples | None = None,
        samples_every: int = 0,
    ):
        self._model, self._every, self._last = model, every, last
        self._writer, self._evaluator = writer, evaluator
        self._samples, self._samples_every = samples, samples_every
        self._cells = self._tokens = 0
        self._squares = np.zeros(len(model.trainable_variables))

    def counted(self) -> list[int]:
        """Returns the places and the tokens of the batches since the last report."""
        return [self._cells, self._tokens]

    def restart(self, step: int, counted: Sequence[int]) -> None:
        """Says that the run goes on from `step`: what was written of later ones is void.

        Args:
            step: that of the checkpoint.
            counted: what `counted` said there.
        """
        self._cells, self._tokens = counted
        if self._writer is not None:
            self._writer.restart(step)

    def observer(self, step: int) -> Callable[[np.ndarray], None] | None:
        """Returns what the training step tells its gradients' squared norms; None: do not ask.

        The same on all workers of a run, which sum them together.
        """
        return self._observe if step % self._every == 0 or step == self._last else None

    def count(self, batch: dict[str, Any]) -> None:
        """Adds a batch to those whose padding is reported next."""
        for side in ("inputs", "targets"):
            self._cells += int(np.size(batch[side]))
            self._tokens += int(np.count_nonzero(batch[side]))

    def values(self, step: int, batch: dict[str, Any]) -> dict[str, float]:
        """Returns what to report of a step that `observer` asked about, and writes its details.

        Returns:
            gradient_norm: the global norm of the step's gradients, before they are clipped.
            weight_norm: that of all trainable weights after the step.
            padding: the share of padding in the batches since the last report.
            plain_loss: of the step's batch after the step, without dropout and label smoothing, as
                the loss of an evaluation; if there is an evaluator.
        """
        values, details = norms(self._model, self._squares)
        values["padding"] = 1.0 - self._tokens / max(self._cells, 1)
        self._cells = self._tokens = 0
        if self._evaluator is not None:
            values["plain_loss"] = self._evaluator.loss(batch)
        if self._writer is not None:
            self._writer.scalars(TRAIN, step, details)
        return values

    def sample(self, step: int) -> None:
        """Writes samples of what the model does, if they are due at this step."""
        due = self._samples_every and step % self._samples_every == 0
        if due and self._samples is not None and self._writer is not None:
            with moving_average.in_place(self._model):
                self._samples(step, self._writer)

    def _observe(self, squares: np.ndarray) -> None:
        self._squares = squares


def norms(
    model: keras.Model, gradients: np.ndarray | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the global norms of a model, and those of its parts.

    Args:
        model: it.
        gradients: float32 (trainable variables,), the squared norm of the gradient of each; None:
            not known.

    Returns:
        {"weight_norm": that of all trainable weights, "gradient_norm"}, and
        {"weight_norm/PART": ...}, of each sublayer and of what else there is.
    """
    squares = {} if gradients is None else {"gradient_norm": gradients}
    squares["weight_norm"] = _squares_of(model.trainable_variables)
    whole = {name: float(np.sqrt(of.sum())) for name, of in squares.items()}
    parts = {
        f"{name}/{place}": float(np.sqrt(of[indices].sum()))
        for name, of in squares.items()
        for place, indices in _places(model).items()
    }
    return whole, parts


def _places(model: keras.Model) -> dict[str, list[int]]:
    """Returns which trainable variables belong to each sublayer, or to what else there is."""
    names = {id(v): name for name, v in named_variables.weights(model).items()}
    places: dict[str, list[int]] = {}
    for index, variable in enumerate(model.trainable_variables):
        name = names[id(variable)]
        sublayer = _SUBLAYER.match(name)
        place = sublayer[1] if sublayer else name.partition("/")[0]
        places.setdefault(place, []).append(index)
    return places


def _squares_of(variables: list) -> np.ndarray:
    """Returns the squared norm of each variable, computed where it lies."""
    squares = [ops.sum(ops.square(ops.cast(v, "float32"))) for v in variables]
    return np.asarray(ops.stack(squares))
