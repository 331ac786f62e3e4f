"""Texts in sentences and back."""

import pytest
import sentencex
from fastapi import HTTPException

from t2t_repro.serving.schemas import PIECE, split_texts


def split(text, language="en", most=10_000, **how):
    (found,) = split_texts(text, language, most, **how)
    return found


@pytest.mark.parametrize(
    "text, language, lines",
    [
        ("", "en", [[]]),
        ("one", "", [["one"]]),
        ("Ab ab. Cd cd?  Eh!", "en", [["Ab ab.", "Cd cd?", "Eh!"]]),
        ("a\r\n\r\n b \rc\n", "en", [["a"], [], ["b"], ["c"], []]),
        ("Dr. Smith has 3.5 cats. Well.", "en", [["Dr. Smith has 3.5 cats.", "Well."]]),
        ("Das ist z. B. neu. Am 3. Mai.", "de", [["Das ist z. B. neu.", "Am 3. Mai."]]),
        ("これは本です。あれは？", "ja", [["これは本です。", "あれは？"]]),
    ],
)
def test_a_text_in_sentences(text, language, lines):
    assert split(text, language).lines == lines


def test_what_is_split_at_once_is_bounded_and_so_is_all_of_it(monkeypatch):
    seen, segment = [], sentencex.segment
    monkeypatch.setattr(
        sentencex, "segment", lambda language, text: seen.append(text) or segment(language, text)
    )
    quotes = '"\u201ca. ' * 100_000
    with pytest.raises(HTTPException) as refused:
        split(f"{quotes}\n{quotes}", most=5)
    assert refused.value.status_code == 413
    assert {len(text) for text in seen} == {PIECE} and len(seen) <= 2  # no more is split


def test_translations_stand_where_their_sentences_stood():
    assert split("\nAb ab. Cd cd.\n\n e").joined(["1", "2", "3"]) == "\n1 2\n\n3"
    assert split(" \n").joined([]) == "\n"
    assert split("Ab ab. Cd cd.\ne", split=False).sentences == ["Ab ab. Cd cd.\ne"]
    assert split(" ", split=False).sentences == []
