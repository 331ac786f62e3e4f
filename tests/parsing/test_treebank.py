import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    path = tmp_path / "wsj_0001.mrg"
    path.write_text(MRG)
    assert [str(tree) for tree in treebank.read(path)] == CLEAN


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


def test_a_tree_of_traces_alone_is_left_out(tmp_path):
    assert treebank.clean(trees.parse("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))")) is None
    path = tmp_path / "wsj_0001.mrg"
    path.write_text("( (S (-NONE- *)) )\n( (S (NN a)) )\n")
    assert len(list(treebank.read(path))) == 1


LABELS = st.sampled_from(["S", "NP-SBJ", "NP=2", "-NONE-", "VP-1", "-LRB-", "NN"])
LEAVES = st.builds(trees.Tree, LABELS, word=st.sampled_from(["a", "*", "-LRB-"]))
NODES = st.recursive(
    LEAVES, lambda c: st.builds(trees.Tree, LABELS, st.lists(c, min_size=1, max_size=3))
)


@given(NODES)
def test_a_clean_tree_has_words_everywhere_and_stays_as_it_is(tree):
    clean = treebank.clean(tree)
    words = [leaf.word for leaf in tree.leaves() if leaf.label != "-NONE-"]
    if clean is None:
        assert words == []
        return
    assert clean.words() == words and clean.label == "TOP"
    assert str(treebank.clean(clean)) == str(clean)
    for node, _ in clean.walk():
        assert node.word is not None or node.children
        assert node.label.startswith("-") or not set("-=") & set(node.label)


def test_sections_split_the_whole_treebank(tmp_path):
    found = treebank.files(write(tmp_path / "a", 2, 115, 2454, *range(200, 2401, 100)))
    train, dev, test = treebank.split(found)
    assert [train[0].name, train[-1].name] == ["wsj_0200.mrg", "wsj_2100.mrg"]
    assert [[path.name for path in part] for part in (dev, test)] == [
        ["wsj_2200.mrg"],
        ["wsj_2300.mrg"],
    ]


def test_upper_case_names_of_a_cd_are_found(tmp_path):
    (tmp_path / "WSJ_0107.MRG").write_text("")
    (tmp_path / "README").write_text("")
    assert list(treebank.files(tmp_path)) == [107]


def test_shares_split_files_in_their_order(tmp_path):
    found = treebank.files(write(tmp_path, *range(1, 200)))
    parts = treebank.split(found, "0.8,0.1,0.1")
    assert [len(part) for part in parts] == [160, 20, 19]
    assert parts[1][0].name == "wsj_0161.mrg" and parts[2][0].name == "wsj_0181.mrg"
    assert [len(part) for part in treebank.split(found, "1/3, 1/3, 1/3")] == [67, 66, 66]


@pytest.mark.parametrize(
    "shares",
    [
        "0.8,0.1,0.2",
        "0.8,0.2",
        "1.2,-0.1,-0.1",
        "0.8,0.1,x",
        "1/0,0,0",
        "0.5,0.5,0",
        "0.9,0.05,0.05",
    ],
)
def test_wrong_shares(tmp_path, shares):
    found = treebank.files(write(tmp_path, *range(1, 8)))
    with pytest.raises(UserError, match="--treebank_split"):
        treebank.split(found, shares)


def test_missing_sections_and_what_was_found_are_named(tmp_path):
    found = treebank.files(write(tmp_path, 3, 104, 501, 2300))
    message = (
        "4 files of sections 00-01, 05, 23; 02-04, 06-22 are missing.*--treebank_split=0.8,0.1,0.1"
    )
    with pytest.raises(UserError, match=message):
        treebank.split(found)


def test_wrong_folders(tmp_path):
    with pytest.raises(UserError, match=f"Received: {tmp_path}/no, which is no folder"):
        treebank.files(tmp_path / "no")
    with pytest.raises(UserError):
        treebank.files(tmp_path)
    (tmp_path / "wsj_0200.pos").write_text("")
    with pytest.raises(UserError, match="wsj_0200"):
        treebank.files(tmp_path)
    write(tmp_path / "combined", 101)
    write(tmp_path / "parsed", 101)
    with pytest.raises(UserError):
        treebank.files(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("( (S (NN a)) )\n\n( (S (NN b))\n( (S (NN c)) )\n", 3),
        ("( (S (NN a)) )\n( (S\n(NN b))) )\n", 3),
        ("( (S (NN a)) )\nwords\n", 2),
        ("\n( (S (NN a) b) )\n", 2),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, text, line):
    path = tmp_path / "wsj_0001.mrg"
    path.write_text(text)
    with pytest.raises(UserError, match=f"wsj_0001.mrg, line {line}"):
        list(treebank.read(path))


def test_bad_utf8_is_named_with_its_line(tmp_path):
    path = tmp_path / "wsj_0001.mrg"
    path.write_bytes(b"( (S (NN a)) )\n( (S (NN caf\xe9)) )\n")
    with pytest.raises(UserError, match="wsj_0001"):
        list(treebank.read(path))


def test_written_trees_and_words(tmp_path):
    some = [trees.parse(text) for text in CLEAN]
    treebank.write(tmp_path / "new" / "a.trees", some)
    treebank.write_words(tmp_path / "new" / "a.words", some)
    assert (tmp_path / "new" / "a.trees").read_text().splitlines() == CLEAN
    lines = (tmp_path / "new" / "a.words").read_text().splitlines()
    assert lines == ["The cat wants to go out .", "Pierre -LRB- --"]
