"""How many parameters a Transformer has, counted from its hparams without making it.

Tests hold the counts equal to those of the models that `Transformer.from_hparams` builds.
"""

from dataclasses import dataclass
from typing import Any

from t2t_repro.config import DOT_PRODUCTS, HParams
from t2t_repro.errors import UserError

TARGET_SPACES = 32  # rows of T2T's table of kinds of target


@dataclass(frozen=True)
class Parameters:
    """The variables of a model, by what they belong to."""

    embeddings: int  # (V, D): inputs, targets and softmax, once where they are shared
    attention: int  # kernels of queries, keys, values and outputs, and of scores; no biases
    feed_forward: int  # two kernels, two biases
    norms: int  # a scale and a bias each
    others: int  # T2T's embedding of the target space; learned positions; relative ones

    @property
    def total(self) -> int:
        """All of them."""
        return self.embeddings + self.attention + self.feed_forward + self.norms + self.others


def count(hparams: HParams, vocab_size: int) -> Parameters:
    """Returns the parameters of the model of `hparams`.

    Args:
        hparams: the model's settings.
        vocab_size: of inputs and targets, which have one vocabulary.
    """
    depth, filters = hparams.hidden_size, hparams.filter_size
    keys, values = _widths(hparams)
    encoder, decoder = hparams.encoder_layers, hparams.decoder_layers
    tables = 1
    if not hparams.shared_embedding_and_softmax_weights:
        tables = 2 if hparams.shared_embedding else 3
    rows = -(-vocab_size // hparams.vocab_divisor) * hparams.vocab_divisor
    before = _norms(hparams.layer_preprocess_sequence)
    after = _norms(hparams.layer_postprocess_sequence)
    sublayers = 2 * encoder + 3 * decoder
    norms = sublayers * (before + after) + 2 * before  # the stacks preprocess their last sum too
    others = TARGET_SPACES * depth * hparams.use_target_space_embedding
    learned = 2 * hparams.max_length * depth
    others += _of(hparams, "pos", {"timing": 0, "emb": learned, "none": 0, None: 0})
    heads = hparams.num_heads
    size = keys // heads
    of_score = {"multiplicative": heads * size**2, "additive": heads * (2 * size**2 + size)}
    score = _of(hparams, "attention_score", dict.fromkeys(DOT_PRODUCTS, 0) | of_score)
    if hparams.self_attention_type == "dot_product_relative":
        distances = 2 * hparams.max_relative_position + 1
        others += (encoder + decoder) * distances * (keys + values) // hparams.num_heads
    return Parameters(
        embeddings=tables * rows * depth,
        attention=attentions(hparams) * (2 * depth * (keys + values) + score),
        feed_forward=(encoder + decoder) * (2 * depth * filters + filters + depth),
        norms=norms * _of(hparams, "norm_type", {"layer": 2 * depth, "none": 0}),
        others=others,
    )


def attentions(hparams: HParams) -> int:
    """Returns how many attention sublayers there are."""
    return hparams.encoder_layers + 2 * hparams.decoder_layers


def attention_biases(hparams: HParams) -> int:
    """Returns the biases of the attention's projections, which T2T had in 2017 and then dropped."""
    keys, values = _widths(hparams)
    return attentions(hparams) * (2 * keys + values + hparams.hidden_size)


def _of(hparams: HParams, name: str, counts: dict[Any, int]) -> int:
    """Returns what stands in `counts` for the value of a setting."""
    value = getattr(hparams, name)
    if value not in counts:
        raise UserError(
            f"Expected {name} to be one of {', '.join(map(str, counts))}, whose parameters can be "
            f"counted. Received: {value}. Say here how many it has: {__name__}."
        )
    return counts[value]


def _norms(sequence: str) -> int:
    """How many layer norms a sequence has; "none" is one of no letters."""
    return 0 if sequence == "none" else sequence.count("n")


def _widths(hparams: HParams) -> tuple[int, int]:
    """The total widths of keys and of values."""
    depth = hparams.hidden_size
    return hparams.attention_key_channels or depth, hparams.attention_value_channels or depth
