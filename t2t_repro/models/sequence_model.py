"""What every model of the registry is: ids of a source and of a target to logits, with T2T's loss.

A model derives from `SequenceModel`, registers by `registry.register_model`, and defines

    call(batch, training)                   logits, as `Transformer.call`
    start_decoding(inputs)                  what stays the same while a batch is decoded
    initial_state(batch, beams)             the state of decode_step at the start
    make_room(state, more)                  the state with room for more steps
    decode_step(ids, parents, step, state, memory, layout)    logits of one position, next state

as models/transformer.py describes them. The trainer needs only `call`; decoding/ needs the others.
"""

import dataclasses
import functools
import math
from typing import Any

import h5py
import keras
from keras import ops

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.layers.cross_entropy import mean_over_global_batch, padded_cross_entropy
from t2t_repro.layers.replicas import replicas, sum_over_replicas
from t2t_repro.models.finite_step import FiniteStepModel, as_batch

_POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class SequenceModel(FiniteStepModel):
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
        hparams: HParams | str,
        *,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        target_space_id: int = 0,
        **settings: Any,
    ):
        """Returns a model with all its variables made, as the class's constructor describes it.

        Args:
            hparams: every setting, or the name of a set.
            inputs_vocab_size, targets_vocab_size, target_space_id: as in the constructor; the
                last is that of the hparams, if they name one.
            settings: changes to the hparams: hidden_size=64, num_heads=4.

        Raises:
            UserError: as `get_hparams`.
        """
        hparams = registry.get_hparams(hparams) if isinstance(hparams, str) else hparams
        hparams = hparams.override(**settings)
        sizes = inputs_vocab_size, targets_vocab_size
        if hparams.target_space_id is not None:
            target_space_id = hparams.target_space_id
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
        multiply each token's loss; as in Keras, they do not change the divisor.

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
            UserError: if they are packed.
        """
        batch = as_batch(batch)
        if "targets_segmentation" in batch:
            raise UserError(
                "Expected unpacked examples. Received: packed ones, whose sentences a "
                f"{type(self).__name__} would mix. Use an unpacked problem."
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

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            "hparams": dataclasses.asdict(self.hparams),
            "inputs_vocab_size": self.inputs_vocab_size,
            "targets_vocab_size": self.targets_vocab_size,
            "target_space_id": self.target_space_id,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config):
        old = ("batch_parts", "trained")  # in files of earlier versions
        config = {name: value for name, value in config.items() if name not in old}
        return cls(HParams(**config.pop("hparams")), **config)

    @functools.wraps(keras.Model.load_weights)
    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        if self.built and not skip_mismatch and str(filepath).endswith(".weights.h5"):
            _check_no_others(filepath, self)
        return super().load_weights(filepath, skip_mismatch, **kwargs)

    def export(
        self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs
    ):
        """Writes a function of {"inputs", "targets"} to logits; arguments as Keras's.

        `t2t_repro.export_saved_model` and `t2t-exporter` write what translates.
        """
        if input_signature is None:
            spec = functools.partial(keras.InputSpec, "int32", (None, None))
            input_signature = [{name: spec(name=name) for name in ("inputs", "targets")}]
        return super().export(filepath, format, verbose, input_signature, **kwargs)


def _share_of_this_replica(batch):
    """Returns what a compiled loss of a replica counts, 1 where each has as many real targets.

    Keras takes the mean of the replicas' means.
    """
    if replicas() == 1:
        return 1.0
    own = ops.sum(ops.cast(batch["targets"] != 0, "float32"))
    return replicas() * own / ops.maximum(sum_over_replicas(own), 1.0)


def _check_no_others(path: Any, model: keras.Model) -> None:
    """Refuses a .weights.h5 of more values than the model has: Keras would load the first layers.

    Raises:
        UserError: if values would be left over.
    """
    sizes: list[int] = []

    def count(name: str, item: Any) -> None:
        ours = isinstance(item, h5py.Dataset) and not name.startswith("optimizer/")
        sizes.append(item.size if ours and item.dtype.kind not in "iu" else 0)

    with h5py.File(path) as file:
        file.visititems(count)
    own = sum(math.prod(weight.shape) for weight in model.weights if "int" not in weight.dtype)
    if sum(sizes) > own:
        raise UserError(
            f"Expected weights with the {own:,} values of this model. Received: {path} with "
            f"{sum(sizes):,} values, of a larger model. Build the model with the hparams and "
            "vocabularies of that larger model, or give skip_mismatch=True."
        )
