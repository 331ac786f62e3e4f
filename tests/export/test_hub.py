"""What transformers and Argos read: tokenizers as T2T's, weights that come back, packages."""

import json
import random
import types
import zipfile

import numpy as np
import pytest
import tokenizers

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import argos, hub, plain, transformers
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.provenance import translations
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder

TEXTS = [
    "",
    "a",
    "ab cd.",
    "  a  b ",
    "a_b\\c",
    "x_\\u y",
    "7;",
    "a\tb",
    "a\nb",
    "\\7;\\u",
    "a - b",
]
TEXTS += ["a--b", "_a_", "ab.cd", "[a]^~&&b", "1,2", "\\", "__", "\\\\u_"]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """The encoders of one small SentencePiece model, and its file."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("pieces")
    words = ["cab", "bead", "face", "bag", "deaf", "egg", "fade_d"]
    rng = random.Random(1)
    (folder / "text").write_text(
        "".join(f"{' '.join(rng.choices(words, k=6))}\n" for _ in range(99))
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "v"), vocab_size=20, minloglevel=2
    )
    encoder = SentencePieceEncoder(folder / "v.model")
    return dict.fromkeys(("inputs", "targets"), encoder), folder / "v.model"


def tokenizer(encoders, folder):
    assert hub.write_tokenizers(folder, encoders)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_subwords_are_described_for_tokenizers(tmp_path):
    letters = sorted({c for text in TEXTS for c in text} | set("\\_u;0123456789") - {"\n"})
    names = ["<pad>_", "<EOS>_", *letters, "ab_", "cd", " - _", ". ", "a-"]
    encoder = SubwordTextEncoder.from_subtokens(names)
    found = tokenizer(dict.fromkeys(("inputs", "targets"), encoder), tmp_path)
    rng = random.Random(3)
    drawn = ["".join(rng.choices("abcd _\\u;1.-\n\t", k=9)).strip() for _ in range(200)]
    for text in [*TEXTS, *drawn]:
        ids = encoder.encode(text.strip())
        assert found.encode(text).ids == [*ids, 1]
        assert found.decode([0, *ids, 1]) == encoder.decode(ids)
    assert found.encode("aé").ids == [*encoder.encode_without_tokenizing("a\u3013"), 1]
    assert found.encode("a", "ab").ids == [*encoder.encode("a"), 1, *encoder.encode("ab"), 1]


def test_pieces_are_described_for_tokenizers(pieces, tmp_path, encoders):
    found, encoder = tokenizer(pieces[0], tmp_path), pieces[0]["inputs"]
    for text in ["", "a", "cab bead", "  face   deaf ", "faced egg", "ＣＡＢ", "bag\tegg", "a Z"]:
        assert found.encode(text).ids == [*encoder.encode(text), 1]
        assert found.decode(encoder.encode(text)).rstrip() == encoder.decode(encoder.encode(text))
    assert not (tmp_path / "target").exists()
    both = {"inputs": encoder, "targets": encoders["targets"]}
    assert hub.write_tokenizers(tmp_path, both) and (tmp_path / "target/tokenizer.json").exists()
    with pytest.raises(UserError, match="ByteTextEncoder"):
        hub.write_tokenizers(tmp_path, both | {"inputs": ByteTextEncoder()})


@pytest.mark.parametrize(
    ("overrides", "kind", "tied"),
    [
        ("", "blenderbot", True),
        (",shared_embedding_and_softmax_weights=False,pos=none", "blenderbot", False),
        (
            ",layer_preprocess_sequence=none,layer_postprocess_sequence=dan"
            ",attention_score=dot_product",
            "marian",
            True,
        ),
    ],
)
def test_weights_under_the_names_of_transformers_come_back(
    make_model, encoders, tmp_path, monkeypatch, overrides, kind, tied
):
    model = make_model(f",norm_epsilon=1e-5{overrides}", layers=2)
    file = tmp_path / "v.subwords"
    encoders["inputs"].store_to_file(file)
    config = types.SimpleNamespace(problem="mine", hparams_set="transformer_test")
    run = types.SimpleNamespace(
        path=tmp_path, encoders=encoders, vocabulary_files=[file], config=config
    )
    request = ExportRequest(format="transformers", languages="en-de", license="cc0-1.0")
    transformers.write(ExportJob(run, model, tmp_path, DecodeHParams(), request))
    found = json.loads((tmp_path / "config.json").read_text())
    assert (found["model_type"], found["tie_word_embeddings"]) == (kind, tied)
    assert found["decoder_start_token_id"] == found["vocab_size"] - 1 == 27
    arrays = transformers.load(tmp_path / transformers.WEIGHTS)
    assert ("lm_head.weight" in arrays) != tied
    assert arrays["model.decoder.layers.1.encoder_attn.k_proj.weight"].shape == (8, 8)
    assert arrays["model.encoder.layers.0.fc1.weight"].shape == (12, 8)
    assert arrays["final_logits_bias"].tolist() == [[0] * 27 + [-1e4]]
    # What they hold: the same model, but for a row that is never chosen.
    mine, back = plain.read(model, "a test"), transformers.read(tmp_path)
    np.testing.assert_array_equal(back.softmax, mine.softmax)
    assert back.epsilon == pytest.approx(mine.epsilon)
    card = (tmp_path / "README.md").read_text()
    assert card.startswith("---\n") and "license: cc0-1.0\nlanguage: [en, de]\n" in card
    problem = types.SimpleNamespace(vocab_files=lambda folder: ["v.subwords"])
    monkeypatch.setattr(transformers.registry, "get_problem", lambda name: problem)
    settings = DecodeHParams(beam_size=1, extra_length=5)
    texts = ["a", "ab cd.", "abcdefg"]
    own = translations(ModelEngine(model), encoders, settings, texts)
    again = transformers.translate(tmp_path, "mine", settings, texts)
    assert [text for text, _ in again] == [text for text, _ in own]
    np.testing.assert_allclose([s for _, s in again], [s for _, s in own], 1e-4, 1e-4)


def test_float16_and_the_layout_of_safetensors(tmp_path):
    arrays = {"a": np.arange(6, dtype="float16").reshape(2, 3), "b": np.ones(1, "float32")}
    transformers.save(tmp_path / "x", arrays)
    data = (tmp_path / "x").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0 and len(data) == 8 + length + 12 + 4
    assert header["a"] == {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}
    assert header["b"] == {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}
    for name, array in transformers.load(tmp_path / "x").items():
        np.testing.assert_array_equal(array, arrays[name])


def test_a_package_of_argos(make_model, pieces, tmp_path):
    from t2t_repro import Transformer

    encoders, file = pieces
    size = encoders["inputs"].vocab_size
    model = Transformer.from_hparams(
        make_model().hparams, inputs_vocab_size=size, targets_vocab_size=size
    )
    run = types.SimpleNamespace(encoders=encoders, vocabulary_files=[file])
    request = ExportRequest(format="argos", languages="de-en")
    argos.write(ExportJob(run, model, tmp_path, DecodeHParams(), request))
    with zipfile.ZipFile(tmp_path / "translate-de_en.argosmodel") as archive:
        names = {name.removeprefix("translate-de_en/") for name in archive.namelist()}
        about = json.loads(archive.read("translate-de_en/metadata.json"))
        config = json.loads(archive.read("translate-de_en/model/config.json"))
    assert {"metadata.json", "sentencepiece.model", "model/model.bin"} <= names
    assert (about["from_code"], about["to_code"]) == ("de", "en")
    assert (config["add_source_eos"], config["unk_token"]) == (True, "<unk>")
    found = argos.translate(tmp_path, "", DecodeHParams(), ["cab bead", "ZZ", ""])
    assert len(found) == 3 and not any("_" in text for text, _ in found)
