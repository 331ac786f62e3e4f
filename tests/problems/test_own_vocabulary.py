"""text2text_tmpdir with vocabularies of the user's."""

import json
import os
import pathlib
import re

import pytest

from t2t_repro import registry
from t2t_repro.bin import datagen
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.models import sharing
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.text.subword import SubwordTextEncoder
from tests.data.record_files import read_examples
from tests.text.pieces import train

NAME = "text2text_tmpdir"
SIDES = ("inputs", "targets")
LINES = ["a cab had a bad egg", "a deaf cabbage", "", "egg"]


@pytest.fixture
def raw(tmp_path):
    """The raw files, and three vocabularies beside them."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for side, lines in zip(SIDES, (LINES, [line[::-1] for line in LINES]), strict=True):
        for split in ("train", "eval"):
            (folder / f"{side}.{split}.txt").write_text("\n".join(lines) + "\n")
    train(folder / "one.model", 40)
    train(folder / "two.model", 45, seed=6, model_type="bpe")
    subwords = [*"<pad>_ <EOS>_ egg_ bad_".split(), *"abcdefgh\\_u;0123456789"]
    SubwordTextEncoder.from_subtokens(subwords).store_to_file(folder / "mine.subwords")
    return folder


def sides(raw, source, target=None):
    paths = os.fspath(raw / source), os.fspath(raw / (target or source))
    return dict(zip(SIDES, paths, strict=True))


def make(raw, folder, source="", target=None, **how):
    """Generates; returns the summary."""
    given = sides(raw, source, target) if source else {}
    job = Job(registry.get_problem(NAME), folder, raw, num_shards=1, vocabularies=given, **how)
    return generate_data(job)


def make_by_flags(raw, folder, *flags):
    argv = [f"--problem={NAME}", f"--tmp_dir={raw}", f"--data_dir={folder}", "--nocheck_data"]
    argv += ["--num_shards=1", *flags]
    datagen.console(argv)


def vocabularies(folder):
    return {path.name for path in pathlib.Path(folder).glob("vocab.*")}


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def decoded(folder):
    """Returns the texts of the dev split, as its ids say."""
    encoders = registry.get_problem(NAME).feature_encoders(os.fspath(folder))
    examples = read_examples(folder / f"{NAME}-dev-00000-of-00001")
    return [[encoders[side].decode(each[side][:-1]) for side in SIDES] for each in examples]


@pytest.mark.parametrize(
    "source, target, ends",
    [
        ("one.model", None, {"model"}),
        ("one.model", "two.model", {"inputs.model", "targets.model"}),
        ("mine.subwords", "two.model", {"inputs.subwords", "targets.model"}),
        ("mine.subwords", None, {"26.subwords"}),
    ],
)
def test_a_copy_in_the_data_is_what_every_program_reads(raw, tmp_path, source, target, ends):
    summary = make(raw, tmp_path / "data", source, target)
    names = {f"vocab.{NAME}.{end}" for end in ends}
    assert vocabularies(tmp_path / "data") == names == set(summary["vocab_files"])
    assert decoded(tmp_path / "data") == [[line, line[::-1]] for line in LINES]
    encoders = registry.get_problem(NAME).feature_encoders(os.fspath(tmp_path / "data"))
    sizes = {side: encoder.vocab_size for side, encoder in encoders.items()}
    assert summary["vocab_size"] == sizes
    assert (encoders["inputs"] is encoders["targets"]) == (target is None)
    backwards = registry.get_problem(f"{NAME}_rev").feature_encoders(os.fspath(tmp_path / "data"))
    assert backwards["inputs"] is encoders["targets"]
    before = content(tmp_path / "data")
    make(raw, tmp_path / "data")  # nothing is to be said twice
    make(raw, tmp_path / "data", source, target)
    assert content(tmp_path / "data") == before


def test_the_flags_make_it(raw, tmp_path):
    make_by_flags(raw, tmp_path / "data", f"--vocab={raw}/one.model,{raw}/two.model")
    summary = json.loads((tmp_path / "data" / f"datagen.{NAME}.json").read_text())
    assert summary["vocabulary"] is None and summary["vocab_size"] == {"inputs": 40, "targets": 45}


def test_two_vocabularies_of_one_size_share_no_table(raw, tmp_path):
    train(raw / "three.model", 40, seed=7)
    hparams = registry.get_hparams("transformer_test")
    problem = registry.get_problem(NAME)
    make(raw, tmp_path / "data", "one.model", "three.model")
    with pytest.raises(UserError, match="--hparams=shared_embedding_and_softmax_weights=False"):
        sharing.check(hparams, problem, tmp_path / "data")
    apart = hparams.override("shared_embedding_and_softmax_weights=False")
    sharing.check(apart, problem, tmp_path / "data")
    (raw / "copy.model").write_bytes((raw / "one.model").read_bytes())
    for source, target in (("one.model", "two.model"), ("one.model", "copy.model")):
        make(raw, tmp_path / "data", source, target, overwrite=True)
        sharing.check(hparams, problem, tmp_path / "data")


def test_the_vocabulary_of_a_run_serves_another_corpus(raw, tmp_path, capsys):
    make(raw, tmp_path / "first", "one.model", "mine.subwords")
    files = [str(path) for path in (tmp_path / "first").glob("vocab.*")]
    what = {"hparams_set": "transformer_test", "problem": NAME, "version": "0"}
    hparams = registry.get_hparams("transformer_test")
    config = RunConfig(hparams=hparams, data_dir=str(tmp_path / "first"), **what)
    RunDirectory(tmp_path / "run").begin(config, [], files)
    make_by_flags(raw, tmp_path / "data", f"--vocab_from={tmp_path}/run")
    assert vocabularies(tmp_path / "data") == {pathlib.Path(name).name for name in files}
    for file in files:
        copy = tmp_path / "data" / pathlib.Path(file).name
        assert copy.read_bytes() == pathlib.Path(file).read_bytes()
    said = capsys.readouterr().out
    assert f"--warm_start_from={tmp_path}/run" in said
    assert len(re.findall(r"\b3 of (?:these|its) dev pairs", said)) == 2


def test_the_vocabulary_of_a_run_is_extended_by_the_text(raw, tmp_path):
    for side in ("inputs", "targets"):
        path = raw / f"{side}.train.txt"
        path.write_text(path.read_text() * 20)
    data, base = tmp_path / "data", (raw / "mine.subwords").read_bytes().splitlines()
    summary = make(raw, data, "mine.subwords", vocab_size=30)
    lines = next(data.glob("vocab.*.subwords")).read_bytes().splitlines()
    assert lines[: len(base)] == base and len(base) < len(lines) <= 30
    assert summary["vocabulary"]["asked"] == 30 and decoded(data)[0] == [LINES[0], LINES[0][::-1]]
    before = content(data)
    make(raw, data, "mine.subwords", vocab_size=30)
    assert content(data) == before
    for other in (29, 0):
        with pytest.raises(UserError, match="--overwrite"):
            make(raw, data, "mine.subwords", vocab_size=other)
    make(raw, data, "mine.subwords", vocab_size=28, overwrite=True)
    assert len((data / f"vocab.{NAME}.28.subwords").read_bytes().splitlines()) == 28
    (raw / "inputs.train.txt").write_bytes(b"\xff\n")  # the size is looked at first
    with pytest.raises(UserError, match=f"--vocab_from.* {len(base)}"):
        make(raw, tmp_path / "few", "mine.subwords", vocab_size=len(base))
    for files in (("one.model",), ("mine.subwords", "two.model")):
        with pytest.raises(UserError):
            make(raw, data, *files, vocab_size=90)
