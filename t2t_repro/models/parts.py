"""The Transformer's parts: here hparams become the constructor arguments of its layers."""

import keras

from t2t_repro.config import HParams
from t2t_repro.layers.attention import (
    AttentionScore,
    CrossAttention,
    LocalSelfAttention,
    RelativeSelfAttention,
    SelfAttention,
    get_score,
)
from t2t_repro.layers.embedding import NoPositions, SymbolEmbedding, TargetSpaceEmbedding, positions
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer import Dropout, dropout_layer, kernel_initializer, parse_dims
from t2t_repro.layers.prepostprocess import PrePostProcess
from t2t_repro.layers.stacks import DecoderSublayers, EncoderSublayers, Sublayer
from t2t_repro.models import sharing


class Parts:
    """Makes the layers of a model.

    Args:
        hparams: every setting.
        dtype: the model's policy, which all its layers have.
    """

    def __init__(self, hparams: HParams, dtype):
        self.hp = hparams
        self.dtype = dtype
        self.initializer = kernel_initializer(hparams.initializer, hparams.initializer_gain)

    def tables(self, inputs_vocab_size: int, targets_vocab_size: int, softmax_depth: int = 0):
        """Returns the tables of inputs, targets and softmax, shared as `sharing` says.

        Args:
            inputs_vocab_size: ids of the inputs.
            targets_vocab_size: ids of the targets.
            softmax_depth: the width of what the softmax reads; 0: hidden_size.
        """
        hp = self.hp
        scale = hp.hidden_size**0.5 if hp.multiply_embedding_mode == "sqrt_depth" else 1.0

        def table(vocab_size: int, name: str, depth: int = hp.hidden_size) -> SymbolEmbedding:
            size, shards = sharing.rows(hp, vocab_size), hp.symbol_modality_num_shards
            return SymbolEmbedding(size, depth, shards, scale, dtype=self.dtype, name=name)

        one = sharing.tied_tables(hp, inputs_vocab_size, targets_vocab_size)
        if one.both_sides:
            inputs = targets = table(inputs_vocab_size, "shared")
        else:
            inputs = table(inputs_vocab_size, "input_emb")
            targets = table(targets_vocab_size, "target_emb")
        if one.softmax:
            return inputs, targets, targets
        depth = softmax_depth or hp.hidden_size
        return inputs, targets, table(targets_vocab_size, "softmax", depth)

    def word_dropout(self, side: str) -> Dropout:
        """Returns what drops whole embeddings of one side, "inputs" or "targets".

        As Gal and Ghahramani (2016, https://arxiv.org/abs/1512.05287, section 4.2) and Sennrich and
        Zhang (2019, https://arxiv.org/abs/1905.11901): a token's vector is zero with this
        probability, and the others are scaled up. Positions stay, and dropped tokens are attended
        to, other than those of symbol_dropout. As in the latter paper's programs each token is
        drawn by itself, not each kind of token.
        """
        name = f"{side}_word_dropout"
        return dropout_layer(getattr(self.hp, name), (2,), 3, self.dtype, name)

    def target_space(self, target_space_id: int) -> keras.layers.Layer:
        if not self.hp.use_target_space_embedding:
            return NoPositions(name="target_space_embedding", dtype=self.dtype)
        initializer, name = self.initializer.clone(), "target_space_embedding"
        return TargetSpaceEmbedding(target_space_id, initializer, name=name, dtype=self.dtype)

    def positions(self, name: str) -> keras.layers.Layer:
        hp = self.hp
        return positions(hp.pos, hp.max_length, self.initializer, name=name, dtype=self.dtype)

    def process(self, sequence: str, name: str) -> PrePostProcess:
        hp = self.hp
        rate = hp.layer_prepostprocess_dropout
        dims = parse_dims(hp.layer_prepostprocess_dropout_broadcast_dims)
        norm = hp.norm_type, hp.norm_epsilon
        return PrePostProcess(sequence, *norm, rate, dims, name=name, dtype=self.dtype)

    def sublayer(self, layer: keras.layers.Layer, name: str) -> Sublayer:
        before = self.process(self.hp.layer_preprocess_sequence, "layer_prepostprocess")
        after = self.process(self.hp.layer_postprocess_sequence, "layer_postprocess")
        return Sublayer(layer, before, after, name=name, dtype=self.dtype)

    def attention(self, cls: type, name: str, **arguments) -> Sublayer:
        """Returns a layer `cls` of attention, which gets what all have and `arguments`."""
        hp = self.hp
        layer = cls(
            num_heads=hp.num_heads,
            key_channels=hp.attention_key_channels or hp.hidden_size,
            value_channels=hp.attention_value_channels or hp.hidden_size,
            kernel_initializer=self.initializer.clone(),
            score=self.score(),
            **arguments,
            name="multihead_attention",
            dtype=self.dtype,
        )
        return self.sublayer(layer, name)

    def score(self) -> AttentionScore:
        name = self.hp.attention_score
        if self.hp.attention_variables_3d and name == "scaled_dot_product":
            name = "dot_product"  # T2T leaves out the scaling where its variables are so
        return get_score(name, self.initializer.clone(), self.dtype)

    def self_attention(self, in_decoder: bool) -> Sublayer:
        hp, name = self.hp, "self_attention"
        match hp.self_attention_type:
            case "dot_product_relative":
                most, rate = hp.max_relative_position, hp.attention_dropout
                kind = RelativeSelfAttention
                return self.attention(kind, name, max_relative_position=most, dropout=rate)
            case "local_mask_right" | "local_unmasked" as reach:
                # An unmasked decoder would see the words that it is to predict.
                masked = reach == "local_mask_right" or in_decoder
                length = hp.attention_block_length
                return self.attention(LocalSelfAttention, name, block_length=length, masked=masked)
        return self.whole_attention(SelfAttention, name)

    def whole_attention(self, cls: type, name: str) -> Sublayer:
        """Returns attention to all positions, in chunks where the hparams say so."""
        hp = self.hp
        dims = parse_dims(hp.attention_dropout_broadcast_dims)
        dropout = {"dropout": hp.attention_dropout, "dropout_broadcast_dims": dims}
        return self.attention(cls, name, **dropout, chunk_size=hp.attention_chunk_size)

    def ffn(self) -> Sublayer:
        hp, initializer = self.hp, self.initializer.clone()
        dropout = hp.relu_dropout, parse_dims(hp.relu_dropout_broadcast_dims)
        arguments: dict = {"name": "feed_forward", "dtype": self.dtype}
        return self.sublayer(FeedForward(hp.filter_size, *dropout, initializer, **arguments), "ffn")

    def encoder_layer(self, number: int) -> EncoderSublayers:
        own = self.self_attention(in_decoder=False)
        return EncoderSublayers(own, self.ffn(), name=f"layer_{number}", dtype=self.dtype)

    def decoder_layer(self, number: int) -> DecoderSublayers:
        own = self.self_attention(in_decoder=True)
        cross = self.whole_attention(CrossAttention, "encdec_attention")
        return DecoderSublayers(own, cross, self.ffn(), name=f"layer_{number}", dtype=self.dtype)
