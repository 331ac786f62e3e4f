"""tensor2tensor's Transformer on TensorFlow 2 and Keras 3: the same names, files and numbers.

`get_hparams` and `get_problem` look a named configuration or task up, `Transformer` is the model,
`callbacks` has those of its `fit`, `data` makes its batches. `translate` takes text, `decode` ids;
`export_saved_model` writes model and search, `write_attention_page` what it looks at. `load` gives
a run of t2t-trainer. Heavy libraries load when a name that needs them is used;
`keras.saving.load_model` knows this package's classes all the same.
"""

import importlib
from typing import TYPE_CHECKING

from t2t_repro import imports, layers
from t2t_repro.registry import get_hparams, get_problem

if TYPE_CHECKING:
    from t2t_repro import callbacks, data
    from t2t_repro.decoding.engine import decode, translate
    from t2t_repro.export.saved_model import export_saved_model
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.runs import load
    from t2t_repro.views.attention_page import write_attention_page

__version__ = "0.1.0"
__all__ = ["Transformer", "callbacks", "data", "get_hparams", "get_problem", "load"]
__all__ += ["decode", "export_saved_model", "translate", "write_attention_page"]

_LAZY = {
    "Transformer": "models.transformer",
    "callbacks": "callbacks",
    "data": "data",
    "decode": "decoding.engine",
    "export_saved_model": "export.saved_model",
    "load": "runs",
    "translate": "decoding.engine",
    "write_attention_page": "views.attention_page",
}

_SAVED = {  # where the classes are that a .keras file may name first
    "layers": layers.__all__,
    "models.bytenet": ["ByteNet"],
    "models.lstm": [
        *("LSTMSeq2seq", "LSTMSeq2seqBidirectionalEncoder"),
        *("LSTMSeq2seqAttention", "LSTMSeq2seqAttentionBidirectionalEncoder"),
    ],
    "models.transformer": ["Transformer"],
    "training.learning_rate": ["Schedule"],
    "training.optimizers": ["Adafactor", "Adam"],
}

imports.register_classes(_SAVED)


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 't2t_repro' has no attribute {name!r}")
    module = importlib.import_module(f"t2t_repro.{_LAZY[name]}")
    return getattr(module, name, module)


def __dir__():
    return sorted({*globals(), *__all__})
