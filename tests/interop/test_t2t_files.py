"""hparams.json and flags.txt of tensor2tensor."""

import json

import pytest

from t2t_repro import registry, t2t_compat
from t2t_repro.config import HParams, snake_case
from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_files
from t2t_repro.training import learning_rate


@pytest.fixture
def file(tmp_path):
    def write(values):
        path = tmp_path / "hparams.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values))
        return path

    return write


@pytest.mark.parametrize("name", sorted(n for n in registry.list_hparams() if "paper_" not in n))
def test_every_set_of_t2t_is_read_as_ours(file, golden_path, name):
    sets = json.loads((golden_path / "hparams.json").read_text())
    if name in sets:
        run = {"data_dir": "d", "model_dir": "m", "schedule": "train", "eval_steps": 10}
        empty = {"bottom": {}, "top": {}, "loss": {}, "name": {}, "weights_fn": {}}
        own = t2t_files.read_hparams(file(sets[name] | run | empty))
        assert HParams(**own) == registry.get_hparams(name)


OF_BASE_V1 = {"learning_rate": 0.1, "learning_rate_warmup_steps": 4000, "hidden_size": 512}


@pytest.mark.parametrize("optimizer", ["Adam", "TrueAdam", "MultistepAdam"])
@pytest.mark.parametrize(
    "said",
    [
        {"learning_rate_decay_scheme": "noam", "learning_rate_schedule": "legacy"},  # to 1.12
        {
            "learning_rate_decay_scheme": "none",
            "learning_rate_schedule": "linear_warmup_rsqrt_decay",
        },
        {"learning_rate_decay_scheme": "noam", "learning_rate_schedule": "warmup_and_decay"},
        {"learning_rate_decay_scheme": "noam"},  # to 1.4.3
    ],
)
def test_the_learning_rate_of_versions_up_to_1_12(file, optimizer, said):
    """At step 4000, from 1.9.0's learning_rate.py, run under TensorFlow 1.15."""
    old = {"symbol_modality_skip_top": False, "optimizer_multistep_accumulate_steps": None}
    own = t2t_files.read_hparams(file(OF_BASE_V1 | old | said | {"optimizer": optimizer}))
    hparams = HParams(**own | {"optimizer_multistep_accumulate_steps": 0, "optimizer": "adam"})
    assert own["optimizer"] == snake_case(optimizer) and own["learning_rate_schedule"] == "legacy"
    assert own["optimizer_multistep_accumulate_steps"] == 0
    rate = learning_rate.Schedule(hparams)(4000)
    assert float(rate) == pytest.approx(0.00069868, rel=1e-5)


def test_the_learning_rate_of_adafactor_up_to_1_5_2_and_of_adam_since_1_13(file):
    old = {"symbol_modality_skip_top": False, "learning_rate_decay_scheme": "noam"}
    own = t2t_files.read_hparams(file(OF_BASE_V1 | old | {"optimizer": "Adafactor"}))
    assert own["learning_rate"] == pytest.approx(0.1 / 500) and own["optimizer"] == "Adafactor"
    own = t2t_files.read_hparams(file(OF_BASE_V1 | {"optimizer": "Adam"}))
    assert own == OF_BASE_V1 | {"optimizer": "Adam"}  # which has no factor there, nor here


def test_values_as_tensor2tensors_sets_say_them_too(file):
    said = {
        "shared_embedding_and_softmax_weights": 1,
        "unidirectional_encoder": 0,
        "clip_grad_norm": None,
        "max_input_seq_length": -1,
        "num_heads": 1,
    }
    own = t2t_files.read_hparams(file(said))
    assert list(own.values()) == [True, False, 0.0, 0, 1]
    HParams(**own)  # which are of the right types


@pytest.mark.parametrize(
    "name, value",
    [
        ("ffn_layer", "local_moe"),
        ("proximity_bias", True),
        ("moe_k", 3),
        ("bottom", {"targets": "f"}),
        ("target_modality", "symbol:ctc"),
    ],
)
def test_a_field_that_we_lack_at_another_value(file, name, value):
    with pytest.raises(UserError, match=f"--ignore_hparams={name}"):
        t2t_files.read_hparams(file({name: value}))
    t2t_files.read_hparams(file({name: value}), [name])


def test_hparams_that_are_written_are_all_of_t2ts(file, golden_path):
    sets = json.loads((golden_path / "hparams.json").read_text())
    written = json.loads(t2t_files.write_hparams(registry.get_hparams("transformer_base_v1")))
    theirs = sets["transformer_base_v1"]
    assert {name: written[name] for name in theirs} == theirs
    assert not t2t_compat.BEFORE_1_15 & written.keys()
    hparams = registry.get_hparams("transformer_big")
    assert HParams(**t2t_files.read_hparams(file(t2t_files.write_hparams(hparams)))) == hparams


def test_attention_that_t2t_computes_otherwise_is_refused(file):
    base = registry.get_hparams("transformer_base_v1")
    unscaled = base.override("attention_score=dot_product,attention_variables_3d=True")
    assert t2t_files.write_hparams(unscaled)
    local = base.override("self_attention_type=local_mask_right")
    written = t2t_files.write_hparams(local)
    assert HParams(**t2t_files.read_hparams(file(written))) == local
    assert not {"attention_block_length", "attention_chunk_size", "attention_score"} & set(
        json.loads(written)
    )
    for other, name in (
        (unscaled.override("attention_variables_3d=False"), "attention_variables_3d"),
        (local.override("attention_block_length=64"), "attention_block_length"),
        (base.override("self_attention_type=local_unmasked"), "local_unmasked"),
    ):
        with pytest.raises(UserError, match=name):
            t2t_files.write_hparams(other)


def test_flags(tmp_path):
    assert t2t_files.read_flags(tmp_path / "flags.txt") == {}
    text = "--nohelp\n" + t2t_files.write_flags(problem="p", hparams="a=1,b=2", model="")
    (tmp_path / "flags.txt").write_text(text)
    expected = {"problem": "p", "hparams": "a=1,b=2", "model": ""}
    assert t2t_files.read_flags(tmp_path / "flags.txt") == expected
