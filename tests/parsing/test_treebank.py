import pytest

from t2t_repro.errors import UserError
from t2t_repro.parsing import treebank, trees

MRG = """
( (S (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBZ wants)
      (S-CLR (NP-SBJ (-NONE- *-1) ) (VP (TO to) (VP (VB go) (PRT|ADVP (RP out) )))))
    (. .) ))
( (FRAG (NP=2 (NNP Pierre)) (-LRB- -LRB-) (: --)
  (SBAR (WHNP-3 (-NONE- 0)) (S (-NONE- *T*-3)))) )
"""
CLEAN = [
    "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ wants) (S (VP (TO to) (VP (VB go) "
    "(PRT|ADVP (RP out)))))) (. .)))",
    "(TOP (FRAG (NP (NNP Pierre)) (-LRB- -LRB-) (: --)))",
]


def write(folder, *numbers, text="( (S (NN a)) )\n"):
    for number in numbers:
        path = folder / f"{number // 100:02d}" / f"wsj_{number:04d}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_trees_over_many_lines_are_cleaned(tmp_path):
    (tmp_path / "wsj_0001.mrg").write_text(MRG)
    assert [*map(str, treebank.read(tmp_path / "wsj_0001.mrg"))] == CLEAN


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("(S1 (S (NN a)))", "(TOP (S (NN a)))"),
        ("(ROOT (S (NN a)))", "(TOP (S (NN a)))"),
        ("(TOP (S (NN a)))", "(TOP (S (NN a)))"),
        ("(S (NN a))", "(TOP (S (NN a)))"),
        ("( (S-HLN=1 (-RRB- -RRB-) (NN a\\/b)))", "(TOP (S (-RRB- -RRB-) (NN a\\/b)))"),
        ("( (NN a) (. .))", "(TOP (NN a) (. .))"),
    ],
)
def test_the_outermost_bracket_is_top(text, clean):
    assert str(treebank.clean(trees.parse(text))) == clean


def test_sections_and_shares_split_the_files(tmp_path):
    found = treebank.files(write(tmp_path / "a", 2, 115, 2454, *range(200, 2401, 100)))
    train, dev, test = treebank.split(found)
    assert [train[0].name, train[-1].name] == ["wsj_0200.mrg", "wsj_2100.mrg"]
    assert [[p.name for p in part] for part in (dev, test)] == [["wsj_2200.mrg"], ["wsj_2300.mrg"]]
    found = treebank.files(write(tmp_path / "b", *range(1, 200)))
    parts = treebank.split(found, "0.8,0.1,0.1")
    assert [len(part) for part in parts] == [160, 20, 19]
    assert parts[1][0].name == "wsj_0161.mrg" and parts[2][0].name == "wsj_0181.mrg"
    assert [len(part) for part in treebank.split(found, "1/3, 1/3, 1/3")] == [67, 66, 66]
    with pytest.raises(UserError, match="02, .*23.*--treebank_split"):
        treebank.split({number: found[number] for number in (3, 104)})


WRONG = ("0.8,0.1,0.2", "0.8,0.2", "1.2,-0.1,-0.1", "0.8,0.1,x", "1/0,0,0", "0.5,0.5,0")


def test_wrong_shares(tmp_path):
    found = treebank.files(write(tmp_path, *range(1, 8)))
    for shares in (*WRONG, "0.9,0.05,0.05"):
        with pytest.raises(UserError, match="--treebank_split"):
            treebank.split(found, shares)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"( (S (NN a)) )\n\n( (S (NN b))\n( (S (NN c)) )\n", 3),
        (b"( (S (NN a)) )\n( (S\n(NN b))) )\n", 3),
        (b"( (S (NN a)) )\nwords\n", 2),
        (b"\n( (S (NN a) b) )\n", 2),
        (b"( (S (NN a)) )\n( (S (NN caf\xe9)) )\n", 2),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, text, line):
    path = tmp_path / "wsj_0001.mrg"
    path.write_bytes(text)
    with pytest.raises(UserError, match=f"wsj_0001.mrg.* line {line}"):
        list(treebank.read(path))
