"""Training: the loss, the learning rate, the optimizers, metrics, checkpoints and the loop."""
