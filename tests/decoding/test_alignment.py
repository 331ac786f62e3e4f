"""Alignments follow the attention, token by token, and link words."""

import numpy as np

from t2t_repro.decoding.alignment import words_of
from t2t_repro.text.encoders import ByteTextEncoder


def attended(model, pairs):
    """The source token that each target token looks at most, by the model's own weights."""
    found = []
    for inputs, targets in pairs:
        batch = {"inputs": np.array([inputs]), "targets": np.array([targets])}
        layer = max(model.hparams.decoder_layers - 2, 0)
        weights = np.asarray(
            model.attention_weights(batch)[f"decoder/layer_{layer}/encdec_attention"]
        )
        found.append(weights[0, :, :, : len(inputs) - 1].mean(axis=0).argmax(axis=1).tolist())
    return found


def test_each_token_is_aligned_to_what_it_looks_at(base):
    pairs = [([5, 7, 9, 11, 1], [3, 9, 4]), ([30, 1], [5, 6, 1]), ([8, 3, 1], []), ([1], [4])]
    links = base.engine.align(pairs, None)
    expected = attended(base.model, [(inputs, targets) for inputs, targets in pairs[:2]])
    for link, looks in zip(links, [expected[0], expected[1][:2]], strict=False):
        assert link == " ".join(f"{i}-{j}" for i, j in sorted(zip(looks, range(9), strict=False)))
    assert links[2:] == ["", ""]


def test_the_tokens_of_a_word_are_one():
    encoder = ByteTextEncoder()
    ids = encoder.encode("ab c  def")
    assert words_of(encoder, ids) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
