"""ByteNet (Kalchbrenner et al. 2016) as tensor2tensor has it (its models/bytenet.py).

The data's way: ids -> SymbolEmbedding -> room for half as many positions again, and as many as the
target has, in fifties -> dilated convolutions over both sides -> beside each position the target
before it -> dilated convolutions over the past -> logits. No position looks anything up: source and
target lie beside one another.
"""

import keras
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.layers.dilated_convolution import ConvolutionBlock, ResidualConvolutions
from t2t_repro.layers.kernels import gather_beams
from t2t_repro.layers.layer import build_all, larger
from t2t_repro.models.parts import Parts
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.registry import register_model

LENGTHS = 50  # there are only multiples of this many positions


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class ByteNet(SequenceModel):
    """For the arguments see `SequenceModel`. Padding is computed too, and seen, as in T2T."""

    sees_padding = True

    def __init__(
        self,
        hparams: HParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
        name: str = "byte_net",
        **kwargs,
    ):
        sizes = inputs_vocab_size, targets_vocab_size
        super().__init__(hparams, *sizes, target_space_id, name, **kwargs)
        hp, parts = hparams, Parts(hparams, self.dtype_policy)

        def block(dilations: tuple[int, ...], causal: bool, name: str) -> ConvolutionBlock:
            return ConvolutionBlock(
                hp.hidden_size,
                dilations,
                hp.kernel_height,
                causal,
                parts.initializer.clone(),
                dtype=self.dtype_policy,
                name=name,
            )

        def stack(causal: bool, name: str) -> ResidualConvolutions:
            dilations = tuple(2**i for i in range(hp.num_hidden_layers))
            repeats = range(hp.num_block_repeat)
            blocks = [block(dilations, causal, f"repeat_{i}") for i in repeats]
            return ResidualConvolutions(blocks, hp.dropout, dtype=self.dtype_policy, name=name)

        self.inputs_embedding, self.targets_embedding, self.softmax = parts.tables(*sizes)
        self.symbol_dropout_seed = keras.random.SeedGenerator()
        self.encoder = stack(causal=False, name="encoder")
        self.start = block((1,), causal=True, name="start")
        self.decoder = stack(causal=True, name="decoder")

    def build(self, input_shape=None):
        depth = self.hparams.hidden_size
        build_all([self.start], (None, None, 2 * depth))
        tables = self.inputs_embedding, self.targets_embedding, self.softmax
        build_all((*tables, self.encoder, self.decoder), (None, None, depth))
        self.built = True

    def call(self, batch, training=False, logits=True):
        """Returns the logits of every target position: see `Transformer.call`.

        Raises:
            UserError: if they are packed.
        """
        batch = self._unpacked(batch)
        inputs = self._symbol_dropout(batch["inputs"], training)
        targets = self._symbol_dropout(batch["targets"], training)
        outputs = self._outputs(self._encode(inputs, targets, training), targets, training)
        return self.softmax.logits(outputs) if logits else outputs

    def start_decoding(self, inputs) -> dict:
        """Returns what stays the same while int32 (B, S) is decoded: leading axis B throughout."""
        return {"inputs": ops.convert_to_tensor(inputs)}

    def initial_state(self, batch: int, beams: int) -> dict:
        """Returns the state at the start: "ids" int32 (B, K, L), what each beam has written."""
        return {"ids": ops.zeros((batch, beams, 0), dtype="int32")}

    def make_room(self, state: dict, more: int) -> dict:
        """Returns the state with room for `more` steps."""
        return {"ids": ops.pad(state["ids"], [(0, 0), (0, 0), (0, more)])}

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        """Returns (the logits of position `step`, the next state), as `Transformer.decode_step`.

        The whole translation is computed again, as in T2T: if the target outgrows the room that the
        source has made, every position changes.
        """
        written = gather_beams(state["ids"], parents)
        here = ops.equal(ops.arange(ops.shape(written)[2], dtype="int32"), step - 1)
        written = ops.where(here, ids[..., None], written)
        # With unknown shapes, only as much is computed as T2T does.
        known = written[..., : step + 1] if keras.backend.backend() == "tensorflow" else written
        batch, beams, length = ops.shape(known)
        targets = ops.reshape(known, (-1, length))
        encoded = self._encode(memory["inputs"], targets)
        # (B, T, D) -> (B * K, T, D)
        outputs = self._outputs(ops.repeat(encoded, beams, axis=0), targets)
        last = ops.take(outputs, step, axis=1)
        last = ops.reshape(last, (batch, beams, self.hparams.hidden_size))
        return self.softmax.logits(last, layout), {"ids": written}

    def _encode(self, inputs, targets, training=False):
        """Returns (B, L, D) of int32 (B, S), with as much room as targets (any, T) need."""
        source, target = ops.shape(inputs)[1], ops.shape(targets)[1]
        longest = larger(source + source // 2, target)
        room = -(-longest // LENGTHS) * LENGTHS
        x = self.inputs_embedding(ops.pad(inputs, [(0, 0), (0, room - source)]))
        return self.encoder(x, training=training)

    def _outputs(self, encoded, targets, training=False):
        """Returns the decoder's outputs (B, T, D)."""
        room, length = ops.shape(encoded)[1], ops.shape(targets)[1]
        # The first decoder input is the zero vector, which id 0 embeds to.
        shifted = ops.pad(targets, [(0, 0), (1, room - length)])[:, :-1]
        x = ops.concatenate([encoded, self.targets_embedding(shifted)], axis=-1)
        x = self.start(x, training=training)
        return self.decoder(x, training=training)[:, :length]
