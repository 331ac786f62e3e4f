"""R-Drop (Liang et al. 2021, https://arxiv.org/abs/2106.14448): two passes that are to agree."""

from t2t_repro.layers.cross_entropy import divergence, mean_over_global_batch


def loss_and_logits(model, batch, sample_weight=None):
    """Returns the loss of a training step, and the logits of its first pass.

    The batch goes through the model twice, each time with other dropout, and the two distributions
    of each target are drawn together. The loss is half of the paper's, so that it compares with one
    pass's while alpha means what it means there: the mean of both passes' losses, and alpha / 2
    times the mean of the two Kullback-Leibler divergences, per real target of the global batch.

    Args:
        model: a Transformer; its hparams have r_drop_alpha.
        batch: {"inputs", "targets"} of int32 (B, length).
        sample_weight: float32 (B, T), what is multiplied with loss and divergence of each token,
            or None.
    """
    passes = []
    for _ in range(2):
        logits = model(batch, training=True)
        passes.append((logits, model._loss_of(batch, logits, sample_weight, training=True)))
    (first, loss), (second, other) = passes
    apart = mean_over_global_batch(*divergence(first, second, batch["targets"], sample_weight))
    return 0.5 * (loss + other + model.hparams.r_drop_alpha * apart), first
