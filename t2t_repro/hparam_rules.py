"""What some hparams must be, each a rule of `fields`, and what several must be together."""

import re
from typing import Any

from t2t_repro import fields
from t2t_repro.errors import UserError

SEQUENCE_LETTERS = "adnz"
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


def check_directions(hp: Any) -> None:
    """Refuses limits of an `HParams` by which a pair turned round would have another length."""
    limits = hp.max_input_seq_length, hp.max_target_seq_length
    if hp.bidirectional_steps and limits[0] != limits[1]:
        raise UserError(
            "Expected max_input_seq_length and max_target_seq_length to be equal with "
            "bidirectional_steps, which turns pairs round. Received: "
            f"{limits[0]} and {limits[1]}. Set bidirectional_steps=0, or one limit for both."
        )


def check_model(model: str, freeze: str, initializer: str) -> None:
    """Refuses what a model cannot follow."""
    if freeze and model in OPPONENTS:
        raise UserError(
            "Expected a Transformer, whose parts can be frozen. Received: "
            f"model={model}, freeze={freeze}. Leave freeze out."
        )
    if initializer == "orthogonal" and model in RECURRENT:
        raise UserError(
            "Expected another initializer of a recurrent model, which has vectors, such as "
            f"uniform_unit_scaling. Received: model={model}, initializer=orthogonal."
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
    if hp.norm_type == "group" and normalizes:
        raise UserError(
            "Expected norm_type to be layer, batch, noam, l2 or none in a Transformer. "
            "Received: group, of which tensor2tensor's stops: it takes the statistics of a "
            "whole sentence, so that the decoder would see what it is to predict."
        )
    relative = hp.self_attention_type == "dot_product_relative"
    score, chunk = hp.attention_score, hp.attention_chunk_size
    if relative and not hp.max_relative_position:
        raise UserError(
            "self_attention_type=dot_product_relative needs max_relative_position > 0. "
            "Received: 0. transformer_relative uses 20."
        )
    if relative and (chunk or score not in DOT_PRODUCTS):
        raise UserError(
            "self_attention_type=dot_product_relative needs dot products of all pairs. "
            f"Received: attention_score={score}, attention_chunk_size={chunk}."
        )
    if chunk and hp.attention_dropout:
        raise UserError(
            "attention_chunk_size never holds the weights: set attention_dropout=0. Received: "
            f"attention_chunk_size={chunk}, attention_dropout={hp.attention_dropout}."
        )
    if hp.pos == "emb" and not hp.max_length:
        raise UserError("pos=emb learns max_length positions: set max_length. Received: 0.")


def unread_by(model: str, name: str) -> str:
    """Returns why a model does not read the hparam `name`; "": it does.

    Of a model that this package does not have nothing is known.
    """
    readers = _READ_BY.get(name, MODELS)
    if model in readers or model not in MODELS:
        return ""
    return f"model={model} does not read it, only {', '.join(readers)}."


def sequence(name: str, sequence: str) -> None:
    """The letters of what is done before or after a sublayer."""
    if set(sequence) - set(SEQUENCE_LETTERS) and sequence != "none":
        raise UserError(
            f"Expected {name} to be 'none' or letters of '{SEQUENCE_LETTERS}' (add the residual, "
            f"dropout, normalize, add it by a gate that begins as zero). Received: {sequence!r}."
        )


def without_residual(name: str, sequence: str) -> None:
    """No letter of a residual, of what is done before a sublayer."""
    if set(sequence) & set("az"):
        raise UserError(
            f"Expected {name} without 'a' and 'z': there is no residual to add before a sublayer. "
            f"Received: {sequence!r}."
        )


def axes(last: int) -> fields.Rule:
    """Returns the rule of axes from -last to last."""

    def check(name: str, dims: str) -> None:
        if not re.fullmatch(rf"(-?[0-{last}](,-?[0-{last}])*)?", dims.replace(" ", "")):
            raise UserError(
                f"Expected {name} to be axes from -{last} to {last} with commas between, such "
                f"as 0,1, or nothing. Received: {dims!r}."
            )

    return check


def parts(name: str, parts: str) -> None:
    """Some of FREEZABLE, and not all."""
    asked = [part.strip() for part in parts.split(",")] if parts else []
    if set(asked) - set(FREEZABLE) or len(set(asked)) < len(asked):
        raise UserError(
            f"Expected {name} to be some of {', '.join(FREEZABLE)} with commas between. "
            f"Received: {parts!r}."
        )
    if len(asked) == len(FREEZABLE):
        raise UserError(f"Expected {name} to leave something to train. Received: all, {parts!r}.")
