"""How much a training step holds besides the weights, counted from hparams without making a model.

What is kept for the backward pass, by what the layers hold for a token. The factors are those that
a process was measured to need, on a CPU, and say about how much, not how much.
"""

from collections.abc import Callable

from t2t_repro.config import HParams
from t2t_repro.hparam_rules import BYTENET, RECURRENT
from t2t_repro.models import bytenet_cost
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.lstm_cost import LSTMCost


def held(hparams: HParams, shape: BatchShape, vocab_size: int) -> float:
    """Returns about how many values a training step holds for its backward pass.

    Args:
        hparams: the model's sizes.
        shape: of one device's batch.
        vocab_size: V of the softmax.
    """
    logits = 2 * shape.target_tokens * vocab_size
    of: Callable[[HParams, BatchShape], float] = _of_transformer
    if hparams.model in RECURRENT:
        of = _of_lstms
    elif hparams.model == BYTENET:
        of = _of_bytenet
    return of(hparams, shape) + logits


def _of_transformer(hparams: HParams, shape: BatchShape) -> float:
    depth, filters, heads = hparams.hidden_size, hparams.filter_size, hparams.num_heads
    source, target = shape.source_tokens, shape.target_tokens
    own = heads * shape.source_length * 3
    encoder = hparams.encoder_layers * source * (10 * depth + 2 * filters + own)
    crossed = heads * (shape.source_length + shape.target_length) * 3
    return encoder + hparams.decoder_layers * target * (16 * depth + 2 * filters + crossed)


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
