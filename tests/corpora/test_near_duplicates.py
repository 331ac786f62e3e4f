import pytest

from t2t_repro.corpora.near_duplicates import Index

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
        ("Y\u200be\u00ads\u200d", [1]),
        ("\uff39\uff45\uff53\u00a0\u200e", [1]),
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


def test_what_is_dropped_is_not_found_again_and_the_others_are():
    assert Index(["A 1", "b", "a, 22!"]).same("a (3)") == [0, 2]
    texts = ["a b c d", "A b c d!", "b c d e", "x"]
    index = Index(texts)
    assert index.near("a b c d") == [0, 1, 2] and index.near("x") == [3]
    index.drop(0, texts[0])
    assert index.near("a b c d") == [1, 2] and index.same("a b c d") == [1]
    index.drop(1, texts[1])
    index.drop(3, texts[3])
    assert index.near("a b c d") == [2]
    assert index.near("a b c") == index.same("x") == index.same("") == []
