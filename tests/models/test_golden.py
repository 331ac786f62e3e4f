"""The model against what tensor2tensor computed, on all its 24 small models.

tests/golden/models has a file of each, with losses, attention and the ids of its searches, which
decoding/test_oracle.py reads. The same tests hold under JAX, and without the kernels written for
speed.
"""

import pathlib

import numpy as np
import pytest

from t2t_repro.interop import tensor2tensor
from t2t_repro.training import distribution, optimizers
from tests import forks


def test_every_case_is_there(golden_path):
    assert len(list((golden_path / "models").glob("*.npz"))) == 24


@pytest.fixture(scope="module")
def model(golden):
    return golden.model()


def test_outputs_and_logits(golden, model):
    memory, real = model.encode(golden["inputs"])
    np.testing.assert_allclose(memory, golden["encoder_output"], atol=2e-5)
    np.testing.assert_array_equal(real, golden["inputs"] != 0)
    outputs, _ = model._decode(golden["targets"], memory, real, False)
    np.testing.assert_allclose(outputs, golden["decoder_output"], atol=2e-5)
    np.testing.assert_allclose(model(golden.batch), golden["logits"], atol=2e-5)


def test_attention_weights(golden, model):
    ours = model.attention_weights(golden.batch)
    theirs = golden.group("attention")
    assert len(ours) == len(theirs) > 0
    for name, expected in theirs.items():
        scope = name.removeprefix("transformer/body/").split("/multihead_attention")[0]
        of_decoder = scope.startswith("decoder")
        real = golden["targets" if of_decoder else "inputs"] != 0
        # (B, N, T, S) -> (B, T, N, S): compare where the query is real
        got = np.transpose(ours[scope], (0, 2, 1, 3))[real]
        np.testing.assert_allclose(got, np.transpose(expected, (0, 2, 1, 3))[real], atol=1e-5)


def test_losses(golden, model):
    logits = model(golden.batch)
    golden.check_losses(logits, 1e-5)


def test_twenty_steps_of_training(costly_golden, dropout_off):
    golden = costly_golden
    model = golden.model(**dropout_off)
    model.compile(optimizer=optimizers.from_hparams(model.hparams))
    step = distribution.step_function(model)
    found = [step(golden.batch).loss for _ in range(20)]
    np.testing.assert_allclose(found, golden["train_loss"], rtol=3e-4)
    before = golden.group("var")
    after = tensor2tensor.export_variables(model)
    for name, value in after.items():
        if "/moving_" in name:  # not trained, by tensor2tensor neither
            np.testing.assert_array_equal(value, before[name])
            continue
        expected = golden[f"after20_norm:{name}"]
        np.testing.assert_allclose(np.linalg.norm(value), expected, rtol=1e-5, err_msg=name)
        change = np.linalg.norm(value - before[name])
        expected = golden[f"after20_change:{name}"]
        np.testing.assert_allclose(change, expected, rtol=5e-3, atol=1e-9, err_msg=name)


def test_decoding_step_by_step_gives_the_same_logits(golden, model):
    inputs, targets = golden.batch.values()
    beams, length = 2, targets.shape[1] + 1
    memory = model.start_decoding(inputs)
    state = model.make_room(model.initial_state(len(inputs), beams), length)
    last = np.zeros((len(inputs), beams), "int32")
    parents = np.repeat(np.arange(beams, dtype="int32")[None], len(inputs), axis=0)
    for step in range(targets.shape[1]):
        logits, state = model.decode_step(last, parents, step, state, memory)
        for beam in range(beams):
            np.testing.assert_allclose(logits[:, beam], golden["logits"][:, step], atol=2e-5)
        last = np.repeat(targets[:, step : step + 1], beams, axis=1)


CASES, BASELINES = "base_v1", "(luong_multi or bahdanau) and not neighbours"
REPLAYED = {  # which cases, with which settings
    "jax": (f"{CASES} or training[adafac or {BASELINES}", {"KERAS_BACKEND": "jax"}),
    "plain": (CASES, {"T2T_REPRO_PLAIN": "1"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", REPLAYED)
def test_all_of_it_otherwise(how):
    """Some of the models with their searches; under JAX two of the baselines, too."""
    here = pathlib.Path(__file__)
    searches = here.parents[1] / "decoding" / "test_oracle.py"
    files = [here, here.with_name("test_baselines.py"), searches]
    cases, environment = REPLAYED[how]
    which = ["-m", "slow or not slow", "--deselect", f"{here}::test_all_of_it_otherwise"]
    pytest_ = ("-m", "pytest", "-n", "0", "-q", "-x", "-k", cases)
    forks.said_by(*pytest_, *which, *files, cwd=here.parents[2], **environment)
