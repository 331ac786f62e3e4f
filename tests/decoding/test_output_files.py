"""The names of what a decoding writes, and what is read of it."""

import pytest

from t2t_repro.config import HParams
from t2t_repro.decoding import output_files
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.run_directory import RunConfig


@pytest.mark.parametrize("model", ["transformer", "lstm_seq2seq_attention"])
def test_output_name(model):
    hparams = HParams(model=model, initializer="uniform_unit_scaling")
    run = RunConfig(hparams_set="set_a", hparams=hparams, problem="p", data_dir="", version="")
    name = output_files.output_name("in.txt", run, DecodeHParams())
    assert name == f"in.txt.{model}.set_a.p.beam4.alpha0.6.decodes"
    assert output_files.output_name(name, run, DecodeHParams()) == name


def test_the_best_translations_of_a_file(tmp_path):
    (tmp_path / "out").write_text("a\tb\n\t\n")
    for settings, lines in (
        ({}, ["a\tb", "\t"]),
        ({"return_beams": True}, ["a", ""]),
        ({"return_beams": True, "beam_size": 1}, ["a\tb", "\t"]),
        ({"return_alignments": True}, ["a", ""]),
    ):
        of = DecodeHParams(**settings)
        assert list(output_files.best_translations(tmp_path / "out", of)) == lines


def test_examples_have_both_sides_beside_their_translations_but_on_a_stream():
    beside = {"inputs": "a.b.inputs", "targets": "a.b.targets"}
    assert output_files.sides("a.b.decodes") == beside
    assert output_files.sides("/dev/stdout") == {}
