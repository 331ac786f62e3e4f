"""Given pairs of sentences through a model: probabilities and alignments of target tokens.

They go in batches, sorted by length; the end of a sentence counts as a token.
Legend: B batch, N heads, S source length, T target length, V vocabulary.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import ops

from t2t_repro.decoding.program import Program, few_row_counts
from t2t_repro.decoding.search import Advance, Pair, ignore, padded
from t2t_repro.models import copies
from t2t_repro.text.encoders import EOS_ID

BATCH_PAIRS, BATCH_TOKENS = 64, 2048


def run_pairs(
    program: Program, pairs: list[Pair], batch_size: int = 0, progress: Advance = ignore
) -> list[np.ndarray]:
    """Returns a program's result (T,) for each pair, without padding.

    The program maps {"inputs": int32 (B, S), "targets": int32 (B, T)} to (B, T). For the other
    arguments see `Engine.token_log_probs`.
    """
    results = [np.zeros(0, "float32")] * len(pairs)
    most = getattr(program.model, "learned_positions", None)
    exact = getattr(program.model, "sees_padding", False)
    some = [i for i, (_, targets) in enumerate(pairs) if targets]
    order = sorted(some, key=lambda i: (-len(pairs[i][1]), -len(pairs[i][0])))

    def values_of(batch: list[int], device: str) -> tuple[list[int], np.ndarray]:
        rows = few_row_counts(len(batch))
        inputs, targets = (
            padded([pairs[i][side] for i in batch], rows, 1 if exact else 8, most)
            for side in (0, 1)
        )
        data = {"inputs": inputs, "targets": targets}
        return batch, np.asarray(program.run(data, device))

    some_at_a_time = batches(order, pairs, batch_size, exact)
    devices = copies.devices_of(program.model)
    for batch, values in copies.map_over_devices(values_of, some_at_a_time, devices):
        for i, row in zip(batch, values, strict=False):
            results[i] = row[: len(pairs[i][1])]
        progress(len(batch))
    return results


def batches(
    order: list[int], pairs: list[Pair], batch_size: int = 0, exact: bool = False
) -> Iterator[list[int]]:
    """Yields `order` in pieces of `batch_size`, or of as many pairs as make a good batch.

    exact: whether those of one batch have the same lengths.
    """
    batch: list[int] = []
    longest = 0
    for i in order:
        longest = max(longest, *map(len, pairs[i]))
        room = batch_size or min(BATCH_PAIRS, BATCH_TOKENS // longest)
        others = exact and batch and [*map(len, pairs[batch[0]])] != [*map(len, pairs[i])]
        if batch and (len(batch) >= room or others):
            yield batch
            batch, longest = [], max(map(len, pairs[i]))
        batch.append(i)
    if batch:
        yield batch


class LogProbs(Program):
    """The log-probability of each target token: (B, T)."""

    def call(self, data):
        logits = ops.cast(self.model(data, training=False), "float32")
        of_target = ops.take_along_axis(logits, data["targets"][..., None], axis=-1)[..., 0]
        return of_target - ops.logsumexp(logits, axis=-1)


def align(program: "MostAttended", pairs: list[Pair], encoders: dict[str, Any] | None) -> list[str]:
    """Returns the links between the words of each pair, as `Engine.align`.

    A target token is aligned to the source token with the most attention when it is predicted: in
    the last layer but one, where attention is nearest to an alignment (Garg et al. 2019, "Jointly
    Learning to Align and Translate with Transformer Models"), over the mean of the heads, and over
    that of the models of an ensemble. The end of the source does not count.

    Links go from word to word, words being what blanks separate, in the Pharaoh form "0-0 1-2":
    source word, target word, both from 0 on.
    """
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
    """Returns the number of the word that each token belongs to; None: tokens are words.

    Words end at ASCII blanks, as in Pharaoh's format; other blanks are within a word.
    """
    if encoder is None:
        return list(range(len(ids)))
    texts = (encoder.decode(ids[:n]).encode(errors="replace") for n in range(len(ids), 0, -1))
    words = (max(len(text.split()) - 1, 0) for text in texts)
    return list(itertools.accumulate(words, min))[::-1]  # half of an escape begins no word


class MostAttended(Program):
    """Returns the source token with the most attention for each target token: int32 (B, T)."""

    def call(self, data):
        total = 0.0
        for model in getattr(self.model, "models", [self.model]):
            layer = max(model.hparams.decoder_layers - 2, 0)
            weights = model.attention_weights(data)[f"decoder/layer_{layer}/encdec_attention"]
            total = total + ops.mean(weights, axis=1)  # (B, N, T, S) -> (B, T, S)
        # A token of the source has another after it: the end does not count.
        follows = ops.pad(data["inputs"][:, 1:], [[0, 0], [0, 1]]) != 0
        total = ops.where(follows[:, None], total, -1.0)
        return ops.cast(ops.argmax(total, axis=-1), "int32")
