"""Every call of the public door, as its documentation writes it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_repro
from t2t_repro.data.batching import batching_scheme
from t2t_repro.interop import tensor2tensor
from t2t_repro.scoring import bleu, parseval
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.training import learning_rate, losses, optimizers


def small_model():
    hp = t2t_repro.get_hparams(
        "transformer_base_v1", "hidden_size=24,num_heads=3,num_hidden_layers=1,filter_size=20"
    )
    return t2t_repro.Transformer.from_hparams(
        hp, inputs_vocab_size=37, targets_vocab_size=37, target_space_id=4
    )


INPUTS = np.array([[5, 6, 7, 1], [8, 1, 0, 0]], "int32")
TARGETS = np.array([[9, 10, 1], [11, 12, 1]], "int32")


def test_model_and_decode():
    model = small_model()
    logits = model({"inputs": INPUTS, "targets": TARGETS}, training=False)
    assert logits.shape == (2, 3, 37)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    ids, scores = t2t_repro.decode(
        model, INPUTS, beam_size=4, alpha=0.6, decode_length=8, top_beams=3
    )
    assert ids.shape[:2] == (2, 3) and ids.shape[2] <= 4 + 8 and ids.dtype == np.int32
    assert scores.shape == (2, 3) and scores.dtype == np.float32
    greedy, _ = t2t_repro.decode(model, INPUTS, beam_size=1, decode_length=8)
    assert greedy.shape[:2] == (2, 1)


def test_fit_and_train_on_batch():
    model = small_model()
    model.compile(optimizer=optimizers.from_hparams(model.hparams))
    batch = {"inputs": INPUTS, "targets": TARGETS}
    history = model.fit(tf.data.Dataset.from_tensors(batch).repeat(2), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert np.isfinite(model.train_on_batch(batch, return_dict=True)["loss"])


def test_what_lies_behind_the_door(tmp_path):
    arrays = tensor2tensor.export_variables(model := small_model())
    tensor2tensor.load_variables(model, arrays)
    hp = t2t_repro.get_hparams("transformer_base_v1")
    np.testing.assert_allclose(float(learning_rate.schedule(hp)(3999)), 512**-0.5 * 4000**-0.5)
    total, weight = losses.padded_cross_entropy(np.zeros((2, 3, 7)), TARGETS % 7, 0.1)
    assert float(weight) == 6 and float(total) > 0
    built = SubwordTextEncoder.build_to_target_size(60, {"hello": 9, "help": 5, "world": 7}, 1, 10)
    built.store_to_file(path := str(tmp_path / "vocab.mine.60.subwords"))
    encoder = SubwordTextEncoder(path)
    assert encoder.decode(encoder.encode("hello world")) == "hello world"
    scheme = batching_scheme(
        4096, 256, 8, 1.1, drop_long_sequences=True, shard_multiplier=1, min_length=0
    )
    assert set(scheme) >= {"boundaries", "batch_sizes", "max_length"}
    text = ["the cat sat on the mat .", "a dog ."]
    assert bleu.score(text, text).sacrebleu.score > 99.9
    trees = ["(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat)) (. .)))"]
    scores = parseval.score(trees, trees)
    assert scores["all"]["f1"] == scores["len<=40"]["f1"] == scores["all"]["recall"] == 100
    assert len(scores["sentences"]) == 1


def test_the_door_shows_what_it_leads_to():
    assert all(hasattr(t2t_repro, name) for name in t2t_repro.__all__)
    with pytest.raises(AttributeError, match="Transfomer"):
        t2t_repro.Transfomer  # noqa: B018
