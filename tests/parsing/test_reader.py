import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.parsing.constraint import tree_constraint
from t2t_repro.parsing.reader import TreeReader, phrase_labels
from t2t_repro.parsing.trees import PHRASE_LABELS, PhraseLabels
from t2t_repro.text.encoders import ByteTextEncoder, TokenTextEncoder


def test_trees_are_read_and_repairs_counted():
    reader = TreeReader()
    assert reader.read("It works", "S NP PRP /NP VP VBZ /VP /S") == (
        "(TOP (S (NP (PRP It)) (VP (VBZ works))))"
    )
    assert reader.read("It works", "S NP PRP VBZ /VP") == "(TOP (S (NP (PRP It) (VBZ works))))"
    reader.read("It works", "", count=False)
    kinds = {"unclosed": 2, "unopened": 1, "missing_leaves": 0, "extra_leaves": 0, "empty": 0}
    assert json.loads(reader.as_json()) == {"sentences": 2, "repaired": 1, "repairs": kinds}
    assert "1 of 2" in str(reader) and "unclosed 2" in str(reader)


def test_a_treebank_may_have_labels_of_its_own():
    tags = "oracion sn d n /sn X gv v /gv /oracion"
    tokens = ["<UNK>", "sn-s", *sorted(set(tags.split()))]
    labels = phrase_labels(TokenTextEncoder(None, vocab_list=tokens))
    # "NP" is of no tree, and could be written; "X" and "sn-s" are parts of speech here.
    assert all(label in labels for label in ("oracion", "sn", "gv", "NP", "sn-p"))
    assert not any(label in labels for label in ("X", "d", "n", "v", "sn-s", "<UNK>"))
    reader = TreeReader(labels)
    assert reader.read("un gato ! come", tags) == (
        "(TOP (oracion (sn (d un) (n gato)) (X !) (gv (v come))))"
    )
    assert reader.repaired == 0
    assert phrase_labels(ByteTextEncoder()) == PhraseLabels(PHRASE_LABELS)


def test_a_constraint_of_a_vocabulary_and_a_lexicon(tmp_path):
    (tmp_path / "lexicon").write_text("<UNK> NN\n, ,\n")
    encoder = TokenTextEncoder(None, vocab_list=["<UNK>", "S", "/S", "NN", ","])
    facts = tree_constraint(encoder, tmp_path / "lexicon").facts(["a , b"])
    assert facts[0, 0] == facts[0, 2] != facts[0, 1]
    assert len(set(tree_constraint(encoder).facts(["a , b"])[0])) == 1
    (tmp_path / "lexicon").write_text("<UNK>\n, ,\n")  # of others nothing is known
    facts = tree_constraint(encoder, tmp_path / "lexicon").facts(["a , b"])
    assert facts[0, 0] == facts[0, 2] != facts[0, 1]


def test_tags_in_pieces_have_no_constraint():
    with pytest.raises(UserError, match="well_formed"):
        tree_constraint(ByteTextEncoder())
