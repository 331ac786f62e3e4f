"""Relative positions, no regularization, tall models (T2T models/transformer.py)."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import WMT14_ENDE, transformer_base, transformer_base_v2
from .big import transformer_big


@register_hparams(problem=WMT14_ENDE)
def transformer_relative() -> HParams:
    """base with relative instead of absolute positions (https://arxiv.org/abs/1803.02155)."""
    return replace(
        transformer_base(),
        pos=None,
        self_attention_type="dot_product_relative",
        max_relative_position=20,
    )


@register_hparams
def transformer_relative_tiny() -> HParams:
    """relative, two layers of width 128."""
    return replace(
        transformer_relative(), num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_relative_big() -> HParams:
    """big with relative positions."""
    return replace(
        transformer_big(),
        pos=None,
        self_attention_type="dot_product_relative",
        max_relative_position=20,
    )


@register_hparams
def transformer_clean() -> HParams:
    """v2 without dropout, label smoothing or a maximum length."""
    return replace(
        transformer_base_v2(),
        label_smoothing=0.0,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        max_length=0,
    )


@register_hparams
def transformer_clean_big() -> HParams:
    """clean at the width of big, with base's 8 heads."""
    return replace(transformer_clean(), hidden_size=1024, filter_size=4096)


@register_hparams
def transformer_tall() -> HParams:
    """Twelve layers of width 768, for long texts.

    T2T's set also has `multiproblem_*` settings, which only its MultiProblem reads.
    """
    return replace(
        transformer_base(),
        batch_size=2048,
        hidden_size=768,
        filter_size=3072,
        num_hidden_layers=12,
        num_heads=12,
        label_smoothing=0.0,
        max_length=1024,
        eval_drop_long_sequences=True,
        clip_grad_norm=1.0,
    )


@register_hparams
def transformer_tall_big() -> HParams:
    """tall with 18 layers."""
    return replace(transformer_tall(), num_hidden_layers=18)


@register_hparams
def transformer_tall_train_uniencdec() -> HParams:
    """tall as a summarizer whose encoder too looks only back."""
    return replace(
        transformer_tall(),
        max_input_seq_length=750,
        max_target_seq_length=100,
        optimizer="true_adam",
        learning_rate_schedule="linear_warmup*constant*cosdecay",
        learning_rate_decay_steps=150000,
        learning_rate_constant=2e-4,
        unidirectional_encoder=True,
    )


@register_hparams
def transformer_tall_finetune_uniencdec() -> HParams:
    """tall_train_uniencdec for fine-tuning: a lower rate, a short warmup, a faster decay."""
    return replace(
        transformer_tall_train_uniencdec(),
        learning_rate_decay_steps=80000,
        learning_rate_constant=5e-5,
        learning_rate_warmup_steps=100,
    )
