"""What layers refuse: sizes that are none, arguments that would have no effect."""

import re

import numpy as np
import pytest

from t2t_repro import layers
from t2t_repro.errors import UserError

N, F = 3, 20
HUB = {"num_heads": N, "intermediate_dim": F}


@pytest.mark.parametrize(
    "name, arguments, unread",
    [
        ("TransformerEncoder", HUB, {"norm_type": "l2"}),
        ("TransformerEncoder", HUB, {"filter_size": F}),
        ("TransformerDecoder", HUB, {"relu_dropout": 0.5}),
        ("TransformerDecoder", HUB, {"preprocess": "n"}),
        ("LocalSelfAttention", {"block_length": 2, "masked": True}, {"dropout": 0.5}),
        ("BlockwiseSelfAttention", {"chunk_size": 2}, {"dropout": 0.5}),
        ("BlockwiseCrossAttention", {"chunk_size": 2}, {"dropout_broadcast_dims": (0,)}),
    ],
)
def test_an_argument_that_the_class_before_it_takes_is_not_its_own(name, arguments, unread):
    message = f"Unknown argument of {name}. Received: '{[*unread][0]}'. "
    with pytest.raises(UserError, match=re.escape(message)):
        getattr(layers, name)(**{"num_heads": N} | arguments, **unread)


# Of each layer the arguments without which there is none, and those that are sizes.
SIZES = {
    "SelfAttention": ({"num_heads": N}, "num_heads key_channels value_channels"),
    "CrossAttention": ({"num_heads": N}, "num_heads key_channels value_channels"),
    "MultiHeadAttention": ({"num_heads": N}, "num_heads key_dim value_dim"),
    "LocalSelfAttention": (
        {"num_heads": N, "block_length": 2, "masked": True},
        "num_heads block_length",
    ),
    "BlockwiseSelfAttention": ({"num_heads": N, "chunk_size": 2}, "num_heads chunk_size"),
    "BlockwiseCrossAttention": ({"num_heads": N, "chunk_size": 2}, "key_channels chunk_size"),
    "FeedForward": ({}, "filter_size"),
    "EncoderLayer": ({"num_heads": N, "filter_size": F}, "num_heads filter_size"),
    "DecoderLayer": ({"num_heads": N, "filter_size": F}, "num_heads filter_size"),
    "TransformerEncoder": (HUB, "num_heads intermediate_dim"),
    "TransformerDecoder": (HUB, "num_heads intermediate_dim"),
    "LearnedPositions": ({}, "max_length"),
    "SymbolEmbedding": ({"vocab_size": 11, "hidden_size": 12}, "vocab_size hidden_size num_shards"),
    "TokenAndPositionEmbedding": (
        {"vocab_size": 11, "hidden_size": 12, "pos": "emb"},
        "vocab_size hidden_size max_length",
    ),
}


@pytest.mark.parametrize("name, size", [(k, s) for k, v in SIZES.items() for s in v[1].split()])
def test_a_size_is_a_whole_number_of_at_least_one(name, size):
    for wrong in (0, -6, 2.5, "3", True):
        message = f"Expected {size} to be a whole number of at least 1.*Received: {wrong!r}"
        with pytest.raises(UserError, match=message):
            getattr(layers, name)(**SIZES[name][0] | {size: wrong})


def test_a_size_may_be_that_of_an_array():
    assert layers.FeedForward(np.int64(F)).filter_size == F
    assert layers.RelativeSelfAttention(0, N).max_relative_position == 0


def test_only_widths_may_be_left_open():
    layers.SelfAttention(N, None, None)
    with pytest.raises(UserError, match="num_heads"):
        layers.SelfAttention(None)
    with pytest.raises(UserError, match="max_relative_position"):
        layers.RelativeSelfAttention(-1, N)


@pytest.mark.parametrize("space", [99, -1, 32, 1.5, None])
def test_a_target_space_has_a_row_in_the_table(space):
    with pytest.raises(UserError, match=f"one of 0 to 31, .*SpaceID has. Received: {space!r}. T"):
        layers.TargetSpaceEmbedding(space)


@pytest.mark.parametrize("score", ["additive", "multiplicative"])
def test_relative_positions_go_with_dot_products_alone(score):
    message = f"scaled_dot_product or dot_product. Received: {score.title()}. Take one of them"
    with pytest.raises(UserError, match=message):
        layers.RelativeSelfAttention(2, N, score=score)
    layers.RelativeSelfAttention(2, N, score="dot_product")


@pytest.mark.parametrize("score", [None, 3, ["dot"]])
def test_what_is_no_score_is_refused(score):
    with pytest.raises(UserError, match="attention_score"):
        layers.SelfAttention(N, score=score)


def test_weights_are_those_of_a_layer_that_has_been_called():
    x = np.ones((2, 5, 12), "float32")
    message = "that has its variables. Received: attention_weights of .*oder_layer.* Call it before"
    with pytest.raises(UserError, match=message):
        layers.EncoderLayer(N, F).attention_weights(x)
    with pytest.raises(UserError, match=message):
        layers.DecoderLayer(N, F).attention_weights(x, x)
