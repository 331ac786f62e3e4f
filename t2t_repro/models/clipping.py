"""Which optimizers clip: a step is skipped where they would divide by an infinite norm."""

import keras


def by_global_norm(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether an optimizer, ours or Keras's, scales all gradients by the norm of them together."""
    return bool(getattr(optimizer, "clip_norm", None) or optimizer.global_clipnorm)
