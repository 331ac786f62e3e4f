"""The set of the convolutional model (T2T models/bytenet.py)."""

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams


@register_hparams
def bytenet_base() -> HParams:
    """Four blocks of four dilated convolutions on each side, of width 768."""
    return HParams(
        model="byte_net",
        batch_size=2048,
        hidden_size=768,
        dropout=0.2,
        symbol_dropout=0.2,
        label_smoothing=0.1,
        clip_grad_norm=2.0,
        num_hidden_layers=4,
        num_block_repeat=4,
        kernel_height=3,
        learning_rate_decay_scheme="exp",
        learning_rate=0.05,
        learning_rate_warmup_steps=3000,
        initializer_gain=1.0,
        weight_decay=3.0,
    )
