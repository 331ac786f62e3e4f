"""The same source on JAX: logits, loss, training and beams against tensor2tensor's numbers."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import keras
import numpy as np
sys.path.insert(0, {tests!r})
from conftest import DROPOUT_OFF, GoldenCase
import t2t_repro
from t2t_repro.training import losses, optimizers

assert keras.backend.backend() == "jax"
golden = GoldenCase({name!r})
model = golden.model(**DROPOUT_OFF)
logits = model(golden.batch)
np.testing.assert_allclose(logits, golden["logits"], atol=2e-5)
total, weight = losses.padded_cross_entropy(logits, golden["targets"])
np.testing.assert_allclose(total, golden["loss_sum"], rtol=1e-5)
model.compile(optimizer=optimizers.from_hparams(model.hparams))
now = [model.train_on_batch(golden.batch, return_dict=True)["loss"] for _ in range(20)]
np.testing.assert_allclose(now, golden["train_loss"], rtol=3e-4)
if "beam_ids" in golden:
    ids, scores = t2t_repro.decode(
        golden.model("trained"), golden["inputs"], beam_size=4, alpha=0.6, decode_length=8,
        top_beams=4,
    )
    np.testing.assert_array_equal(ids[:, :, : golden["beam_ids"].shape[2]], golden["beam_ids"])
    np.testing.assert_allclose(scores, golden["beam_scores"], atol=1e-3)
print("same numbers")
"""


@pytest.mark.parametrize("name", ["base_v1", "base", "adafactor"])
def test_the_golden_numbers_on_jax(name):
    program = PROGRAM.format(tests=str(pathlib.Path(__file__).parent), name=name)
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "same numbers\n"
