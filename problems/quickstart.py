"""The problem of the trainer's embedded default."""

from t2t_repro.registry import register_problem

from .algorithmic import AlgorithmicReverseDecimal40


@register_problem
class AlgorithmicReverseQuickstart(AlgorithmicReverseDecimal40):
    """Write 1 to 40 digits backwards; unlike in T2T's decimal40, no longer ones in evaluation."""

    dev_length = 40
    train_size = 50000
    dev_size = 500
    num_shards = 1
