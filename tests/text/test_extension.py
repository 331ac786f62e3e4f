import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import extension
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.vocabulary_size import VocabularySize

PIECES = [*"<pad>_ <EOS>_ bad_ egg".split(), *"abcdefgh\\_u;0123456789"]
COUNTS = {"cabbage": 40, "cabbages": 12, "é": 30, "bad": 99, "ñ": 3, "deaf": 11, "egg": 7}


def test_new_subwords_come_behind_by_what_they_save():
    old = SubwordTextEncoder.from_subtokens(PIECES)
    found = extension.extended(old, 34, COUNTS)
    pieces = list(found.all_subtoken_strings)
    assert pieces[: len(PIECES)] == PIECES and len(pieces) <= 34
    assert pieces[len(PIECES)] == "é" and not {"ñ", "s"} & set(pieces) - {"s"}
    assert len(found.encode("cabbage")) < len(old.encode("cabbage"))
    for text in ("bad egg", "cabbages, é and ñ!"):
        assert found.decode(found.encode(text)) == text
    assert found.encode("bad")[0] == old.encode("bad")[0] == 2
    few = extension.extended(old, 28, COUNTS)
    assert list(few.all_subtoken_strings) == pieces[:28]
    with pytest.raises(UserError, match="--vocab_from"):
        extension.extended(old, 26, COUNTS)


def test_what_is_built_is_known_again(tmp_path):
    old, path = tmp_path / "old.subwords", tmp_path / "vocab.new.0.subwords"
    SubwordTextEncoder.from_subtokens(PIECES).store_to_file(old)
    assert not extension.is_built(path, old, 34)
    extension.build(path, old, 34, COUNTS, None)
    (path,) = tmp_path.glob("vocab.new.*.subwords")
    assert extension.is_built(path, old, 34) and not extension.is_built(path, old, 35)
    SubwordTextEncoder.from_subtokens(PIECES).store_to_file(old, add_single_quotes=False)
    assert extension.is_built(path, old, 34)
    known = VocabularySize.of(path)
    assert known.asked == 34 and known.made == SubwordTextEncoder(path).vocab_size
    assert f"26 are those of {old}, {known.made - 26} are new, with which the" in known.reason
    SubwordTextEncoder.from_subtokens([*PIECES[:3], "gab", *PIECES[4:]]).store_to_file(old)
    assert not extension.is_built(path, old, 34)
