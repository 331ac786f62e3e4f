"""tensor2tensor's variables, in and out."""

import numpy as np
import pytest

from t2t_repro import Transformer
from t2t_repro.errors import UserError
from t2t_repro.interop import tensor2tensor


def test_export_gives_back_what_was_loaded(golden):
    arrays = golden.group("var")
    again = tensor2tensor.export_variables(golden.model())
    assert set(again) == set(arrays)
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_variables_of_three_dimensions(golden_case):
    case = golden_case("base_v1")
    model = case.model(attention_variables_3d=False)
    hparams = case.hparams.override("attention_variables_3d=True")
    other = Transformer.from_hparams(hparams, inputs_vocab_size=37, targets_vocab_size=37)
    other.set_weights(model.get_weights())
    arrays = tensor2tensor.export_variables(other)
    scope = "transformer/body/encoder/layer_0/self_attention/multihead_attention"
    flat = tensor2tensor.export_variables(model)
    assert arrays[f"{scope}/q"].shape == (24, 3, 8)
    np.testing.assert_array_equal(arrays[f"{scope}/q"].reshape(24, 24), flat[f"{scope}/q/kernel"])
    tensor2tensor.load_variables(other, arrays)
    for before, after in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_attention_that_tensor2tensor_lacks_is_refused(golden_case):
    case, overrides = golden_case("base_v1"), "attention_score=additive"
    hparams = case.hparams.override(overrides)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=37, targets_vocab_size=37)
    with pytest.raises(UserError, match=overrides):
        tensor2tensor.load_variables(model, case.group("var"))
    with pytest.raises(UserError, match=overrides):
        tensor2tensor.export_variables(model)


def test_missing_extra_and_misshapen_are_all_listed(golden_case):
    case = golden_case("base_v1")
    model = case.model()
    before = model.get_weights()
    arrays = case.group("var")
    del arrays["transformer/body/target_space_embedding/kernel"]
    arrays["transformer/body/stranger"] = np.zeros(3, "float32")
    arrays["transformer/symbol_modality_37_24/shared/weights_1"] = np.zeros((8, 24), "float32")
    with pytest.raises(UserError) as caught:
        tensor2tensor.load_variables(model, arrays)
    for each in (
        "target_space_embedding/kernel",
        "transformer/body/stranger",
        "(9, 24)",
        "(8, 24)",
    ):
        assert each in str(caught.value)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
