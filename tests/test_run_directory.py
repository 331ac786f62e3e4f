"""The run directory explains itself and keeps contradictions out."""

import dataclasses
import json

import pytest

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.files import sha256
from t2t_repro.run_directory import RunConfig, RunDirectory, of_tensor2tensor

CONFIG = RunConfig(
    hparams_set="mine",
    hparams=HParams(num_heads=4),
    problem="text2text_tmpdir",
    data_dir="/data",
    version="1.2",
    random_seed=3,
)


def test_what_it_was_begun_with_stays(tmp_path):
    vocabulary = tmp_path / "vocab.x.subwords"
    vocabulary.write_text("'a_'\n")
    run = RunDirectory(tmp_path / "run")
    assert not run.exists()
    run.begin(CONFIG, ["t2t-trainer", "--x=a b"], [str(vocabulary)])
    run.begin(CONFIG, ["t2t-trainer", "again"], [str(vocabulary)])
    file = run.path / "run.json"  # which may hold what another version kept
    file.write_text(json.dumps(json.loads(file.read_text()) | {"batch_parts": 2}))
    config = run.config
    assert config.vocabularies == {vocabulary.name: sha256(vocabulary)}
    assert dataclasses.replace(config, commands=(), vocabularies=None) == CONFIG
    assert [c.split(" ", 1)[1] for c in config.commands] == [
        "t2t-trainer '--x=a b'",
        "t2t-trainer again",
    ]
    other = dataclasses.replace(CONFIG, hparams=HParams(num_heads=8), random_seed=4)
    with pytest.raises(UserError, match="num_heads.*random_seed"):
        run.begin(other, ["x"], [str(vocabulary)])
    renamed = tmp_path / "vocab.x.32768.subwords"  # as tensor2tensor has it
    renamed.write_text("'a_'\n")
    run.check_vocabularies([renamed])
    renamed.write_text("another")
    vocabulary.write_text("another")
    with pytest.raises(UserError, match=renamed.name):
        run.check_vocabularies([renamed])
    with pytest.raises(UserError, match=vocabulary.name):
        run.begin(CONFIG, ["x"], [str(vocabulary)])
    assert (run.path / vocabulary.name).read_text() == "'a_'\n" and run.config == config


def test_a_longer_run_continues_unless_its_steps_read_the_end(tmp_path):
    def changed(**hparams):
        return dataclasses.replace(CONFIG, hparams=dataclasses.replace(CONFIG.hparams, **hparams))

    run = RunDirectory(tmp_path / "a")
    run.begin(CONFIG, ["x"], [])
    (run.checkpoints_dir / "ckpt-30").mkdir(parents=True)
    before = CONFIG.hparams.train_steps
    for steps, kept in ((10, before), (70, 70), (30, 30)):  # 10 lies behind the run
        run.begin(changed(train_steps=steps), ["x"], [])
        assert run.config.hparams.train_steps == kept
    run.check(changed(learning_rate_decay_steps=7))  # neither reads it: no difference
    dropout = {"subword_dropout": 0.1, "subword_dropout_final_steps": 7}
    for reading in ({"learning_rate_schedule": "linear_decay"}, dropout):
        run = RunDirectory(tmp_path / "_".join(reading))
        run.begin(changed(**reading), ["x"], [])
        with pytest.raises(UserError, match="train_steps"):
            run.begin(changed(train_steps=9, **reading), ["x"], [])


def test_what_is_no_run_is_not_written_over(tmp_path):
    run = RunDirectory(tmp_path / "lost")
    (run.checkpoints_dir / "ckpt-3").mkdir(parents=True)
    with pytest.raises(UserError, match="run.json"):
        run.begin(CONFIG, ["x"], [])
    (tmp_path / "model.ckpt-7.index").touch()
    (tmp_path / "hparams.json").write_text("theirs")
    with pytest.raises(UserError, match=f"--checkpoint={tmp_path} "):
        RunDirectory(tmp_path).begin(CONFIG, ["x"], [])
    assert (tmp_path / "hparams.json").read_text() == "theirs"
    assert not of_tensor2tensor(tmp_path / "model.ckpt-9")
    assert not of_tensor2tensor(tmp_path / "model.ckpt-7-ours")
    assert f"{tmp_path}/model.ckpt-7" in of_tensor2tensor(tmp_path / "model.ckpt-7")
    assert not of_tensor2tensor(tmp_path / "run") and not of_tensor2tensor(tmp_path.parent)


def test_a_description_is_copied_without_history(tmp_path):
    run, out = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "out")
    (tmp_path / "own.bpe").touch()
    run.begin(CONFIG, ["x"], [tmp_path / "own.bpe"])
    run.append_metrics({"step": 1})
    for name in ("eval-dev-3.json", "trainer.lock", "inputs.train.txt", ".env", "vocab.incomplete"):
        (run.path / name).write_text(name)
    run.checkpoints_dir.mkdir()
    run.copy_description(out)
    names = sorted(path.name for path in out.path.iterdir())
    assert names == ["hparams.json", "own.bpe", "run.json"]
    assert out.config == run.config
