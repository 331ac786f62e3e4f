import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError
from t2t_repro.parsing import lexicon


def test_frequent_words_have_what_they_had_and_rare_ones_the_open_classes_too(tmp_path):
    book = lexicon.Lexicon()
    for _ in range(lexicon.RARE):
        book.add("the dog barks .", "S NP DT NN /NP VP VBZ /VP . /S")
    book.add("the the", "NP NNP DT /NP")
    for number in range(lexicon.OPEN):
        book.add(f"x{number}", "NP NN /NP")
    book.add("ouch x0", "INTJ UH NN /INTJ")
    assert book.entries() == {
        "<UNK>": ["NN"],
        ".": ["."],
        "barks": ["VBZ"],
        "dog": ["NN"],
        "ouch": ["NN", "UH"],
        "the": ["DT", "NNP"],
    }
    book.write(tmp_path / "a")
    assert (tmp_path / "a").read_text().splitlines()[4:] == ["ouch NN UH", "the DT NNP"]


def test_parts_of_speech():
    tags = "S NP PRP /NP VP VBZ /VP / . /S"
    assert lexicon.parts_of_speech("It works / .", tags) == ["PRP", "VBZ", "/", "."]
    assert lexicon.parts_of_speech("", "") == []


def test_a_part_of_speech_that_is_a_phrase_as_well_is_refused():
    with pytest.raises(UserError, match="foo go"):
        lexicon.Lexicon().add("foo go", "S X X /X VP VB /VP /S")
    tree = "(TOP (S (X (X foo)) (VP (VB go))))"
    with pytest.raises(UserError, match="^wsj.trees, line 7"):
        registry.get_problem("parsing_wsj4k").sample_of(tree, "wsj.trees, line 7")


def test_few_words_open_every_class():
    book = lexicon.Lexicon()
    book.add("a b", "S DT NN /S")
    assert book.entries() == {"<UNK>": ["DT", "NN"]}


def test_where_no_word_is_rare_an_unknown_one_may_have_any():
    book = lexicon.Lexicon()
    for _ in range(lexicon.RARE):
        book.add("a b", "S DT NN /S")
    assert book.entries() == {"<UNK>": ["DT", "NN"], "a": ["DT"], "b": ["NN"]}
