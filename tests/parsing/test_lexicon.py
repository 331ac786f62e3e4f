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
    assert lexicon.parts_of_speech("It works\u3000on / .", tags) == ["PRP", "VBZ", "/", "."]
    assert lexicon.parts_of_speech("", "") == []
