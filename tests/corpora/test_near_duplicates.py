import pytest

from t2t_repro.corpora.near_duplicates import Index, words

SENTENCES = [
    "The cat sat on the mat, near page 12.",
    "Yes.",
    "12 13 14",
    "?!",
    "今天天气很好我们去公园",
    "the old man looked at the wide sea and said nothing at all",
]


@pytest.mark.parametrize(
    "text, near",
    [
        ("the  CAT sat on the mat (near page 3,417.5)", [0]),
        ("The cat sat on the mat near my house", [0]),
        ("The cat sat on the mat near my house, where the dog would sit in the sun all day", []),
        ("A dog sat on a mat near page 12", []),
        ("yes!", [1]),
        ("Yes, please", []),
        ("12, 13: 14", [2]),
        ("12 13 15", []),
        ("?!", [3]),
        ("!", []),
        ("今天天气很好我们去海边", [4]),
        ("明天我们去公园", []),
        ("The old man looked at the wide sea and said: nothing!", [5]),
        ("", []),
    ],
)
def test_finds_what_nearly_repeats(text, near):
    assert Index(SENTENCES).near(text) == near


def test_same_words_are_all_of_them():
    index = Index(["A 1", "b", "a, 22!"])
    assert index.same("a (3)") == [0, 2]
    assert index.same("a b") == index.same("") == []


def test_letters_in_two_parts_are_those_in_one():
    assert words("Cafe\u0301 ＡＢ") == words("Café ab") == ("café", "ab")
