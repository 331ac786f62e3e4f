"""--xla_compile: where it is refused, and that a step which XLA compiles is the plain step."""

import json

import pytest
from absl import flags

from t2t_repro import registry
from t2t_repro.bin import trainer
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import experiment, xla
from t2t_repro.training.devices import ONE, Devices
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


@pytest.mark.parametrize(
    "where, message",
    [
        (ONE, "one GPU with --xla_compile. Received: a CPU, .* gets no faster; with KERAS_BACKEND"),
        (Devices(strategy=object(), local=3, kind="GPU"), "Received: 3 GPUs, .*--worker_gpu=1"),
    ],
)
def test_it_is_refused_where_it_is_of_no_use(make, where, message):
    with pytest.raises(UserError, match=message):
        xla.check(make(), where)
    xla.check(make(xla_compile=False), where)
    xla.check(make(), Devices(kind="GPU"))


def test_it_is_refused_for_a_loop_over_tokens_which_is_not_compiled(make):
    recurrent = make(hparams=registry.get_hparams("lstm_seq2seq"))
    with pytest.raises(UserError, match="lstm_seq2seq"):
        xla.check(recurrent, Devices(kind="GPU"))
    xla.check(make(hparams=registry.get_hparams("bytenet_base")), Devices(kind="GPU"))


def test_a_run_that_has_it_goes_on_but_not_where_it_cannot_be(make, monkeypatch):
    begun = make(begun=True)
    xla.check(begun, ONE)
    with pytest.raises(UserError, match="--worker_gpu"):
        xla.check(begun, Devices(strategy=object(), local=3, kind="GPU"))
    monkeypatch.setattr(xla.keras.backend, "backend", lambda: "jax")
    xla.check(begun, Devices(strategy=object(), local=3, kind="GPU"))


def test_it_is_refused_under_jax(make, monkeypatch):
    monkeypatch.setattr(xla.keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(xla.devices, "described", lambda: "jax on 2 x H100")
    with pytest.raises(UserError, match="2"):
        xla.check(make(), Devices(kind="GPU"))


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


def test_it_has_no_effect_on_an_evaluation(make):
    run = make(begun=True).run
    with pytest.raises(UserError, match="--schedule"):
        trainer.request_of(
            parsed(f"--output_dir={run.path}", "--schedule=evaluate", "--xla_compile")
        )
    assert trainer.request_of(parsed(f"--output_dir={run.path}", "--schedule=evaluate"))


def parsed(*argv):
    given = flags.FlagValues()
    trainer.define_flags(given)
    given(["t2t-trainer", *argv])
    return given


@pytest.mark.slow
def test_steps_that_xla_compiles_are_the_plain_ones_and_go_on(
    make, tmp_path, monkeypatch, write_reversals
):
    """On a CPU, as if it were a GPU: the refusal alone is left out."""
    write_reversals(tmp_path / "data", PROBLEM, 300)
    monkeypatch.setattr(xla, "check", lambda request, where: None)
    folder, losses, widths = str(tmp_path / "data"), {}, {}
    for name, compiled, ends in (("plain", False, [20]), ("xla", True, [10, 20])):
        for steps in ends:
            request = make(name, xla_compile=compiled, data_dir=folder, steps=steps)
            experiment.run(request)
        rows = request.run.read_metrics()
        losses[name] = [row["loss"] for row in rows if row["kind"] == "train"]
        data = experiment.Experiment(request)._training_data(0).take(40)
        widths[name] = {batch["targets"].shape[1] for batch in data}
        assert request.run.config().xla_compile == compiled
    assert len(losses["xla"]) == 20
    assert losses["xla"] == pytest.approx(losses["plain"], rel=1e-5)
    assert len(widths["xla"]) == 2 < len(widths["plain"])
