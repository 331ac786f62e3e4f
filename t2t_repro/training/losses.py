"""The public door of the loss that training minimizes, `t2t_repro.training.losses`.

The model applies it itself: see `Transformer.loss_of`.
"""

from t2t_repro.layers.cross_entropy import padded_cross_entropy

__all__ = ["padded_cross_entropy"]
