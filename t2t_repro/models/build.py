"""Makes the model of a problem, for training and decoding, without TensorFlow."""

from typing import Any

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.models import sharing
from t2t_repro.problem import Problem


def model_for(problem: Problem, hparams: HParams, data_dir: str) -> Any:
    """Returns a new model for the vocabularies in `data_dir`, with all its variables made.

    It is the `SequenceModel` that hparam `model` names.

    Raises:
        UserError: if a vocabulary is missing, or the model is unknown.
    """
    sharing.check(hparams, problem, data_dir)
    return registry.get_model(hparams.model).from_hparams(
        hparams,
        inputs_vocab_size=problem.inputs_vocab_size(data_dir),
        targets_vocab_size=problem.targets_vocab_size(data_dir),
        target_space_id=int(problem.target_space_id),
    )
