"""How much a training step holds besides the weights, counted from hparams without making a model.

What is kept for the backward pass, by what the layers hold for a token. The factors are those that
a process was measured to need, on a CPU, and say about how much, not how much. Under an
activation_dtype of 2 bytes what the layers hand on has these, the logits too; the weights of
attention have 4, for its softmax is float32.
"""

from collections.abc import Callable

from t2t_repro.config import HParams
from t2t_repro.hparam_rules import BYTENET, RECURRENT
from t2t_repro.models import bytenet_cost
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.lstm_cost import LSTMCost


def held(hparams: HParams, shape: BatchShape, vocab_size: int) -> float:
    """Returns about how much a training step holds for its backward pass, in values of 4 bytes.

    Of R-Drop's two passes, which are under one tape, it holds both.

    Args:
        hparams: the model's sizes.
        shape: of one device's batch.
        vocab_size: V of the softmax.
    """
    of: Callable[[HParams, BatchShape], float] = _of_transformer
    if hparams.model in RECURRENT:
        of = _of_lstms
    elif hparams.model == BYTENET:
        of = _of_bytenet
    handed_on = of(hparams, shape) + 2 * shape.target_tokens * vocab_size
    scores = _scores(hparams, shape) if of is _of_transformer else 0.0
    size = 1.0 if hparams.activation_dtype == "float32" else 0.5
    return (2 if hparams.r_drop_alpha else 1) * (size * handed_on + scores)


def _of_transformer(hparams: HParams, shape: BatchShape) -> float:
    depth, filters = hparams.hidden_size, hparams.filter_size
    encoder = hparams.encoder_layers * shape.source_tokens * (10 * depth + 2 * filters)
    return encoder + hparams.decoder_layers * shape.target_tokens * (16 * depth + 2 * filters)


def _scores(hparams: HParams, shape: BatchShape) -> float:
    """Of a Transformer's attention, for each query what it has of each key."""
    encoder = hparams.encoder_layers * shape.source_tokens * shape.source_length
    both = shape.source_length + shape.target_length
    decoder = hparams.decoder_layers * shape.target_tokens * both
    return 3 * hparams.num_heads * (encoder + decoder)


def _of_lstms(hparams: HParams, shape: BatchShape) -> float:
    """Gates, states and what they are made of; of additive attention each pair's hidden layer."""
    cost = LSTMCost(hparams)
    source, target = shape.source_tokens, shape.target_tokens
    layers = 20 * hparams.num_hidden_layers * cost.width * (source + target)
    pairs = 0.0
    if cost.attention and hparams.attention_mechanism == "bahdanau":
        pairs = 1.5 * target * shape.source_length * cost.width
    return layers + 10 * target * cost.attention + pairs


def _of_bytenet(hparams: HParams, shape: BatchShape) -> float:
    convolutions = 2 * hparams.num_block_repeat * hparams.num_hidden_layers + 1
    return 7 * convolutions * bytenet_cost.positions(shape) * hparams.hidden_size
