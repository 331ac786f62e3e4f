"""The model of a problem: what training and decoding both make, with no need of TensorFlow."""

from t2t_repro.config import HParams
from t2t_repro.models import parameters
from t2t_repro.models.transformer import Transformer
from t2t_repro.problem import Problem


def transformer_for(problem: Problem, hparams: HParams, data_dir: str) -> Transformer:
    """Returns a new Transformer for the vocabularies in `data_dir`, with all its variables made.

    Raises:
        UserError: if a vocabulary is missing, or the model does not fit into memory.
    """
    parameters.check_memory(hparams, problem, data_dir, training=False)
    parameters.check_sharing(hparams, problem, data_dir)
    return Transformer.from_hparams(
        hparams,
        inputs_vocab_size=problem.inputs_vocab_size(data_dir),
        targets_vocab_size=problem.targets_vocab_size(data_dir),
        target_space_id=problem.target_space_id,
    )
