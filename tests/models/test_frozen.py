"""What the hparams freeze is not trained, and is so wherever the model is loaded."""

import copy

import keras
import pytest

import t2t_repro


@pytest.mark.parametrize(
    "freeze, trained",
    [
        ("encoder", {"decoder", "shared", "target_space_embedding"}),
        ("embeddings,decoder", {"encoder"}),
    ],
)
def test_what_the_hparams_freeze_is_not_trained_wherever_it_is_loaded(freeze, trained, tmp_path):
    hparams = t2t_repro.get_hparams("transformer_test", f"num_hidden_layers=1,freeze={freeze}")
    model = t2t_repro.Transformer(hparams, inputs_vocab_size=17, targets_vocab_size=17)
    model.build()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    copies = copy.deepcopy(model), keras.models.clone_model(model)
    for each in (model, again, *copies):
        each.build()
        assert {variable.path.split("/")[1] for variable in each.trainable_variables} == trained
