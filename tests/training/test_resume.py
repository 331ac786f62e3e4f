"""All regularizers, and frozen parts: from a checkpoint they go on exactly."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_optimizer
from t2t_repro.training import checkpoints, distribution, optimizers
from tests.models.test_transformer import BATCH, tiny
from tests.training.runs import arrays, assert_same

ALL_ON = {
    "inputs_word_dropout": 0.2,
    "targets_word_dropout": 0.3,
    "encoder_layerdrop": 0.4,
    "decoder_layerdrop": 0.5,
    "r_drop_alpha": 5.0,
    "ema_decay": 0.9,
    "learning_rate_warmup_steps": 10,
    "num_hidden_layers": 1,
}
PARTS = {
    "embeddings": ("shared", "input_emb", "target_emb", "softmax", "target_space", "inputs_pos"),
    "encoder": ("encoder/",),
    "decoder": ("decoder/",),
}


def made(**changes):
    model = tiny(**{"num_hidden_layers": 1, "learning_rate_warmup_steps": 1, **changes})
    model.compile(optimizer=optimizers.from_hparams(model.hparams), run_eagerly=True)
    return model, distribution.step_function(model)


@pytest.mark.parametrize("changes", [ALL_ON, {"freeze": "embeddings,encoder"}])
def test_it_goes_on_bit_by_bit(tmp_path, changes):
    model, step = made(**changes)
    step(BATCH)
    path = checkpoints.save(tmp_path, model, checkpoints.State(step=1))
    other, again = made(**changes)
    for variable in other.variables:  # nothing of it may be left
        variable.assign(variable + 1)
    checkpoints.restore(other, path)
    for _ in range(2):
        assert again(BATCH).loss == step(BATCH).loss
    assert_same(other, model)
    averages = [list(checkpoints.averages(each).values()) for each in (model, other)]
    assert len(averages[0]) == len(model.trainable_variables) * ("ema_decay" in changes)
    for average, expected in zip(*averages, strict=True):
        np.testing.assert_array_equal(average, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "freeze, more",
    [
        ("embeddings", {}),
        ("encoder,embeddings", {"optimizer": "adafactor"}),
        ("decoder", {"shared_embedding_and_softmax_weights": False}),
        ("decoder,encoder", {}),
    ],
)
def test_what_is_frozen_stays_bit_equal_and_all_else_learns(freeze, more):
    model, step = made(freeze=freeze, pos="emb", max_length=9, **more)
    before = arrays(model)
    for _ in range(3):
        step(BATCH)
    model.fit(BATCH, verbose=0) if not more else None
    starts = tuple(start for part in freeze.split(",") for start in PARTS[part])
    for name, value in arrays(model).items():
        frozen = name.startswith(starts) or "embeddings" in freeze and "position" in name
        assert np.array_equal(value, before[name]) == frozen, name
    slots = {variable.path for variable in model.optimizer.variables}
    assert not any("encoder" in path for path in slots) or "encoder" not in freeze


def test_slots_of_frozen_parts_are_not_there_to_go_on_with(tmp_path):
    model, _ = made(freeze="encoder")
    path = checkpoints.save(tmp_path, model, checkpoints.State(step=1))
    with pytest.raises(UserError, match="optimizer/"):
        checkpoints.restore(made()[0], path)
    with pytest.raises(UserError):
        t2t_optimizer.export(model)
