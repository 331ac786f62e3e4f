import numpy as np
import pytest

from t2t_repro import process
from t2t_repro.bin import fine_tuning, trainer
from t2t_repro.errors import UserError
from t2t_repro.interop import tensor2tensor
from t2t_repro.runs import trained_run
from t2t_repro.training import learning_rate
from tests import untrained
from tests.programs import call

GATHERED = "optimizer=multistep_adam,optimizer_multistep_accumulate_steps=4,train_steps=80000"


def begun(path, overrides, rates):
    """Returns a run that has reported {step: rate}, and has a checkpoint of the last step."""
    run = untrained.begun(path, "transformer_multi30k", "text2text_tmpdir", overrides)
    for step, rate in rates.items():
        run.append_metrics({"kind": "train", "step": step, "learning_rate": rate})
        run.append_metrics({"kind": "eval", "step": step, "loss": 3.0})
    (run.checkpoints_dir / f"ckpt-{max(rates)}").mkdir(parents=True)
    return run


@pytest.fixture
def parent(tmp_path):
    """A run of 12,000 steps that ended at a rate of 0.00034."""
    rates = {6000: 0.0005, 12000: 0.00034}
    overrides = "freeze=encoder,train_steps=20000,bidirectional_steps=6000"
    return begun(tmp_path / "parent", overrides, rates)


@pytest.mark.parametrize("of", ["", "checkpoints/ckpt-12000"])
def test_the_parents_hparams_with_the_rate_of_its_last_step(parent, of):
    said = []
    name, hparams = fine_tuning.proposed(parent.path / of, "batch_size=99", say=said.append)
    own = parent.config.hparams
    changed = {k: v for k, v in vars(hparams).items() if v != getattr(own, k)}
    assert name == "transformer_multi30k" and changed == {
        "learning_rate_schedule": "constant*linear_warmup*multi_cycle_cos_decay",
        "learning_rate_constant": 0.00034,
        "learning_rate_warmup_steps": 240,
        "learning_rate_decay_steps": 2160,
        "train_steps": 2400,
        "bidirectional_steps": 0,
        "freeze": "",
        "batch_size": 99,
    }
    assert "2,400" in said[0] and "0.00034" in said[0]


def test_of_a_parent_whose_rate_fell_to_0_it_is_that_of_half_its_steps(tmp_path):
    rates = {100: 0.0003, 200: 0.0005, 300: 0.0004, 400: 0.0002, 500: 1e-06}
    run = begun(tmp_path / "annealed", "", rates)
    said = []
    _, hparams = fine_tuning.proposed(run.path, say=said.append)
    assert hparams.learning_rate_constant == 0.0004
    assert "0.0004" in said[0]


@pytest.mark.parametrize(
    "overrides, lengths",
    [
        ("train_steps=80", (80, 8, 72)),
        ("learning_rate_warmup_steps=300", (2400, 300, 2100)),
        ("train_steps=80,learning_rate_warmup_steps=90", (80, 90, 1)),
        ("learning_rate_decay_steps=700", (2400, 240, 700)),
    ],
)
def test_the_rate_falls_over_the_steps_that_there_are(parent, overrides, lengths):
    _, hparams = fine_tuning.proposed(parent.path, overrides, say=lambda line: None)
    assert lengths == (
        hparams.train_steps,
        hparams.learning_rate_warmup_steps,
        hparams.learning_rate_decay_steps,
    )


def test_of_a_parent_whose_steps_are_batches_the_rate_falls_by_its_updates(tmp_path):
    run = begun(tmp_path / "gathered", GATHERED, {40000: 0.0005})
    said = []
    _, hparams = fine_tuning.proposed(run.path, say=said.append)
    lengths = hparams.learning_rate_warmup_steps, hparams.learning_rate_decay_steps
    assert (hparams.train_steps, *lengths) == (8000, 200, 1800)
    ends = [float(learning_rate.Schedule(hparams)(step)) for step in (800, 8000)]
    np.testing.assert_allclose(ends, [0.0005, 0], atol=1e-9)


def test_a_run_that_reports_nothing_gets_a_low_rate(parent):
    parent.metrics_path.unlink()
    said = []
    _, hparams = fine_tuning.proposed(parent.path, say=said.append)
    assert (hparams.learning_rate_constant, hparams.train_steps) == (1e-4, 4000)
    fine_tuning.proposed(parent.path, "learning_rate_constant=0.0007", say=said.append)
    assert "0.0001" in said[0] and "0.0007" in said[1]
    with pytest.raises(UserError):
        fine_tuning.proposed(parent.path / "none" / "at" / "all")


def test_the_trainer_takes_it_where_no_set_is_named(parent, asked, tmp_path, capsys):
    argv = ["--problem=text2text_tmpdir", f"--data_dir={tmp_path}", "--generate_data"]
    argv += [f"--warm_start_from={parent.path}", f"--output_dir={tmp_path}/run"]
    call(trainer, *argv, "--hparams=freeze=embeddings,encoder", "--train_steps=70")
    (request,) = asked
    hparams = request.config.hparams
    assert (hparams.learning_rate_constant, hparams.train_steps) == (0.00034, 70)
    assert (hparams.learning_rate_warmup_steps, hparams.learning_rate_decay_steps) == (7, 63)
    assert hparams.freeze == "embeddings,encoder" and not request.warm_start_partial
    assert str(parent.path) in capsys.readouterr().out


def test_of_tensor2tensors_checkpoint_a_run_is_made_once(t2t_run, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(process, "call", lambda f, *args: calls.append(args) or f(*args))
    t2t = t2t_run("base_v1")
    (tmp_path / "data").mkdir()  # without the vocabulary, which lies beside the checkpoint
    where = str(tmp_path / "new"), str(tmp_path / "data"), None
    first, again = (fine_tuning.imported(str(t2t.write(step)), *where) for step in (7, 9))
    assert len(calls) == 1 and first == again and first.startswith(f"{tmp_path}/new/")
    run = trained_run(first)
    model = run.model()
    for name, value in tensor2tensor.export_variables(model).items():
        np.testing.assert_array_equal(value, t2t.variables[name])
    assert run.config.data_dir == where[1] and run.newest_step() == 7
    assert fine_tuning.imported(f"{t2t.folder}/model.ckpt-7", *where) != first
    assert fine_tuning.imported(first, *where) == first
