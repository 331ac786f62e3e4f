"""Results of a comparison, made by hand."""

from t2t_repro.study.results import CellResult
from t2t_repro.study.variants import Cell, Grid, of_sequences

POST, PRE = "post-norm", "pre-norm"


def plan_of(**changes) -> Grid:
    values = {"depths": (3,), "warmups": (700, 2000), "seeds": 3, "train_steps": 9000}
    return Grid(
        problem="algorithmic_reverse_binary40_test",
        data_dir="/data",
        variants=of_sequences("transformer_base_v1", "none/dan,n/da"),
        **values | changes,
    )


def result_of(cell: Cell, loss: float = 3.0, fall: float = 0.0, **changes) -> CellResult:
    """A run that ends with this loss, and whose dev loss falls late by a share."""
    values = {
        "cell": cell,
        "hparams": {},
        "stopped_at": None,
        "train": [(step, 6.0 - 0.1 * step) for step in range(1, 21)],
        "dev": [(4500, loss + 1), (6750, loss / (1 - fall)), (9000, loss)],
        "initial_loss": 6.5,
        "dev_loss": loss,
        "accuracy": 0.5,
        "unigram_loss": 5.0,
        "hypotheses": None,
        "references": None,
        "tokens_per_second": 900.0,
        "parameters": 1234,
        "gradients": {},
        "activations": {},
    }
    return CellResult(**values | changes)
