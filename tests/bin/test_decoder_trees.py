"""t2t-decoder with a parser: trees come out."""

import json

import pytest

from t2t_repro.bin import decoder
from t2t_repro.decoding.decode_files import output_name
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.parsing import trees
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunDirectory
from tests import untrained
from tests.bin.conftest import TINY
from tests.programs import call

PARSING = "parsing_wsj4k"


def decode(*flags):
    call(decoder, *flags)


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    """The run of an untrained parser, with its vocabularies, of a treebank with its own labels."""
    path, raw = tmp_path_factory.mktemp("parser"), tmp_path_factory.mktemp("raw")
    tree = "(TOP (oracion (sn (DT the) (NN dog)) (gv (VBZ barks)) (. .)))"
    (raw / "wsjTrain.trees").write_text(f"{tree}\n" * 3)
    get_problem(PARSING).prepare_vocabulary(str(path), str(raw))
    run = untrained.begun(path, "transformer_parsing_small", PARSING, TINY, path)
    untrained.save(run, 7)
    (path / "words").write_text("the dog barks .\n\nthe barks dog .\n")
    return path


def test_a_parser_writes_trees(parser, tmp_path):
    arguments = [f"--output_dir={parser}", f"--decode_from_file={parser / 'words'}"]
    target = tmp_path / "trees"
    short = "--decode_hparams=beam_size=2,extra_length=9"
    decode(*arguments, f"--decode_to_file={target}", short)
    first, empty, second = target.read_text().splitlines()
    assert empty == ""
    assert trees.parse(first).words() == "the dog barks .".split()
    assert trees.parse(second).words() == "the barks dog .".split()
    counts = json.loads((tmp_path / "trees.repairs.json").read_text())
    assert counts["sentences"] == 2

    decode(*arguments, f"--decode_to_file={tmp_path / 'raw'}", f"{short},raw_output=True")
    lines = (tmp_path / "raw").read_text().splitlines()
    labels = trees.PhraseLabels(frozenset({"oracion", "sn", "gv"}))
    again, _ = trees.tree_from_words_and_tags("the dog barks .", lines[0], phrase_labels=labels)
    assert str(again) == first
    assert not (tmp_path / "raw.repairs.json").exists()

    settings = "--decode_hparams=beam_size=3,extra_length=99,well_formed=True"
    decode(*arguments, f"--decode_to_file={target}", settings)
    counts = json.loads((tmp_path / "trees.repairs.json").read_text())
    assert counts["repaired"] == 0
    tree = trees.parse(target.read_text().splitlines()[0])
    assert [leaf.label for leaf in tree.leaves()] != [] and len(tree.children) == 1


def test_a_parser_decodes_as_the_paper_unless_told_otherwise(parser):
    config = RunDirectory(parser).config
    settings = DecodeHParams.parse("", get_problem(PARSING).decode_hparams)
    name = output_name("words", config, settings)
    assert name == f"words.transformer.{config.hparams_set}.{PARSING}.beam21.alpha0.3.decodes"
