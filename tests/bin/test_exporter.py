"""From a run to a SavedModel that translates as t2t-decoder does."""

import re
import shutil

import pytest
import tensorflow as tf

from t2t_repro import Transformer, get_hparams, get_problem
from t2t_repro.bin import decoder, exporter
from t2t_repro.errors import UserError
from t2t_repro.export import forms
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints
from tests.data.record_files import write_examples
from tests.programs import call

PROBLEM, SET = "text2text_tmpdir", "transformer_test"
VOCABULARY = "vocab.text2text_tmpdir.32768.subwords"
SENTENCES = ["a b", "", "cab dad. bad", "é"]


def make_run(folder, problem=PROBLEM):
    """A run with two checkpoints of models that were not trained."""
    hparams = get_hparams(SET, "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1")
    data = folder / "data"
    data.mkdir()
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789abcd. "]
    (data / VOCABULARY).write_text("".join(f"'{subtoken}'\n" for subtoken in subtokens))
    config = RunConfig(
        hparams_set=SET, hparams=hparams, problem=problem, data_dir=str(data), version="0"
    )
    run = RunDirectory(folder / "run")
    run.begin(config, ["t2t-trainer"], [data / VOCABULARY])
    size = get_problem(problem).targets_vocab_size(str(data))
    for step in (5, 7):
        model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("exporter"))


def outputs(path, signature="serving_default"):
    call = tf.saved_model.load(str(path)).signatures[signature]
    return [text.decode() for text in call(inputs=tf.constant(SENTENCES))["outputs"].numpy()]


def decoded(run, tmp_path, *flags):
    (tmp_path / "in").write_text("\n".join(SENTENCES) + "\n")
    files = (f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}")
    call(decoder, f"--output_dir={run.path}", *files, *flags)
    return (tmp_path / "out").read_text().split("\n")[:-1]


@pytest.mark.slow
def test_the_newest_checkpoint(run, tmp_path, capsys):
    call(exporter, f"--output_dir={run.path}", f"--problem={PROBLEM}", f"--hparams_set={SET}")
    path = run.path / "export" / "7"
    assert re.search(
        f"Wrote {path} from .*ckpt-7. .*README.md has the calls", capsys.readouterr().out
    )
    files = {file.name for file in path.iterdir()}
    assert {"saved_model.pb", "hparams.json", "decode_hparams.json", "README.md"} < files
    assert (path / VOCABULARY).read_bytes() == (run.path / VOCABULARY).read_bytes()
    assert outputs(path) == decoded(run, tmp_path)


@pytest.mark.slow
def test_flags(run, tmp_path, capsys):
    settings = "--decode_hparams=beam_size=2,extra_length=5"
    checkpoint = f"--checkpoint_path={run.checkpoints_dir / 'ckpt-5'}"
    kind = ("--quantize=float16", "--t2t_serving")
    call(exporter, f"--output_dir={run.path}", settings, checkpoint, *kind)
    path = run.path / "export" / "5-float16"
    assert outputs(path, "text") == decoded(run, tmp_path, settings, checkpoint)
    loaded = tf.saved_model.load(str(path))
    assert set(loaded.signatures["serving_default"].structured_outputs) == {"outputs", "scores"}
    assert {w.dtype for w in loaded.weights if w.dtype.is_floating} == {tf.float16}
    readme = (path / "README.md").read_text()
    assert "float16" in capsys.readouterr().out  # there is no dev by which its cost is measured
    assert "kept in float16" in readme and "`serving_default` is `tf_example`" in readme


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--output_dir="], "--output_dir"),
        (["--decode_hparams=beams=3"], "beams"),
        (["--decode_hparams=return_beams=True"], "return_beams"),
        (["--format=ctranslate2", "--decode_hparams=max_length_ratio=0.3"], "max_length_ratio"),
        (["--export_dir="], "--export_dir"),
        (["--export_dir=TAKEN"], "folder"),
        (["--checkpoint_path=nowhere"], "nowhere"),
        (["--quantize=int8"], "float16"),
        (["--max_bleu_drop=1", "--export_dir=TAKEN/new"], "text2text_tmpdir-dev-*"),
        (["--format=ctranslate2", "--quantize=int3"], "int3"),
        (["--problem=translate_ende_wmt32k"], "--problem=text2text_tmpdir"),
        (["--t2t_usr_dir=nowhere"], "nowhere"),
    ],
)
def test_errors(run, refused, flags, message):
    flags = [flag.replace("TAKEN", str(run.path)) for flag in flags]
    assert message in refused(exporter, f"--output_dir={run.path}", *flags).err


@pytest.mark.parametrize(
    "options, folder, file",
    [
        (["--format=ctranslate2", "--quantize=int8"], "ctranslate2-7-int8", "model.bin"),
        (["--quantize=float16"], "7-float16", "saved_model.pb"),
    ],
)
@pytest.mark.slow
def test_what_a_quantized_model_loses_is_measured(run, tmp_path, capsys, options, folder, file):
    problem, data = get_problem(PROBLEM), tmp_path / "data"
    data.mkdir()
    shutil.copy(run.path / VOCABULARY, data)
    examples = [{"inputs": [17, 18, 1], "targets": [18, 1]}, {"inputs": [19, 1], "targets": [1]}]
    write_examples(problem.filepaths("dev", data, 1)[0], examples)
    settings = "--decode_hparams=beam_size=1,extra_length=3"
    flags = [f"--output_dir={run.path}", f"--data_dir={data}", settings, *options]
    call(exporter, *flags, "--max_bleu_drop=100")
    said = capsys.readouterr().out
    assert re.search(r"a (drop|gain) of \d+\.\d\d on 2 sentences", said)
    assert (run.path / "export" / folder / file).exists()
    engine = f"t2t-decoder --engine=ctranslate2 --engine_dir={run.path / 'export' / folder} decodes"
    assert (engine in said) == ("--format=ctranslate2" in options)

    def worse(lost, most):
        assert lost.sentences == 2
        raise UserError(str(most))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(forms, "check_drop", worse)
        call(exporter, *flags, f"--export_dir={tmp_path / 'b'}", "--max_bleu_drop=0.5")
    assert "0.5" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_a_problem_without_subwords(tmp_path, refused):
    run = make_run(tmp_path, "algorithmic_identity_decimal40")
    assert "SymbolEncoder" in refused(exporter, f"--output_dir={run.path}").err
    assert not list(run.path.glob("export/*"))
