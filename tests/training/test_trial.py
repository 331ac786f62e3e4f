import dataclasses
import pickle

import pytest
from absl import flags

from t2t_repro import processes, registry
from t2t_repro.bin import trainer
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.training import estimate, outlook, trial
from t2t_repro.training.machine import Device, Machine
from t2t_repro.training.trial import Trial

HPARAMS = dataclasses.replace(registry.get_hparams("transformer_test"), num_hidden_layers=1)
SHAPE = BatchShape(5, 7, 9)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [None, 2])
def test_steps_are_made_and_measured(devices):
    made = trial.run(HPARAMS, (23, 29), SHAPE, devices)
    assert 0 < made.step_seconds < 60 and made.memory > 5e7 and made.failure == ""


PACKAGE = """
from t2t_repro import registry
from t2t_repro.models.transformer import Transformer


@registry.register_model
class OfTheUser(Transformer):
    pass
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """The request of a command that names the user's package, and whether it was loaded."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(PACKAGE)
    argv = ["t2t-trainer", "--hparams_set=transformer_tiny", "--problem=translate_ende_wmt14"]
    argv += ["--generate_data", "--data_dir=d", "--output_dir=o", "--t2t_usr_dir=package"]
    given = flags.FlagValues()
    trainer.define_flags(given)
    monkeypatch.chdir(tmp_path)
    given(argv)
    return trainer.request_of(given)


@pytest.mark.usefixtures("own_models")
def test_the_package_of_the_user_is_loaded_where_steps_are_tried(asked, monkeypatch):
    called = []
    monkeypatch.setattr(processes, "run", lambda function, *given, watch: called.append(given))
    with pytest.raises(AttributeError):  # of no process
        outlook._trial(asked, estimate.of(asked, Machine((Device("C"),), "CPU", 1, 1e11)))
    load = pickle.loads(pickle.dumps(called[0][-1]))
    load()
    assert "of_the_user" in registry.list_models()


@pytest.mark.slow
def test_a_model_of_the_user_is_tried(asked):
    hparams = registry.get_hparams("transformer_tiny")
    object.__setattr__(hparams, "model", "of_the_user")  # which this process does not know
    made = trial.run(hparams, (23, 29), SHAPE, load_user_code=asked.load_user_code)
    assert made.step_seconds > 0


@pytest.mark.parametrize(
    "ended, failure",
    [
        (processes.Ended(-9, ""), "killed, as the system does where there is no memory"),
        (processes.Ended(1, "OOM: RESOURCE_EXHAUSTED: 3 GB"), "out of memory"),
        (processes.Ended(1, "ImportError: no such module"), ""),
    ],
)
def test_how_it_may_end(monkeypatch, ended, failure):
    monkeypatch.setattr(processes, "run", lambda *arguments, watch: ended)
    assert trial.run(HPARAMS, (23, 29), SHAPE) == Trial(failure=failure)


def test_a_step_that_takes_too_long_says_nothing_of_memory(monkeypatch):
    def killed(*arguments, watch):
        assert not watch(0)
        return processes.Ended(-9, "")

    monkeypatch.setattr(trial, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(processes, "run", killed)
    assert trial.run(HPARAMS, (23, 29), SHAPE) == Trial()
