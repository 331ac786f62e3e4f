"""The programs with a recurrent model and with ByteNet."""

import pytest

from t2t_repro.bin import decoder, exporter, trainer
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from tests.programs import call

PROBLEM = "algorithmic_reverse_binary40_test"
BOTH = "lstm_seq2seq_attention_bidirectional_encoder"
MODELS = {
    BOTH: ("lstm_luong_attention_multi", "attention_layer_size=4"),
    "byte_net": ("bytenet_base", "num_block_repeat=1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_trained_goes_on_and_decodes(model, tmp_path, capsys, refused):
    hparams_set, changes = MODELS[model]
    output_dir = f"--output_dir={tmp_path / 'run'}"
    flags = [
        *(f"--problem={PROBLEM}", f"--hparams_set={hparams_set}", f"--model={model}"),
        f"--hparams=hidden_size=8,num_hidden_layers=1,batch_size=256,{changes}",
        *(f"--data_dir={tmp_path / 'data'}", output_dir),
    ]
    call(trainer, *flags, "--generate_data", "--train_steps=2", "--schedule=train")
    call(trainer, *flags, "--train_steps=3", "--schedule=train_and_evaluate", "--eval_steps=1")
    assert "Continuing from" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").config.hparams.model == model
    assert checkpoints.list_checkpoints(tmp_path / "run")[-1].name == "ckpt-3"
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("0 1 1 0\n1 1\n")
    files = [f"--decode_from_file={source}", f"--decode_to_file={target}"]
    settings = "--decode_hparams=beam_size=2,extra_length=3"
    call(decoder, output_dir, f"--model={model}", *files, settings)
    assert len(target.read_text().splitlines()) == 2
    assert model in refused(exporter, output_dir).err


def test_rows_of_several_sentences_are_refused_before_anything_is_made(tmp_path, refused):
    flags = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}", "--train_steps=2"]
    (tmp_path / "vocab.text2text_tmpdir.32768.subwords").write_text("'a_'\n'b_'\n")
    flags += ["--problem=text2text_tmpdir_packed", "--hparams_set=lstm_attention"]
    assert "text2text_tmpdir_packed" in refused(trainer, *flags).err
    assert not (tmp_path / "run").exists()


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


@pytest.mark.slow
def test_a_model_that_cannot_decode_is_trained(tmp_path):
    (tmp_path / "of_words").mkdir()
    (tmp_path / "of_words" / "__init__.py").write_text(OF_WORDS)
    flags = [
        *(f"--t2t_usr_dir={tmp_path / 'of_words'}", f"--problem={PROBLEM}", "--model=bag_of_words"),
        *("--hparams_set=transformer_test", "--hparams=batch_size=256", "--generate_data"),
        *(f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'run'}"),
    ]
    call(trainer, *flags, "--train_steps=2", "--eval_steps=1")
    assert checkpoints.list_checkpoints(tmp_path / "run")[-1].name == "ckpt-2"
