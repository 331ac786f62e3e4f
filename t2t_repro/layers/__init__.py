"""The Transformer's layers, on keras.ops; kernels.py has faster forms for TensorFlow.

One shape legend for the whole project: B batch, T target length, S source length, N heads, H size
per head, D model size (hidden_size), F filter size, V vocabulary, K beam, L decoding steps.
"""

import importlib

_WHERE = {
    "CrossAttention": "attention",
    "DecoderLayer": "blocks",
    "EncoderLayer": "blocks",
    "FeedForward": "feed_forward",
    "LayerNorm": "norms",
    "LearnedPositions": "embedding",
    "LocalSelfAttention": "attention",
    "MultiHeadAttention": "blocks",
    "PrePostProcess": "prepostprocess",
    "RelativeSelfAttention": "attention",
    "SelfAttention": "attention",
    "SinusoidalPositions": "embedding",
    "SymbolEmbedding": "embedding",
    "TargetSpaceEmbedding": "embedding",
    "TokenAndPositionEmbedding": "embedding",
}
__all__ = [*_WHERE]  # noqa: PLE0604


def __getattr__(name):
    if name in _WHERE:
        return getattr(importlib.import_module(f"t2t_repro.layers.{_WHERE[name]}"), name)
    raise AttributeError(f"module 't2t_repro.layers' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
