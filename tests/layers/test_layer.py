"""What every layer refuses: arguments that its constructor would leave without effect."""

import re

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
