"""HParams: every setting of a model, its training and its data, under tensor2tensor's names.

The defaults are those of T2T's `basic_params1` (layers/common_hparams.py) with the Transformer's
own additions (models/transformer.py, `transformer_base_v1`). Each field has its type, bounds or
choices, and the condition under which it is read.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from t2t_repro import fields, schema, t2t_compat
from t2t_repro.errors import UserError
from t2t_repro.fields import AppliesIf, Count, CountOrZero, NotNegative, Positive, Rate, one_of

FREEZABLE = ("embeddings", "encoder", "decoder")
# The attention_score that tensor2tensor, CTranslate2 and relative attention compute.
DOT_PRODUCTS = ("scaled_dot_product", "dot_product")
_SCORES = one_of(*DOT_PRODUCTS, "multiplicative", "additive")
# The models, by T2T's names.
TRANSFORMER = "transformer"
ATTENTION_RNNS = ("lstm_seq2seq_attention", "lstm_seq2seq_attention_bidirectional_encoder")
RECURRENT = ("lstm_seq2seq", "lstm_seq2seq_bidirectional_encoder", *ATTENTION_RNNS)
BYTENET = "byte_net"
BASELINES = (*RECURRENT, BYTENET)
MODELS = (TRANSFORMER, *BASELINES)
# The optimizers, and how the names of the settings begin that each reads.
OPTIMIZERS = {
    **dict.fromkeys(("adam", "true_adam", "multistep_adam", "adam_w"), "optimizer_adam_"),
    "adafactor": "optimizer_adafactor_",
}
_EXPONENTIAL_DECAY = tuple(f"learning_rate_decay_{name}" for name in ("steps", "rate", "staircase"))
LOCAL = ("local_mask_right", "local_unmasked")  # self_attention_type that is restricted
_SELF_ATTENTIONS = one_of("dot_product", "dot_product_relative", *LOCAL)
# The factors of learning_rate_schedule, and the settings that each reads; "legacy" reads those of
# its scheme too.
FACTORS: dict[str, tuple[str, ...]] = {
    "constant": ("learning_rate_constant",),
    "linear_warmup": ("learning_rate_warmup_steps",),
    "linear_decay": ("train_steps", "learning_rate_decay_steps"),
    "cosdecay": ("learning_rate_warmup_steps", "learning_rate_decay_steps"),
    "single_cycle_cos_decay": ("train_steps", "learning_rate_warmup_steps"),
    "multi_cycle_cos_decay": ("learning_rate_warmup_steps", "learning_rate_decay_steps"),
    "rsqrt_decay": ("learning_rate_warmup_steps",),
    "rsqrt_normalized_decay": ("learning_rate_warmup_steps",),
    "exp_decay": ("learning_rate_warmup_steps", *_EXPONENTIAL_DECAY),
    "rsqrt_hidden_size": ("hidden_size",),
    "legacy": ("learning_rate", "learning_rate_decay_scheme", "learning_rate_warmup_steps"),
}
SCHEMES: dict[str, tuple[str, ...]] = {  # of learning_rate_decay_scheme
    "noam": ("hidden_size",),
    "none": (),
    "exp": _EXPONENTIAL_DECAY,
    "cosine": ("learning_rate_cosine_cycle_steps",),
    "cyclelinear10x": (),
    "sqrt": (),
}
_OF_SCHEDULES = {*itertools.chain(*FACTORS.values(), *SCHEMES.values())}
_OF_SCHEDULES -= {"hidden_size", "train_steps"}
INITIALIZERS = ("uniform_unit_scaling", "normal_unit_scaling", "uniform", "orthogonal", "xavier")
_NORMS = one_of("layer", "group", "batch", "noam", "l2", "none")
_POSITIONS = one_of("timing", "emb", "none", None)
_SPACES = one_of(None, *range(32))
_DTYPES = one_of("float32", "bfloat16", "float16")


# What a resumed run may change, besides rates of learning and dropout: it determines no variable,
# nor which examples are kept.
_MAY_CHANGE = (
    *("batch_size", "batch_shuffle_size", "random_seed", "label_smoothing", "r_drop_alpha"),
    *("clip_grad_norm", "weight_decay", "encoder_layerdrop", "decoder_layerdrop"),
    *("optimizer_adam_beta1", "optimizer_adam_beta2", "optimizer_adam_epsilon"),
)


def may_change(name: str) -> bool:
    """Returns whether a resumed run may change a setting."""
    return name in _MAY_CHANGE or name.startswith("learning_rate") or "dropout" in name


def snake_case(name: str) -> str:
    """Returns "TranslateEndeWmt32k" as "translate_ende_wmt32k" (T2T's camelcase_to_snakecase)."""
    name = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def _sequence(letters: str) -> fields.Rule:
    """Returns the rule for pre- or postprocessing: a adds the residual, d is dropout, n normalizes,
    z adds through a gate that begins at zero."""
    return fields.rule(
        lambda value: value == "none" or not set(value) - set(letters),
        f"{{name}} to be 'none' or a sequence of the letters '{letters}'",
    )


_parts = fields.rule(
    lambda value: not value or {part.strip() for part in value.split(",")} < set(FREEZABLE),
    f"{{name}} to name some, but not all, of {', '.join(FREEZABLE)}",
)
_odd = fields.rule(lambda value: value % 2 == 1, "{name} to be odd")


def _only(name: str, *values: object) -> AppliesIf:
    said = " or ".join(map(str, values))
    return AppliesIf(lambda hp: getattr(hp, name) in values, f"it applies only with {name}={said}.")


def _models(*names: str) -> AppliesIf:
    """Returns the rule that only these models read a field; of a user's own model nothing is
    known."""
    why = f"it applies only to {', '.join(names)}, not to model={{hp.model}}."
    return AppliesIf(lambda hp: hp.model in names or hp.model not in MODELS, why)


# Said at a field. OURS: tensor2tensor lacks it; interop/tensor2tensor.py refuses to write what of
# them changes the numbers. COMPUTES: the same weights compute something else by it.
OURS, COMPUTES = "ours", "computes"
_TRANSFORMER = _models(TRANSFORMER)
_RNNS = _models(*ATTENTION_RNNS)
_BYTE_NET = _models(BYTENET)
_RELATIVE = _only("self_attention_type", "dot_product_relative")
_RELATIVE_V2 = _only("self_attention_type", "dot_product_relative_v2")  # which is not here
_RESTRICTED = _only("self_attention_type", *LOCAL)
_BUCKETS = _only("use_fixed_batch_size", False)
_SEPARATE = _only("shared_embedding_and_softmax_weights", False)
_SPACE = _only("use_target_space_embedding", True)
_LAYERS = AppliesIf(
    lambda hp: not (hp.num_encoder_layers and hp.num_decoder_layers),
    "num_encoder_layers and num_decoder_layers override it.",
)


def _conflicts(hp: "HParams") -> Iterator[str]:
    """Yields the broken rules over several hparams."""
    gathered = hp.optimizer_multistep_accumulate_steps
    if (snake_case(hp.optimizer) == "multistep_adam") != (gathered > 0):
        yield (
            "optimizer=multistep_adam if and only if optimizer_multistep_accumulate_steps > 0. "
            f"Received: optimizer={hp.optimizer}, optimizer_multistep_accumulate_steps={gathered}"
        )
    if hp.effective_batch_size:
        # As it is written: by "Adam" tensor2tensor's legacy rate is another than by "adam".
        if hp.optimizer not in ("adam", "multistep_adam"):
            yield f"optimizer=adam with effective_batch_size. Received: optimizer={hp.optimizer}"
        if hp.reads_train_steps or hp.bidirectional_steps:
            yield (
                "effective_batch_size=0 with bidirectional_steps, subword_dropout_final_steps or a "
                "learning_rate_schedule that depends on train_steps, because effective_batch_size "
                "makes train_steps count updates, not batches"
            )
    if hp.model in BASELINES:
        return
    relative = hp.self_attention_type == "dot_product_relative"
    named = ("attention_key_channels", "attention_value_channels")
    for name in named if hp.model == TRANSFORMER else ():
        width = getattr(hp, name) or hp.hidden_size
        if width % hp.num_heads:
            yield (
                f"{name if getattr(hp, name) else 'hidden_size'} to be divisible by num_heads. "
                f"Received: {width} and num_heads={hp.num_heads}"
            )
    sequences = (hp.layer_preprocess_sequence + hp.layer_postprocess_sequence).replace("none", "")
    if hp.norm_type == "group" and "n" in sequences:
        yield (
            "a norm_type other than group: group norm sees the whole sentence, so the decoder "
            "would see the tokens that it predicts"
        )
    if relative and not (hp.max_relative_position and hp.attention_score in DOT_PRODUCTS):
        yield (
            f"max_relative_position > 0 and attention_score={' or '.join(DOT_PRODUCTS)} with "
            "self_attention_type=dot_product_relative"
        )
    if hp.attention_chunk_size and (hp.attention_dropout or relative):
        yield "attention_chunk_size=0 with attention_dropout > 0 or dot_product_relative attention"


@dataclasses.dataclass(frozen=True, kw_only=True)
class HParams:
    """One complete configuration. Make variants with `dataclasses.replace` or `override`.

    Raises:
        UserError: if a value is impossible, or two values contradict each other.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    # --- the model ---------------------------------------------------------------------------
    model: str = TRANSFORMER  # its name in the registry
    hidden_size: Count = 64  # D, the width of every layer's output
    num_hidden_layers: Annotated[Count, _LAYERS] = 4  # of encoder and decoder
    num_encoder_layers: Annotated[CountOrZero, _TRANSFORMER] = 0  # 0: num_hidden_layers
    num_decoder_layers: Annotated[CountOrZero, _TRANSFORMER] = 0  # 0: num_hidden_layers
    num_heads: Annotated[Count, _models(TRANSFORMER, *ATTENTION_RNNS), COMPUTES] = 8  # N
    # total width of queries and keys; 0: hidden_size
    attention_key_channels: Annotated[CountOrZero, _TRANSFORMER] = 0
    # total width of values; 0: hidden_size
    attention_value_channels: Annotated[CountOrZero, _TRANSFORMER] = 0
    # F, the inner width of the feed-forward sublayer
    filter_size: Annotated[Count, _TRANSFORMER] = 2048
    # before each sublayer: letters of "dn", or "none"
    layer_preprocess_sequence: Annotated[str, _sequence("dn"), _TRANSFORMER, COMPUTES] = "none"
    # after it: a add residual, d dropout, n normalize, z add by a gate that begins as zero
    layer_postprocess_sequence: Annotated[str, _sequence("adnz"), _TRANSFORMER, COMPUTES] = "dan"
    # what "n" does; only layers of one's own have groups
    norm_type: Annotated[str, _NORMS, _TRANSFORMER, COMPUTES] = "layer"
    norm_epsilon: Annotated[Positive, _TRANSFORMER, COMPUTES] = 1e-6
    # positions: sinusoids, learned or none
    pos: Annotated[str | None, _POSITIONS, _TRANSFORMER, COMPUTES] = "timing"
    self_attention_type: Annotated[str, _SELF_ATTENTIONS, _TRANSFORMER, COMPUTES] = "dot_product"
    attention_block_length: Annotated[Count, _RESTRICTED, _TRANSFORMER, OURS, COMPUTES] = 128
    # keys gone through at a time, to save memory; 0: all at once
    attention_chunk_size: Annotated[CountOrZero, _TRANSFORMER, OURS] = 0
    attention_score: Annotated[str, _SCORES, _TRANSFORMER, OURS, COMPUTES] = "scaled_dot_product"
    # the farthest distance told apart by relative attention
    max_relative_position: Annotated[CountOrZero, _RELATIVE, _TRANSFORMER] = 0
    heads_share_relative_embedding: Annotated[bool, _RELATIVE_V2, _TRANSFORMER] = False
    add_relative_to_values: Annotated[bool, _RELATIVE_V2, _TRANSFORMER] = False
    # the encoder too looks only back
    unidirectional_encoder: Annotated[bool, _TRANSFORMER, COMPUTES] = False
    # add an embedding of the target's kind to the inputs
    use_target_space_embedding: Annotated[bool, _TRANSFORMER, COMPUTES] = True
    # that kind, a row of T2T's table; None: the problem's
    target_space_id: Annotated[int | None, _SPACES, _SPACE, _TRANSFORMER, OURS, COMPUTES] = None
    shared_embedding: Annotated[bool, _SEPARATE] = False  # one table for inputs and targets
    shared_embedding_and_softmax_weights: bool = False  # one table for them and the softmax
    # into how many variables T2T's files split a table
    symbol_modality_num_shards: Count = 1
    # scale embeddings by sqrt(D), or not
    multiply_embedding_mode: Annotated[str, one_of("sqrt_depth", "none"), COMPUTES] = "sqrt_depth"
    # T2T's files keep attention kernels as (D, N, H)
    attention_variables_3d: Annotated[bool, _TRANSFORMER, COMPUTES] = False
    # pad the vocabulary to a multiple of this
    vocab_divisor: Count = 1
    initializer: Annotated[str, one_of(*INITIALIZERS)] = "orthogonal"
    initializer_gain: Positive = 1.5
    # the last two: Keras's mixed precision
    activation_dtype: Annotated[str, _DTYPES, _TRANSFORMER] = "float32"
    # of recurrent models: how a score is made, and the width of each head's attention (0:
    # hidden_size), which is what the decoder says, or else its LSTM's output
    attention_mechanism: Annotated[str, one_of("bahdanau", "luong"), _RNNS, COMPUTES] = "bahdanau"
    attention_layer_size: Annotated[CountOrZero, _RNNS] = 0
    output_attention: Annotated[bool, _RNNS, COMPUTES] = True
    # of ByteNet: how often all dilations are gone through, and how many positions are seen at once
    num_block_repeat: Annotated[Count, _BYTE_NET] = 4
    kernel_height: Annotated[Count, _odd, _BYTE_NET] = 3
    # --- dropout: rates; broadcast dims share one draw along these axes ----------------------
    layer_prepostprocess_dropout: Annotated[Rate, _TRANSFORMER] = 0.1
    layer_prepostprocess_dropout_broadcast_dims: Annotated[str, _TRANSFORMER] = ""
    attention_dropout: Annotated[Rate, _TRANSFORMER] = 0.0
    attention_dropout_broadcast_dims: Annotated[str, _TRANSFORMER] = ""
    relu_dropout: Annotated[Rate, _TRANSFORMER] = 0.0
    relu_dropout_broadcast_dims: Annotated[str, _TRANSFORMER] = ""
    dropout: Annotated[Rate, _models(*BASELINES)] = 0.2  # of models other than the Transformer
    symbol_dropout: Rate = 0.0  # replaces whole tokens by padding
    # whole embeddings of source tokens become zero; those of what the decoder has seen so far
    inputs_word_dropout: Annotated[Rate, _TRANSFORMER, OURS] = 0.0
    targets_word_dropout: Annotated[Rate, _TRANSFORMER, OURS] = 0.0
    encoder_layerdrop: Annotated[Rate, _TRANSFORMER, OURS] = 0.0  # whole layers are left out
    decoder_layerdrop: Annotated[Rate, _TRANSFORMER, OURS] = 0.0
    # --- the loss and the optimizer ----------------------------------------------------------
    label_smoothing: Rate = 0.1
    # weight of the divergence of two passes; 0: one pass
    r_drop_alpha: Annotated[NotNegative, _TRANSFORMER, OURS] = 0.0
    optimizer: str = "adam"
    optimizer_adam_beta1: Rate = 0.85
    optimizer_adam_beta2: Rate = 0.997
    optimizer_adam_epsilon: Positive = 1e-6
    optimizer_adafactor_beta1: Rate = 0.0
    optimizer_adafactor_beta2: Rate = 0.999
    optimizer_adafactor_clipping_threshold: float = 1.0
    optimizer_adafactor_decay_type: Annotated[str, one_of("pow", "adam")] = "pow"
    optimizer_adafactor_factored: bool = True
    optimizer_adafactor_memory_exponent: float = 0.8
    optimizer_adafactor_multiply_by_parameter_scale: bool = True
    # batches a step, with multistep_adam
    optimizer_multistep_accumulate_steps: CountOrZero = 0
    clip_grad_norm: NotNegative = 2.0  # global norm; 0: off
    # L2 of all but biases, in the gradient; adam_w, as T2T's, has it in the update of all besides
    weight_decay: NotNegative = 1e-6
    # of the moving average of the weights, by which is evaluated and decoded; 0: the weights
    ema_decay: Annotated[Rate, OURS] = 0.0
    # what training leaves as it is: embeddings (of positions too), encoder, decoder
    freeze: Annotated[str, _parts, _TRANSFORMER, OURS] = ""
    # --- the learning rate -------------------------------------------------------------------
    learning_rate_schedule: str = "legacy"  # or a product: "constant*linear_warmup*rsqrt_decay"
    learning_rate_constant: NotNegative = 1.0  # the factor "constant"
    learning_rate: NotNegative = 0.1
    learning_rate_decay_scheme: str | None = "none"  # such as "noam"
    learning_rate_warmup_steps: CountOrZero = 100
    learning_rate_decay_steps: CountOrZero = 5000
    learning_rate_decay_rate: float = 1.0
    learning_rate_decay_staircase: bool = False
    learning_rate_cosine_cycle_steps: int = 250000
    learning_rate_minimum: float | None = None  # a floor (T2T has the name and never reads it)
    # where training ends; linear_decay, the cosine and subword_dropout_final_steps aim at it
    train_steps: Count = 250000
    # --- the data ----------------------------------------------------------------------------
    batch_size: Count = 4096  # tokens a replica, padding included
    # tokens a side of an update, without padding, on any devices; train_steps counts these; 0: off
    effective_batch_size: Annotated[CountOrZero, _BUCKETS, OURS] = 0
    # longer examples are left out of training; 0: batch_size
    max_length: CountOrZero = 0
    min_length: CountOrZero = 0
    min_length_bucket: Annotated[Count, _BUCKETS] = 8
    # each bucket is this much longer than the one before
    length_bucket_step: Annotated[float, fields.least(1.0001), _BUCKETS] = 1.1
    batch_shuffle_size: CountOrZero = 512  # batches among which the order is shuffled; 0: none
    use_fixed_batch_size: bool = False  # batch_size counts sentences
    eval_drop_long_sequences: bool = False
    max_input_seq_length: CountOrZero = 0  # truncate inputs to this; 0: do not
    max_target_seq_length: CountOrZero = 0
    # in this many first steps half of the pairs are swapped, the target as the source
    bidirectional_steps: Annotated[CountOrZero, OURS] = 0
    # training segments words differently each time: a subword that fits is skipped with this
    # probability; batches then have more tokens than batch_size
    subword_dropout: Annotated[Rate, OURS] = 0.0
    # in this many last steps words are segmented as in decoding
    subword_dropout_final_steps: Annotated[CountOrZero, OURS] = 0

    def __post_init__(self):
        fields.check_rules(self)
        for expected in _conflicts(self):
            raise UserError(f"Expected {expected}.")

    @property
    def encoder_layers(self) -> int:
        """The number of encoder layers."""
        return self.num_encoder_layers or self.num_hidden_layers

    @property
    def decoder_layers(self) -> int:
        """The number of decoder layers."""
        return self.num_decoder_layers or self.num_hidden_layers

    @property
    def frozen(self) -> tuple[str, ...]:
        """The parts that `freeze` names."""
        return tuple(part.strip() for part in self.freeze.split(",") if part)

    @property
    def factors(self) -> list[str]:
        """The names of the factors of `learning_rate_schedule`, known or not."""
        names = (name.strip() for name in self.learning_rate_schedule.split("*"))
        return [name for name in names if name]

    @property
    def read_by_schedule(self) -> frozenset[str]:
        """The settings that the factors of `learning_rate_schedule` read."""
        names = {name for factor in self.factors for name in FACTORS.get(factor, ())}
        if "legacy" in self.factors:
            names.update(SCHEMES.get(self.learning_rate_decay_scheme or "none", ()))
        return frozenset(names)

    @property
    def reads_train_steps(self) -> bool:
        """Whether a longer training would differ before its end."""
        return "train_steps" in self.read_by_schedule or self.subword_dropout_final_steps > 0

    def override(self, changes: str | Mapping[str, Any] = "", **settings: Any) -> "HParams":
        """Returns a copy with changes applied.

        Args:
            changes: "name=value,name=value", as T2T's --hparams flag, or a dict.
            settings: changes, too: hidden_size=64.

        Raises:
            UserError: as `parse_overrides`; or on a name that the resulting configuration never
                reads.
        """
        values = parse_overrides(changes) | parse_overrides(settings)
        result = dataclasses.replace(self, **values)
        for name, reason in result.unused(values).items():
            received = f"{name}={values[name]}.{t2t_compat.meant(name)}"
            raise UserError(f"hparam {name} has no effect: {reason} Received: {received}")
        return result

    def unused(self, names: Iterable[str]) -> dict[str, str]:
        """Returns {name: why} for those of `names` that nothing reads in this configuration."""
        names, read, found = list(names), self.read_by_schedule, {}
        # An optimizer that is unknown is refused elsewhere.
        prefix = OPTIMIZERS.get(snake_case(self.optimizer), "")
        for name in names:
            if name in _OF_SCHEDULES - read:
                of = f"learning_rate_schedule={self.learning_rate_schedule}"
                found[name] = f"{of} reads only {', '.join(sorted(read))}."
            elif name.startswith(tuple(OPTIMIZERS.values())) and not name.startswith(prefix):
                found[name] = f"optimizer={self.optimizer} does not use it."
        return found | fields.unused(self, names)

    def to_json(self) -> str:
        """Returns every value as JSON, sorted by name, as T2T's hparams.json."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "hparams.json", fix: str = "") -> "HParams":
        """Returns what `to_json` wrote. A name that is not ours is an error; see `schema.read`."""
        return schema.parse(text, cls, name, fix)


FIELDS = {field.name: field for field in dataclasses.fields(HParams)}


def parse_overrides(changes: str | Mapping[str, Any]) -> dict[str, Any]:
    """Reads {name: value}, or "name=value,name=value", as {name: value}, of the fields' types.

    An hparam of T2T's that we lack is accepted at its default there, and left out.

    Raises:
        UserError: on another name or value, or a name given twice.
    """
    given = fields.parse_overrides(changes) if isinstance(changes, str) else changes
    foreign = {
        name: t2t_compat.parse(name, str(given[name])) for name in given if name not in FIELDS
    }
    t2t_compat.check(foreign, FIELDS)
    return {
        name: fields.parse_value(FIELDS[name], str(value))
        for name, value in given.items()
        if name in FIELDS
    }
