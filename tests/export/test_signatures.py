"""What each signature of a SavedModel answers, beside what the library computes."""

import json

import numpy as np
import pytest
import tensorflow as tf
from starlette.testclient import TestClient

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.score import score_pairs
from t2t_repro.decoding.search import padded
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import one_line
from t2t_repro.export.signatures import Served
from t2t_repro.serving import app
from t2t_repro.serving.models import SavedModel
from t2t_repro.serving.request import ServerRequest
from t2t_repro.text.subword import SubwordTextEncoder
from tests.provenances import recorded
from tests.serving.conftest import served

LONG = "abc d. " * 1429  # 10,003 characters
TEXTS = ["a b", "", "ab cd. ab", " \t ", "\x00\x07", "😀 é", "abc " * 9, LONG]
EXTRA, LONGEST = 9, 80  # of the fixture `small`


@pytest.fixture(scope="module")
def loaded(small):
    _, _, path = small
    return tf.saved_model.load(path)


@pytest.fixture(scope="module")
def signatures(loaded):
    return loaded.signatures


def test_the_best_alone_is_the_first_of_all(signatures):
    texts = tf.constant(TEXTS[:7])
    best, all_beams = (signatures[name](inputs=texts) for name in ("best", "text"))
    assert set(best) == {"outputs", "scores"}
    assert best["outputs"].numpy().tolist() == all_beams["outputs"].numpy().tolist()
    np.testing.assert_allclose(best["scores"], all_beams["scores"], rtol=1e-5)


def test_tokens_are_counted_before_any_is_cut(small, loaded):
    encoder = small[1]["inputs"]
    counts = loaded.tokens(tf.constant(TEXTS)).numpy()
    assert counts.tolist() == [len(encoder.encode(text.strip())) + 1 for text in TEXTS]
    assert max(counts) > LONGEST


def test_targets_are_counted_in_their_own_vocabulary(make_model, encoders):
    shorter = SubwordTextEncoder.from_subtokens(["<pad>_", "<EOS>_", *"\\_u;0123456789abcdefg ."])
    both = {"inputs": encoders["inputs"], "targets": shorter}
    served = Served(make_model(), both, DecodeHParams())
    for call, side in ((served.tokens, "inputs"), (served.target_tokens, "targets")):
        counts = call(tf.constant(TEXTS)).numpy().tolist()
        assert counts == [len(both[side].encode(text.strip())) + 1 for text in TEXTS]
    assert len(shorter.encode("ab cd")) > len(encoders["inputs"].encode("ab cd"))


def test_long_ids_are_cut_as_the_decoder_cuts_them(signatures):
    row = [*range(8, 20)] * 8  # 96 tokens and no end
    cut = [*row[: LONGEST - 1], 1]
    requests = (tf.constant([example(ids), example([9, 1])]) for ids in (row, cut, cut[:-1]))
    whole, part, unended = (signatures["tf_example"](input=r)["outputs"].numpy() for r in requests)
    np.testing.assert_array_equal(whole, part)
    assert not np.array_equal(part, unended)


@pytest.mark.slow
def test_scores_equal_the_scorer(small, signatures):
    model, encoders, _ = small
    pairs = [(a, b) for a in TEXTS[:7] for b in ("cab", "", "é d. d. d. d", " ab\n")]
    pairs *= 4  # of several blocks
    encode = encoders["inputs"].encode  # which is that of the targets
    ids = [tuple([*encode(text.strip()), 1] for text in pair) for pair in pairs]
    wanted = score_pairs(ModelEngine(model), ids)
    sources, targets = (tf.constant(side) for side in zip(*pairs, strict=True))
    answer = signatures["score"](inputs=sources, targets=targets)
    sums = [score.log_prob for score in wanted]
    np.testing.assert_allclose(answer["log_probs"], sums, rtol=2e-5, atol=2e-5)
    assert answer["tokens"].numpy().tolist() == [score.tokens for score in wanted]
    of_tokens = answer["token_log_probs"].numpy()
    np.testing.assert_allclose(of_tokens.sum(1), sums, rtol=2e-5, atol=2e-5)
    assert (of_tokens != 0).sum(1).tolist() == [score.tokens for score in wanted]
    means = [score.mean for score in wanted]
    np.testing.assert_allclose(answer["mean_negative_log_likelihoods"], means, rtol=2e-5)
    none = tf.constant([], tf.string)
    assert all(len(v) == 0 for v in signatures["score"](inputs=none, targets=none).values())


@pytest.mark.parametrize(
    "sources, targets, message",
    [
        (["a", LONG], ["a", "b"], "80"),
        (["a", "b"], ["a", LONG], "80"),
        (["a", "b"], ["a"], "targets"),
    ],
)
def test_pairs_that_have_no_score(signatures, sources, targets, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["score"](inputs=tf.constant(sources), targets=tf.constant(targets))


def example(ids, **others):
    """As tensor2tensor's serving_utils makes one."""
    made = tf.train.Example()
    made.features.feature["inputs"].int64_list.value.extend(ids)
    for name, values in others.items():
        made.features.feature[name].int64_list.value.extend(values)
    return made.SerializeToString()


def test_a_client_of_tensor2tensor_gets_ids_that_it_can_decode(small, signatures):
    _, encoders, _ = small
    texts = [text for text in TEXTS[:7] if text.strip()]
    rows = [[*encoders["inputs"].encode(text.strip()), 1] for text in texts]
    requests = [example(rows[0], targets=[0]), *map(example, rows[1:]), example([1]), b""]
    answer = signatures["tf_example"](input=tf.constant(requests))
    wanted = signatures["text"](inputs=tf.constant([*texts, "", ""]))
    assert answer["outputs"].dtype == tf.int32 and answer["outputs"].shape.rank == 2
    np.testing.assert_array_equal(answer["scores"], wanted["scores"])
    for ids, text in zip(answer["outputs"].numpy().tolist(), wanted["outputs"], strict=True):
        while ids and ids[-1] in (0, 1):  # tensor2tensor's strip_extraneous
            ids.pop()
        assert one_line(encoders["targets"].decode(ids)) == text.numpy().decode()
    assert len(signatures["tf_example"](input=tf.constant([], tf.string))["outputs"]) == 0


@pytest.mark.parametrize("ids", [[3, 99, 1], [3, -1, 1], [2**32 + 1]])
def test_ids_that_the_model_does_not_know(signatures, ids):
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids"):
        signatures["tf_example"](input=tf.constant([example(ids)]))


def test_the_python_calls_of_the_readme_run(small, loaded, monkeypatch, capsys):
    model, _, path = small
    assert len(loaded.weights) == len(model.variables)
    monkeypatch.setattr(tf.saved_model, "load", {str(path): loaded}.__getitem__)
    code = (path / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.count("tf.Tensor") == 4


def test_what_lies_in_the_folder(small):
    _, _, path = small
    fixed = json.loads((path / "decode_hparams.json").read_text())
    assert fixed == {"beam_size": 2, "alpha": 0.6, "extra_length": 9, "max_input_size": 80}
    readme = (path / "README.md").read_text()
    for text in (f'load("{path}")', "/models/translate/7 -e", "80 tokens", "Ein Mann schläft."):
        assert text in readme


def test_attention_equals_the_models(small, signatures):
    model, encoders, _ = small
    pairs = [("ab cd. a", "cab"), ("", "é"), (" a", ""), ("b", "cad")]
    sources, targets = (tf.constant(side) for side in zip(*pairs, strict=True))
    answer = signatures["attention"](inputs=sources, targets=targets)
    answer = {name: value.numpy() for name, value in answer.items()}
    ids = [
        [[*encoders[side].encode(text.strip()), 1] for text in texts]
        for side, texts in zip(encoders, zip(*pairs, strict=True), strict=True)
    ]
    weights = model.attention_weights(dict(zip(encoders, map(padded, ids), strict=True)))
    wanted = np.mean(weights["decoder/layer_1/encdec_attention"], axis=1)
    names = encoders["inputs"].all_subtoken_strings
    assert answer["attention"].shape == wanted.shape and answer["attention"].dtype == "float32"
    for i, (source, target) in enumerate(zip(*ids, strict=True)):
        for tokens, row in (("source_tokens", source), ("target_tokens", target)):
            shown = [token.decode() for token in answer[tokens][i]]
            assert shown == [names[j] for j in row] + [""] * (len(shown) - len(row))
        weights = answer["attention"][i]
        real = weights[: len(target), : len(source)]
        np.testing.assert_allclose(real, wanted[i, : len(target), : len(source)], atol=1e-5)
        np.testing.assert_allclose(real.sum(1), 1, atol=1e-5)
        assert not weights[len(target) :].any() and not weights[:, len(source) :].any()


def test_a_model_in_chunks_serves_all_but_its_attention(make_model, encoders):
    settings = DecodeHParams(beam_size=1)
    whole, chunked = (
        Served(make_model(f",attention_chunk_size={size},attention_dropout=0"), encoders, settings)
        for size in (0, 3)
    )
    assert set(whole.names) - set(chunked.names) == {"attention"}
    assert chunked.text(tf.constant([], tf.string))["outputs"].shape == (0,)


def test_a_real_export_is_served(small, tmp_path):
    model, _, there = small
    path = tmp_path / "x=[12]"  # which TensorFlow reads as a pattern
    path.symlink_to(there)
    (path / "hparams.json").write_text(model.hparams.to_json())
    decoding = {"beam_size": 2, "alpha": 0.6, "extra_length": EXTRA, "max_input_size": LONGEST}
    served_model = SavedModel(path, recorded("saved_model", decoding=decoding))
    texts = ["a b", "", "ab cd. ab", "é😀"]
    with TestClient(app.create(served(served_model), ServerRequest())) as client:
        asked = {"inputs": texts, "n_best": 2, "split": False}
        together = client.post("/translate", json=asked).json()["translations"]
        for text, answer in zip(texts, together, strict=True):
            answer_alone = client.post("/translate", json={**asked, "inputs": text}).json()
            (alone,) = answer_alone["translations"]
            assert alone["input"] == answer["input"] == text
            assert alone["translation"] == answer["translation"]
            assert alone["score"] == pytest.approx(answer["score"], abs=1e-4)
            assert len(alone["n_best"]) == len(answer["n_best"])
        assert max(len(answer["n_best"]) for answer in together) == 2
        pair = {"inputs": "ab cd", "targets": "cab"}
        answer = client.post("/attention", json=pair).json()
        assert answer["source_tokens"][-1] == answer["target_tokens"][-1] == "<EOS>_"
        assert len(answer["weights"]) == len(answer["target_tokens"]) > 1
        for row in answer["weights"]:
            assert len(row) == len(answer["source_tokens"])
            assert sum(row) == pytest.approx(1, abs=1e-3)
