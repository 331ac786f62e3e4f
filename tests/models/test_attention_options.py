"""The model under other attention: decoding step by step gives what a whole sequence does."""

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from tests.models.test_transformer import tiny


def batch(source=5, target=7):
    """Sentences of `source` and `target` tokens, and shorter ones padded to that."""
    draw = np.random.default_rng(source)
    ids = {"inputs": source, "targets": target}
    made = {name: draw.integers(2, 17, (2, length), "int32") for name, length in ids.items()}
    for sentences in made.values():
        sentences[0, -1] = sentences[1, -3] = 1
        sentences[1, -2:] = 0
    return made


def decoded(model, sentences):
    """The logits (B, T, V) of `decode_step`, fed with the targets, the same on both beams."""
    inputs, targets = sentences["inputs"], sentences["targets"]
    beams = 2
    memory = model.start_decoding(inputs)
    state = model.make_room(model.initial_state(len(inputs), beams), targets.shape[1])
    parents = np.repeat(np.arange(beams, dtype="int32")[None], len(inputs), axis=0)
    last, found = np.zeros((len(inputs), beams), "int32"), []
    for step in range(targets.shape[1]):
        logits, state = model.decode_step(last, parents, step, state, memory)
        np.testing.assert_array_equal(logits[:, 0], logits[:, 1])
        found.append(np.asarray(logits)[:, 0])
        last = np.repeat(targets[:, step : step + 1], beams, axis=1)
    return np.stack(found, axis=1)


CHUNKS, LOCAL = {"attention_chunk_size": 3}, ("local_mask_right", "local_unmasked")
PACKED = {
    "inputs": [[2, 3, 1, 5, 6, 7, 1, 0], [4, 1, 0, 0, 0, 0, 0, 0]],
    "inputs_segmentation": [[1, 1, 1, 2, 2, 2, 2, 0], [1, 1, 0, 0, 0, 0, 0, 0]],
    "inputs_position": [[0, 1, 2, 0, 1, 2, 3, 0], [0, 1, 0, 0, 0, 0, 0, 0]],
    "targets": [[9, 1, 8, 4, 3, 1, 0], [5, 6, 7, 8, 9, 1, 0]],
    "targets_segmentation": [[1, 1, 2, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1, 0]],
    "targets_position": [[0, 1, 0, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5, 0]],
}


@pytest.fixture(scope="module")
def packed():
    return {name: np.array(ids, "int32") for name, ids in PACKED.items()}


@pytest.mark.parametrize("score", ["scaled_dot_product", "additive"])
@pytest.mark.slow
def test_attention_in_chunks_equals_plain_attention_and_so_does_its_training(score, packed):
    changes = {"num_hidden_layers": 1, "layer_prepostprocess_dropout": 0.0}
    plain = tiny(attention_score=score, **changes)
    chunked = tiny(attention_score=score, **changes, **CHUNKS)
    chunked.set_weights(plain.get_weights())
    for sentences in (packed, batch(8, 7)):
        real = sentences["targets"] != 0
        got, expected = (np.asarray(model(sentences)) for model in (chunked, plain))
        np.testing.assert_allclose(got[real], expected[real], atol=1e-5)
    losses = []
    for model in (plain, chunked):
        model.compile(optimizer=keras.optimizers.SGD(0.5))
        losses.append([model.train_on_batch(packed, return_dict=True)["loss"] for _ in range(2)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for ours, theirs in zip(chunked.trainable_variables, plain.trainable_variables, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, err_msg=ours.path)


LENGTHLESS = {"inputs": (None, None), "targets": (None, None)}


@pytest.mark.parametrize(
    "changes",
    [CHUNKS, {"self_attention_type": "local_unmasked", "attention_block_length": 3}],
    ids=["chunks", "local"],
)
def test_one_graph_serves_all_lengths(changes):
    import tensorflow as tf

    model = tiny(num_hidden_layers=1, **changes)
    spec = {name: tf.TensorSpec(shape, "int32") for name, shape in LENGTHLESS.items()}
    graph = tf.function(lambda sentences: model(sentences), input_signature=[spec])
    for lengths in ((2, 7), (9, 3), (4, 4)):
        sentences = batch(max(lengths[0], 3), max(lengths[1], 3))
        np.testing.assert_allclose(graph(sentences), model(sentences), atol=1e-5)
    for sentences in (1, 0):  # as for an empty request
        nothing = dict.fromkeys(LENGTHLESS, np.zeros((sentences, 0), "int32"))
        assert graph(nothing).shape == model(nothing).shape == (sentences, 0, 17)


@pytest.mark.parametrize(
    "changes",
    [
        *({"attention_score": score} for score in ("dot_product", "multiplicative", "additive")),
        *({"self_attention_type": kind, "attention_block_length": 2} for kind in LOCAL),
        CHUNKS,
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_steps_equal_the_whole(changes):
    model, sentences = tiny(num_hidden_layers=1, **changes), batch()
    logits = np.asarray(model(sentences))
    np.testing.assert_allclose(decoded(model, sentences), logits, atol=2e-5)
    other = np.abs(logits - np.asarray(tiny(num_hidden_layers=1)(sentences))).max()
    assert other < 1e-5 if changes == CHUNKS else other > 1e-3
    alone = {"inputs": sentences["inputs"][1:, :3], "targets": sentences["targets"][1:, :5]}
    np.testing.assert_allclose(np.asarray(model(alone))[0], logits[1, :5], atol=1e-5)


def test_attention_that_is_not_whole_shows_no_weights():
    local = tiny(self_attention_type=LOCAL[0], attention_block_length=2, num_hidden_layers=1)
    assert list(local.attention_weights(batch())) == ["decoder/layer_0/encdec_attention"]
    with pytest.raises(UserError, match="attention_chunk_size"):
        tiny(**CHUNKS, num_hidden_layers=1).attention_weights(batch())
