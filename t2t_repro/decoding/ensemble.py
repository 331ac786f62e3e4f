"""Several models that decode as one: the mean of their log-probabilities, made to sum to 1 again.

The search knows no difference: an `Ensemble` has the methods by which decoding/engine.py speaks to
a `Transformer`. The models may be of any sizes; their ids must mean the same.
"""

from collections.abc import Sequence

import keras
from keras import ops

from t2t_repro.errors import UserError


class Ensemble(keras.Model):
    """Models with the same vocabularies.

    Args:
        models: `Transformer`s, at least one.

    Raises:
        UserError: if their vocabularies have other sizes.
    """

    def __init__(self, models: Sequence[keras.Model]):
        super().__init__(autocast=False, name="ensemble")
        self.models = list(models)
        sizes = {(m.inputs_vocab_size, m.targets_vocab_size) for m in self.models}
        if len(sizes) != 1:
            raise UserError(
                "Expected models of an ensemble with vocabularies of the same sizes. Received: "
                f"{', '.join(map(str, sorted(sizes)))}. Leave the others out."
            )
        self.built = True

    @property
    def learned_positions(self) -> int | None:
        """How many positions all of the models have; None where they are computed."""
        known = [m.learned_positions for m in self.models if m.learned_positions is not None]
        return min(known, default=None)

    @property
    def sees_padding(self) -> bool:
        """Whether what one of them makes of a sentence depends on how far that is padded."""
        return any(model.sees_padding for model in self.models)

    def call(self, batch, training=False):
        """Returns what stands for the logits, as `Transformer.call`: (B, T, V)."""
        return self._mean([model(batch, training=training) for model in self.models])

    def start_decoding(self, inputs) -> list:
        return [model.start_decoding(inputs) for model in self.models]

    def initial_state(self, batch: int, beams: int, length: int = 0) -> list:
        return [model.initial_state(batch, beams, length) for model in self.models]

    def make_room(self, state, more) -> list:
        return [model.make_room(own, more) for model, own in zip(self.models, state, strict=True)]

    def layout(self) -> list:
        return [model.layout() for model in self.models]

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        layouts = [None] * len(self.models) if layout is None else layout
        pairs = [
            model.decode_step(ids, parents, step, own, kept, laid_out)
            for model, own, kept, laid_out in zip(self.models, state, memory, layouts, strict=True)
        ]
        return self._mean([logits for logits, _ in pairs]), [state for _, state in pairs]

    def _mean(self, logits):
        size = min(x.shape[-1] for x in logits)  # vocab_divisor makes tables larger
        total = 0.0
        for x in logits:
            total = total + ops.log_softmax(ops.cast(x[..., :size], "float32"), axis=-1)
        return total / len(logits)
