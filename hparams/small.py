"""Small models: for tests, for small data, for a machine without a GPU."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import transformer_base, transformer_base_v1


@register_hparams
def transformer_tiny() -> HParams:
    """Two layers of width 128 (T2T models/transformer.py)."""
    return replace(
        transformer_base(), num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4
    )


@register_hparams
def transformer_test() -> HParams:
    """Two layers of width 16, for unit tests (T2T models/transformer.py)."""
    return replace(
        transformer_base(), num_hidden_layers=2, hidden_size=16, filter_size=8, num_heads=2
    )


@register_hparams
def transformer_small() -> HParams:
    """Two layers of width 256 (T2T models/transformer.py)."""
    return replace(
        transformer_base(), num_hidden_layers=2, hidden_size=256, filter_size=1024, num_heads=4
    )


@register_hparams
def transformer_timeseries() -> HParams:
    """small with batches of 256 and a short warmup (T2T models/transformer.py)."""
    return replace(transformer_small(), batch_size=256, learning_rate_warmup_steps=2000)


@register_hparams(problem="translate_ende_multi30k")
def transformer_multi30k() -> HParams:
    """Ours, for 29,000 image captions (translate_ende_multi30k): small, pre-norm, much dropout."""
    return replace(
        transformer_base_v1(),
        num_hidden_layers=4,
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        layer_preprocess_sequence="n",
        layer_postprocess_sequence="da",
        layer_prepostprocess_dropout=0.3,
        symbol_modality_num_shards=4,
        learning_rate_warmup_steps=2000,
        batch_size=2048,
        max_length=64,
    )


@register_hparams(problem="algorithmic_reverse_quickstart")
def transformer_quickstart() -> HParams:
    """Ours, for the trainer's default job: an algorithmic problem in minutes on two cores."""
    return replace(
        transformer_base(),
        num_hidden_layers=2,
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        label_smoothing=0.0,
        symbol_modality_num_shards=1,
        learning_rate_schedule="constant*linear_warmup*linear_decay",
        learning_rate_constant=0.002,
        learning_rate_warmup_steps=200,
        learning_rate_decay_steps=1200,
        batch_size=2048,
        max_length=64,
        train_steps=1800,
    )
