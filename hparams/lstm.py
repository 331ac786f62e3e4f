"""The sets of recurrent models (T2T models/lstm.py). --model takes one for another of them."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams


@register_hparams
def lstm_seq2seq() -> HParams:
    """Two LSTMs of width 128 on each side, dropout 0.2, a constant learning rate."""
    return HParams(
        model="lstm_seq2seq",
        batch_size=1024,
        hidden_size=128,
        num_hidden_layers=2,
        num_heads=1,
        initializer="uniform_unit_scaling",
        initializer_gain=1.0,
        weight_decay=0.0,
    )


@register_hparams
def lstm_bahdanau_attention() -> HParams:
    """lstm_seq2seq with additive attention of width 128."""
    return replace(
        lstm_seq2seq(),
        model="lstm_seq2seq_attention",
        attention_mechanism="bahdanau",
        attention_layer_size=128,
        output_attention=True,
    )


@register_hparams
def lstm_luong_attention() -> HParams:
    """lstm_seq2seq with dot-product attention of width 128."""
    return replace(lstm_bahdanau_attention(), attention_mechanism="luong")


@register_hparams
def lstm_attention() -> HParams:
    """T2T's recurrent model with attention: lstm_bahdanau_attention."""
    return lstm_bahdanau_attention()


@register_hparams
def lstm_bahdanau_attention_multi() -> HParams:
    """lstm_bahdanau_attention with 4 heads, which have one query and one key."""
    return replace(lstm_bahdanau_attention(), num_heads=4)


@register_hparams
def lstm_luong_attention_multi() -> HParams:
    """lstm_luong_attention with 4 heads, which have one score."""
    return replace(lstm_luong_attention(), num_heads=4)
