"""The file of a shortlist, and what it has for sentences."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import shortlist
from t2t_repro.text.encoders import ByteTextEncoder, TextEncoder, TokenTextEncoder
from t2t_repro.text.shortlist import Shortlist
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.token_names import tokens_of

SOURCE = [*["<pad>_", "<EOS>_"], *"\\_u;0123456789", "ab_", "cd_", ", _", "a\tb_"]
TARGET = [*SOURCE[:-4], "xy_", "", " z _"]
SIDES = "inputs", "targets"
ENCODERS = {
    "inputs": SubwordTextEncoder.from_subtokens(SOURCE),
    "targets": SubwordTextEncoder.from_subtokens(TARGET),
}
AB, CD, COMMA = 16, 17, 18
XY, EMPTY, Z = 16, 17, 18


@pytest.fixture
def made():
    candidates = [[] for _ in SOURCE]
    candidates[AB], candidates[COMMA] = [Z, XY, XY], [2]
    return Shortlist.of(candidates, [EMPTY], len(TARGET))


def test_what_is_written_is_what_is_read(made, tmp_path):
    path = tmp_path / "shortlist.txt"
    path.write_text(made.text(ENCODERS))
    assert path.read_text() == (
        "ab_\txy_ \\32;z\\32;_\n,\\32;_\t\\\n\t<EOS> <id_17>\n"  # no blank but between names
    )
    read = shortlist.read(path, ENCODERS)
    assert read.digest == made.digest and read.size == len(TARGET)
    assert shortlist.read(path, ENCODERS) is read
    path.write_text("ab_\txy_\n\t<EOS>\n")
    assert shortlist.read(path, ENCODERS).digest != made.digest


def test_the_candidates_of_a_sentence_are_its_tokens_own(made):
    inputs = np.array([[AB, COMMA, AB, 1], [CD, 1, 0, 0], [0, 0, 0, 0]], "int32")
    found = [np.flatnonzero(row).tolist() for row in made.among(inputs)]
    assert found == [[1, 2, XY, EMPTY, Z], [1, EMPTY], [1, EMPTY]]


def test_names_have_no_blanks_and_each_is_there_once():
    assert tokens_of(ENCODERS["inputs"], 22)[-5:] == [
        *("cd_", ",\\32;_", "a\\9;b_", "<id_20>", "<id_21>")
    ]
    twice = SubwordTextEncoder.from_subtokens([*SOURCE[:-4], "a b_", "a\\32;b_"])
    assert tokens_of(twice, 18)[-2:] == ["a\\32;b_", "<id_17>"]
    tokens = TokenTextEncoder(None, reverse=True, vocab_list=["w", "x y", "<id_5>", "", "<pad>_"])
    assert tokens_of(tokens, 8)[2:] == ["w", "x\\32;y", "<id_4>", "<id_5>", "<pad>_", "<id_7>"]


def test_a_shortlist_of_other_tokens_is_refused(tmp_path):
    first, other = (TokenTextEncoder(None, vocab_list=tokens) for tokens in ("abcd", "wxyz"))
    path = tmp_path / "shortlist"
    path.write_text(Shortlist.of([[i] for i in range(6)], [2], 6).text(dict.fromkeys(SIDES, first)))
    assert shortlist.read(path, dict.fromkeys(SIDES, first)).size == 6
    with pytest.raises(UserError, match="3"):
        shortlist.read(path, dict.fromkeys(SIDES, other))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\txy_\n", "Expected in line 1 of .* a tab.* Received: ''. t2t-shortlist writes one"),
        (b"ab_\txy_\nab_ xy_\n\txy_\n", "Expected in line 2 of .*Received: 'ab_ xy_'"),
        (b"ab_\txy_\nab_ cd_\txy_\n\txy_\n", "Expected in line 2 of .*Received: 'ab_ cd_'"),
        (b"ab_\txy_ nowhere\n\txy_\n", "Expected in line 1 of .*Received: 'nowhere'"),
        (b"ab_\t\n\txy_\n", "Expected in line 1 of .*Received: ''"),
        (b"ab_\t\xff\n", "Expected a file with a shortlist, in UTF-8. Received: .*can't decode"),
    ],
)
def test_what_is_no_shortlist_for_the_vocabulary_is_refused(tmp_path, content, message):
    path = tmp_path / "wrong"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        shortlist.read(path, ENCODERS)


def test_a_file_that_was_cut_is_refused_wherever_it_was(made, tmp_path):
    path, whole = tmp_path / "cut", made.text(ENCODERS).encode()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError):
            shortlist.read(path, ENCODERS)


def test_what_is_no_file_or_has_no_vocabulary_is_refused(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path, "/dev/zero", "a\0b"):
        with pytest.raises(UserError):
            shortlist.read(path, ENCODERS)
    numbers = {"inputs": TextEncoder(), "targets": ByteTextEncoder()}
    with pytest.raises(UserError):
        shortlist.read(__file__, numbers)
