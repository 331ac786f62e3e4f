"""The names of what a decoding writes, and what is read of it."""

from t2t_repro.decoding import output_files
from t2t_repro.decoding.settings import DecodeHParams


def test_output_name():
    name = output_files.output_name("in.txt", "transformer_base", "translate_x", DecodeHParams())
    assert name == "in.txt.transformer.transformer_base.translate_x.beam4.alpha0.6.decodes"
    assert output_files.output_name(name, "a", "b", DecodeHParams()) == name


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
