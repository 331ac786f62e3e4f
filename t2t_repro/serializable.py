"""Lets Keras find this package's classes: `keras.saving.load_model` works after `import t2t_repro`.

Keras looks a class up by the name under which it was registered, which happens where the class is
defined. What is not imported yet stands there by proxy: `import t2t_repro` loads neither.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from t2t_repro import imports

PACKAGE = "t2t_repro"
CLASSES = {
    "layers.attention": (*("Attention", "CrossAttention", "SelfAttention", "WeightlessAttention"),),
    "layers.attention_score": (
        *("Additive", "AttentionScore", "DotProduct", "Multiplicative", "ScaledDotProduct"),
    ),
    "layers.blocks": ("Block", "DecoderLayer", "EncoderLayer"),
    "layers.blockwise_attention": (
        *("BlockwiseCrossAttention", "BlockwiseSelfAttention", "InBlocks"),
    ),
    "layers.dilated_convolution": (
        *("ConvolutionBlock", "DilatedConvolution", "ResidualConvolutions"),
    ),
    "layers.dropout": ("Dropout",),
    "layers.embedding": (
        *("SymbolEmbedding", "TargetSpaceEmbedding", "TokenAndPositionEmbedding"),
    ),
    "layers.feed_forward": ("Dense", "FeedForward"),
    "layers.initialization": ("ByParts",),
    "layers.local_attention": ("LocalSelfAttention",),
    "layers.lstm": (
        *("AttentionLSTM", "BahdanauScore", "BidirectionalLSTM", "LSTM", "LSTMStack"),
        "LuongScore",
    ),
    "layers.multi_head_attention": ("MultiHeadAttention",),
    "layers.norms": ("BatchNorm", "GroupNorm", "L2Norm", "LayerNorm", "NoamNorm", "Norm"),
    "layers.position": ("LearnedPositions", "NoPositions", "SinusoidalPositions"),
    "layers.prepostprocess": ("PrePostProcess", "ZeroAdd"),
    "layers.relative_attention": ("RelativeSelfAttention",),
    "layers.stacks": ("DecoderSublayers", "EncoderSublayers", "Stack", "Sublayer"),
    "models.bytenet": ("ByteNet",),
    "models.lstm": (
        *("LSTMSeq2seq", "LSTMSeq2seqAttention", "LSTMSeq2seqBidirectionalEncoder"),
        "LSTMSeq2seqAttentionBidirectionalEncoder",
    ),
    "models.transformer": ("Transformer",),
    "training.learning_rate": ("Schedule",),
    "training.optimizers": ("Adafactor", "Adam"),
}


class Later:
    """A class that is imported when something is made of it.

    Args:
        module: where it is, below this package.
        name: its name.
    """

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._imported()(*arguments, **keywords)

    def from_config(self, config: dict[str, Any]) -> Any:
        """Returns what the class makes of the config."""
        return self._imported().from_config(config)

    def _imported(self) -> Any:
        return getattr(importlib.import_module(f"{PACKAGE}.{self.module}"), self.name)


def register() -> None:
    """Registers all of CLASSES, as soon as Keras is there."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        imports.around("keras", _load_and_register)


def _register(keras: Any) -> None:
    known = keras.saving.get_custom_objects()
    for module, names in CLASSES.items():
        for name in names:
            known.setdefault(f"{PACKAGE}>{name}", Later(module, name))


def _load_and_register(keras: ModuleType, load: Callable[[], None]) -> None:
    load()
    _register(keras)
