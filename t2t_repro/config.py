"""HParams: every setting of a model, its training and its data, under tensor2tensor's names.

The defaults are those of T2T's `basic_params1` (layers/common_hparams.py) with the Transformer's
own additions (models/transformer.py, `transformer_base_v1`). Only what something reads is here.
"""

import dataclasses
import json
import math
import re
import typing
from collections.abc import Iterable
from typing import Any

from t2t_repro.errors import UserError, unknown
from t2t_repro.names import snake_case

SEQUENCE_LETTERS = "adn"
LOCAL = ("local_mask_right", "local_unmasked")  # self_attention_type that is restricted


@dataclasses.dataclass(frozen=True, kw_only=True)
class HParams:
    """One complete configuration. Make variants with `dataclasses.replace` or `override`.

    Raises:
        UserError: if a value is not possible, or a pair of values contradicts itself.
    """

    # --- the model ---------------------------------------------------------------------------
    hidden_size: int = 64  # D, the width of every layer's output
    num_hidden_layers: int = 4  # of the encoder and of the decoder
    num_encoder_layers: int = 0  # 0: num_hidden_layers
    num_decoder_layers: int = 0  # 0: num_hidden_layers
    num_heads: int = 8  # N
    attention_key_channels: int = 0  # total width of queries and keys; 0: hidden_size
    attention_value_channels: int = 0  # total width of values; 0: hidden_size
    filter_size: int = 2048  # F, the inner width of the feed-forward sublayer
    layer_preprocess_sequence: str = "none"  # before each sublayer: letters of "dn", or "none"
    layer_postprocess_sequence: str = "dan"  # after it: a add residual, d dropout, n normalize
    norm_type: str = "layer"  # what "n" does: "layer" or "none"
    norm_epsilon: float = 1e-6
    pos: str | None = "timing"  # positions: "timing" (sinusoids), "emb" (learned), "none"
    self_attention_type: str = "dot_product"  # or ..._relative, local_mask_right, local_unmasked
    attention_block_length: int = 128  # of self_attention_type=local_mask_right, local_unmasked
    attention_chunk_size: int = 0  # keys gone through at a time, to save memory; 0: all at once
    attention_score: str = "scaled_dot_product"  # or "dot_product", "multiplicative", "additive"
    max_relative_position: int = 0  # the farthest distance told apart by relative attention
    heads_share_relative_embedding: bool = False
    add_relative_to_values: bool = False
    unidirectional_encoder: bool = False  # the encoder too looks only back
    use_target_space_embedding: bool = True  # add an embedding of the target's kind to the inputs
    shared_embedding: bool = False  # one table for inputs and targets
    shared_embedding_and_softmax_weights: bool = False  # one table for them and the softmax
    symbol_modality_num_shards: int = 1  # into how many variables T2T's files split a table
    multiply_embedding_mode: str = "sqrt_depth"  # scale embeddings by sqrt(D), or "none"
    attention_variables_3d: bool = False  # T2T's files keep attention kernels as (D, N, H)
    vocab_divisor: int = 1  # pad the vocabulary to a multiple of this
    initializer: str = "orthogonal"
    initializer_gain: float = 1.5
    activation_dtype: str = "float32"  # or "bfloat16", "float16": Keras's mixed precision
    # --- dropout: rates; broadcast dims share one draw along these axes ----------------------
    layer_prepostprocess_dropout: float = 0.1
    layer_prepostprocess_dropout_broadcast_dims: str = ""
    attention_dropout: float = 0.0
    attention_dropout_broadcast_dims: str = ""
    relu_dropout: float = 0.0
    relu_dropout_broadcast_dims: str = ""
    symbol_dropout: float = 0.0  # replaces whole tokens by padding
    # --- the loss and the optimizer ----------------------------------------------------------
    label_smoothing: float = 0.1
    optimizer: str = "adam"
    optimizer_adam_beta1: float = 0.85
    optimizer_adam_beta2: float = 0.997
    optimizer_adam_epsilon: float = 1e-6
    optimizer_adafactor_beta1: float = 0.0
    optimizer_adafactor_beta2: float = 0.999
    optimizer_adafactor_clipping_threshold: float = 1.0
    optimizer_adafactor_decay_type: str = "pow"
    optimizer_adafactor_factored: bool = True
    optimizer_adafactor_memory_exponent: float = 0.8
    optimizer_adafactor_multiply_by_parameter_scale: bool = True
    optimizer_multistep_accumulate_steps: int = 0  # batches to a step, with multistep_adam
    clip_grad_norm: float = 2.0  # global norm; 0: off
    weight_decay: float = 1e-6  # L2 of every variable but biases, in the gradient
    # --- the learning rate -------------------------------------------------------------------
    learning_rate_schedule: str = "legacy"  # or a product: "constant*linear_warmup*rsqrt_decay"
    learning_rate_constant: float = 1.0  # what the factor "constant" is
    learning_rate: float = 0.1  # read by the legacy schedule alone
    learning_rate_decay_scheme: str | None = "none"  # of the legacy schedule, such as "noam"
    learning_rate_warmup_steps: int = 100
    learning_rate_decay_steps: int = 5000
    learning_rate_decay_rate: float = 1.0
    learning_rate_decay_staircase: bool = False
    learning_rate_cosine_cycle_steps: int = 250000
    learning_rate_minimum: float | None = None  # a floor (T2T has the name and never reads it)
    train_steps: int = 250000  # the end that linear_decay and the cosine cycle aim at
    # --- the data ----------------------------------------------------------------------------
    batch_size: int = 4096  # tokens a replica, padding included
    max_length: int = 0  # longer examples are left out of training; 0: batch_size
    min_length: int = 0
    min_length_bucket: int = 8
    length_bucket_step: float = 1.1  # each bucket is this much longer than the one before
    batch_shuffle_size: int = 512  # batches among which the order is shuffled; 0: none
    use_fixed_batch_size: bool = False  # batch_size counts sentences
    eval_drop_long_sequences: bool = False
    max_input_seq_length: int = 0  # truncate inputs to this; 0: do not
    max_target_seq_length: int = 0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check_type(field, getattr(self, field.name))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value < least:
                raise UserError(f"Expected {name} >= {least}. Received: {name}={value}.")
        for name in ("batch_size", "max_length", "attention_block_length", "attention_chunk_size"):
            if getattr(self, name) > _MOST_TOKENS:
                raise UserError(
                    f"Expected {name} <= {_MOST_TOKENS}. Received: {name}={getattr(self, name)}."
                )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"Expected {name} to be one of {', '.join(map(repr, choices))}. "
                    f"Received: {getattr(self, name)!r}."
                )
        for name in _RATES:
            if not 0 <= getattr(self, name) < 1:
                raise UserError(
                    f"Expected 0 <= {name} < 1. Received: {name}={getattr(self, name)}."
                )
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise UserError(f"Expected {name} > 0. Received: {name}={getattr(self, name)}.")
        for name in (f"{rate}_broadcast_dims" for rate in _RATES[:3]):
            dims, last = getattr(self, name), 3 if name.startswith("attention") else 2
            if not re.fullmatch(rf"(-?[0-{last}](,-?[0-{last}])*)?", dims.replace(" ", "")):
                raise UserError(
                    f"Expected {name} to be axes from -{last} to {last} with commas between, such "
                    f"as 0,1, or nothing. Received: {dims!r}."
                )
        for name in ("layer_preprocess_sequence", "layer_postprocess_sequence"):
            _check_sequence(name, getattr(self, name))
        for name in ("key", "value"):
            width = getattr(self, f"attention_{name}_channels") or self.hidden_size
            if width % self.num_heads:
                raise UserError(
                    f"Expected attention_{name}_channels (or hidden_size where it is 0) to be "
                    f"divisible by num_heads. Received: {width} and num_heads={self.num_heads}."
                )
        relative = self.self_attention_type == "dot_product_relative"
        score, chunk = self.attention_score, self.attention_chunk_size
        if relative and not self.max_relative_position:
            raise UserError(
                "self_attention_type=dot_product_relative needs max_relative_position > 0. "
                "Received: 0. transformer_relative uses 20."
            )
        if relative and (chunk or score in ("multiplicative", "additive")):
            raise UserError(
                "self_attention_type=dot_product_relative needs dot products of all pairs. "
                f"Received: attention_score={score}, attention_chunk_size={chunk}."
            )
        if chunk and self.attention_dropout:
            raise UserError(
                "attention_chunk_size never holds the weights: set attention_dropout=0. Received: "
                f"attention_chunk_size={chunk}, attention_dropout={self.attention_dropout}."
            )
        if self.pos == "emb" and not self.max_length:
            raise UserError("pos=emb learns max_length positions: set max_length. Received: 0.")
        multistep = snake_case(self.optimizer) == "multistep_adam"
        if multistep != bool(self.optimizer_multistep_accumulate_steps):
            raise UserError(
                "optimizer=multistep_adam and optimizer_multistep_accumulate_steps > 0 belong "
                f"together. Received: optimizer={self.optimizer}, "
                f"optimizer_multistep_accumulate_steps={self.optimizer_multistep_accumulate_steps}."
            )

    @property
    def encoder_layers(self) -> int:
        """The number of encoder layers."""
        return self.num_encoder_layers or self.num_hidden_layers

    @property
    def decoder_layers(self) -> int:
        """The number of decoder layers."""
        return self.num_decoder_layers or self.num_hidden_layers

    def override(self, text: str) -> "HParams":
        """Returns a copy with "name=value,name=value" applied, as T2T's --hparams flag.

        Raises:
            UserError: on an unknown name, a value of the wrong type, a name given twice, or a name
                that the resulting configuration never reads.
        """
        values = parse_overrides(text)
        changes = {name: parse_value(field_named(name), value) for name, value in values.items()}
        result = dataclasses.replace(self, **changes)
        for name, reason in result.unread(values).items():
            raise UserError(
                f"hparam {name} has no effect: {reason} Received: {name}={values[name]}."
            )
        return result

    def unread(self, names: Iterable[str]) -> dict[str, str]:
        """Returns {name: why} for those of `names` that nothing reads in this configuration."""
        reasons = _unread_reasons(self)
        return {name: reasons[name] for name in names if name in reasons}

    def to_json(self) -> str:
        """Returns every value as JSON, sorted by name, as T2T's hparams.json."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "HParams":
        """Returns what `to_json` wrote. A name that is not ours is an error."""
        values = json.loads(text)
        for name in values:
            field_named(name)
        return cls(**values)


def field_named(name: str) -> dataclasses.Field:
    """Returns the field of HParams called `name`, or raises a UserError with the nearest names."""
    fields = {field.name: field for field in dataclasses.fields(HParams)}
    if name not in fields:
        raise unknown("hparam", name, fields)
    return fields[name]


def parse_overrides(text: str) -> dict[str, str]:
    """Splits "a=1,b=x*y,c=0,1" into {"a": "1", "b": "x*y", "c": "0,1"}.

    A piece without "=" belongs to the value before it, so that broadcast dims "0,1" need no quotes.
    """
    values: dict[str, str] = {}
    name = None
    for piece in text.split(",") if text.strip() else []:
        if "=" in piece:
            name, _, value = (part.strip() for part in piece.partition("="))
            if name in values:
                raise UserError(f"Expected each name once. Received: {name!r} twice in {text!r}.")
            values[name] = value
        elif name is None:
            raise UserError(f'Expected "name=value,name=value". Received: {text!r}.')
        else:
            values[name] += "," + piece.strip()
    return values


_MOST_TOKENS = 10**7  # T2T's largest batch_size is 6,000,000
_LEAST = {
    **dict.fromkeys(("hidden_size", "num_heads", "filter_size", "batch_size", "vocab_divisor"), 1),
    **{"attention_block_length": 1, "attention_chunk_size": 0},
    **dict.fromkeys(("symbol_modality_num_shards", "train_steps", "min_length_bucket"), 1),
    **dict.fromkeys(("num_hidden_layers", "num_encoder_layers", "num_decoder_layers"), 0),
    **dict.fromkeys(("attention_key_channels", "attention_value_channels", "max_length"), 0),
    **dict.fromkeys(("min_length", "batch_shuffle_size", "max_relative_position"), 0),
    **dict.fromkeys(("max_input_seq_length", "max_target_seq_length", "clip_grad_norm"), 0),
    **dict.fromkeys(("learning_rate", "learning_rate_constant"), 0),
    **dict.fromkeys(("weight_decay", "optimizer_multistep_accumulate_steps"), 0),
    **dict.fromkeys(("learning_rate_warmup_steps", "learning_rate_decay_steps"), 0),
    "length_bucket_step": 1.0001,
}
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "norm_type": ("layer", "none"),
    "pos": ("timing", "emb", "none", None),
    "self_attention_type": ("dot_product", "dot_product_relative", *LOCAL),
    "attention_score": ("scaled_dot_product", "dot_product", "multiplicative", "additive"),
    "multiply_embedding_mode": ("sqrt_depth", "none"),
    "initializer": (
        "uniform_unit_scaling",
        "normal_unit_scaling",
        "uniform",
        "orthogonal",
        "xavier",
    ),
    "activation_dtype": ("float32", "bfloat16", "float16"),
    "optimizer_adafactor_decay_type": ("pow", "adam"),
}
_RATES = (
    "layer_prepostprocess_dropout",
    "attention_dropout",
    "relu_dropout",
    "symbol_dropout",
    "label_smoothing",
    *(f"optimizer_{name}_beta{i}" for name in ("adam", "adafactor") for i in (1, 2)),
)
_POSITIVE = ("initializer_gain", "norm_epsilon", "optimizer_adam_epsilon")


def _kinds(field: dataclasses.Field) -> tuple[type, ...]:
    """Returns the types that a field may have: (float, NoneType) for float | None."""
    return typing.get_args(field.type) or typing.cast(tuple[type, ...], (field.type,))


def _check_type(field: dataclasses.Field, value: Any) -> None:
    kinds = _kinds(field)
    if type(value) not in (*kinds, *((int,) if float in kinds else ())):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise UserError(f"Expected hparam {field.name} to be {names}. Received: {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"Expected hparam {field.name} to be finite. Received: {value!r}.")


def parse_value(field: dataclasses.Field, text: str, kind_of_name: str = "hparam") -> Any:
    """Reads the value of an override by the field's type; a UserError names `kind_of_name`."""
    kinds = _kinds(field)
    if text == "None" and type(None) in kinds:
        return None
    kind = kinds[0]
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return (
            kind(text.strip("\"'")) if kind is str else kind(float(text) if "e" in text else text)
        )
    except (KeyError, ValueError) as error:
        raise UserError(
            f"Expected {kind_of_name} {field.name} to be {kind.__name__}. Received: {text!r}."
        ) from error


def _check_sequence(name: str, sequence: str) -> None:
    if sequence == "none":
        return
    bad = sorted(set(sequence) - set(SEQUENCE_LETTERS))
    if bad:
        raise UserError(
            f"Expected {name} to be 'none' or letters of '{SEQUENCE_LETTERS}' (add the residual, "
            f"dropout, normalize). Received: {sequence!r}."
        )
    if name == "layer_preprocess_sequence" and "a" in sequence:
        raise UserError(
            "Expected layer_preprocess_sequence without 'a': there is no residual to add before a "
            f"sublayer. Received: {sequence!r}."
        )


def _unread_reasons(hp: HParams) -> dict[str, str]:
    """Every name that nothing reads under `hp`, with the reason and what to set instead."""
    schedule = hp.learning_rate_schedule
    factors = {name.strip() for name in schedule.split("*")}
    scheme = hp.learning_rate_decay_scheme
    legacy = "legacy" in factors
    adafactor = snake_case(hp.optimizer) == "adafactor"
    reasons = {}

    def unless(read: bool, reason: str, *names: str) -> None:
        if not read:
            reasons.update(dict.fromkeys(names, reason))

    named = f"learning_rate_schedule={schedule} does not read it"
    unless(legacy, f"{named}; set learning_rate_constant.", "learning_rate")
    unless(
        legacy, f"{named}; name the decay in learning_rate_schedule.", "learning_rate_decay_scheme"
    )
    unless("constant" in factors, f"{named}; set learning_rate.", "learning_rate_constant")
    decays = {"linear_decay", "cosdecay", "multi_cycle_cos_decay", "exp_decay"}
    exponential = "exp_decay" in factors or (legacy and scheme == "exp")
    unless(bool(factors & decays) or exponential, f"{named}.", "learning_rate_decay_steps")
    unless(exponential, f"{named}.", "learning_rate_decay_rate", "learning_rate_decay_staircase")
    cosine = legacy and scheme == "cosine"
    unless(
        cosine,
        "only learning_rate_decay_scheme=cosine reads it.",
        "learning_rate_cosine_cycle_steps",
    )
    adam = "optimizer=adafactor does not read it."
    unless(not adafactor, adam, *(f"optimizer_adam_{x}" for x in ("beta1", "beta2", "epsilon")))
    options = [f.name for f in dataclasses.fields(hp) if f.name.startswith("optimizer_adafactor_")]
    unless(adafactor, f"optimizer={hp.optimizer} is not adafactor.", *options)
    relative = hp.self_attention_type == "dot_product_relative"
    unless(
        relative,
        "only self_attention_type=dot_product_relative reads it.",
        "max_relative_position",
        "heads_share_relative_embedding",
        "add_relative_to_values",
    )
    local = "only self_attention_type=local_... reads it."
    unless(hp.self_attention_type in LOCAL, local, "attention_block_length")
    unless(
        not hp.shared_embedding_and_softmax_weights,
        "shared_embedding_and_softmax_weights=True shares all tables already.",
        "shared_embedding",
    )
    norm = "n" in (hp.layer_preprocess_sequence + hp.layer_postprocess_sequence).replace("none", "")
    unless(norm, "no sequence has an 'n'.", "norm_type")
    unless(norm and hp.norm_type == "layer", "nothing normalizes.", "norm_epsilon")
    for rate in ("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout"):
        unless(getattr(hp, rate) > 0, f"{rate} is 0.", f"{rate}_broadcast_dims")
    scaled = "unit_scaling" in hp.initializer or hp.initializer in ("uniform", "orthogonal")
    unless(scaled, f"initializer={hp.initializer} does not read it.", "initializer_gain")
    fixed = "use_fixed_batch_size=True makes every batch alike."
    unless(not hp.use_fixed_batch_size, fixed, "min_length_bucket", "length_bucket_step")
    return reasons
