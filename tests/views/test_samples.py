"""The samples that a run writes for TensorBoard: translations and attention, at their steps."""

import pytest
import tensorflow as tf

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import trainer
from t2t_repro.training.request import Plan, TrainRequest
from t2t_repro.views import pictures, samples

PROBLEM = "algorithmic_reverse_binary40_test"
HPARAMS = "num_hidden_layers=1,num_heads=2,batch_size=200,max_length=60"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of four steps, with reports and samples at every second."""
    folder = tmp_path_factory.mktemp("samples")
    problem = registry.get_problem(PROBLEM)
    generate_data(Job(problem, folder / "data", folder))
    hparams = registry.get_hparams("transformer_test", f"{HPARAMS},train_steps=4")
    what = {"hparams_set": "transformer_test", "problem": PROBLEM, "version": "0"}
    config = RunConfig(hparams=hparams, data_dir=str(folder / "data"), **what)
    request = TrainRequest(
        run=RunDirectory(folder / "run"),
        config=config,
        problem=problem,
        plan=Plan(train_steps=4, log_step_count_steps=2),
        schedule="continuous_train_and_eval",
        eval_steps=1,
        make_samples=lambda model, split: samples.make(model, problem, config, split),
        samples_every=2,
    )
    trainer.run(request)
    return request


def summaries(folder):
    return [
        (event.step, value)
        for file in folder.glob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    ]


def test_translations_and_attention(trained):
    found = summaries(trained.run.path / "samples")
    kinds = ["encoder", "encoder-decoder", "decoder"]
    names = ["translations", *(f"attention/{kind}" for kind in kinds)]
    assert [(step, value.tag) for step, value in found] == [(s, n) for s in (2, 4) for n in names]
    text = found[0][1].tensor.string_val[0].decode()
    lines = text.splitlines()
    assert lines[0] == "| source | reference | translation |"
    assert len(lines) == 2 + samples.COUNT
    source, reference = (cell.split() for cell in lines[2].split("|")[1:3])
    assert source == reference[::-1] and set(source) <= {"0", "1"}
    png = found[1][1].tensor.string_val[2]
    assert png.startswith(b"\x89PNG") and len(png) < pictures.LIMIT


def test_a_run_has_everything_for_tensorboard(trained):
    (last,) = (
        row for row in trained.run.read_metrics() if row.get("step") == 4 and "padding" in row
    )
    assert 0 <= last["padding"] < 1 and last["gradient_norm"] > 0
    hparams = trained.config.hparams
    assert hparams.label_smoothing == 0 or last["plain_loss"] != last["loss"]
    tags = {value.tag for _, value in summaries(trained.run.path)}
    assert {"loss", "plain_loss", "gradient_norm", "weight_norm", "padding"} <= tags
    assert {"tokens_per_second", "learning_rate"} <= tags
    assert "gradient_norm/decoder/layer_0/encdec_attention" in tags
    assert {"loss", "accuracy"} <= {value.tag for _, value in summaries(trained.run.path / "eval")}
