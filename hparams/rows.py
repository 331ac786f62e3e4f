"""T2T's rows of the paper's table 3: its base set, one thing changed (T2T models/transformer.py).

T2T's base is pre-norm with its own schedule and more dropout than the paper's; the rows with the
paper's settings are in paper.py.
"""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import transformer_base


@register_hparams
def transformer_l2() -> HParams:
    """base with 2 layers."""
    return replace(transformer_base(), num_hidden_layers=2)


@register_hparams
def transformer_l4() -> HParams:
    """base with 4 layers."""
    return replace(transformer_base(), num_hidden_layers=4)


@register_hparams
def transformer_l8() -> HParams:
    """base with 8 layers."""
    return replace(transformer_base(), num_hidden_layers=8)


@register_hparams
def transformer_l10() -> HParams:
    """base with 10 layers (not in the paper)."""
    return replace(transformer_base(), num_hidden_layers=10)


@register_hparams
def transformer_h1() -> HParams:
    """base with 1 head."""
    return replace(transformer_base(), num_heads=1)


@register_hparams
def transformer_h4() -> HParams:
    """base with 4 heads."""
    return replace(transformer_base(), num_heads=4)


@register_hparams
def transformer_h16() -> HParams:
    """base with 16 heads."""
    return replace(transformer_base(), num_heads=16)


@register_hparams
def transformer_h32() -> HParams:
    """base with 32 heads."""
    return replace(transformer_base(), num_heads=32)


@register_hparams
def transformer_k128() -> HParams:
    """base with keys of size 16 a head."""
    return replace(transformer_base(), attention_key_channels=128)


@register_hparams
def transformer_k256() -> HParams:
    """base with keys of size 32 a head."""
    return replace(transformer_base(), attention_key_channels=256)


@register_hparams
def transformer_ff1024() -> HParams:
    """base with filter size 1024."""
    return replace(transformer_base(), filter_size=1024)


@register_hparams
def transformer_ff4096() -> HParams:
    """base with filter size 4096."""
    return replace(transformer_base(), filter_size=4096)


@register_hparams
def transformer_dr0() -> HParams:
    """base with no residual dropout."""
    return replace(transformer_base(), layer_prepostprocess_dropout=0.0)


@register_hparams
def transformer_dr2() -> HParams:
    """base with residual dropout 0.2."""
    return replace(transformer_base(), layer_prepostprocess_dropout=0.2)


@register_hparams
def transformer_ls0() -> HParams:
    """base with no label smoothing."""
    return replace(transformer_base(), label_smoothing=0.0)


@register_hparams
def transformer_ls2() -> HParams:
    """base with label smoothing 0.2."""
    return replace(transformer_base(), label_smoothing=0.2)


@register_hparams
def transformer_hs256() -> HParams:
    """base with width 256."""
    return replace(transformer_base(), hidden_size=256)


@register_hparams
def transformer_hs1024() -> HParams:
    """base with width 1024."""
    return replace(transformer_base(), hidden_size=1024)
