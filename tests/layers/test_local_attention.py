"""Restricted self-attention is tensor2tensor's: tests/golden/local_attention.py has the recipe."""

import numpy as np
import pytest

from t2t_repro import Transformer, get_hparams
from t2t_repro.interop import tensor2tensor
from t2t_repro.layers.attention import EVERYWHERE, LocalSelfAttention, Mask

KINDS = ("local_mask_right", "local_unmasked")


@pytest.fixture(scope="module")
def theirs(golden_path):
    with np.load(golden_path / "local_attention.npz") as arrays:
        return dict(arrays)


def layer_of(kind, block):
    layer = LocalSelfAttention(block, kind == "local_mask_right", 3, 12, 15)
    layer.join_heads = lambda x, training: x  # what T2T's functions return
    return layer


@pytest.mark.parametrize("kind", KINDS)
def test_its_heads_are_those_of_t2ts_function(theirs, kind):
    names = [name for name in theirs if name.startswith(f"function:{kind}:")]
    assert len(names) == 8
    for name in names:
        length, block = (int(number) for number in name.split(":")[2:])
        # T2T looks away from keys that are 0 where nothing is masked already.
        keys = np.any(theirs["k"][:, 0, :length] != 0, axis=-1).astype("int32")
        mask = Mask(keys=keys) if kind == "local_unmasked" else EVERYWHERE
        heads = (theirs[x][:, :, :length] for x in "qkv")
        got, _ = layer_of(kind, block).attend_sequence(*heads, mask)
        real = keys.astype(bool)
        for sentence in range(2):
            where = (sentence, slice(None), real[sentence])
            np.testing.assert_allclose(np.asarray(got)[where], theirs[name][where], atol=1e-5)


def model_of(theirs, kind):
    sizes = "hidden_size=12,filter_size=20,num_heads=3,num_hidden_layers=2"
    overrides = f"{sizes},self_attention_type={kind},symbol_modality_num_shards=1"
    hparams = get_hparams("transformer_base_v2", overrides)
    model = Transformer.from_hparams(
        hparams, inputs_vocab_size=19, targets_vocab_size=19, target_space_id=4
    )
    variables = {k.removeprefix("var:"): v for k, v in theirs.items() if k.startswith("var:")}
    tensor2tensor.load_variables(model, variables)
    return model


def test_a_whole_model_masked_on_the_right(theirs):
    kind = "local_mask_right"
    model = model_of(theirs, kind)
    batch = {name: theirs[name] for name in ("inputs", "targets")}
    real = batch["inputs"] != 0
    memory, _ = model.encode(batch["inputs"])
    expected = theirs[f"{kind}:encoder_output"]
    np.testing.assert_allclose(np.asarray(memory)[real], expected[real], atol=2e-5)
    real = batch["targets"] != 0
    logits = np.asarray(model(batch))
    np.testing.assert_allclose(logits[real], theirs[f"{kind}:logits"][real], atol=2e-5)
