"""Sets made for TPUs (T2T models/transformer.py). They train on any machine.

What they have in common: Adafactor, which needs less memory than Adam, with its own schedule;
dropout that draws one value for a whole axis; and, except in transformer_wikitext103_l4k_v0,
sentences of at most 64 tokens.
"""

from collections.abc import Callable
from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import WMT14_ENDE, WMT14_ENFR, transformer_base
from .big import transformer_big, transformer_big_enfr
from .small import transformer_small, transformer_timeseries, transformer_tiny
from .variants import transformer_clean_big


def for_tpu(hparams: HParams, **changes) -> HParams:
    """Returns `hparams` changed as T2T's update_hparams_for_tpu does, then with `changes`."""
    common = {
        "optimizer": "Adafactor",
        "learning_rate_schedule": "rsqrt_decay",
        "learning_rate_warmup_steps": 10000,
        "symbol_modality_num_shards": 1,
        "max_length": 64,
        "batch_size": min(hparams.batch_size, 2048),
    }
    return replace(hparams, **(common | _BROADCAST_DROPOUT | changes))


_BROADCAST_DROPOUT = {
    "attention_dropout_broadcast_dims": "0,1",  # batch, heads
    "relu_dropout_broadcast_dims": "1",  # length
    "layer_prepostprocess_dropout_broadcast_dims": "1",  # length
}


@register_hparams(problem=WMT14_ENDE)
def transformer_tpu() -> HParams:
    """base for TPUs."""
    return for_tpu(transformer_base())


@register_hparams(problem=WMT14_ENDE)
def transformer_packed_tpu() -> HParams:
    """T2T's old name of transformer_tpu."""
    return transformer_tpu()


@register_hparams(problem=WMT14_ENDE)
def transformer_tpu_bf16_activation() -> HParams:
    """transformer_tpu in bfloat16."""
    return replace(transformer_tpu(), activation_dtype="bfloat16")


@register_hparams(problem=WMT14_ENFR)
def transformer_big_enfr_tpu() -> HParams:
    """big_enfr for TPUs: fewer heads, so that matrices are at least 128 wide."""
    return for_tpu(transformer_big_enfr(), num_heads=8)


@register_hparams
def transformer_lm_tpu_0() -> HParams:
    """clean_big for language modelling: 4 heads, separate embeddings, a little dropout."""
    return for_tpu(
        transformer_clean_big(),
        num_heads=4,
        batch_size=4096,
        shared_embedding_and_softmax_weights=False,
        layer_prepostprocess_dropout=0.1,
    )


@register_hparams
def transformer_lm_tpu_1() -> HParams:
    """lm_tpu_0 at twice the width."""
    return replace(transformer_lm_tpu_0(), hidden_size=2048, filter_size=8192)


@register_hparams
def transformer_wikitext103_l4k_v0() -> HParams:
    """big for texts of 4096 tokens: 8 layers, 4 heads, separate embeddings."""
    return for_tpu(
        transformer_big(),
        num_heads=4,
        max_length=4096,
        batch_size=4096,
        shared_embedding_and_softmax_weights=False,
        num_hidden_layers=8,
        attention_dropout=0.1,
        layer_prepostprocess_dropout=0.2,
        relu_dropout=0.1,
        label_smoothing=0.0,
    )


def _register_for_tpu(base: Callable[[], HParams], problem: str = "") -> None:
    def made() -> HParams:
        return for_tpu(base())

    made.__name__ = f"{base.__name__}_tpu"
    made.__doc__ = f"{base.__name__.removeprefix('transformer_')} for TPUs."
    register_hparams(made, problem=problem)


_register_for_tpu(transformer_big, WMT14_ENDE)
_register_for_tpu(transformer_tiny)
_register_for_tpu(transformer_small)
_register_for_tpu(transformer_timeseries)
_register_for_tpu(transformer_clean_big)
