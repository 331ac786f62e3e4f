import contextlib
import dataclasses
import shutil

import keras
import pytest

import t2t_repro
from t2t_repro import get_hparams, get_problem
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints

PROBLEM, SET = "algorithmic_identity_decimal40", "transformer_test"
SMALL = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"
CONFIG = RunConfig(
    hparams_set=SET,
    hparams=get_hparams(SET, SMALL),
    problem=PROBLEM,
    data_dir="elsewhere",
    version="0",
)
TEXT = dataclasses.replace(CONFIG, problem="text2text_tmpdir")
VOCABULARY = "vocab.text2text_tmpdir.32768.subwords"


@pytest.fixture
def directory(tmp_path):
    """A run with checkpoints of 5 and 9 steps, whose weights are those numbers."""
    run = RunDirectory(tmp_path / "run")
    run.begin(CONFIG, ["t2t-trainer"], [])
    model = model_for(get_problem(PROBLEM), CONFIG.hparams, "")
    for step in (5, 9):
        for variable in model.trainable_variables:
            variable.assign(keras.ops.full(variable.shape, step))
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
    return run.path


def make_text_run(path, vocabulary):
    run = RunDirectory(path / "text")
    run.begin(dataclasses.replace(TEXT, data_dir=str(path)), ["t2t-trainer"], [vocabulary])
    return run.path


def write_vocabulary(path, last="x"):
    letters = "0123456789;\\_u" + last
    path.write_text("".join(f"'{x}'\n" for x in ["<pad>", "<EOS>", *letters]))
    return path


def test_a_run_says_what_it_is(directory):
    run = trained_run(directory, problem=PROBLEM, hparams_set=SET, hparams="num_heads=2")
    assert run.path == directory and run.config == RunDirectory(directory).config
    assert run.problem.name == PROBLEM and run.data_dir == "elsewhere"
    assert run.vocabulary_dir == str(directory) and run.vocabulary_files == []
    assert trained_run(directory, "mine").data_dir == "mine"


def test_another_model_where_a_transformer_is_needed_is_refused(tmp_path):
    other = dataclasses.replace(CONFIG, hparams=get_hparams("bytenet_base"))
    RunDirectory(tmp_path).begin(other, ["t2t-trainer"], [])
    with pytest.raises(UserError, match="byte_net"):
        trained_run(tmp_path).check_transformer("an export")


def test_the_model_of_a_checkpoint(directory):
    run = trained_run(directory)
    model = run.model()
    assert {float(v.numpy().mean()) for v in model.trainable_variables} == {9}
    assert model.jit_compile == (keras.backend.backend() == "jax")
    path = run.checkpoint(directory / "checkpoints" / "ckpt-5")
    assert path.name == "ckpt-5" and run.checkpoint().name == "ckpt-9"
    assert float(run.model(path).trainable_variables[0].numpy().mean()) == 5


def test_the_vocabulary_is_the_runs_own_copy_or_lies_where_it_was_trained(tmp_path):
    vocabulary = write_vocabulary(tmp_path / VOCABULARY)
    path = make_text_run(tmp_path, vocabulary)
    assert trained_run(path).vocabulary_files == [path / VOCABULARY]
    assert trained_run(path, str(tmp_path)).vocabulary_files == [path / VOCABULARY]
    (path / VOCABULARY).unlink()
    run = trained_run(path)
    assert run.vocabulary_dir == str(tmp_path)
    assert run.encoders["inputs"].decode([16]) == "x"
    write_vocabulary(vocabulary, last="y")  # of as many symbols
    with pytest.raises(UserError, match=VOCABULARY):
        trained_run(path).encoders  # noqa: B018


def test_its_models_are_made_in_the_scope_of_its_devices(directory):
    made, run = [], trained_run(directory)

    class Where:
        @contextlib.contextmanager
        def scope(self):
            yield made.append("model")

    run.on(Where()).model()
    assert made == ["model"] and run.devices is None


LINES = ["1 2 3", "", "7 7"]


@pytest.fixture
def drawn(directory):
    """The run, with a last checkpoint of random weights."""
    keras.utils.set_random_seed(3)
    model = model_for(get_problem(PROBLEM), CONFIG.hparams, "")
    checkpoints.save(directory / "checkpoints", model, checkpoints.State(step=11))
    return directory


def test_a_run_translates_as_t2t_decoder_does(drawn):
    loaded = t2t_repro.load(drawn)
    assert type(loaded.model) is t2t_repro.Transformer
    assert loaded.encoders["targets"].decode(loaded.encoders["inputs"].encode("1 2")) == "1 2"
    settings = DecodeHParams.parse("beam_size=2,alpha=0.1,extra_length=3")
    expected = Translator(ModelEngine(loaded.model), loaded.encoders, settings)
    lines = [expected.format(beams) for beams in expected.translate_lines(LINES)]
    found = loaded.translate(LINES, beam_size=2, alpha=0.1, decode_hparams="extra_length=3")
    assert found == lines and found[1] == "" and any(found)


def test_a_model_in_chunks_aligns_as_the_whole_one(drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "chunks")
    chunks = CONFIG.hparams.override("attention_chunk_size=3,attention_dropout=0")
    (tmp_path / "chunks" / "hparams.json").write_text(chunks.to_json())
    how = "beam_size=1,extra_length=2,return_alignments=True"
    found, whole = (
        t2t_repro.load(path).translate(LINES, decode_hparams=how)
        for path in (tmp_path / "chunks", drawn)
    )
    assert found == whole and "0-0" in found[0]
