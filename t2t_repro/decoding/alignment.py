"""Which words of the source a translation's words come from, as the attention has it.

A target token is aligned to the source token that the decoder looks at most when it predicts it: in
the last layer but one, where attention is nearest to an alignment (Garg et al. 2019, "Jointly
Learning to Align and Translate with Transformer Models"), over the mean of the heads, and over that
of the models of an ensemble. The end of the source is not looked at.

Links go from word to word, words being what blanks separate, in the Pharaoh form "0-0 1-2": source
word, target word, both from 0 on.
Legend: B batch, N heads, S source length, T target length.
"""

from typing import Any

import keras
from keras import ops

from t2t_repro.decoding.pairs import run_pairs
from t2t_repro.decoding.program import Program
from t2t_repro.text.encoders import EOS_ID


class Aligner:
    """Aligns pairs of ids.

    Args:
        model: a `Transformer`, or an `Ensemble` of them.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}; None: tokens are words.
    """

    def __init__(self, model: keras.Model, encoders: dict[str, Any] | None):
        self.encoders, self._program = encoders, _MostAttended(model)

    def align(self, pairs: list[tuple[list[int], list[int]]]) -> list[str]:
        """Returns the links of each (inputs, targets), the inputs ended by 1."""
        pairs = [(inputs, [i for i in targets if i != EOS_ID]) for inputs, targets in pairs]
        some = [n for n, (inputs, targets) in enumerate(pairs) if len(inputs) > 1]
        rows = run_pairs(self._program, [pairs[n] for n in some])
        links = [""] * len(pairs)
        for n, row in zip(some, rows, strict=True):
            inputs, targets = pairs[n]
            source, target = self._words("inputs", inputs[:-1]), self._words("targets", targets)
            words = {(source[i], target[j]) for j, i in enumerate(row.tolist())}
            links[n] = " ".join(f"{i}-{j}" for i, j in sorted(words))
        return links

    def _words(self, side: str, ids: list[int]) -> list[int]:
        """The number of the word that each token belongs to."""
        if self.encoders is None:
            return list(range(len(ids)))
        decode = self.encoders[side].decode
        return [max(len(decode(ids[: n + 1]).split()) - 1, 0) for n in range(len(ids))]


class _MostAttended(Program):
    """The source token that is looked at most as each target token is predicted: int32 (B, T)."""

    def call(self, data):
        total = 0.0
        for model in getattr(self.model, "models", [self.model]):
            layer = max(model.hparams.decoder_layers - 2, 0)
            weights = model.attention_weights(data)[f"decoder/layer_{layer}/encdec_attention"]
            total = total + ops.mean(weights, axis=1)  # (B, N, T, S) -> (B, T, S)
        # A token of the source is one that another follows: the end is none.
        follows = ops.pad(data["inputs"][:, 1:], [[0, 0], [0, 1]]) != 0
        total = ops.where(follows[:, None], total, -1.0)
        return ops.cast(ops.argmax(total, axis=-1), "int32")
