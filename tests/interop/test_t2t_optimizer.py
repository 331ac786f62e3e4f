"""Optimizer state in tensor2tensor's checkpoints."""

import dataclasses

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.interop import t2t_checkpoint, t2t_optimizer, tensor2tensor
from t2t_repro.training import optimizers


def compiled(hparams):
    model = registry.get_model(hparams.model).from_hparams(
        hparams, inputs_vocab_size=37, targets_vocab_size=37, target_space_id=4
    )
    model.compile(optimizer=optimizers.from_hparams(hparams))
    return model


@pytest.mark.parametrize(
    "name",
    [
        "base_v1",
        pytest.param("multistep", marks=pytest.mark.slow),
        "adafactor",
        pytest.param("clip_and_decay", marks=pytest.mark.slow),
    ],
)
def test_slots_come_back_as_they_were(t2t_run, golden_case, name):
    run = t2t_run(name)
    model = compiled(golden_case(name).hparams)
    t2t_optimizer.load(model, t2t_checkpoint.Checkpoint(run.write(step=9)))
    assert int(model.optimizer.iterations) == 9
    again = t2t_optimizer.export(model)
    slots = run.slots()
    counters = set(again) - set(slots)
    powers = {"training/beta1_power", "training/beta2_power"}
    expected = {"adafactor": set(), "multistep": powers | {"training/iter"}}.get(name, powers)
    assert counters == expected
    for slot, value in slots.items():
        np.testing.assert_array_equal(again[slot], value, err_msg=slot)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam_w"},
        {"optimizer": "true_adam"},
        {"activation_dtype": "float16"},  # another optimizer around it scales the loss
        {"optimizer": "adafactor", "optimizer_adafactor_beta1": 0.9},
        {"optimizer": "adafactor", "optimizer_adafactor_factored": False},
    ],
)
def test_other_optimizers(t2t_run, golden_case, changes):
    hparams = dataclasses.replace(golden_case("base_v1").hparams, **changes)
    exported = t2t_optimizer.export(compiled(hparams))
    if changes.get("optimizer_adafactor_factored", True):
        run = t2t_run("base_v1")
        run.hparams |= changes
        slots = run.slots()
        assert {n: a.shape for n, a in slots.items()} == {
            n: a.shape for n, a in exported.items() if not n.endswith("_power")
        }
    else:
        kernel = "training/transformer/body/encoder/layer_0/ffn/conv1/kernel"
        assert exported[f"{kernel}/Adafactor"].shape == (24, 40)
        assert f"{kernel}/Adafactor_1" not in exported


def test_powers_are_products_of_float32(golden_case):
    model = compiled(golden_case("base_v1").hparams)
    model.optimizer.iterations.assign(3)
    beta = np.float32(0.9)
    assert t2t_optimizer.export(model)["training/beta1_power"] == beta * beta * beta * beta
    model.optimizer.iterations.assign(1000000)
    assert t2t_optimizer.export(model)["training/beta1_power"] == 0


@pytest.mark.parametrize(
    "changes, name, shapes",
    [
        (
            {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "dz"},
            "transformer/body/encoder/layer_0/ffn/layer_postprocess/zero_add/gamma",
            [()],
        ),
        (
            {"attention_variables_3d": True, "optimizer_adafactor_factored": False},
            "transformer/body/encoder/layer_0/self_attention/multihead_attention/q",
            [(24, 3, 8)],
        ),
        (
            {"model": "byte_net"},
            "byte_net/body/bytenet/conv_block/conv_block_0_single/kernel",
            [(3, 1, 48), (3, 1, 24)],
        ),
    ],
)
def test_adafactors_means_of_the_same_numbers_in_another_shape(
    golden_case, tmp_path, changes, name, shapes
):
    hparams = dataclasses.replace(golden_case("adafactor").hparams, **changes)
    arrays = t2t_optimizer.export(model := compiled(hparams))
    slots = [f"training/{name}/Adafactor", f"training/{name}/Adafactor_1"][: len(shapes)]
    assert [arrays[slot].shape for slot in slots] == shapes
    rng = np.random.default_rng(7)
    arrays = {slot: rng.random(array.shape, "float32") for slot, array in arrays.items()}
    variables = tensor2tensor.export_variables(model) | {"global_step": np.array(2, "int64")}
    prefix = t2t_checkpoint.write(tmp_path, 2, variables | arrays)
    t2t_optimizer.load(model, t2t_checkpoint.Checkpoint(prefix))
    for slot, array in t2t_optimizer.export(model).items():
        np.testing.assert_array_equal(array, arrays[slot], err_msg=slot)


def test_missing_and_misshapen_slots_are_all_listed(t2t_run, golden_case):
    run = t2t_run("base_v1")
    slots = run.slots()
    kernel = "transformer/body/target_space_embedding/kernel"
    bias = "transformer/body/encoder/layer_0/ffn/conv1/bias"
    del slots[f"training/{kernel}/Adam_1"]
    slots[f"training/{bias}/Adam"] = np.zeros(3, "float32")
    arrays = run.variables | slots | {"global_step": np.array(7, "int64")}
    t2t_checkpoint.write(run.folder, 7, arrays)
    model = compiled(golden_case("base_v1").hparams)
    with pytest.raises(UserError) as caught:
        t2t_optimizer.load(model, t2t_checkpoint.Checkpoint(run.folder))
    for each in (f"training/{kernel}/Adam_1", f"training/{bias}/Adam", "(40,)", "(3,)"):
        assert each in str(caught.value)
    assert int(model.optimizer.iterations) == 0
