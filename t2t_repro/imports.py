"""What happens around the first import of TensorFlow and of Keras, whoever imports them.

TensorFlow's libraries print while they are loaded, before TF_CPP_MIN_LOG_LEVEL is read: stderr goes
through a filter for that time. Keras gets to know this package's classes by name, so that
`keras.saving.load_model` works after `import t2t_repro`, which loads neither.
"""

import contextlib
import importlib.util
import logging
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
_DEV = pathlib.Path("/dev")
_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|[IW]\d{4} [\d:.]+ +\d+ "  # absl's lines of information and warning
    rb"|To enable the following instructions: "
    rb"|E\d{4} .*Unable to register cu(FFT|DNN|BLAS) factory"  # it is registered already
)
_NO_GPU = re.compile(rb"E\d{4} .*failed call to cuInit")  # an error only where there is one
CLASSES = {
    "layers.attention": "Attention CrossAttention RelativeSelfAttention SelfAttention "
    "WeightlessAttention",
    "layers.attention_score": "Additive AttentionScore DotProduct Multiplicative ScaledDotProduct",
    "layers.blocks": "Block DecoderLayer EncoderLayer",
    "layers.blockwise_attention": "BlockwiseCrossAttention BlockwiseSelfAttention InBlocks",
    "layers.dilated_convolution": "ConvolutionBlock DilatedConvolution ResidualConvolutions",
    "layers.embedding": "LearnedPositions NoPositions SinusoidalPositions SymbolEmbedding "
    "TargetSpaceEmbedding TokenAndPositionEmbedding",
    "layers.feed_forward": "Dense FeedForward",
    "layers.layer": "ByParts Dropout",
    "layers.local_attention": "LocalSelfAttention",
    "layers.lstm": "AttentionLSTM BahdanauScore BidirectionalLSTM LSTM LSTMStack LuongScore",
    "layers.multi_head_attention": "MultiHeadAttention",
    "layers.norms": "BatchNorm GroupNorm L2Norm LayerNorm NoamNorm Norm",
    "layers.prepostprocess": "PrePostProcess ZeroAdd",
    "layers.stacks": "DecoderSublayers EncoderSublayers Stack Sublayer",
    "models.bytenet": "ByteNet",
    "models.lstm": "LSTMSeq2seq LSTMSeq2seqAttention LSTMSeq2seqBidirectionalEncoder "
    "LSTMSeq2seqAttentionBidirectionalEncoder",
    "models.transformer": "Transformer",
    "training.learning_rate": "Schedule",
    "training.optimizers": "Adafactor Adam",
}


class _Finder:
    """Finds a module once, and calls `work` with it, still empty, and with what fills it."""

    def __init__(self, name: str, work: Callable[[ModuleType, Callable[[], None]], None]):
        self._name, self._work = name, work

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec and spec.loader
        if loader is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # from here on it is as if nobody had waited
            self._work(module, lambda: loader.exec_module(module))

        loader.exec_module = exec_module
        return spec


# --- TensorFlow ------------------------------------------------------------------------------


def quiet_tensorflow() -> None:
    """Lets TensorFlow be loaded in silence, unless the user's environment asks for its words."""
    level = os.environ.setdefault(VARIABLE, "2")
    log = logging.getLogger("tensorflow")
    if level not in ("2", "3") or _is_of_use in log.filters:
        return
    log.addFilter(_is_of_use)
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder("tensorflow", _quietly))


@contextlib.contextmanager
def filtered() -> Iterator[None]:
    """Passes on to stderr, at its end, what the block says and is no noise."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            said.seek(0)
            for line in said:
                if not is_noise(line):
                    os.write(2, line)


def is_noise(line: bytes) -> bool:
    """Whether a line of TensorFlow's says only what it is."""
    gpus = any(_DEV.glob("nvidia[0-9]*"))
    return bool(_NOISE.match(line) or (not gpus and _NO_GPU.match(line)))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether a line of TensorFlow's log is not the advice against compiling for each shape, which
    the programs do on purpose."""
    return "triggered tf.function retracing" not in record.getMessage()


def _quietly(module: ModuleType, load: Callable[[], None]) -> None:
    with filtered():
        load()
        module.config.list_physical_devices("GPU")  # once, which is when CUDA speaks


# --- Keras -----------------------------------------------------------------------------------


class _Later:
    """A class of this package that is imported when something is made of it."""

    def __init__(self, module: str, name: str):
        self._module, self._name = f"t2t_repro.{module}", name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(importlib.import_module(self._module), self._name), name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(importlib.import_module(self._module), self._name)(*arguments, **keywords)


def register_classes() -> None:
    """Registers all of CLASSES, as soon as Keras is there."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _Finder("keras", _register))


def _register(keras: Any, load: Callable[[], None] = lambda: None) -> None:
    load()
    known = keras.saving.get_custom_objects()
    for module, names in CLASSES.items():
        for name in names.split():
            known.setdefault(f"t2t_repro>{name}", _Later(module, name))
