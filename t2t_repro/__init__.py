"""tensor2tensor's Transformer on TensorFlow 2 and Keras 3: the same names, files and numbers.

`get_hparams` and `get_problem` look a named configuration or task up, `Transformer` is the model,
`decode` searches for its best outputs. Heavy libraries load when a name that needs them is used.
"""

from t2t_repro import start as start  # isort: skip (first: a signal may come at any time)
from t2t_repro.registry import get_hparams, get_problem

__version__ = "0.1.0"
__all__ = ["Transformer", "decode", "get_hparams", "get_problem"]


def __getattr__(name):
    if name == "Transformer":
        from t2t_repro.models.transformer import Transformer

        return Transformer
    if name == "decode":
        from t2t_repro.decoding.decode import decode

        return decode
    raise AttributeError(f"module 't2t_repro' has no attribute {name!r}")
