"""benchmarks/pcfg_baseline.py: a grammar read off trees gives them back, and the words to them."""

import json

import pcfg_baseline
import pytest

TREES = [
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ runs) (PRT|ADVP (RP on))) (. .)))",
    "(TOP (S (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (NNS hats)))) (VP (VBZ sleeps)) (. .)))",
    "(TOP (S (NP (PRP it)) (VP (VBZ sees) (NP (NN -LRB-)) (, ,) (NP (NNS dogs))) (. .)))",
]


@pytest.fixture
def folder(tmp_path):
    for split in ("Train", "Test"):
        (tmp_path / f"wsj{split}.trees").write_text("".join(f"{tree}\n" for tree in TREES))
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--horizontal=2"], ["--vertical=0", "--horizontal=0"]])
def test_it_gives_the_training_trees_back(folder, more, capsys):
    argv = [f"--tmp_dir={folder}", f"--predicted={folder / 'out'}", f"--json_file={folder / 'j'}"]
    found = pcfg_baseline.main(argv + more)
    assert (folder / "out").read_text().splitlines() == TREES
    assert found["all"]["f1"] == 100 and found["without a tree"] == 0
    assert json.loads((folder / "j").read_text()) == json.loads(capsys.readouterr().out) == found


def test_what_has_no_tree_gets_one_bracket(folder):
    with open(folder / "wsjTest.trees", "a") as file:
        file.write("(TOP (S (VP (VBZ runs)) (NP (UH oh) (UH well))))\n")
    found = pcfg_baseline.main([f"--tmp_dir={folder}", f"--predicted={folder / 'out'}"])
    last = (folder / "out").read_text().splitlines()[-1]
    assert last == "(TOP (S (VBZ runs) (UH oh) (UH well)))"
    assert found["without a tree"] == 1 and found["all"]["f1"] < 100


def test_the_best_tree_is_the_most_probable(folder):
    """Against every tree that the grammar has over some tags, by hand."""
    one = "(S (A (X x) (Y y)) (B (X x) (Y y)))"
    two = "(S (X x) (C (Y y) (D (X x) (Y y))))"
    for many, few in ((one, two), (two, one)):
        grammar = pcfg_baseline.Grammar([many] * 3 + [few], horizontal=1, vertical=0)
        found = grammar.parse(["X", "Y", "X", "Y"])
        assert str(found).split() == many.replace(" x", " X").replace(" y", " Y").split()
