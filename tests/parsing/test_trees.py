import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.parsing import trees
from t2t_repro.parsing.score import score_files

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "text" / "trees.json").read_text("utf-8")
)
TREE = "(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))"
TAGS = "S NP PRP /NP VP VBZ /VP . /S"
UNCLOSED, MISSING = {"unclosed": 1}, {"missing_leaves": 1}


def test_linearises_every_tree_as_t2t_and_it_comes_back_without_a_repair():
    assert len(GOLDEN) == 200
    for row in GOLDEN:
        assert trees.words_and_tags_from_wsj_tree(row["tree"]) == (row["words"], row["tags"])
        tree, repairs = trees.tree_from_words_and_tags(row["words"], row["tags"])
        assert (str(tree), repairs) == (row["tree"], trees.Repairs())


def test_a_tree_reads_and_writes_itself():
    tree = trees.parse("( (S (NP-SBJ (-NONE- *)) (VP (VB Go))) )")
    assert tree.label == "" and tree.children[0].children[0].label == "NP-SBJ"
    assert tree.words() == ["*", "Go"]
    assert str(tree) == "( (S (NP-SBJ (-NONE- *)) (VP (VB Go))))"
    assert str(trees.Tree("NN", word="a(b)")) == "(NN a-LRB-b-RRB-)"


@pytest.mark.parametrize(
    "text",
    [
        *("(TOP (S (NN a))", "(TOP (NN a)))", "(NP the (NN dog))", "(NP (NN dog) the)"),
        *("(NP the dog)", "word", "(NN a) (NN b)", "  ", "(NN dog)", "(TOP (NP) (NN a))"),
    ],
)
def test_a_wrong_tree_is_an_error_with_file_and_line(text):
    with pytest.raises(UserError, match="f, line 7"):
        trees.words_and_tags_from_wsj_tree(text, "f, line 7")


@pytest.mark.parametrize(
    ("tags", "tree", "repairs"),
    [
        (TAGS, TREE, {}),
        # an end is missing: closed with what encloses it, or with the sentence
        ("S NP PRP VP VBZ /VP . /S", "(TOP (S (NP (PRP It) (VP (VBZ works)) (. .))))", UNCLOSED),
        ("S NP PRP /NP VP VBZ /VP .", TREE, UNCLOSED),
        ("S NP PRP /NP VP VBZ /S .", "(TOP (S (NP (PRP It)) (VP (VBZ works))) (. .))", UNCLOSED),
        # an end of nothing: left out
        ("S NP PRP /NP /PP VP VBZ /VP /NN . /S", TREE, {"unopened": 2}),
        # leaves too many, too few: found by the full stop
        (TAGS.replace("VBZ", "VBZ RB"), TREE, {"extra_leaves": 1}),
        (TAGS.replace("VP VBZ /VP", ""), "(TOP (S (NP (PRP It)) (NN works) (. .)))", MISSING),
        ("S NP PRP /NP VP VBZ /VP /S", TREE, MISSING),
        ("", "(TOP (NN It) (NN works) (. .))", {"missing_leaves": 3}),
        # phrases without a word
        (TAGS.replace("VP", "ADVP /ADVP VP", 1), TREE, {"empty": 1}),
        (TAGS.replace("VP", "ADVP S /S /ADVP VP", 1), TREE, {"empty": 2}),
    ],
)
def test_repairs(tags, tree, repairs):
    made, counted = trees.tree_from_words_and_tags("It works .", tags)
    assert (str(made), counted) == (tree, trees.Repairs(**repairs))
    assert counted.total == sum(repairs.values())


def test_given_parts_of_speech_label_the_leaves_and_align_them():
    tags = "S NP DT NN NN /NP VP VBD /VP /S"
    tree, repairs = trees.tree_from_words_and_tags("the dog barked", tags, "DT NN VBD")
    assert str(tree) == "(TOP (S (NP (DT the) (NN dog)) (VP (VBD barked))))"
    assert repairs == trees.Repairs(extra_leaves=1)
    tree, _ = trees.tree_from_words_and_tags("x", "NP NN /NP", ["CD"])
    assert str(tree) == "(TOP (NP (CD x)))"


def test_a_missing_word_joins_the_smallest_phrase_its_neighbours_share():
    tags = "S NP NP DT /NP PP IN /PP /NP VP VBD /VP /S"
    tree, _ = trees.tree_from_words_and_tags("the dog of gave", tags, "DT NN IN VBD")
    assert "(NP (NP (DT the)) (NN dog) (PP (IN of)))" in str(tree)


def scored(folder, gold, predicted, tags=True):
    """Returns the scores of a prediction, and the tree that was scored."""
    (folder / "gold").write_text(f"{gold}\n")
    (folder / "predicted").write_text(f"{predicted}\n")
    result, _, (made,) = score_files(folder / "gold", folder / "predicted", tags=tags)
    return result, made


def test_gold_trees_say_which_labels_are_phrases(tmp_path):
    gold = "(TOP (S (NP (NML (NNP New) (NNP York)) (X mayor)) (VP (VBZ speaks)) (. .)))"
    labels = trees.phrase_labels_of([trees.parse(gold)])
    assert "NML" in labels and "PP" in labels and "NNP" not in labels and "X" not in labels
    result, made = scored(tmp_path, gold, trees.words_and_tags_from_wsj_tree(gold)[1])
    assert made == gold and result["repairs"]["sentences"] == 0
    # A word that is given a phrase's label, and the bracket around a raw tree, change nothing.
    slip, raw = "(TOP (S (NP dog) (VP (VBZ barks))))", "( (S (-LRB- -LRB-) (NP (NN it))))"
    labels = trees.phrase_labels_of([trees.parse(each) for each in (gold, slip, raw)])
    assert "NP" in labels and "NML" in labels
    assert not any(label in labels for label in ("", "-LRB-", "X"))


@pytest.mark.parametrize("tags", [True, False])
def test_traces_of_the_gold_trees_are_no_words(tmp_path, tags):
    clean = "(TOP (S (NP (DT The) (NN dog)) (, ,) (VP (VBZ runs))))"
    raw = clean.replace("runs)", "runs) (NP (-NONE- *))")
    slip = "S NP DT NN /NP NN VP VBZ /VP /S" if tags else clean.replace("(, ,)", "(NN ,)")
    result, made = scored(tmp_path, raw, slip, tags)
    assert made == clean and result["all"]["f1"] == 100.0
    assert not any(result.get("repairs", {}).values())


def test_a_part_of_speech_may_look_like_a_phrase_with_a_function(tmp_path):
    gold = "(TOP (S (N (D the) (N-SG cat)) (VX (V eats) (N-OBJ (D a) (N-SG dog)))))"
    tags = trees.words_and_tags_from_wsj_tree(gold)[1]
    result, made = scored(tmp_path, gold, tags.replace("N-OBJ", "N-PRD"))
    assert made == gold.replace("N-OBJ", "N-PRD") and result["repairs"]["sentences"] == 0


WORDS = st.lists(st.sampled_from("a dog , . ( ) '' /NP NP ü".split()), max_size=9)
SOME_TAGS = "S NP VP /S /NP /VP NN , . /NN / (( NP-SBJ".split()
ANY_TAGS = st.lists(st.sampled_from(SOME_TAGS), max_size=25)


@given(WORDS, ANY_TAGS, st.booleans())
def test_any_tags_give_a_balanced_tree_over_the_very_words(words, tags, with_parts_of_speech):
    parts_of_speech = ["NN" for _ in words] if with_parts_of_speech else None
    tree, repairs = trees.tree_from_words_and_tags(words, tags, parts_of_speech)
    assert tree.words() == words
    again = trees.parse(str(tree))
    assert again.words() == [w.replace("(", "-LRB-").replace(")", "-RRB-") for w in words]
    assert str(again) == str(tree)
    assert all(node is tree or node.word or node.children for node, _ in tree.walk())
    leaves = sum(not t.startswith("/") and t not in ("S", "NP", "VP", "NP-SBJ") for t in tags)
    leaves += tags.count("/")
    assert len(words) == leaves + repairs.missing_leaves - repairs.extra_leaves


def nested(children):
    labels = st.sampled_from(sorted(trees.PHRASE_LABELS))
    return st.builds(trees.Tree, labels, st.lists(children, min_size=1, max_size=3))


TOKENS = st.sampled_from(["a", "b\u00a0c", ","])
LEAF = st.builds(trees.Tree, st.sampled_from(["NN", ",", "-NONE-"]), word=TOKENS)


@given(st.builds(trees.Tree, st.just("TOP"), st.lists(st.recursive(LEAF, nested), min_size=1)))
def test_there_and_back(tree):
    words, tags = trees.words_and_tags_from_wsj_tree(str(tree))
    back, repairs = trees.tree_from_words_and_tags(words, tags)
    assert (str(back), repairs.total) == (str(tree), 0)
