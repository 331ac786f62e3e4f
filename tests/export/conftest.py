"""What the tests of exports share: a model, its encoders, and its SavedModel."""

import types

import pytest

SUBTOKENS = [*["<pad>_", "<EOS>_"], *"\\_u;0123456789", *"abcdefg ", "ab_", "cd_", ". "]


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

    It was exported with beam_size=2, extra_length=9 and max_input_size=80.
    """
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.export import saved_model
    from t2t_repro.export.forms import ExportJob, ExportRequest

    settings = DecodeHParams(beam_size=2, extra_length=9, max_input_size=80)
    path = tmp_path_factory.mktemp("small") / "a b" / "7"
    run = types.SimpleNamespace(path=path.parent, encoders=encoders)
    model, request = make_model(layers=2), ExportRequest(export_dir=str(path))
    path.mkdir(parents=True)
    saved_model.write(ExportJob(run, model, path, settings, request))
    return model, encoders, path
