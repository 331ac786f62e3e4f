"""A run in a program: text in, text out, as t2t-decoder writes it."""

import dataclasses
import shutil

import keras
import pytest

import t2t_repro
from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints, model_state

SET = "transformer_test"
LINES = ["1 2 3", "", "7 7"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose problem needs no files, with a checkpoint of 3 steps."""
    hparams = t2t_repro.get_hparams(SET, "hidden_size=8,filter_size=12,num_heads=2")
    hparams = dataclasses.replace(hparams, num_hidden_layers=1)
    problem = "algorithmic_identity_decimal40"
    config = RunConfig(
        hparams_set=SET, hparams=hparams, problem=problem, data_dir="elsewhere", version="0"
    )
    directory = RunDirectory(tmp_path_factory.mktemp("loaded") / "run")
    directory.begin(config, ["t2t-trainer"], [])
    keras.utils.set_random_seed(3)
    model = model_for(t2t_repro.get_problem(problem), hparams, "")
    model_state.save(directory.checkpoints_dir, model, checkpoints.State(step=3))
    return directory.path


def test_a_run_translates_as_t2t_decoder_does(run):
    loaded = t2t_repro.load(run)
    assert type(loaded.model) is t2t_repro.Transformer
    assert loaded.encoders["targets"].decode(loaded.encoders["inputs"].encode("1 2")) == "1 2"
    settings = DecodeHParams.of(loaded.run.problem, "beam_size=2,alpha=0.1,extra_length=3")
    expected = Translator(ModelEngine(loaded.model), loaded.encoders, settings)
    lines = [expected.format(beams) for beams in expected.translate_lines(LINES)]
    found = loaded.translate(LINES, beam_size=2, alpha=0.1, decode_hparams="extra_length=3")
    assert found == lines and found[1] == "" and any(found)


@pytest.mark.slow
def test_a_model_in_chunks_aligns_as_the_whole_one(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    whole = t2t_repro.load(run)
    chunks = whole.run.config.hparams.override("attention_chunk_size=3,attention_dropout=0")
    (tmp_path / "run" / "hparams.json").write_text(chunks.to_json())
    how = "beam_size=1,extra_length=2,return_alignments=True"
    found = t2t_repro.load(tmp_path / "run").translate(LINES, decode_hparams=how)
    assert found == whole.translate(LINES, decode_hparams=how) and "0-0" in found[0]


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda run: t2t_repro.load(run / "nothing"), "nothing"),
        (lambda run: t2t_repro.load(run, run / "nothing"), "nothing"),
        (lambda run: t2t_repro.load(run).translate("A dog."), "A dog."),
        (lambda run: t2t_repro.load(run).translate([], beam_size=0), "beam_size"),
        (lambda run: t2t_repro.load(run).translate([], decode_hparams="beem=1"), "beem"),
    ],
)
def test_what_is_refused(run, call, name):
    with pytest.raises(UserError, match=name):
        call(run)


def test_the_door_shows_what_it_leads_to():
    assert {"Transformer", "decode", "get_hparams", "get_problem", "load"} <= set(dir(t2t_repro))
    assert all(hasattr(t2t_repro, name) for name in t2t_repro.__all__)
    with pytest.raises(AttributeError, match="Transfomer"):
        t2t_repro.Transfomer  # noqa: B018
