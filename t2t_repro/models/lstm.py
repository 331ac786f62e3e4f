"""tensor2tensor's recurrent models (its models/lstm.py), which the paper's claim is against.

The data's way: ids -> SymbolEmbedding -> LSTMs, over the source backwards or from both sides;
target ids shifted right -> SymbolEmbedding -> LSTMs that begin in the state where the others ended,
with attention to what these said or without -> logits.
"""

from typing import Any

import keras
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.layers.feed_forward import Dense
from t2t_repro.layers.kernels import gather_beams
from t2t_repro.layers.layer import build_all
from t2t_repro.layers.lstm import (
    LSTM,
    SCORES,
    AttentionLSTM,
    BidirectionalLSTM,
    LSTMStack,
    reverse,
)
from t2t_repro.models.parts import Parts
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.registry import register_model


class LSTMModel(SequenceModel):
    """What the four models share; for the arguments see `SequenceModel`."""

    attends = False  # whether the decoder has attention
    bidirectional = False  # whether the encoder reads from both sides

    def __init__(
        self,
        hparams: HParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
        **kwargs,
    ):
        super().__init__(hparams, inputs_vocab_size, targets_vocab_size, target_space_id, **kwargs)
        hp, parts, policy = hparams, Parts(hparams, self.dtype_policy), self.dtype_policy

        def stack(units: int, name: str) -> LSTMStack:
            layers = [
                LSTM(units, parts.initializer.clone(), dtype=policy, name=f"cell_{i}")
                for i in range(hp.num_hidden_layers)
            ]
            return LSTMStack(layers, hp.dropout, dtype=policy, name=name)

        # A state of both directions is twice as wide, and so is the decoder that begins with it.
        self.width = hp.hidden_size * (2 if self.bidirectional else 1)
        self.symbol_dropout_seed = keras.random.SeedGenerator()
        if self.bidirectional:
            sides = stack(hp.hidden_size, "fw"), stack(hp.hidden_size, "bw")
            self.encoder: Any = BidirectionalLSTM(*sides, dtype=policy, name="encoder")
        else:
            self.encoder = stack(hp.hidden_size, "encoder")
        decoder: Any = stack(self.width, "decoder")
        dense, depth = None, self.width
        if self.attends:
            heads, size = hp.num_heads, hp.attention_layer_size or hp.hidden_size
            score = SCORES[hp.attention_mechanism](
                self.width, heads, parts.initializer.clone(), dtype=policy, name="score"
            )
            told = hp.output_attention
            arguments: dict = {"dtype": policy, "name": "decoder"}
            decoder = AttentionLSTM(decoder, score, size, told, **arguments)
            if told and heads > 1:
                initializer = parts.initializer.clone()
                named = {"kernel_initializer": initializer, "dtype": policy, "name": "dense"}
                dense = Dense(self.width, **named)
            elif told:
                depth = size
        self.decoder, self.output_dense = decoder, dense
        tables = parts.tables(inputs_vocab_size, targets_vocab_size, depth)
        self.inputs_embedding, self.targets_embedding, self.softmax = tables

    def build(self, input_shape=None):
        shape = (None, None, self.hparams.hidden_size)
        tables = self.inputs_embedding, self.targets_embedding, self.softmax
        build_all((*tables, self.encoder), shape)
        wide = (None, None, self.width)
        if self.attends:
            self.decoder.build(shape, wide)
        else:
            build_all([self.decoder], shape)
        if self.output_dense is not None:
            self.output_dense.build((None, None, self.decoder.kernel.shape[1]))
        self.built = True

    def call(self, batch, training=False, logits=True):
        """Returns the logits of every target position: see `Transformer.call`.

        Raises:
            UserError: if they are packed.
        """
        batch = self._unpacked(batch)
        memory, states = self._encode(batch["inputs"], training)
        targets = batch["targets"]
        # The first decoder input is the zero vector, which id 0 embeds to.
        shifted = ops.pad(self._symbol_dropout(targets, training), [[0, 0], [1, 0]])[:, :-1]
        # The decoder begins with the zero vector before the first target, reads the end too, and
        # stops there.
        there = targets != 0
        real = ops.logical_or(there, ops.pad(there, [[0, 0], [1, 0]])[:, :-1])
        x = self.targets_embedding(shifted)
        if self.attends:
            outputs = self.decoder(x, real, states, memory, training=training)
        else:
            outputs, _ = self.decoder(x, real, states, training=training)
        outputs = self._projected(outputs)
        return self.softmax.logits(outputs) if logits else outputs

    def start_decoding(self, inputs) -> dict:
        """Returns what stays the same while int32 (B, S) is decoded: leading axis B throughout."""
        memory, states = self._encode(inputs, training=False)
        if not self.attends:
            return {"states": states}
        return {"states": states, "memory": memory, "keys": self.decoder.score.keys(memory)}

    def initial_state(self, batch: int, beams: int):
        """Returns a state of `decode_step`'s form; step 0 begins with that of the encoder."""
        if not self.attends:
            return self.decoder.initial_states(batch, beams)
        return self.decoder.initial_state(self.decoder.stack.initial_states(batch, beams))

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        """Returns (the logits of position `step`, the next state), as `Transformer.decode_step`."""
        beams = ops.shape(ids)[1]
        # (B, 1, H) -> (B, K, H)
        start = keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=1), memory["states"])
        if self.attends:
            start = self.decoder.initial_state(start)

        def continued(x, first):
            return ops.where(step == 0, first, gather_beams(x, parents))

        state = keras.tree.map_structure(continued, state, start)
        x = self.targets_embedding(ids)
        if self.attends:
            state = self.decoder.step(x, state, memory["keys"], memory["memory"])
            outputs = self.decoder.output(state)
        else:
            state = self.decoder.step(x, state)
            outputs = state[-1]["h"]
        return self.softmax.logits(self._projected(outputs), layout), state

    def _encode(self, inputs, training):
        """Returns what was said of int32 (B, S), (B, S, M), and the states at its end."""
        inputs = ops.convert_to_tensor(inputs)
        real = inputs != 0
        x = self.inputs_embedding(self._symbol_dropout(inputs, training))
        x = x if self.bidirectional else reverse(x, real)
        return self.encoder(x, real, training=training)

    def _projected(self, outputs):
        return outputs if self.output_dense is None else self.output_dense(outputs)


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class LSTMSeq2seq(LSTMModel):
    """The source backwards into a state, and the target out of it (Sutskever et al. 2014)."""


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class LSTMSeq2seqAttention(LSTMModel):
    """The source backwards, and the target with attention to it."""

    attends = sees_padding = True


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class LSTMSeq2seqBidirectionalEncoder(LSTMModel):
    """The source from both sides into a state, and the target out of it."""

    bidirectional = True


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class LSTMSeq2seqAttentionBidirectionalEncoder(LSTMModel):
    """The source from both sides, and the target with attention to it."""

    attends = sees_padding = bidirectional = True
