"""--xla_compile: where it is refused, and that a step which XLA compiles is the plain step."""

import itertools
import json

import pytest
from absl import flags

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import trainer as training
from t2t_repro.training.devices import ONE
from t2t_repro.training.request import Plan, TrainRequest

PROBLEM = "algorithmic_reverse_binary40_test"
NO_DROPOUT = "attention_dropout=0,layer_prepostprocess_dropout=0,relu_dropout=0"


@pytest.fixture
def make(tmp_path):
    """Returns a factory of requests; the run of one that is `begun` is there already."""

    def make(name="run", begun=False, xla_compile=True, data_dir="data", steps=20, hparams=None):
        sizes = "num_hidden_layers=1,hidden_size=24,filter_size=40,num_heads=2,batch_size=256"
        two_buckets = "min_length_bucket=8,length_bucket_step=2,learning_rate_warmup_steps=400"
        config = RunConfig(
            hparams_set="transformer_test",
            hparams=hparams
            or registry.get_hparams("transformer_test", f"{sizes},{two_buckets},{NO_DROPOUT}"),
            problem=PROBLEM,
            data_dir=data_dir,
            version="0",
            xla_compile=xla_compile,
        )
        request = TrainRequest(
            run=RunDirectory(tmp_path / name),
            config=config,
            problem=registry.get_problem(PROBLEM),
            plan=Plan(train_steps=steps, local_eval_frequency=10, log_step_count_steps=1),
            schedule="train",
        )
        if begun:
            request.run.begin(config, ["t2t-trainer"], [])
        return request

    return make


def test_a_run_keeps_it(make, tmp_path):
    run = make(begun=True).run
    assert json.loads((run.path / "run.json").read_text())["xla_compile"] is True
    with pytest.raises(UserError, match="xla_compile"):
        run.check(make(xla_compile=False).config)
    asked = parsed(f"--output_dir={run.path}")
    assert trainer.request_of(asked).config.xla_compile
    first = [f"--problem={PROBLEM}", "--hparams_set=transformer_test", f"--data_dir={tmp_path}"]
    new = parsed(*first, f"--output_dir={tmp_path / 'new'}")
    assert not trainer.request_of(new).config.xla_compile
    new = parsed(*first, f"--output_dir={tmp_path / 'new'}", "--xla_compile")
    assert trainer.request_of(new).config.xla_compile


def parsed(*argv):
    given = flags.FlagValues()
    trainer.define_flags(given)
    given(["t2t-trainer", *argv])
    return given


@pytest.mark.slow
def test_steps_that_xla_compiles_are_the_plain_ones_and_go_on(make, tmp_path, write_reversals):
    write_reversals(tmp_path / "data", PROBLEM, 300)
    folder, losses, widths = str(tmp_path / "data"), {}, {}
    for name, compiled, ends in (("plain", False, [20]), ("xla", True, [10, 20])):
        for steps in ends:
            request = make(name, xla_compile=compiled, data_dir=folder, steps=steps)
            training.run(request)
        rows = request.run.read_metrics()
        losses[name] = [row["loss"] for row in rows if row["kind"] == "train"]
        data = itertools.islice(training._training_data(request, ONE, 0), 40)
        widths[name] = {batch["targets"].shape[1] for batch in data}
        assert request.run.config().xla_compile == compiled
    assert len(losses["xla"]) == 20
    assert losses["xla"] == pytest.approx(losses["plain"], rel=1e-5)
    assert len(widths["xla"]) == 2 < len(widths["plain"])
