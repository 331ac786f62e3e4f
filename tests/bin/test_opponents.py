"""The programs with a recurrent model and with ByteNet."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import avg_all, decoder, exporter, trainer, translate_all
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints

PROBLEM = "algorithmic_reverse_binary40_test"
BOTH = "lstm_seq2seq_attention_bidirectional_encoder"
MODELS = {
    BOTH: ("lstm_luong_attention_multi", "attention_layer_size=4"),
    "byte_net": ("bytenet_base", "num_block_repeat=1"),
}


def run(program, *argv):
    name = program.__name__.rpartition(".")[2]
    cli.run(f"t2t-{name}", program.__doc__, program.define_flags, program.main, list(argv))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_trained_goes_on_and_decodes(model, tmp_path, capsys):
    hparams_set, changes = MODELS[model]
    output_dir = f"--output_dir={tmp_path / 'run'}"
    flags = [
        *(f"--problem={PROBLEM}", f"--hparams_set={hparams_set}", f"--model={model}"),
        f"--hparams=hidden_size=8,num_hidden_layers=1,batch_size=256,{changes}",
        *(f"--data_dir={tmp_path / 'data'}", output_dir),
    ]
    run(trainer, *flags, "--generate_data", "--train_steps=2", "--schedule=train")
    run(trainer, *flags, "--train_steps=3", "--schedule=train_and_evaluate", "--eval_steps=1")
    assert "Continuing from" in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run").config().hparams.model == model
    assert checkpoints.list_checkpoints(tmp_path / "run")[-1].name == "ckpt-3"
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("0 1 1 0\n1 1\n")
    files = [f"--decode_from_file={source}", f"--decode_to_file={target}"]
    settings = "--decode_hparams=beam_size=2,extra_length=3"
    run(decoder, output_dir, f"--model={model}", *files, settings)
    assert len(target.read_text().splitlines()) == 2
    with pytest.raises(SystemExit) as stop:
        run(exporter, output_dir)
    assert stop.value.code == 2
    assert f"Expected a Transformer for an export. Received: {tmp_path}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_finished_and_its_checkpoints_translate(model, tmp_path, capsys):
    hparams_set, changes = MODELS[model]
    for side in ("inputs", "targets"):
        for split in ("train", "eval"):
            lines = [f"{split} word {i} of {side} {i % 7}" for i in range(40)]
            (tmp_path / f"{side}.{split}.txt").write_text("\n".join(lines) + "\n")
    directory = f"{tmp_path / 'run'}"
    run(
        trainer,
        *("--problem=text2text_tmpdir", f"--hparams_set={hparams_set}", f"--model={model}"),
        f"--hparams=hidden_size=8,num_hidden_layers=1,batch_size=256,{changes}",
        *(f"--data_dir={tmp_path / 'data'}", f"--tmp_dir={tmp_path}", f"--output_dir={directory}"),
        *("--generate_data", "--train_steps=4", "--schedule=train", "--local_eval_frequency=2"),
    )
    source = tmp_path / "inputs.eval.txt"
    run(
        translate_all,
        *(f"--model_dir={directory}", f"--source={source}", "--wait_minutes=0"),
        f"--translations_dir={tmp_path / 'all'}",
        *("--beam_size=2", "--decode_hparams=extra_length=3"),
    )
    names = [path.name for path in (tmp_path / "all").iterdir()]
    assert any("-2" in name for name in names) and any("-4" in name for name in names), names
    run(
        avg_all,
        *("--tune", f"--model_dir={directory}", "--n=2", "--beam_sizes=1,2", "--alphas=0.6"),
        "--sentences=5",
    )
    assert "Chose " in capsys.readouterr().out
    assert RunDirectory(tmp_path / "run" / "finished").config().hparams.model == model


def test_rows_of_several_sentences_are_refused_before_anything_is_made(tmp_path, capsys):
    flags = [f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}", "--train_steps=2"]
    (tmp_path / "vocab.text2text_tmpdir.32768.subwords").write_text("'a_'\n'b_'\n")
    with pytest.raises(SystemExit) as stop:
        run(trainer, "--problem=text2text_tmpdir_packed", "--hparams_set=lstm_attention", *flags)
    assert stop.value.code == 2 and not (tmp_path / "run").exists()
    said = "a sentence in each row with model=lstm_seq2seq_attention, which would mix those of one"
    assert said in capsys.readouterr().err


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
    run(trainer, *flags, "--train_steps=2", "--eval_steps=1")
    assert checkpoints.list_checkpoints(tmp_path / "run")[-1].name == "ckpt-2"
