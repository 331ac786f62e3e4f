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

from keras import ops

from t2t_repro.decoding.engine import Pair
from t2t_repro.decoding.pairs import run_pairs
from t2t_repro.decoding.program import Program
from t2t_repro.text.encoders import EOS_ID


def align(program: "MostAttended", pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
    """Returns the links of each pair, as `Engine.align`."""
    pairs = [(inputs, [i for i in targets if i != EOS_ID]) for inputs, targets in pairs]
    some = [n for n, (inputs, targets) in enumerate(pairs) if len(inputs) > 1]
    rows = run_pairs(program, [pairs[n] for n in some])
    links = [""] * len(pairs)
    for n, row in zip(some, rows, strict=True):
        inputs, targets = pairs[n]
        source = words_of(encoders and encoders["inputs"], inputs[:-1])
        target = words_of(encoders and encoders["targets"], targets)
        words = {(source[i], target[j]) for j, i in enumerate(row.tolist())}
        links[n] = " ".join(f"{i}-{j}" for i, j in sorted(words))
    return links


def words_of(encoder: Any, ids: list[int]) -> list[int]:
    """Returns the number of the word that each token belongs to; None: tokens are words."""
    if encoder is None:
        return list(range(len(ids)))
    return [max(len(encoder.decode(ids[: n + 1]).split()) - 1, 0) for n in range(len(ids))]


class MostAttended(Program):
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
