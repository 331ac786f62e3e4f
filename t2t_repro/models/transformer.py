"""The Transformer of "Attention Is All You Need", as tensor2tensor computes it.

The data's way: ids -> SymbolEmbedding -> target space, positions, dropout -> encoder Stack ->
memory; target ids shifted right -> SymbolEmbedding -> positions, dropout -> decoder Stack over the
memory -> logits.
"""

import dataclasses
import functools

import keras
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.layers.attention import NO_WEIGHTS
from t2t_repro.layers.cross_entropy import mean_over_global_batch, padded_cross_entropy
from t2t_repro.layers.dropout import Dropout
from t2t_repro.layers.layer import Replacing, build_all
from t2t_repro.layers.mask import CAUSAL, CausalMask, Mask, of_padding
from t2t_repro.layers.stacks import Stack
from t2t_repro.models import r_drop
from t2t_repro.models.ancestors import with_step
from t2t_repro.models.changes import Made, restore
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.models.keras_data import as_batch
from t2t_repro.models.packed import Segments, segments
from t2t_repro.models.parts import Parts

PARTS = (
    *("inputs_embedding", "targets_embedding", "softmax", "target_space"),
    *("inputs_word_dropout", "targets_word_dropout"),
    *("inputs_position", "targets_position", "inputs_dropout", "targets_dropout"),
    *("encoder", "decoder"),
)
_POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@keras.saving.register_keras_serializable("t2t_repro")
class Transformer(Replacing, GuardedModel):
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
        kwargs.setdefault("dtype", _POLICIES.get(hparams.activation_dtype))
        super().__init__(name=name, **kwargs)
        self.supports_jit = keras.backend.backend() != "tensorflow"  # see `compile`
        self.supports_masking = True
        self.hparams = hparams
        self.inputs_vocab_size = inputs_vocab_size
        self.targets_vocab_size = targets_vocab_size
        self.target_space_id = target_space_id
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
        self._made = Made(self, PARTS)

    @classmethod
    def from_hparams(
        cls,
        hparams: HParams,
        *,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
    ) -> "Transformer":
        """Returns a model with all its variables made, as the class's constructor describes it."""
        model = cls(hparams, inputs_vocab_size, targets_vocab_size, target_space_id)
        model.build()
        return model

    @property
    def learned_positions(self) -> int | None:
        """How many positions the model has learned, and no more; None where they are computed."""
        return self.hparams.max_length if self.hparams.pos == "emb" else None

    def build(self, input_shape=None):
        parts = [getattr(self, name) for name in PARTS]
        build_all(parts[:3], (None, None))  # the tables, of ids
        build_all(parts[3:], (None, None, self.hparams.hidden_size))
        *embeddings, encoder, decoder = parts
        of = {"embeddings": embeddings, "encoder": [encoder], "decoder": [decoder]}
        for layer in (x for name in self.hparams.frozen for x in of[name]):
            layer.trainable = False
        self.built = True

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

        Raises:
            UserError: if inputs or targets are missing, or are not ids.
        """
        batch = as_batch(batch)
        sources, targets = segments(batch)
        memory, real, _ = self._encode(batch["inputs"], training, sources)
        outputs = self._decode(batch["targets"], memory, real, training, sources, targets)[0]
        return self.softmax.logits(outputs) if logits else outputs

    def compute_mask(self, batch, previous_mask=None):
        """Returns bool (B, T), True at real targets."""
        return ops.not_equal(as_batch(batch)["targets"], 0)

    def encode(self, inputs, training=False):
        """Returns (encoder output (B, S, D), bool (B, S): True at tokens) of int32 (B, S)."""
        memory, real, _ = self._encode(inputs, training)
        return memory, real

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
                "Expected a model that has attention weights. Received: attention_chunk_size="
                f"{self.hparams.attention_chunk_size}, which never makes them. A model with "
                "attention_chunk_size=0 and the same variables computes the same, and has them."
            )
        sources, targets = segments(batch)
        memory, real, of_encoder = self._encode(batch["inputs"], False, sources)
        _, of_decoder = self._decode(batch["targets"], memory, real, False, sources, targets)
        weights = {f"encoder/{name}": value for name, value in of_encoder.items()}
        weights |= {f"decoder/{name}": value for name, value in of_decoder.items()}
        return {name: value for name, value in weights.items() if value.shape != NO_WEIGHTS}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Returns the loss: that of `compile`, or T2T's, and what layers add to it.

        T2T's is label-smoothed in training, and per real target token of the global batch. Weights
        multiply each token's; as Keras has it, they do not count in what the sum is divided by.

        Args:
            x: as `call`'s batch.
            y: the labels (B, T); None: the targets of x.
            y_pred: the logits (B, T, V).
            sample_weight: float32 (B, T) or None.
            training: whether in training.
        """
        if self._compile_loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        labels = x["targets"] if y is None else y
        smoothing = self.hparams.label_smoothing if training else 0.0
        sums = padded_cross_entropy(y_pred, labels, smoothing, sample_weight)
        return self._with_added(mean_over_global_batch(*sums))

    def _with_added(self, loss):
        """Returns the loss and what `add_loss` and regularizers add to it."""
        for each in self.losses:
            loss = loss + self._aggregate_additional_loss(each)
        return loss

    def train_loss(self, batch, sample_weight=None):
        """Returns `compute_loss` of a training step.

        Under TensorFlow, but where XLA compiles, T2T's own loss never makes the logits: that is
        faster.
        """
        if self.hparams.r_drop_alpha:
            return self.loss_and_logits(batch, sample_weight)[0]
        own = getattr(self.compute_loss, "__func__", None) is Transformer.compute_loss
        fast = keras.backend.backend() == "tensorflow" and not self.jit_compile
        if not (own and fast and self._compile_loss is None):
            return super().train_loss(batch, sample_weight)
        smoothing, labels = self.hparams.label_smoothing, batch["targets"]
        outputs = self(batch, training=True, logits=False)
        sums = self.softmax.cross_entropy(outputs, labels, smoothing, sample_weight)
        return self._with_added(mean_over_global_batch(*sums))

    def loss_and_logits(self, batch, sample_weight=None):
        if self.hparams.r_drop_alpha:
            return r_drop.loss_and_logits(self, batch, sample_weight)
        return super().loss_and_logits(batch, sample_weight)

    # --- decoding, one position at a time -------------------------------------------------------

    def start_decoding(self, inputs) -> dict:
        """Returns what stays the same while int32 (B, S) is decoded: leading axis B throughout."""
        memory, real = self.encode(inputs)
        heads = [layer.encdec_attention.layer.memory_heads(memory) for layer in self.decoder.layers]
        return {"real": real, "heads": heads}

    def initial_state(self, batch: int, beams: int, length: int = 0) -> dict:
        """Returns the state of `decode_step` at the start, with room for `length` steps.

        Keys and values stay where they were written, whichever beams live on: "ancestors" int32
        (B, K, L) is the beam of each earlier step that a living beam comes from, -1 at steps that
        are not taken. "caches" are the self-attentions' own.
        """
        caches = [layer.self_attention.layer.initial_cache(batch) for layer in self.decoder.layers]
        empty = {"ancestors": ops.zeros((batch, beams, 0), dtype="int32"), "caches": caches}
        return self.make_room(empty, length)

    def make_room(self, state: dict, more: int) -> dict:
        """Returns the state with room for `more` steps; it must be used up when this is called."""
        ancestors = ops.pad(state["ancestors"], [(0, 0), (0, 0), (0, more)], constant_values=-1)
        slots = more * ops.shape(ancestors)[1]
        caches = [
            layer.self_attention.layer.make_room(cache, slots)
            for layer, cache in zip(self.decoder.layers, state["caches"], strict=True)
        ]
        return {"ancestors": ancestors, "caches": caches}

    def layout(self):
        """Returns weights laid out as many steps read them best."""
        return self.softmax.transposed()

    def decode_step(self, ids, parents, step, state, memory, layout=None):
        """Returns the logits of position `step`.

        Args:
            ids: int32 (B, K), the tokens of position step - 1; 0 at step 0.
            parents: int32 (B, K), the beams of the step before which they continue.
            step: int32 scalar.
            state: what `initial_state`, `make_room` or the step before returned.
            memory: what `start_decoding` returned.
            layout: what `layout` returned, where that pays.

        Returns:
            (float32 (B, K, V), the next state).
        """
        batch, beams = ops.shape(ids)
        x = self.targets_embedding(ops.reshape(ids, (-1, 1)))
        x = self.targets_position(x, start=step)
        x = ops.reshape(x, (batch, beams, self.hparams.hidden_size))
        ancestors, mask = with_step(state["ancestors"], parents, step)
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
        return memory, real, weights

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

    def _symbol_dropout(self, ids, training):
        ids = ops.convert_to_tensor(ids)
        rate = self.hparams.symbol_dropout
        if not training or not rate:
            return ids
        draw = keras.random.uniform(ops.shape(ids), seed=self.symbol_dropout_seed)
        return ops.where(draw < rate, 0, ids)

    def get_config(self):
        """Returns the constructor's arguments, and the layers that were assigned since, if any."""
        config = {
            "hparams": dataclasses.asdict(self.hparams),
            "inputs_vocab_size": self.inputs_vocab_size,
            "targets_vocab_size": self.targets_vocab_size,
            "target_space_id": self.target_space_id,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }
        layers = self._made.changed(self, own=type(self) is not Transformer)
        return config | ({"layers": layers} if layers else {})

    @classmethod
    def from_config(cls, config):
        layers, hparams = config.pop("layers", []), config.pop("hparams")
        model = cls(HParams(**hparams), **config)
        restore(model, layers)
        return model

    @functools.wraps(keras.Model.save)
    def save(self, *arguments, **keywords):
        self.get_config()  # Keras opens the file before it asks
        return super().save(*arguments, **keywords)

    def export(
        self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs
    ):
        """Writes a function of {"inputs", "targets"} to logits; arguments as Keras's.

        `t2t-exporter` writes what translates: text in, text out.
        """
        if input_signature is None:
            ids = {name: keras.InputSpec("int32", (None, None)) for name in ("inputs", "targets")}
            input_signature = [ids]
        return super().export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, *arguments, **keywords):
        """Refuses: Keras quantizes layers of its own, of which there are none here.

        Raises:
            UserError: always.
        """
        raise UserError(
            "Expected no quantize: Keras would leave every product of the model in float32. "
            "Received: it. Save the model and quantize where it is exported: t2t-exporter "
            "--quantize=float16, or --format=ctranslate2 --quantize=int8."
        )
