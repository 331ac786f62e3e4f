"""What some hparams must be, each a rule of `fields`, and what several must be together."""

import re
from typing import Any

from t2t_repro import fields
from t2t_repro.errors import UserError

FREEZABLE = ("embeddings", "encoder", "decoder")
# The attention_score that tensor2tensor, CTranslate2 and relative attention compute.
DOT_PRODUCTS = ("scaled_dot_product", "dot_product")
# The models, by T2T's names.
TRANSFORMER = "transformer"
ATTENDING = ("lstm_seq2seq_attention", "lstm_seq2seq_attention_bidirectional_encoder")
RECURRENT = ("lstm_seq2seq", "lstm_seq2seq_bidirectional_encoder", *ATTENDING)
BYTENET = "byte_net"
OPPONENTS = (*RECURRENT, BYTENET)
MODELS = (TRANSFORMER, *OPPONENTS)
# The optimizers, and how the names of the settings begin that each reads.
OPTIMIZERS = {
    "adam": "optimizer_adam_",
    "true_adam": "optimizer_adam_",
    "multistep_adam": "optimizer_adam_",
    "adam_w": "optimizer_adam_",
    "adafactor": "optimizer_adafactor_",
}
# What some of the models read alone; the other hparams, all of them.
_READ_BY = {
    "num_heads": (TRANSFORMER, *ATTENDING),
    "dropout": OPPONENTS,
    **dict.fromkeys(("num_block_repeat", "kernel_height"), (BYTENET,)),
    **dict.fromkeys(("attention_mechanism", "attention_layer_size", "output_attention"), ATTENDING),
}
_OF_THE_TRANSFORMER = (
    *("num_encoder_layers", "num_decoder_layers", "filter_size", "unidirectional_encoder"),
    *("layer_preprocess_sequence", "layer_postprocess_sequence", "norm_type", "norm_epsilon"),
    *("pos", "use_target_space_embedding", "activation_dtype", "freeze", "relu_dropout"),
    *("relu_dropout_broadcast_dims", "inputs_word_dropout", "targets_word_dropout"),
    *("self_attention_type", "max_relative_position", "heads_share_relative_embedding"),
    *("add_relative_to_values", "layer_prepostprocess_dropout"),
    "layer_prepostprocess_dropout_broadcast_dims",
    *(f"attention_{name}_channels" for name in ("key", "value")),
    *(f"attention_{name}" for name in ("block_length", "chunk_size", "score", "variables_3d")),
    *("attention_dropout", "attention_dropout_broadcast_dims"),
    *("encoder_layerdrop", "decoder_layerdrop", "r_drop_alpha"),
)
_READ_BY |= dict.fromkeys(_OF_THE_TRANSFORMER, (TRANSFORMER,))


odd = fields.rule(lambda value: value % 2 == 1, "{name} to be odd")


def check_updates(optimizer: str, reads_steps: bool) -> None:
    """Refuses what contradicts effective_batch_size: an update may be made of several batches.

    `reads_steps` says whether something begins or ends at a step of a given number.
    """
    # As it is written: by "Adam" tensor2tensor's legacy rate is another than by "adam".
    if optimizer not in ("adam", "multistep_adam"):
        raise UserError(
            "Expected optimizer=adam with effective_batch_size, which gathers the gradients of "
            f"several batches. Received: optimizer={optimizer}. Set effective_batch_size=0."
        )
    if reads_steps:
        raise UserError(
            "Expected a learning_rate_schedule that does not read train_steps, and neither "
            "bidirectional_steps nor subword_dropout_final_steps, with effective_batch_size, which "
            "multiplies train_steps by the batches of an update. Received: one of these. Set "
            "effective_batch_size=0."
        )


def check_transformer(hp: Any, normalizes: bool) -> None:
    """Refuses settings of a Transformer, an `HParams`, that do not go together.

    `normalizes` says whether its sequences do.
    """
    for name in ("key", "value"):
        width = getattr(hp, f"attention_{name}_channels") or hp.hidden_size
        if width % hp.num_heads:
            raise UserError(
                f"Expected attention_{name}_channels (or hidden_size where it is 0) to be "
                f"divisible by num_heads. Received: {width} and num_heads={hp.num_heads}."
            )
    relative = hp.self_attention_type == "dot_product_relative"
    dot_products = hp.attention_score in DOT_PRODUCTS and not hp.attention_chunk_size
    for wrong, message in (
        (
            hp.norm_type == "group" and normalizes,
            "norm_type=group takes the statistics of a whole sentence: the decoder would see what "
            "it is to predict.",
        ),
        (
            relative and not hp.max_relative_position,
            "self_attention_type=dot_product_relative needs max_relative_position > 0; "
            "transformer_relative uses 20.",
        ),
        (
            relative and not dot_products,
            "self_attention_type=dot_product_relative needs an attention_score of dot products and "
            "attention_chunk_size=0.",
        ),
        (
            hp.attention_chunk_size and hp.attention_dropout,
            "attention_chunk_size > 0 never holds the weights: set attention_dropout=0.",
        ),
    ):
        if wrong:
            raise UserError(message)


def unread_by(model: str, name: str) -> str:
    """Returns why a model does not read the hparam `name`; "": it does.

    Of a model that this package does not have nothing is known.
    """
    readers = _READ_BY.get(name, MODELS)
    if model in readers or model not in MODELS:
        return ""
    return f"model={model} does not read it, only {', '.join(readers)}."


def sequence(letters: str) -> fields.Rule:
    """Returns the rule of what is done before or after a sublayer: a add the residual, d dropout,
    n normalize, z add it by a gate that begins as zero."""
    return fields.rule(
        lambda value: value == "none" or not set(value) - set(letters),
        f"{{name}} to be 'none' or letters of '{letters}'",
    )


def axes(last: int) -> fields.Rule:
    """Returns the rule of axes from -last to last."""
    return fields.rule(
        lambda dims: re.fullmatch(rf"(-?[0-{last}](,-?[0-{last}])*)?", dims.replace(" ", "")),
        f"{{name}} to be axes from -{last} to {last} with commas between, or nothing",
    )


parts = fields.rule(
    lambda value: not value or {part.strip() for part in value.split(",")} < set(FREEZABLE),
    f"{{name}} to be some of {', '.join(FREEZABLE)}, and not all",
)
