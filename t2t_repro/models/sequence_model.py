"""What every model of the registry is: ids of a source and of a target to logits, with T2T's loss.

A model derives from `SequenceModel`, registers by `registry.register_model`, and defines

    call(batch, training)                   logits, as `Transformer.call`
    start_decoding(inputs)                  what stays the same while a batch is decoded
    initial_state(batch, beams)             the state of decode_step at the start
    make_room(state, more)                  the state with room for more steps
    decode_step(ids, parents, step, state, memory, layout)    logits of one position, next state

as models/transformer.py says them. The trainer needs no more than the first; decoding/ the others.
"""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.layers.cross_entropy import mean_over_global_batch, padded_cross_entropy
from t2t_repro.layers.layer import Replacing
from t2t_repro.layers.replicas import replicas, sum_over_replicas
from t2t_repro.models import changes, weight_files
from t2t_repro.models.guarded import GuardedModel
from t2t_repro.models.keras_data import as_batch

_POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def _check(hparams: Any, *vocab_sizes: Any) -> None:
    if not isinstance(hparams, HParams):
        raise UserError(
            f"Expected hparams of t2t_repro.get_hparams. Received: {hparams!r}. A set's name makes "
            "them: t2t_repro.get_hparams(NAME)."
        )
    for size in vocab_sizes:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 2:
            raise UserError(
                "Expected inputs_vocab_size and targets_vocab_size, whole numbers of at least 2: 0 "
                f"is padding, 1 the end. Received: {size!r}. An encoder has its vocab_size."
            )


class SequenceModel(Replacing, GuardedModel):
    """A model of sequences; `from_hparams` makes one that is ready to use.

    Args:
        hparams: every setting.
        inputs_vocab_size: ids of the inputs, 0 (padding) and 1 (end) included.
        targets_vocab_size: ids of the targets.
        target_space_id: the kind of target (problem.SpaceID).
        dtype: Keras's policy; None: that of activation_dtype, or where that is float32 the one that
            keras.config has.
    """

    symbol_dropout_seed: keras.random.SeedGenerator
    softmax: Any
    sees_padding = False  # whether what it makes of a sentence depends on how far that is padded

    def __init__(
        self,
        hparams: HParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
        name: str | None = None,
        **kwargs,
    ):
        _check(hparams, inputs_vocab_size, targets_vocab_size)
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = _POLICIES.get(hparams.activation_dtype)
        super().__init__(name=name, **kwargs)
        self.supports_jit = keras.backend.backend() != "tensorflow"  # see `compile`
        self.supports_masking = True
        self.hparams = hparams
        self.inputs_vocab_size = inputs_vocab_size
        self.targets_vocab_size = targets_vocab_size
        self.target_space_id = target_space_id

    @classmethod
    def from_hparams(
        cls,
        hparams: HParams,
        *,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
    ):
        """Returns a model with all its variables made, as the class's constructor describes it."""
        sizes = inputs_vocab_size, targets_vocab_size
        model = cls(hparams, *sizes, target_space_id=target_space_id)
        model.build()
        return model

    @property
    def learned_positions(self) -> int | None:
        """How many positions the model has learned, and no more; None where they are computed."""
        return None

    def compute_mask(self, batch, previous_mask=None):
        """Returns bool (B, T), True at real targets."""
        return ops.not_equal(as_batch(batch)["targets"], 0)

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
            loss = super().compute_loss(x, y, y_pred, sample_weight, training)
            return loss * _share_of_this_replica(x)
        labels = x["targets"] if y is None else y
        smoothing = self.hparams.label_smoothing if training else 0.0
        sums = padded_cross_entropy(y_pred, labels, smoothing, sample_weight)
        return self._with_added(mean_over_global_batch(*sums))

    def _with_added(self, loss):
        """Returns the loss and what `add_loss` and regularizers add to it."""
        for each in self.losses:
            loss = loss + self._aggregate_additional_loss(each)
        return loss

    def make_room(self, state: Any, more: int) -> Any:
        """Returns the state with room for `more` steps: by default it needs none."""
        return state

    def _unpacked(self, batch) -> dict:
        """Returns the batch as a dict, for a model that would mix the sentences of a row.

        Raises:
            UserError: if inputs or targets are missing, are not ids, or are packed.
        """
        batch = as_batch(batch)
        if "targets_segmentation" in batch:
            raise UserError(
                "Expected a sentence in each row. Received: packed examples, whose sentences a "
                f"{type(self).__name__} would mix. Take a problem without packed_length."
            )
        return batch

    def layout(self):
        """Returns weights laid out as many steps read them best."""
        return self.softmax.transposed()

    def _symbol_dropout(self, ids, training):
        ids = ops.convert_to_tensor(ids)
        rate = self.hparams.symbol_dropout
        if not training or not rate:
            return ids
        draw = keras.random.uniform(ops.shape(ids), seed=self.symbol_dropout_seed)
        return ops.where(draw < rate, 0, ids)

    @property
    def vocab_sizes(self) -> dict[str, int]:
        return {"inputs": self.inputs_vocab_size, "targets": self.targets_vocab_size}

    def get_config(self):
        """Returns the constructor's arguments, and what was set since, as what is frozen."""
        trained = changes.trained(self)
        config = {
            "hparams": dataclasses.asdict(self.hparams),
            "inputs_vocab_size": self.inputs_vocab_size,
            "targets_vocab_size": self.targets_vocab_size,
            "target_space_id": self.target_space_id,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }
        return config | ({"trained": trained} if trained else {})

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        trained = config.pop("trained", {})
        config.pop("batch_parts", None)  # of files saved before
        model = cls(HParams(**config.pop("hparams")), **config)
        changes.set_trained(model, trained)
        return model

    @functools.wraps(keras.Model.save)
    def save(self, filepath, *arguments, **keywords):
        if str(filepath).endswith((".h5", ".hdf5")):
            raise UserError(
                "Expected a file that ends in .keras. Received: "
                f"{str(filepath)!r}, of a format from which Keras could not load the model. "
                "save_weights writes weights alone, as .weights.h5."
            )
        self.get_config()  # Keras opens the file before it asks
        return super().save(filepath, *arguments, **keywords)

    @functools.wraps(keras.Model.load_weights)
    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        if self.built and not skip_mismatch:
            weight_files.check_no_others(filepath, self)
        return super().load_weights(filepath, skip_mismatch, **kwargs)

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

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """Refuses: Keras quantizes layers of its own, of which there are none here.

        Raises:
            UserError: always.
        """
        raise UserError(
            "Expected no quantize: Keras would leave every product of the model in float32. "
            "Received: it. Save the model and quantize where it is exported: t2t-exporter "
            "--quantize=float16, or --format=ctranslate2 --quantize=int8."
        )


def _share_of_this_replica(batch):
    """Returns what a compiled loss of a replica counts, 1 where each has as many real targets.

    Keras takes the mean of the replicas' means.
    """
    if replicas() == 1:
        return 1.0
    own = ops.sum(ops.cast(batch["targets"] != 0, "float32"))
    return replicas() * own / ops.maximum(sum_over_replicas(own), 1.0)
