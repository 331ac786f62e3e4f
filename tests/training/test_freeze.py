"""What the hparam freeze names stays bit-equal, and a frozen run resumes exactly."""

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_optimizer
from t2t_repro.models.transformer import Transformer
from t2t_repro.training import (
    checkpoints,
    distribution,
    optimizers,
)

BATCH = {
    "inputs": np.array([[3, 4, 5, 1], [6, 2, 1, 0]], "int32"),
    "targets": np.array([[5, 4, 1], [7, 1, 0]], "int32"),
}
OF = {
    "embeddings": ("shared", "input_emb", "target_emb", "softmax", "target_space", "inputs_pos"),
    "encoder": ("encoder/",),
    "decoder": ("decoder/",),
}
CHANGES = "num_hidden_layers=1,learning_rate_warmup_steps=1,pos=emb,max_length=9,freeze="


def made(freeze, more=""):
    hparams = registry.get_hparams("transformer_test", CHANGES + freeze + more)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=9, targets_vocab_size=9)
    model.compile(optimizer=optimizers.from_hparams(hparams), run_eagerly=True)
    return model


def arrays(model):
    return {name: np.array(value) for name, value in checkpoints.weights(model).items()}


@pytest.mark.parametrize(
    "freeze, more",
    [
        ("embeddings", ""),
        ("encoder,embeddings", ",optimizer=adafactor"),
        ("decoder", ",shared_embedding_and_softmax_weights=False"),
        ("decoder,encoder", ""),
    ],
)
@pytest.mark.slow
def test_what_is_frozen_stays_bit_equal_and_all_else_learns(freeze, more):
    model = made(freeze, more)
    before, step = arrays(model), distribution.step_function(model)
    for _ in range(3):
        step(BATCH)
    model.fit(BATCH, verbose=0) if not more else None
    starts = tuple(start for part in freeze.split(",") for start in OF[part])
    for name, value in arrays(model).items():
        frozen = name.startswith(starts) or "embeddings" in freeze and "position" in name
        assert np.array_equal(value, before[name]) == frozen, name
    slots = {variable.path for variable in model.optimizer.variables}
    assert not any("encoder" in path for path in slots) or "encoder" not in freeze


def test_a_frozen_run_resumes_exactly(tmp_path):
    model = made("embeddings,encoder")
    step = distribution.step_function(model)
    step(BATCH)
    path = checkpoints.save(tmp_path, model, checkpoints.State(step=1))
    other = made("embeddings,encoder")
    checkpoints.restore(other, path)
    again = distribution.step_function(other)
    for _ in range(2):
        assert step(BATCH).loss == again(BATCH).loss
    for (name, value), other_value in zip(
        arrays(model).items(), arrays(other).values(), strict=True
    ):
        np.testing.assert_array_equal(value, other_value, name)
    with pytest.raises(UserError, match="optimizer/"):
        checkpoints.restore(made(""), path)
    with pytest.raises(UserError):
        t2t_optimizer.export(model)


@pytest.mark.parametrize("freeze", ["head", "embeddings,decoder,encoder"])
def test_what_cannot_be_frozen_is_refused(freeze):
    with pytest.raises(UserError, match="freeze"):
        registry.get_hparams("transformer_test", f"freeze={freeze}")
