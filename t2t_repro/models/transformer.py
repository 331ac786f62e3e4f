"""The Transformer of "Attention Is All You Need", as tensor2tensor computes it.

The data's way: ids -> SymbolEmbedding -> target space, positions, dropout -> encoder Stack ->
memory; target ids shifted right -> SymbolEmbedding -> positions, dropout -> decoder Stack over the
memory -> logits.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.layers.attention import CAUSAL, NO_WEIGHTS, CausalMask, Mask, of_padding
from t2t_repro.layers.cross_entropy import divergence, mean_over_global_batch
from t2t_repro.layers.kernels import gather_beams
from t2t_repro.layers.layer import Dropout, build_all
from t2t_repro.layers.stacks import Stack
from t2t_repro.models.finite_step import as_batch
from t2t_repro.models.parts import Parts
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.registry import register_model

PARTS = (
    *("inputs_embedding", "targets_embedding", "softmax", "target_space"),
    *("inputs_word_dropout", "targets_word_dropout"),
    *("inputs_position", "targets_position", "inputs_dropout", "targets_dropout"),
    *("encoder", "decoder"),
)


class Segments(NamedTuple):
    """One side of a packed batch; `data/packing.py` has what packing is.

    Attributes:
        numbers: int32 (B, T), the segment of each position, from 1; 0: padding.
        positions: int32 (B, T), the place in the segment, from 0.
    """

    numbers: Any
    positions: Any


def segments(batch: dict) -> tuple[Segments | None, Segments | None]:
    """Returns the segments of the inputs and of the targets; None twice if nothing is packed."""
    if "inputs_segmentation" not in batch:
        return None, None
    inputs, targets = (
        Segments(batch[f"{side}_segmentation"], batch[f"{side}_position"])
        for side in ("inputs", "targets")
    )
    return inputs, targets


@register_model
@keras.saving.register_keras_serializable("t2t_repro")
class Transformer(SequenceModel):
    """Encoder, decoder and their embeddings; `from_hparams` makes one that is ready to use.

    Args:
        hparams: every setting.
        inputs_vocab_size: ids of the inputs, 0 (padding) and 1 (end) included.
        targets_vocab_size: ids of the targets.
        target_space_id: the kind of target (problem.SpaceID).
        dtype: Keras's policy; None: that of activation_dtype, or where that is float32 the one that
            keras.config has.
    """

    def __init__(
        self,
        hparams: HParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
        name: str = "transformer",
        **kwargs,
    ):
        super().__init__(
            hparams, inputs_vocab_size, targets_vocab_size, target_space_id, name, **kwargs
        )
        parts = Parts(hparams, self.dtype_policy)
        tables = parts.tables(inputs_vocab_size, targets_vocab_size)
        self.inputs_embedding, self.targets_embedding, self.softmax = tables
        self.inputs_word_dropout = parts.word_dropout("inputs")
        self.targets_word_dropout = parts.word_dropout("targets")
        self.target_space = parts.target_space(target_space_id)
        self.inputs_position = parts.positions("inputs_positional_embedding")
        self.targets_position = parts.positions("targets_positional_embedding")
        rate = hparams.layer_prepostprocess_dropout
        policy = self.dtype_policy
        self.inputs_dropout = Dropout(rate, dtype=policy, name="inputs_dropout")
        self.targets_dropout = Dropout(rate, dtype=policy, name="targets_dropout")
        self.symbol_dropout_seed = keras.random.SeedGenerator()
        self.encoder = Stack(
            [parts.encoder_layer(i) for i in range(hparams.encoder_layers)],
            parts.process(hparams.layer_preprocess_sequence, "layer_prepostprocess"),
            hparams.encoder_layerdrop,
            name="encoder",
            dtype=self.dtype_policy,
        )
        self.decoder = Stack(
            [parts.decoder_layer(i) for i in range(hparams.decoder_layers)],
            parts.process(hparams.layer_preprocess_sequence, "layer_prepostprocess"),
            hparams.decoder_layerdrop,
            name="decoder",
            dtype=self.dtype_policy,
        )

    @property
    def learned_positions(self) -> int | None:
        """How many positions the model has learned, and no more; None where they are computed."""
        return self.hparams.max_length if self.hparams.pos == "emb" else None

    def build(self, input_shape=None):
        parts = [getattr(self, name) for name in PARTS]
        build_all(parts, (None, None, self.hparams.hidden_size))
        for name in () if self.built else _frozen(self.hparams):  # type: ignore[has-type]
            getattr(self, name).trainable = False
        self.built = True
        if not all(layer.built for layer in self._flatten_layers()):  # of a class of one's own
            self([keras.KerasTensor((1, 2), "int32")] * 2, training=True)

    def call(self, batch, training=False, logits=True):
        """Returns the logits of every target position, each given the targets before it.

        Their Keras mask is True at real targets.

        A packed batch gives each of its sentences the logits that it has alone. Two things differ
        from T2T for that. There, without packed_spacing, the first position of a sentence sees the
        end of the one before it in the place of the zero vector, which decoding starts with. And
        with unidirectional_encoder, attention there crosses from sentence to sentence.

        Args:
            batch: {"inputs": int32 (B, S), "targets": int32 (B, T)}, or the two as a pair; 0 pads,
                1 ends. A packed one has inputs_segmentation, inputs_position, targets_segmentation
                and targets_position too, of the same shapes: as `data/packing.py` makes them.
            training: whether dropout is on.
            logits: False: the decoder's outputs (B, T, D), of which the logits are made.

        Returns:
            float32 (B, T, V).
        """
        batch = as_batch(batch)
        sources, targets = segments(batch)
        memory, real, _ = self._encode(batch["inputs"], training, sources)
        outputs = self._decode(batch["targets"], memory, real, training, sources, targets)[0]
        return self.softmax.logits(outputs) if logits else outputs

    def encode(self, inputs, training=False):
        """Returns (encoder output (B, S, D), bool (B, S): True at tokens) of int32 (B, S)."""
        memory, real, _ = self._encode(inputs, training)
        return memory, real

    def process_memory(self, memory, inputs, training=False):
        """Returns what the decoder attends to: for a class of your own, which may `add_loss` here.

        Args:
            memory: the encoder's outputs (B, S, D).
            inputs: int32 (B, S).
            training: whether in training.
        """
        return memory

    def attention_weights(self, batch) -> dict:
        """Returns every attention's weights in eval mode.

        Args:
            batch: as `call`'s.

        Returns:
            {"encoder/layer_0/self_attention": float32 (B, N, S, S),
            "decoder/layer_0/encdec_attention": float32 (B, N, T, S), ...}. Restricted
            self-attention has no weights of all pairs, and is left out.

        Raises:
            UserError: if the model never has whole weights.
        """
        if self.hparams.attention_chunk_size:
            raise UserError(
                "Expected a model that keeps attention weights. Received: "
                f"attention_chunk_size={self.hparams.attention_chunk_size}. Build the "
                "model with attention_chunk_size=0: its variables and outputs are the same."
            )
        batch = as_batch(batch)
        sources, targets = segments(batch)
        memory, real, of_encoder = self._encode(batch["inputs"], False, sources)
        _, of_decoder = self._decode(batch["targets"], memory, real, False, sources, targets)
        weights = {f"encoder/{name}": value for name, value in of_encoder.items()}
        weights |= {f"decoder/{name}": value for name, value in of_decoder.items()}
        return {name: value for name, value in weights.items() if value.shape != NO_WEIGHTS}

    def loss_of(self, batch, sample_weight=None, training=True):
        """Returns the loss of a batch and the logits, as `FiniteStepModel.loss_of`.

        T2T's own loss of training keeps the logits where no metrics see them: that is faster, and
        takes less memory.
        """
        if training and self.hparams.r_drop_alpha:
            return self._r_drop(batch, sample_weight)
        compute_loss = getattr(self.compute_loss, "__func__", None)
        own = compute_loss is Transformer.compute_loss and type(self).call is Transformer.call
        seen = self._compile_metrics is not None
        seen = seen or type(self).compute_metrics is not Transformer.compute_metrics
        if not training or not own or seen or self._compile_loss is not None:
            return super().loss_of(batch, sample_weight, training)
        smoothing, labels = self.hparams.label_smoothing, batch["targets"]
        outputs = self(batch, training=True, logits=False)
        compiled = bool(self.jit_compile) or keras.backend.backend() != "tensorflow"
        sums = self.softmax.cross_entropy(outputs, labels, smoothing, sample_weight, compiled)
        return self._with_added(mean_over_global_batch(*sums)), None

    def _r_drop(self, batch, sample_weight):
        """Returns the loss of R-Drop (Liang et al. 2021, https://arxiv.org/abs/2106.14448).

        Two passes, each with other dropout, are to agree. The loss is half of the paper's, so that
        it compares with one pass's while alpha means what it means there.
        """
        loss, first = super().loss_of(batch, sample_weight)
        other, second = super().loss_of(batch, sample_weight)
        apart = mean_over_global_batch(*divergence(first, second, batch["targets"], sample_weight))
        return 0.5 * (loss + other + self.hparams.r_drop_alpha * apart), first

    # --- decoding, one position at a time -------------------------------------------------------

    def start_decoding(self, inputs) -> dict:
        """Returns what stays the same while int32 (B, S) is decoded: leading axis B throughout."""
        memory, real = self.encode(inputs)
        heads = [layer.encdec_attention.layer.memory_heads(memory) for layer in self.decoder.layers]
        return {"real": real, "heads": heads}

    def initial_state(self, batch: int, beams: int) -> dict:
        """Returns the state of `decode_step` at the start, without room for any step.

        Keys and values stay where they were written, whichever beams live on: "ancestors" int32
        (B, K, L) is the beam of each earlier step that a living beam comes from, -1 at steps that
        are not taken. "caches" are the self-attentions' own.
        """
        caches = [layer.self_attention.layer.initial_cache(batch) for layer in self.decoder.layers]
        return {"ancestors": ops.zeros((batch, beams, 0), dtype="int32"), "caches": caches}

    def make_room(self, state: dict, more: int) -> dict:
        """Returns the state with room for `more` steps; it must be used up when this is called."""
        ancestors = ops.pad(state["ancestors"], [(0, 0), (0, 0), (0, more)], constant_values=-1)
        slots = more * ops.shape(ancestors)[1]
        caches = [
            layer.self_attention.layer.make_room(cache, slots)
            for layer, cache in zip(self.decoder.layers, state["caches"], strict=True)
        ]
        return {"ancestors": ancestors, "caches": caches}

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        """Returns the logits of position `step`.

        Args:
            ids: int32 (B, K), the tokens of position step - 1; 0 at step 0.
            parents: int32 (B, K), the beams of the step before which they continue.
            step: int32 scalar.
            state: what `initial_state`, `make_room` or the step before returned; it is used up, for
                caches are written in their place.
            memory: what `start_decoding` returned.
            layout: what `layout` returned, where that pays.

        Returns:
            (float32 (B, K, V), or (B, K, U) of the layout's ids, the next state).
        """
        batch, beams = ops.shape(ids)
        x = self.targets_embedding(ops.reshape(ids, (-1, 1)))
        x = self.targets_position(x, start=step)
        x = ops.reshape(x, (batch, beams, self.hparams.hidden_size))
        ancestors, mask = update_beam_ancestry(state["ancestors"], parents, step)
        memory_mask = memory["real"][:, None, None, :]
        caches = []
        layers = zip(self.decoder.layers, state["caches"], memory["heads"], strict=True)
        for layer, cache, heads in layers:
            x, cache = layer.step(x, cache, step, mask, heads, memory_mask)
            caches.append(cache)
        logits = self.softmax.logits(self.decoder.preprocess(x), layout)
        return logits, {"ancestors": ancestors, "caches": caches}

    # --- the two halves -------------------------------------------------------------------------

    def _encode(self, inputs, training, packed: Segments | None = None):
        inputs = self._symbol_dropout(inputs, training)
        real = inputs != 0 if packed is None else packed.numbers != 0
        x = self.inputs_word_dropout(self.inputs_embedding(inputs), training=training)
        x = self.target_space(x)
        x = self.inputs_position(x, positions=packed and packed.positions)
        x = self.inputs_dropout(x, training=training)
        causal = self.hparams.unidirectional_encoder
        mask = of_padding(real)
        if packed is not None:
            mask = (CausalMask if causal else Mask)(packed.numbers, packed.numbers)
        elif causal:
            mask = CAUSAL  # as T2T: the past alone is masked in, padding is not masked out
        memory, weights = self.encoder(x, real=real, attention_mask=mask, training=training)
        return self.process_memory(memory, inputs, training), real, weights

    def _decode(self, targets, memory, real, training, sources=None, packed=None):
        targets = self._symbol_dropout(targets, training)
        # The first decoder input is the zero vector, which id 0 embeds to.
        shifted = ops.pad(targets, [[0, 0], [1, 0]])[:, :-1]
        own_mask, memory_mask = CAUSAL, of_padding(real)
        if packed is not None:
            shifted = ops.where(packed.positions == 0, 0, shifted)
            own_mask = CausalMask(packed.numbers, packed.numbers)
            memory_mask = Mask(packed.numbers, sources.numbers)
        x = self.targets_word_dropout(self.targets_embedding(shifted), training=training)
        x = self.targets_position(x, positions=packed and packed.positions)
        x = self.targets_dropout(x, training=training)
        masks = {"attention_mask": own_mask, "memory_mask": memory_mask}
        return self.decoder(x, memory=memory, **masks, training=training)


def _frozen(hparams: HParams) -> list[str]:
    """Returns the names of the parts that are frozen when a model is built."""
    *embeddings, encoder, decoder = PARTS
    of = {"embeddings": embeddings, "encoder": [encoder], "decoder": [decoder]}
    return [part for name in hparams.frozen for part in of[name]]


def update_beam_ancestry(ancestors, parents, step):
    """Returns the ancestors at a step, and which slots are a beam's own past.

    Args:
        ancestors: int32 (B, K, L), the beam of each earlier step that a beam comes from.
        parents: int32 (B, K), the beams of the step before which they continue.
        step: int32 scalar.

    Returns:
        (int32 (B, K, L), bool (B, 1, K, L * K)): slot l * K + k is what beam k wrote at step l.
    """
    batch, beams, length = ops.shape(ancestors)
    index = ops.arange(beams, dtype="int32")
    moved = gather_beams(ancestors, parents)
    here = ops.equal(ops.arange(length, dtype="int32"), step)
    ancestors = ops.where(here, index[:, None], moved)
    own = ops.equal(ancestors[..., None], index)  # (B, K, L, K)
    return ancestors, ops.reshape(own, (batch, 1, beams, length * beams))
