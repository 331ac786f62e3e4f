"""What is written for CTranslate2, what is refused, and that it decodes as the model does."""

import json
import types

import keras
import numpy as np
import pytest

from t2t_repro import Transformer, get_hparams
from t2t_repro.decoding.ctranslate2_engine import DETAILS, CTranslate2Engine
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.search import Search, Sentences
from t2t_repro.errors import UserError
from t2t_repro.export import ctranslate2, plain
from t2t_repro.text.encoders import ByteTextEncoder, TextEncoder
from t2t_repro.text.subword import SubwordTextEncoder

SOURCE = [*["<pad>_", "<EOS>_"], *"\\_u;0123456789", *"abcdefg ", "ab_", "cd_", ". ", "", "a\nb"]
TARGET = [*SOURCE, "xy_", "z_"]
RELATIVE = ",self_attention_type=dot_product_relative,max_relative_position=4"


def encoder(subtokens):
    return SubwordTextEncoder.from_subtokens(subtokens)


def make_model(overrides="", shared=False):
    """A model that was not trained, with an end that is likely enough to come."""
    keras.utils.set_random_seed(3)
    # The other widths differ from one another; a multiple of 8 is what CTranslate2 is quick with.
    sizes = "hidden_size=24,filter_size=40,num_heads=3,num_hidden_layers=2"
    shares = f"shared_embedding_and_softmax_weights={shared}"
    hparams = get_hparams("transformer_test", f"{sizes},{shares}{overrides}")
    model = Transformer(hparams, len(TARGET if shared else SOURCE), len(TARGET), target_space_id=5)
    model.build()
    rng = np.random.default_rng(7)
    for variable in model.variables:  # biases and scales that are not 0 and 1 as well
        noise = rng.normal(0, 0.2, variable.shape)
        variable.assign(1.7 * variable + noise if "float" in str(variable.dtype) else variable)
    return model


def sentences(vocab_size, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.integers(2, vocab_size, (5, 9)).astype("int32")
    for row, end in zip(inputs, (8, 3, 5, 1, 7), strict=True):
        row[end], row[end + 1 :] = 1, 0
    return inputs


def converted(model, path, quantization="float32"):
    shared = model.inputs_vocab_size == model.targets_vocab_size
    encoders = {"inputs": encoder(TARGET if shared else SOURCE), "targets": encoder(TARGET)}
    ctranslate2.convert(model, encoders, path, quantization)
    return path


@pytest.mark.parametrize(
    ("overrides", "shared"),
    [
        ("", True),
        (",layer_preprocess_sequence=none,layer_postprocess_sequence=dan", False),
        (",layer_preprocess_sequence=n,layer_postprocess_sequence=da,norm_epsilon=0.03", False),
        (",pos=emb,max_length=31,num_decoder_layers=3", False),
        (f",pos=none{RELATIVE}", False),
        (",attention_variables_3d=True,multiply_embedding_mode=none", False),
        (",attention_score=dot_product", False),
    ],
)
def test_greedy_translations_and_scores_are_the_models(tmp_path, overrides, shared):
    model = make_model(overrides, shared)
    engine = CTranslate2Engine(converted(model, tmp_path / "ct2"), "float32", threads=1)
    batch = Sentences(sentences(model.inputs_vocab_size), [12, 7, 9, 14, 11])
    ids, scores = ModelEngine(model).decode(batch, Search(1))
    theirs, their_scores = engine.decode(batch, Search(1))
    np.testing.assert_array_equal(theirs[:, :, : ids.shape[2]], ids)
    np.testing.assert_allclose(their_scores, scores, atol=1e-4)
    assert len({tuple(row) for row in ids[:, 0].tolist()}) > 2


def test_beams_are_ranked_by_tensor2tensors_formula(tmp_path, golden_case):
    case = golden_case("base")
    model, inputs = case.model("trained"), case["inputs"]
    encoders = {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}
    ctranslate2.convert(model, encoders, tmp_path)
    engine = CTranslate2Engine(tmp_path, threads=1)
    batch, search = Sentences(inputs, np.full(len(inputs), 19)), Search(4, 0.6, top_beams=4)
    ids, scores = ModelEngine(model).decode(batch, search)
    theirs, their_scores = engine.decode(batch, search)
    length = min(ids.shape[2], theirs.shape[2])
    np.testing.assert_array_equal(theirs[:, 0, :length], ids[:, 0, :length])
    finished = 0
    for row in range(len(inputs)):
        ours = dict(zip(map(tuple, ids[row, :, :length].tolist()), scores[row], strict=True))
        ended = [1 in some for some in theirs[row].tolist()]
        assert ended == sorted(ended, reverse=True)
        assert (np.diff(their_scores[row][ended]) <= 1e-6).all()
        for some, score in zip(theirs[row, :, :length].tolist(), their_scores[row], strict=True):
            if 1 in some and tuple(some) in ours:
                finished += 1
                assert score == pytest.approx(ours[tuple(some)], abs=1e-4)
    assert finished > 5


@pytest.mark.parametrize(("compute_type", "patience"), [("float32", 2), ("int8", 1)])
def test_float32_waits_for_more_hypotheses_than_beams(tmp_path, compute_type, patience):
    engine = CTranslate2Engine(converted(make_model(), tmp_path / "ct2"), compute_type, threads=1)
    asked = []

    def translate_batch(sentences, **options):
        """The later a hypothesis is finished the longer it is, and the better by the formula."""
        asked.append(options)
        count = options["num_hypotheses"]
        tokens = [[*[engine.target[3]] * n, "<EOS>"] for n in range(1, count + 1)]
        scores = [-2 / len(some) ** options["length_penalty"] for some in tokens]
        return [types.SimpleNamespace(hypotheses=tokens, scores=scores)] * len(sentences)

    engine.translator = types.SimpleNamespace(translate_batch=translate_batch)
    batch = Sentences(sentences(len(SOURCE)), np.full(5, 9))
    ids, scores = engine.decode(batch, Search(3, 0.6, top_beams=2))
    assert (asked[0]["patience"], asked[0]["num_hypotheses"]) == (patience, 3 * patience)
    longest = 3 * patience
    assert ids[0].tolist() == [[3] * n + [1] + [0] * (8 - n) for n in (longest, longest - 1)]
    expected = [-2 / ((5 + n + 1) / 6) ** 0.6 for n in (longest, longest - 1)]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6)
    assert f"patience {patience}" in engine.fingerprint
    engine.decode(batch, Search(1))
    assert (asked[1]["patience"], asked[1]["num_hypotheses"]) == (1, 1)


def test_learned_positions_bound_a_translation(tmp_path):
    model = make_model(",pos=emb,max_length=11")
    engine = CTranslate2Engine(converted(model, tmp_path / "ct2"), "float32", threads=1)
    ids, _ = engine.decode(Sentences(sentences(len(SOURCE)), np.full(5, 40)), Search(1))
    assert engine.learned_positions == 11 and ids.shape[2] == 11


def test_how_it_computes(tmp_path):
    engine = CTranslate2Engine(converted(make_model(), tmp_path / "ct2", quantization="int8"))
    assert engine.compute_type.startswith("int8")
    assert engine.learned_positions == plain.POSITIONS
    with pytest.raises(UserError, match="int5"):
        CTranslate2Engine(engine.path, "int5")
    (engine.path / DETAILS).unlink()
    with pytest.raises(UserError):
        CTranslate2Engine(engine.path)


def test_a_model_of_another_vocabulary_is_refused(tmp_path):
    engine = CTranslate2Engine(converted(make_model(), tmp_path / "ct2"))
    engine.check_vocabularies({"inputs": encoder(SOURCE), "targets": encoder(TARGET)})
    for source, target in ((SOURCE, [*TARGET[:-1], "other_"]), ([*SOURCE, "new_"], TARGET)):
        with pytest.raises(UserError, match=str(tmp_path)):
            engine.check_vocabularies({"inputs": encoder(source), "targets": encoder(target)})
    engine.source = engine.target = ctranslate2.tokens_of(TextEncoder(), 9)
    engine.check_vocabularies({"inputs": TextEncoder(), "targets": TextEncoder()})


def test_names_of_ids(tmp_path):
    from t2t_repro.text.sentence_piece import SentencePieceEncoder
    from tests.text.pieces import train

    path = converted(make_model(), tmp_path / "ct2")
    names = json.loads((path / "target_vocabulary.json").read_text())
    assert names[:3] == ["<pad>", "<EOS>", "\\"] and len(set(names)) == len(TARGET)
    assert names[SOURCE.index("") :] == ["<id_27>", "<id_28>", "xy_", "z_"]
    names = ctranslate2.tokens_of(ByteTextEncoder(), 4)
    assert names == ["<pad>", "<EOS>", "<id_2>", "<id_3>"]
    pieces = SentencePieceEncoder(train(tmp_path / "own.model", 40))
    names = ctranslate2.tokens_of(pieces, pieces.vocab_size + 3)
    assert tuple(names[:-3]) == pieces.all_subtoken_strings and names[-1].startswith("<id_")


@pytest.mark.parametrize(
    "overrides, named",
    [
        (",layer_preprocess_sequence=n,layer_postprocess_sequence=dan", "postprocess_sequence=dan"),
        (",norm_type=none", "norm_type=none"),
        (",self_attention_type=local_mask_right", "self_attention_type=local_mask_right"),
        (",attention_score=additive", "attention_score=additive"),
        (",attention_key_channels=36", "attention_key_channels=36"),
        (",unidirectional_encoder=True", "unidirectional_encoder=True"),
        (f"{RELATIVE},pos=timing", "pos=timing"),
    ],
)
def test_a_model_that_ctranslate2_cannot_compute(tmp_path, overrides, named):
    with pytest.raises(UserError, match=named):
        converted(make_model(overrides), tmp_path / "ct2")
    assert list(tmp_path.iterdir()) == []
