"""The base model: the sets that all others are made from (T2T models/transformer.py)."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

WMT14_ENDE, WMT14_ENFR = "translate_ende_wmt14", "translate_enfr_wmt14"  # the paper's data
NAMED_SCHEDULE = "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"


@register_hparams(problem=WMT14_ENDE)
def transformer_base_v1() -> HParams:
    """The base model as published: post-norm, dropout after each sublayer only, 4000 warmup steps.

    The legacy "noam" schedule with learning_rate 0.1 is the paper's formula
    hidden_size**-0.5 * min(n**-0.5, n * warmup**-1.5) at n = step + 1.
    """
    return HParams(
        hidden_size=512,
        num_hidden_layers=6,
        num_heads=8,
        filter_size=2048,
        layer_preprocess_sequence="none",
        layer_postprocess_sequence="dan",
        layer_prepostprocess_dropout=0.1,
        attention_dropout=0.0,
        relu_dropout=0.0,
        norm_type="layer",
        pos="timing",
        shared_embedding_and_softmax_weights=True,
        symbol_modality_num_shards=16,
        initializer="uniform_unit_scaling",
        initializer_gain=1.0,
        label_smoothing=0.1,
        optimizer="adam",
        optimizer_adam_beta1=0.9,
        optimizer_adam_beta2=0.98,
        optimizer_adam_epsilon=1e-9,
        clip_grad_norm=0.0,
        weight_decay=0.0,
        learning_rate_schedule="legacy",
        learning_rate_decay_scheme="noam",
        learning_rate=0.1,
        learning_rate_warmup_steps=4000,
        batch_size=4096,
        max_length=256,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_base_v2() -> HParams:
    """v1, but pre-norm, with dropout everywhere and a longer warmup to twice the rate."""
    return replace(
        transformer_base_v1(),
        layer_preprocess_sequence="n",
        layer_postprocess_sequence="da",
        layer_prepostprocess_dropout=0.1,
        attention_dropout=0.1,
        relu_dropout=0.1,
        learning_rate_warmup_steps=8000,
        learning_rate=0.2,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_base_v3() -> HParams:
    """v2 with Adam's beta2 0.997 and v2's learning rate as a product of named factors.

    learning_rate 0.2 and the "noam" scheme are still there and nothing reads them.
    """
    return replace(
        transformer_base_v2(),
        optimizer_adam_beta2=0.997,
        learning_rate_schedule=NAMED_SCHEDULE,
        learning_rate_constant=2.0,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_base() -> HParams:
    """T2T's base model: v3."""
    return transformer_base_v3()


@register_hparams(problem=WMT14_ENDE)
def transformer_base_single_gpu() -> HParams:
    """base for one GPU: 1024 tokens a batch and a lower rate, warmed up for 16000 steps."""
    return replace(
        transformer_base(),
        batch_size=1024,
        learning_rate_schedule="constant*linear_warmup*rsqrt_decay",
        learning_rate_constant=0.1,
        learning_rate_warmup_steps=16000,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_base_multistep8() -> HParams:
    """base on one device as if on 8: one step is the mean gradient of 8 batches."""
    return replace(
        transformer_base(), optimizer="multistep_adam", optimizer_multistep_accumulate_steps=8
    )
