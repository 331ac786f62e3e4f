import pytest

from t2t_repro.text import transfer
from t2t_repro.text.encoders import ByteTextEncoder, TokenTextEncoder
from t2t_repro.text.subword import SubwordTextEncoder

RESERVED = ["<pad>_", "<EOS>_"]
CHARACTERS = [*"abcdefgh\\_u;0123456789"]


def subwords(*pieces):
    return SubwordTextEncoder.from_subtokens([*RESERVED, *pieces, *CHARACTERS])


def test_a_piece_that_both_have_is_the_parents_and_a_new_one_is_cut_as_the_parent_reads_it():
    parent = subwords("bad_", "egg", "cab")
    mine = subwords("cabbage_", "egg", "bad_", "€")
    found = dict(zip(transfer.pieces_of(mine), transfer.parts(mine, parent), strict=True))
    ids = {piece: [i] for i, piece in enumerate(transfer.pieces_of(parent))}
    for piece, of in found.items():
        if piece in ids:
            assert of == ids[piece]
    assert found["cabbage_"] == [i for part in ("cab", *"bage_") for i in ids[part]]
    assert found["€"] == [i for c in "\\8364;" for i in ids[c]] == parent.encode("€")[:-1]
    assert [found[piece] for piece in RESERVED] == [[0], [1]]
    for word in ("cabbage", "egg"):  # as the parent reads a whole word
        assert parent.encode(word) == parent.cut(f"{word}_")


@pytest.mark.parametrize("parent", [ByteTextEncoder(), subwords()])
def test_nothing_is_known_of_the_pieces_of_another_kind_of_vocabulary(parent):
    mine = TokenTextEncoder(None, vocab_list=["a", "b", "c"])
    assert transfer.parts(mine, parent) == [[0], [1], [], [], []]


def test_what_the_parent_cannot_spell_is_left_out_of_a_piece():
    parent = TokenTextEncoder(None, vocab_list=["a", "b"])
    mine = TokenTextEncoder(None, vocab_list=["b", "xa", "y"])
    assert transfer.parts(mine, parent) == [[0], [1], [3], [2], []]


def test_an_encoder_that_reverses_or_only_decodes_has_pieces_too():
    backwards = TokenTextEncoder(None, vocab_list=["a", "b"], reverse=True)
    assert transfer.pieces_of(backwards) == ["<pad>", "<EOS>", "a", "b"]

    class Users:
        vocab_size = 3

        def decode(self, ids):
            return "".join("xyz"[i] for i in ids)

    assert transfer.pieces_of(Users()) == ["x", "y", "z"]
