"""The big model and its variants (T2T models/transformer.py)."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import WMT14_ENDE, WMT14_ENFR, transformer_base


@register_hparams(problem=WMT14_ENDE)
def transformer_big() -> HParams:
    """T2T's big model for En-De: dropout 0.3, 2048 tokens a batch so that it fits 12 GB."""
    return replace(
        transformer_base(),
        hidden_size=1024,
        filter_size=4096,
        batch_size=2048,
        num_heads=16,
        layer_prepostprocess_dropout=0.3,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_big_single_gpu() -> HParams:
    """big for one GPU: dropout 0.1 and 16000 warmup steps."""
    return replace(
        transformer_big(), layer_prepostprocess_dropout=0.1, learning_rate_warmup_steps=16000
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_big_dr1() -> HParams:
    """The big model with dropout 0.1 and base's 4096 tokens a batch."""
    return replace(
        transformer_base(),
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        layer_prepostprocess_dropout=0.1,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_big_dr2() -> HParams:
    """big_dr1 with dropout 0.2."""
    return replace(transformer_big_dr1(), layer_prepostprocess_dropout=0.2)


@register_hparams(problem=WMT14_ENFR)
def transformer_big_enfr() -> HParams:
    """T2T's big model for En-Fr: filter 8192 and separate embeddings."""
    return replace(
        transformer_big_dr1(),
        shared_embedding_and_softmax_weights=False,
        filter_size=8192,
        layer_prepostprocess_dropout=0.1,
    )


@register_hparams(problem=WMT14_ENDE)
def transformer_fairseq_fp16_activation_big() -> HParams:
    """big in float16, after https://arxiv.org/abs/1806.00187."""
    return replace(transformer_big(), activation_dtype="float16", batch_size=3584)
