"""The loss that training minimizes; the model applies it itself, see Transformer.compute_loss."""

from t2t_repro.layers.cross_entropy import padded_cross_entropy

__all__ = ["padded_cross_entropy"]
