"""Results of a study, made by hand."""

import pathlib

from t2t_repro.study import compared
from t2t_repro.study.results import CellResult
from t2t_repro.study.study import Cell, Study

POST, PRE = "post-norm", "pre-norm"
PROBLEM = "algorithmic_reverse_binary40_test"


def study_of(
    variants=None,
    *,
    hparams="",
    depths=(3,),
    warmups=(700, 2000),
    train_steps=9000,
    seeds=3,
    output_dir="/out",
    data_dir="/data",
    **more,
) -> Study:
    """Post-norm against pre-norm, or sets."""
    variants = variants or compared.norms("transformer_base_v1", hparams)
    return Study(
        problem=PROBLEM,
        data_dir=str(data_dir),
        output_dir=pathlib.Path(output_dir),
        variants=compared.in_settings(variants, depths, warmups, train_steps),
        seeds=seeds,
        **more,
    )


def cell_of(study: Study, name: str, warmup=700, seed=0) -> Cell:
    return next(
        cell
        for cell in study.cells()
        if (cell.variant.name, cell.variant.warmup, cell.seed) == (name, warmup, seed)
    )


def result_of(cell: Cell, loss: float = 3.0, fall: float = 0.0, **changes) -> CellResult:
    """A run that ends with this loss, and whose dev loss falls late by a share."""
    values = {
        "variant": cell.variant,
        "seed": cell.seed,
        "stopped_at": None,
        "train": [(step, 6.0 - 0.1 * step) for step in range(1, 21)],
        "dev": [(4500, loss + 1), (6750, loss / (1 - fall)), (9000, loss)],
        "initial_loss": 6.5,
        "dev_loss": loss,
        "accuracy": 0.5,
        "unigram_loss": 5.0,
        "bleu": None,
        "hypotheses": None,
        "references": None,
        "tokens_per_second": 900.0,
        "parameters": 1234,
        "gradients": {},
        "activations": {},
    }
    return CellResult(**values | changes)
