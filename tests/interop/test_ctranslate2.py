"""What is written for CTranslate2, and what is refused."""

import errno
import json
import os
import re

import pytest

from t2t_repro.errors import UserError
from t2t_repro.interop import ctranslate2
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.text.subword import SubwordTextEncoder


@pytest.fixture
def write(make_model, encoders, tmp_path):
    """Exports a model that was not trained to tmp_path/ct2."""

    def write(overrides="", encoders=encoders, **options):
        return ctranslate2.export(make_model(overrides), encoders, tmp_path / "ct2", **options)

    return write


def test_the_folder(write, encoders, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("x")
    *subtokens, _, _ = encoders["inputs"].all_subtoken_strings
    odd = SubwordTextEncoder.from_subtokens([*subtokens, "", "a\nb"])
    path = write(encoders={**encoders, "targets": odd}, vocabularies=[vocabulary])
    names = json.loads((path / "target_vocabulary.json").read_text())
    assert names[:3] == ["<pad>", "<EOS>", "\\"]
    assert names[-2:] == [f"<id_{len(subtokens) + i}>" for i in range(2)]
    assert len(set(names)) == len(subtokens) + 2
    assert (path / "vocab.txt").read_text() == "x" and (path / "hparams.json").exists()
    assert [p.name for p in tmp_path.iterdir() if "incomplete" in p.name] == []


def test_names_of_other_vocabularies_are_their_ids():
    assert ctranslate2.tokens_of(ByteTextEncoder(), 4) == ["<pad>", "<EOS>", "<id_2>", "<id_3>"]


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (",layer_preprocess_sequence=n,layer_postprocess_sequence=dan", "postprocess_sequence=dan"),
        (",norm_type=none", "norm_type=none"),
        (",self_attention_type=local_mask_right", "self_attention_type=local_mask_right"),
        (",attention_score=additive", "attention_score=additive"),
        (",attention_key_channels=12", "attention_key_channels=12"),
        (",unidirectional_encoder=True", "unidirectional_encoder=True"),
        (
            ",self_attention_type=dot_product_relative,max_relative_position=4,pos=timing",
            "pos=timing",
        ),
    ],
)
def test_a_model_that_ctranslate2_cannot_compute(write, tmp_path, overrides, named):
    with pytest.raises(UserError, match=f"CTranslate2 can compute.*{named}"):
        write(overrides)
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_ones_own_is_refused(make_model, encoders, tmp_path):
    model = make_model()
    model.__class__ = type("Mine", (type(model),), {})
    with pytest.raises(UserError):
        ctranslate2.export(model, encoders, tmp_path / "ct2")
    assert list(tmp_path.iterdir()) == []


def test_errors(write, monkeypatch):
    with pytest.raises(UserError, match="int3"):
        write(quantization="int3")
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(UserError, match=re.escape("pip install 't2t_repro[ctranslate2]'")):
        ctranslate2.library()


def test_what_is_refused_is_not_written(write, tmp_path):
    def refuse(folder):
        assert (folder / "model.bin").exists()
        raise UserError("too bad")

    def full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError):
        write(accept=refuse)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}"):
        write(accept=full)
    assert list(tmp_path.iterdir()) == []


def test_pieces_are_the_names_of_their_ids(tmp_path):
    from t2t_repro.text.sentence_piece import SentencePieceEncoder
    from tests.text.pieces import train

    encoder = SentencePieceEncoder(train(tmp_path / "own.model", 40))
    names = ctranslate2.tokens_of(encoder, encoder.vocab_size + 3)
    assert tuple(names[:-3]) == encoder.all_subtoken_strings and names[-1].startswith("<id_")
