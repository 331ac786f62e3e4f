"""The attention that is drawn is the model's own, which is tensor2tensor's; what heads do."""

import numpy as np
import pytest

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.views import attention


class Words:
    """Words w2 to w36."""

    def encode(self, text):
        return [int(word.removeprefix("w")) for word in text.split()]

    def decode_list(self, ids):
        return [f"w{i}" for i in ids]

    def decode(self, ids):
        return " ".join(self.decode_list(ids))


ENCODERS = {"inputs": Words(), "targets": Words()}


@pytest.fixture(scope="module")
def model(golden_case):
    return golden_case("base_v1").model("trained", max_length=0)


@pytest.mark.parametrize("case", ["base_v1", "relative", "deep_encoder_shallow_decoder"])
def test_it_is_tensor2tensors(golden_case, case):
    golden = golden_case(case)
    for row in range(len(golden["inputs"])):
        inputs, targets = ([i for i in golden[side][row] if i] for side in ("inputs", "targets"))
        found = attention.maps(golden.model(), ENCODERS, inputs, targets)
        assert [each.kind for each in found] == [kind for kind, _, _ in attention.KINDS]
        for each, (_, _, scope) in zip(found, attention.KINDS, strict=True):
            for layer, ours in enumerate(each.weights):
                scopes = [
                    name
                    for name in golden.group("attention")
                    if f"/{scope.format(layer)}/multihead_attention" in name
                ]
                (theirs,) = (golden[f"attention:{name}"] for name in scopes)
                queries, keys = len(each.queries), len(each.keys)
                np.testing.assert_allclose(ours, theirs[row, :, :queries, :keys], atol=1e-5)


def test_words_that_look_and_words_that_are_looked_at(model):
    found = {each.kind: each for each in attention.maps(model, ENCODERS, [5, 9, 1], [7, 8, 3, 1])}
    assert found["encoder"].queries == found["encoder"].keys == ["w5", "w9", "<EOS>"]
    written = ["w7", "w8", "w3", "<EOS>"]
    assert found["decoder"].queries == found["encoder-decoder"].queries == written
    assert found["decoder"].keys == ["<start>", "w7", "w8", "w3"]
    assert found["encoder-decoder"].keys == ["w5", "w9", "<EOS>"]


def test_without_a_target_it_is_the_models_own_translation(model, golden_case):
    golden = golden_case("base_v1")
    settings = DecodeHParams.parse("beam_size=1,extra_length=8")
    own = Translator(ModelEngine(model), ENCODERS, settings)
    for inputs, ids in zip(golden["inputs"][:2], golden["greedy_ids"][:2], strict=True):
        theirs = ids.ravel().tolist()
        source = [i for i in inputs.tolist() if i > 1]
        found = attention.sentence_ids(model, ENCODERS, Words().decode(source), None, own)
        assert found == ([*source, 1], theirs[: theirs.index(1) + 1])
    assert attention.sentence_ids(model, ENCODERS, "w5", "w7 w8", own) == ([5, 1], [7, 8, 1])


def test_what_single_heads_look_at():
    size = 5
    places = {"previous": -1, "same": 0, "next": 1}
    weights = [np.eye(size, k=offset) for offset in places.values()]
    weights += [np.eye(size)[[0] * size], np.eye(size)[[-1] * size]]
    mixed = np.full((size, size), 1 / size)
    for row in (*weights, mixed):
        row[row.sum(-1) == 0] = 1 / size  # the first word has none before it
    words = ["a", "b", "c", "d", "<EOS>"]
    weights = np.stack([[*weights, mixed]]).astype("float32")
    found = attention.heads(attention.Maps("encoder", "", words, words, weights))
    assert [head.looks_at for head in found] == [*places, "first", "end", ""]
    assert [(head.layer, head.head) for head in found] == [(0, i) for i in range(6)]
    assert found[-1].entropy == pytest.approx(np.log2(size))
    assert found[1].entropy == 0 and found[0].entropy == pytest.approx(np.log2(size) / size)
    assert found[0].previous == found[2].next == found[4].end == 1
    (of_decoder,) = attention.heads(
        attention.Maps("decoder", "", words, words, np.eye(size, dtype="float32")[None, None])
    )
    assert (of_decoder.next, of_decoder.end, of_decoder.looks_at) == (None, None, "same")


def test_the_heads_are_summed_up_by_what_they_look_at():
    read = ["a", "b", "c", "<EOS>"]
    weights = np.stack([np.stack([np.eye(4), np.eye(4)[::-1]])]).astype("float32")
    reversing = attention.Maps("encoder-decoder", "", read, read, weights)
    both = attention.heads(reversing)
    said = attention.summary("encoder-decoder", both)
    assert said.startswith("2 heads") and said.endswith("same in 1 (LAYER.HEAD 0.0)")
    none = attention.summary("encoder-decoder", both[1:])
    assert none.endswith("none of previous, same, next, first, end")
