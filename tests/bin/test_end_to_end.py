"""All programs one after the other on one tiny text, from its files to an export, by model."""

import json
import re

import pytest

from t2t_repro import provenance
from t2t_repro.bin import avg_all, bleu, checkpoint, datagen, decoder, evaluator, exporter, trainer
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from tests.programs import call

pytestmark = pytest.mark.slow
PROBLEM = "text2text_tmpdir"
MODELS = {
    "transformer": ("transformer_test", "num_heads=2"),
    "lstm_seq2seq_attention_bidirectional_encoder": (
        "lstm_luong_attention_multi",
        "attention_layer_size=4",
    ),
    "byte_net": ("bytenet_base", "num_block_repeat=1"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the data of 90 pairs, which the models share."""
    folder = tmp_path_factory.mktemp("text")
    for split, first, last in (("train", 10, 90), ("eval", 90, 99)):
        lines = [" ".join(str(number)) for number in range(first, last)]
        (folder / f"inputs.{split}.txt").write_text("\n".join(lines) + "\n")
        (folder / f"targets.{split}.txt").write_text("\n".join(a[::-1] for a in lines) + "\n")
    flags = [f"--data_dir={folder / 'data'}", f"--tmp_dir={folder}", "--nocheck_data"]
    flags += ["--t2t_exact", "--num_concurrent_processes=1"]
    call(datagen, f"--problem={PROBLEM}", *flags)
    return folder / "data"


@pytest.mark.parametrize("model", MODELS)
def test_from_data_to_an_export(model, data, tmp_path, capsys, refused, monkeypatch):
    hparams_set, changes = MODELS[model]
    path, mean = tmp_path / "run", tmp_path / "mean"
    names = [f"--problem={PROBLEM}", f"--hparams_set={hparams_set}", f"--model={model}"]
    hparams = f"--hparams=hidden_size=8,num_hidden_layers=1,batch_size=256,{changes}"
    often = ["--train_steps=2", "--local_eval_frequency=1", "--eval_steps=1", f"--data_dir={data}"]
    call(trainer, *names, hparams, *often, f"--output_dir={path}", "--log_step_count_steps=1")
    out = capsys.readouterr().out
    assert "step 2/2 | loss" in out
    for step in (1, 2):
        assert re.search(rf"step {step} \| dev \(.* examples.*; teacher-forced\): loss", out)
    # The folder alone says what to continue; the data may have moved.
    moved = data.rename(tmp_path / "moved")
    try:
        more = ["--train_steps=3", f"--data_dir={moved}", "--schedule=train"]
        call(trainer, f"--output_dir={path}", *more)
    finally:
        moved.rename(data)
    out = capsys.readouterr().out
    assert "(step 2)" in out and "step 3/3" in out and "dev" not in out
    run = RunDirectory(path)
    assert run.config.hparams.model == model and len(run.config.commands) == 2
    (dev,) = provenance.read(path).data["dev"]
    assert dev.startswith(str(moved))
    assert [each.name for each in checkpoints.list_checkpoints(path)][-2:] == ["ckpt-2", "ckpt-3"]
    assert "hidden_size" in refused(trainer, f"--output_dir={path}", "--hparams=hidden_size=32").err

    if model == "transformer":  # tensor2tensor's checkpoint and back, and on
        of, there, again = (f"{tmp_path}/{name}" for name in ("run", "t2t", "again"))
        call(checkpoint, "export", f"--output_dir={of}", f"--t2t_dir={there}")
        call(checkpoint, "import", f"--checkpoint={there}", f"--output_dir={again}")
        assert RunDirectory(again).config.hparams == run.config.hparams
        capsys.readouterr()
        more = ["--train_steps=4", f"--data_dir={data}", "--schedule=train"]
        call(trainer, f"--output_dir={again}", *more)
        out = capsys.readouterr().out
        assert "(step 3)" in out and "step 4/4" in out

    call(avg_all, f"--model_dir={path}", "--n=2", "--last_only", f"--output_dir={mean}")
    call(evaluator, f"--output_dir={mean}", f"--data_dir={data}")
    assert json.loads((mean / "eval-dev-3.json").read_text())["metrics"]["loss"] > 0
    (tmp_path / "in").write_text("1 2\n3 4 5\n")
    files = [f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"]
    call(decoder, f"--output_dir={mean}", *files, "--decode_hparams=beam_size=2,extra_length=3")
    assert len((tmp_path / "out").read_text().splitlines()) == 2
    call(bleu, f"--translation={tmp_path / 'out'}", f"--reference={tmp_path / 'in'}")
    assert "BLEU_uncased = " in capsys.readouterr().out
    if model == "transformer":
        monkeypatch.setattr("t2t_repro.export.signatures.Served.names", ("best",))
        call(exporter, f"--output_dir={mean}")
        assert (mean / "export" / "3" / "saved_model.pb").exists()
    else:
        assert model in refused(exporter, f"--output_dir={mean}").err


OF_WORDS = """
import keras
from t2t_repro import registry
from t2t_repro.models.sequence_model import SequenceModel

@registry.register_model
class BagOfWords(SequenceModel):
    def build(self, input_shape=None):
        self.table = self.add_weight(shape=(self.targets_vocab_size,) * 2, name="table")
        self.built = True

    def call(self, batch, training=False):
        return keras.ops.take(self.table, batch["targets"], axis=0)
"""


def test_a_model_that_cannot_decode_is_trained(letters, tmp_path):
    (tmp_path / "of_words").mkdir()
    (tmp_path / "of_words" / "__init__.py").write_text(OF_WORDS)
    flags = f"--t2t_usr_dir={tmp_path / 'of_words'}", "--model=bag_of_words", "--train_steps=2"
    flags += f"--problem={letters.config.problem}", "--hparams_set=transformer_test"
    flags += f"--data_dir={letters.config.data_dir}", f"--output_dir={tmp_path / 'run'}"
    call(trainer, *flags, "--hparams=batch_size=256", "--eval_steps=1")
    assert checkpoints.list_checkpoints(tmp_path / "run")[-1].name == "ckpt-2"
    record = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert record["step"] == 2 and record["golden"] == []
