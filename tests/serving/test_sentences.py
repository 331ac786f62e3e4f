"""Texts in sentences and back."""

import pytest
import sentencex

from t2t_repro.serving.exported import Hypothesis
from t2t_repro.serving.sentences import PIECE, Text, Translation, Whole


@pytest.mark.parametrize(
    "text, language, lines",
    [
        ("", "en", [()]),
        ("one", "", [("one",)]),
        ("Ab ab. Cd cd?  Eh!", "en", [("Ab ab.", "Cd cd?", "Eh!")]),
        ("a\r\n\r\n b \rc\n", "en", [("a",), (), ("b",), ("c",), ()]),
        ("Dr. Smith has 3.5 cats. Well.", "en", [("Dr. Smith has 3.5 cats.", "Well.")]),
        ("Das ist z. B. neu. Am 3. Mai.", "de", [("Das ist z. B. neu.", "Am 3. Mai.")]),
        ("これは本です。あれは？", "ja", [("これは本です。", "あれは？")]),
    ],
)
def test_a_text_in_sentences(text, language, lines):
    assert list(Text.of(text, language).lines) == lines


SENTENCES = ['"Yes?" he said.', "Mr. Smith has 3.5 cats, and (so he says) a dog.", "Ab ab!"]


def test_a_long_line_is_split_as_a_short_one():
    line = " ".join(SENTENCES * 300)
    assert len(line) > 5 * PIECE
    assert Text.of(line, "en").sentences == SENTENCES * 300
    endless = "word " * PIECE
    assert Text.of(f"Ab ab. {endless}", "en").sentences == ["Ab ab.", endless.strip()]
    assert Text.of(f"{endless}\nAb ab.", "en").sentences == [endless.strip(), "Ab ab."]


def test_what_is_split_at_once_is_bounded_and_so_is_all_of_it(monkeypatch):
    seen, segment = [], sentencex.segment
    monkeypatch.setattr(
        sentencex, "segment", lambda language, text: seen.append(text) or segment(language, text)
    )
    quotes = '"\u201ca. ' * 100_000
    assert 5 < len(Text.of(f"{quotes}\n{quotes}", "en", most=5).sentences)
    assert [len(text) for text in seen] == [PIECE, PIECE]  # nothing of the second line


def test_translations_stand_where_their_sentences_stood():
    text = Text.of("\nAb ab. Cd cd.\n\n e", "en")
    assert text.joined(["1", "2", "3"]) == "\n1 2\n\n3"
    assert Text.of(" \n", "en").joined([]) == "\n"
    assert Text.of("Ab ab. Cd cd.\ne", "en", split=False).sentences == ["Ab ab. Cd cd.\ne"]
    assert Text.of(" ", "en", split=False).sentences == []


def test_all_translations_of_a_text_of_one_sentence_keep_its_line_ends():
    text = Text.of("\n\nAb ab.\n", "en")
    both = [Hypothesis("Eins.", -1.0), Hypothesis("Zwei.", -2.0)]
    whole = Whole.of_text(text, [Translation.of(text.sentences[0], both)])
    assert whole.translation == whole.n_best[0].translation == "\n\nEins.\n"
    assert whole.n_best[1] == Hypothesis("\n\nZwei.\n", -2.0)
