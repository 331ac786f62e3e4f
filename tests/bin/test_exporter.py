"""From a run to a SavedModel that translates as t2t-decoder does."""

import re
import shutil

import pytest
import tensorflow as tf

from t2t_repro.bin import decoder, exporter
from t2t_repro.errors import UserError
from t2t_repro.export import forms
from t2t_repro.run_directory import RunDirectory
from tests.bin.conftest import VOCABULARY
from tests.programs import call

pytestmark = pytest.mark.slow
PROBLEM, SET = "text2text_tmpdir", "transformer_test"
SENTENCES = ["a b", "", "cab dad. bad", "é"]


@pytest.fixture
def run(letters, tmp_path):
    return RunDirectory(shutil.copytree(letters.path, tmp_path / "run"))


def decoded(run, tmp_path, *flags):
    (tmp_path / "in").write_text("\n".join(SENTENCES) + "\n")
    files = (f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}")
    call(decoder, f"--output_dir={run.path}", *files, *flags)
    return (tmp_path / "out").read_text().split("\n")[:-1]


def test_flags(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("t2t_repro.export.signatures.Served.names", ("best", "tf_example"))
    settings = "--decode_hparams=beam_size=2,extra_length=5"
    checkpoint = f"--checkpoint_path={run.checkpoints_dir / 'ckpt-5'}"
    kind = ("--quantize=float16", "--t2t_serving")
    call(exporter, f"--output_dir={run.path}", settings, checkpoint, *kind)
    path = run.path / "export" / "5-float16"
    files = {file.name for file in path.iterdir()}
    assert {"saved_model.pb", "hparams.json", "decode_hparams.json", "README.md"} < files
    assert (path / VOCABULARY).read_bytes() == (run.path / VOCABULARY).read_bytes()
    loaded = tf.saved_model.load(str(path))
    found = loaded.signatures["best"](inputs=tf.constant(SENTENCES))["outputs"].numpy()
    assert [text.decode() for text in found] == decoded(run, tmp_path, settings, checkpoint)
    assert set(loaded.signatures["serving_default"].structured_outputs) == {"outputs", "scores"}
    assert {w.dtype for w in loaded.weights if w.dtype.is_floating} == {tf.float16}
    readme = (path / "README.md").read_text()
    said = capsys.readouterr().out
    assert "float16" in said and re.search(r"a (drop|gain) of \d+\.\d\d on 2 dev sentences", said)
    assert "float16" in readme and "`serving_default` is `tf_example`" in readme


def test_what_a_quantized_model_loses_is_measured(run, tmp_path, capsys):
    settings = "--decode_hparams=beam_size=1,extra_length=3"
    flags = [f"--output_dir={run.path}", settings, "--format=ctranslate2", "--quantize=int8"]
    call(exporter, *flags, "--max_bleu_drop=100")
    said = capsys.readouterr().out
    assert re.search(r"a (drop|gain) of \d+\.\d\d on 2 dev sentences", said)
    folder = run.path / "export" / "ctranslate2-7-int8"
    assert (folder / "model.bin").exists()
    assert f"t2t-decoder --engine=ctranslate2 --engine_dir={folder}" in said

    # Used by its README alone.
    sentence = "A man is sleeping."
    code = (folder / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert f'"{sentence}"' in code
    (tmp_path / "in").write_text(f"{sentence}\n")
    files = f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"
    engine = "--engine=ctranslate2", f"--engine_dir={folder}"
    call(decoder, f"--output_dir={run.path}", settings, *engine, *files)
    capsys.readouterr()
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == (tmp_path / "out").read_text() != "\n"

    def worse(lost, most):
        assert lost.sentences == 2
        raise UserError(str(most))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(forms, "check_drop", worse)
        call(exporter, *flags, f"--export_dir={tmp_path / 'b'}", "--max_bleu_drop=0.5")
    assert "0.5" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
