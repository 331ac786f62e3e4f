"""The time of a step by its FLOPs: on a CPU by width, on a GPU beside what an H200 took."""

import pytest

from t2t_repro import registry
from t2t_repro.models.batch_shape import BatchShape
from t2t_repro.models.flops import train_step_flop
from t2t_repro.training import step_time
from t2t_repro.training.machine import Device, Machine

CORES = Machine((Device("Cores", 0),), "CPU", 1, 1e11)


def gpu(rate, count=1):
    return Machine((Device("NVIDIA H200", 0),) * count, "GPU", count, rate)


@pytest.mark.parametrize("width, share", [(32, 0.125), (64, 0.25), (512, 0.72), (2048, 0.8)])
def test_a_cpus_share_is_that_of_the_width(width, share):
    hparams = registry.get_hparams("transformer_base", f"hidden_size={width}")
    assert step_time.share_of(width) == pytest.approx(share)
    assert step_time.of(hparams, 3e9, CORES) == pytest.approx(3e9 / 1e11 / share)
    said = step_time.described(hparams, 3e9, CORES)
    assert said == (
        f"by 0.003 TFLOP a step at {share:.2f} of the 100 GFLOP/s of its matrix products, "
        "measured now"
    )


def test_between_two_widths_a_share_is_between_theirs():
    assert 0.25 < step_time.share_of(90) < 0.4


@pytest.mark.parametrize(
    "name, rows, length, vocab_size, rate, milliseconds",
    [
        ("transformer_multi30k", 128, 16, 5637, 335e12, 4.3),
        ("transformer_base", 128, 32, 32768, 335e12, 17.0),
        ("transformer_base", 128, 32, 32768, 547e12, 10.8),  # bfloat16, as the others
        ("transformer_base", 784, 32, 32768, 547e12, 36.1),
        ("transformer_big", 784, 32, 32768, 547e12, 94.7),
    ],
)
def test_a_gpus_is_near_what_steps_on_an_h200_took(
    name, rows, length, vocab_size, rate, milliseconds
):
    hparams = registry.get_hparams(name)
    flop = train_step_flop(hparams, BatchShape(rows, length, length), vocab_size)
    assert 1e3 * step_time.of(hparams, flop, gpu(rate)) == pytest.approx(milliseconds, rel=1 / 6)


def test_several_gpus_share_the_operations_and_each_has_all_layers():
    hparams = registry.get_hparams("transformer_base", "num_encoder_layers=5,num_decoder_layers=2")
    one, three = step_time.of(hparams, 1e12, gpu(2e14)), step_time.of(hparams, 3e12, gpu(2e14, 3))
    assert one == three == pytest.approx(1 / 116 + 7 * 0.55e-3)
    assert "of its matrix products, measured now, and 0.55 ms for each of 7 layers" in (
        step_time.described(hparams, 1e12, gpu(2e14))
    )
    assert "of each GPU's matrix" in step_time.described(hparams, 1e12, gpu(2e14, 3))
