"""Numbers, bytes and tokens."""

import json
import pathlib

from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.text import ByteTextEncoder, TextEncoder, TokenTextEncoder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "text"


def test_numbers():
    encoder = TextEncoder()
    assert encoder.num_reserved_ids == 2
    assert encoder.encode("0 3 1") == [2, 5, 3]
    assert encoder.decode([2, 5, 3, 1, 0]) == "0 3 1 <EOS> <pad>"
    assert encoder.decode([2, 5, 3, 1, 0], strip_extraneous=True) == "0 3 1"
    assert TextEncoder(num_reserved_ids=0).encode("0 3") == [0, 3]


def test_bytes_equal_tensor2tensors():
    rows = json.loads((GOLDEN / "byte_encode.json").read_text(encoding="utf-8"))
    encoder = ByteTextEncoder()
    assert len(rows) == 44 and encoder.vocab_size == 258
    for row in rows:
        assert encoder.encode(row["text"]) == row["ids"]
        assert encoder.decode(row["ids"]) == row["decoded"]


@given(st.text())
def test_bytes_round_trip_and_are_shown_one_by_one(text):
    encoder = ByteTextEncoder()
    assert encoder.decode([*encoder.encode(text), 1, 0], strip_extraneous=True) == text
    shown = encoder.decode_list([0, 1, *encoder.encode("aä")])
    assert shown == ["<pad>", "<EOS>", "a", "\\xc3", "\\xa4"]
    assert encoder.decode(encoder.encode("ä")[:1]) == "\ufffd"


def test_tokens_of_a_list():
    encoder = TokenTextEncoder(None, vocab_list=["<pad>", "b", "a"])
    assert encoder.vocab_size == 4
    assert encoder.encode(" a  b ") == [3, 2]
    assert encoder.decode([3, 2, 7, 1], strip_extraneous=True) == "a b ID_7"
    reverse = TokenTextEncoder(None, reverse=True, vocab_list=["b", "a"])
    assert reverse.encode("a a b") == [2, 3, 3] and reverse.decode([2, 3, 1]) == "<EOS> a b"


def test_tokens_of_a_file(tmp_path):
    path = tmp_path / "vocab.tokens"
    TokenTextEncoder(None, vocab_list=["ß", "UNK"]).store_to_file(path)
    assert path.read_bytes() == "<pad>\n<EOS>\nß\nUNK\n".encode()
    assert [file.name for file in tmp_path.iterdir()] == ["vocab.tokens"]
    encoder = TokenTextEncoder(path, replace_oov="UNK")
    assert encoder.encode("ß x") == [2, 3]
    path.write_bytes(b"<pad> \r\n<EOS>\r\nlast")
    assert TokenTextEncoder(path).encode("<pad> last") == [0, 2]
