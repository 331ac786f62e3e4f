"""What the tests of packages written for tensor2tensor share, and those of a SavedModel."""

import sys

import pytest

from t2t_repro import registry, t2t_compat
from t2t_repro.interop import usr_dir

SUBTOKENS = [*["<pad>_", "<EOS>_"], *"\\_u;0123456789", *"abcdefg ", "ab_", "cd_", ". "]


@pytest.fixture
def restored():
    """The registry and the modules are as they were after each test."""
    registry.list_hparams(), registry.list_problems()
    changed = registry._HPARAMS, registry._PROBLEMS, t2t_compat.ADDED
    tables = [(table, dict(table)) for table in changed]
    modules = set(sys.modules)
    yield
    for table, before in tables:
        table.clear()
        table.update(before)
    assert not [f for f in sys.meta_path if type(f).__module__ == usr_dir.__name__]
    assert not [name for name in sys.modules if name.partition(".")[0] == "tensor2tensor"]
    for name in set(sys.modules) - modules:
        if name.startswith(registry.USR_DIR_PREFIX):
            del sys.modules[name]


@pytest.fixture
def load(tmp_path, restored):
    """Writes a package and loads it; returns the warnings."""

    def load(init, name="mine", **modules):
        folder = tmp_path / name
        folder.mkdir()
        for file, text in {"__init__": init, **modules}.items():
            (folder / f"{file}.py").write_text(text)
        said: list[str] = []
        usr_dir.load(str(folder), said.append)
        usr_dir.load(str(folder), said.append)
        return said

    return load


@pytest.fixture(scope="session")
def make_model():
    """Makes a model that was not trained, with an end that is likely enough to come."""
    import keras

    from t2t_repro import Transformer, get_hparams

    def make(overrides="", layers=1):
        keras.utils.set_random_seed(3)
        size = len(SUBTOKENS)
        hparams = get_hparams(
            "transformer_test",
            f"hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers={layers}{overrides}",
        )
        model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
        for variable in model.variables:
            variable.assign(3 * variable)
        return model

    return make


@pytest.fixture(scope="session")
def encoders():
    """The encoders of those models."""
    from t2t_repro.text import SubwordTextEncoder

    return dict.fromkeys(("inputs", "targets"), SubwordTextEncoder.from_subtokens(SUBTOKENS))


@pytest.fixture(scope="session")
def small(make_model, encoders, tmp_path_factory):
    """A model of two layers, its encoders, and the folder "a b/7" of its SavedModel.

    It was exported with beam_size=2, extra_length=9, max_input_size=80 and a vocabulary.
    """
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.interop import saved_model

    settings = DecodeHParams(beam_size=2, extra_length=9, max_input_size=80)
    folder = tmp_path_factory.mktemp("small")
    vocabulary = folder / "vocab.x.subwords"
    encoders["inputs"].store_to_file(vocabulary)
    path = folder / "a b" / "7"
    path.mkdir(parents=True)
    model = make_model(layers=2)
    return model, encoders, saved_model.export(model, encoders, path, settings, [vocabulary])


@pytest.fixture(scope="module")
def quickly():
    """Functions are not optimized before their first call, which then takes half the time."""
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **before})
