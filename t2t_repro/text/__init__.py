"""Text to ids and back: tensor2tensor's subword, byte and token encoders.

TensorFlow is in graph.py alone, for exports that take text.
"""

from t2t_repro.text.encoders import ByteTextEncoder, ShiftedEncoder, TextEncoder, TokenTextEncoder
from t2t_repro.text.subword import SubwordTextEncoder

__all__ = ["ByteTextEncoder", "ShiftedEncoder", "SubwordTextEncoder", "TextEncoder"]
__all__ += ["TokenTextEncoder"]
