import shlex

import pytest
from absl import flags

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.studies.paper import hardware, published, training_plan

P100 = hardware.DEVICES["P100"]


def row_of(table, problem, hparams_set):
    headings = [column.heading for column in table.columns]
    (row,) = (row for row in table.rows if tuple(row[:2]) == (problem, hparams_set))
    return dict(zip(headings, row, strict=True))


def test_every_row_of_the_paper_has_a_command():
    table = training_plan.plan(hardware.Hardware(8, P100), 0.5)
    sets = {row[1] for row in table.rows}
    assert {row.hparams_set for row in published.TABLE3} <= sets
    assert {"paper_table2_big_enfr", "paper_parsing_wsj"} <= sets
    assert {row[0] for row in table.rows} <= set(registry.list_problems())
    base = row_of(table, "translate_ende_wmt14", "paper_table3_base")
    assert base["command"] == (
        "t2t-trainer --problem=translate_ende_wmt14 --hparams_set=paper_table3_base "
        "--data_dir=data "
        "--output_dir=runs/translate_ende_wmt14-paper_table3_base --worker_gpu=8"
    )
    assert base["TFLOP a step"] * 1e12 * 100_000 == pytest.approx(base["FLOP"])
    assert base["hours"] == pytest.approx(base["FLOP"] / (8 * 9.5e12 * 0.5 * 3600))
    small = row_of(table, "translate_enfr_wmt14", "paper_table2_base_enfr")
    assert small["FLOP"] < base["FLOP"]  # its softmax is over 32,000


@pytest.mark.parametrize(
    ("count", "device", "environment", "dtype"),
    [
        (1, "P100", [], "float32"),
        (2, "K80", [], "float32"),
        (8, "V100", ["KERAS_BACKEND=jax"], "float16"),
        (1, "H200", ["KERAS_BACKEND=jax"], "bfloat16"),
        (64, "H200", [], "bfloat16"),
    ],
)
def test_every_command_is_one_of_t2t_trainer_in_the_precision_of_its_hours(
    count, device, environment, dtype
):
    machine = hardware.Hardware(count, hardware.DEVICES[device])
    text = training_plan.command("p", "paper_table3_base", machine)
    args = flags.FlagValues()
    trainer.define_flags(args)
    *before, program = text.split(" --")[0].split()
    given = shlex.split(text)[len(before) :]
    assert (before, program, args(given)) == (environment, "t2t-trainer", ["t2t-trainer"])
    assert (args.worker_gpu or 1) == min(count, 8)
    hparams = registry.get_hparams("paper_table3_base", args.hparams)
    assert hparams.activation_dtype == dtype
