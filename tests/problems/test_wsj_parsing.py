import gzip
import os
import pathlib
import random

import pytest

from t2t_repro import registry
from t2t_repro.bin import datagen
from t2t_repro.errors import UserError
from t2t_repro.parsing.trees import words_and_tags_from_wsj_tree
from t2t_repro.problem import Split

NOUNS, VERBS = "dog cat man bird fish tree".split(), "sees likes eats hears".split()


def sentence(rng):
    """A tree of the form of the Penn Treebank's, with a function tag and a trace."""
    subject, verb, thing = rng.choice(NOUNS), rng.choice(VERBS), rng.choice(NOUNS)
    return (
        f"( (S\n  (NP-SBJ-1 (DT the) (NN {subject}) )\n  (VP (VBZ {verb})\n"
        f"    (NP (DT a) (NN {thing}) (-NONE- *-1) ))\n  (. .) ))\n"
    )


@pytest.fixture
def treebank(tmp_path):
    """Ten files, of which file n has n trees."""
    rng = random.Random(3)
    folder = tmp_path / "treebank" / "combined"
    folder.mkdir(parents=True)
    for number in range(1, 11):
        text = "".join(sentence(rng) for _ in range(number))
        (folder / f"wsj_{number:04d}.mrg").write_text(text)
    return folder.parent


@pytest.fixture
def raw_dir(treebank, tmp_path):
    """The trees files that --treebank_dir makes."""
    options = {"treebank_dir": str(treebank), "treebank_split": "0.7,0.2,0.1"}
    registry.get_problem("wsj_parsing").prepare_raw_files(str(tmp_path / "raw"), options)
    return str(tmp_path / "raw")


def lines(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return file.read().splitlines()


def test_a_treebank_becomes_trees_files(raw_dir):
    counts = {name: len(lines(raw_dir, f"wsj{name}.trees")) for name in ("Train", "Eval", "Test")}
    assert counts == {"Train": 28, "Eval": 17, "Test": 10}
    tree, words = lines(raw_dir, "wsjTest.trees")[0], lines(raw_dir, "wsjTest.words")[0]
    assert tree.startswith("(TOP (S (NP (DT the) (NN ") and "NONE" not in tree
    assert words == words_and_tags_from_wsj_tree(tree)[0]
    problem = registry.get_problem("wsj_parsing")
    samples = list(problem.generate_samples("", raw_dir, Split.EVAL))
    assert len(samples) == 17 == problem.num_samples(raw_dir, Split.EVAL)
    words = samples[0]["inputs"].split()
    assert [words[0], words[3], words[5]] == ["the", "a", "."]
    assert samples[0]["targets"] == "S NP DT NN /NP VP VBZ NP DT NN /NP /VP . /S"


def test_trees_that_are_there_stay(treebank, raw_dir):
    """The same flags leave them alone, so that datagen can go on; others would mix two splits."""
    problem = registry.get_problem("wsj_parsing")
    folder = pathlib.Path(raw_dir)

    def content():
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}

    before = content()
    options = {"treebank_dir": str(treebank), "treebank_split": "0.7,0.2,0.1"}
    problem.prepare_raw_files(raw_dir, options)
    options["treebank_split"] = "0.7,0.1,0.2"
    with pytest.raises(UserError):
        problem.prepare_raw_files(raw_dir, options)
    assert len(before) == 5 and content() == before


def test_wsj_parsing_is_tensor2tensors(raw_dir, tmp_path):
    problem = registry.get_problem("wsj_parsing")
    assert problem.vocab_filenames == ["vocab.wsj_parsing.32768.subwords"]
    splits = [(entry["split"], entry["shards"]) for entry in problem.dataset_splits]
    assert splits == [("train", 100), ("dev", 1)]
    assert (problem.input_space_id, problem.target_space_id) == (0, 0)
    assert problem.max_samples_for_vocab == 1000
    texts = list(problem.generate_text_for_vocab("", raw_dir))
    assert len(texts) == 56 and texts[1].startswith("S NP DT NN")
    # T2T's own files are for the vocabulary alone; both, or neither
    for name, text in (("text", "red\nblue\n"), ("tags", "NN\nJJ\n")):
        (tmp_path / "raw" / f"wsj.train.{name}.txt").write_text(text)
    assert list(problem.generate_text_for_vocab("", raw_dir)) == ["red", "NN", "blue", "JJ"]
    (tmp_path / "raw" / "wsj.train.tags.txt").unlink()
    with pytest.raises(UserError, match="tags.txt"):
        list(problem.generate_text_for_vocab("", raw_dir))


def test_whole_tags_have_a_vocabulary_of_their_own(raw_dir, tmp_path):
    problem = registry.get_problem("parsing_wsj4k")
    data = str(tmp_path)
    texts = list(problem.generate_text_for_vocab(data, raw_dir))
    assert len(texts) == 28
    problem.prepare_vocabulary(data, raw_dir)
    problem.prepare_vocabulary(data, raw_dir)  # it is there now
    tags = lines(data, "vocab.parsing_wsj4k.tags.tokens")
    assert tags == ["<pad>", "<EOS>", "<UNK>", ".", *"/NP /S /VP DT NN NP S VBZ VP".split()]
    lexicon = lines(data, "vocab.parsing_wsj4k.lexicon")
    assert lexicon[0].startswith("<UNK> ") and "the DT" in lexicon
    encoders = problem.feature_encoders(data)
    first = next(problem.generate_encoded_samples(data, raw_dir, Split.TEST))
    sample = next(problem.generate_samples(data, raw_dir, Split.TEST))
    assert len(first["targets"]) == 15 and first["targets"][-1] == first["inputs"][-1] == 1
    for name, text in sample.items():
        assert encoders[name].decode(first[name][:-1]) == text
    assert encoders["targets"].encode("SINV") == [2]  # a tag that training did not have


@pytest.mark.parametrize(
    ("name", "size", "shards"), [("parsing_wsj16k", 2**14, 10), ("parsing_wsj_semi32k", 2**15, 100)]
)
def test_the_papers_problems(name, size, shards):
    problem = registry.get_problem(name)
    endings = (f"{size}.subwords", "tags.tokens", "lexicon")
    assert problem.vocab_filenames == [f"vocab.{name}.{ending}" for ending in endings]
    splits = [(entry["split"], entry["shards"]) for entry in problem.dataset_splits]
    assert splits == [("train", shards), ("dev", 1), ("test", 1)]
    assert problem.decode_hparams == "beam_size=21,alpha=0.3,extra_length=300"
    assert problem.writes_trees
    assert (problem.input_space_id, problem.target_space_id) == (3, 15)
    back = registry.get_problem(f"{name}_rev")
    assert (back.writes_trees, back.decode_hparams) == (False, "")


def test_the_semi_supervised_problem_adds_the_trees_of_parsers(raw_dir):
    problem = registry.get_problem("parsing_wsj_semi32k")
    with pytest.raises(UserError, match="high_confidence.trees or berkeley_parser.trees"):
        problem.num_samples(raw_dir, Split.TRAIN)
    with gzip.open(f"{raw_dir}/berkeley_parser.trees.gz", "wt") as file:
        file.write("(S1 (NP (NN end)))\n" * 3)
    assert problem.num_samples(raw_dir, Split.TRAIN) == 31
    assert problem.num_samples(raw_dir, Split.EVAL) == 17
    names = [os.path.basename(path) for path in problem.raw_text_files(raw_dir, Split.TRAIN)]
    assert names == ["wsjTrain.trees", "berkeley_parser.trees.gz"]
    *_, last = problem.generate_samples("", raw_dir, Split.TRAIN)
    assert last == {"inputs": "end", "targets": "NP NN /NP"}


def test_datagen_takes_a_treebank(treebank, tmp_path, capsys):
    folders = [f"--{name}_dir={tmp_path / name}" for name in ("tmp", "data", "treebank")]
    argv = ["--problem=parsing_wsj4k", "--treebank_split=0.7,0.2,0.1", *folders]
    datagen.console(argv)
    out = capsys.readouterr().out
    assert "train: 28 examples in 10 files" in out and "test: 10 examples in 1 files" in out
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert set(registry.get_problem("parsing_wsj4k").vocab_filenames) < names
