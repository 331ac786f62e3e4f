"""The recurrent and convolutional models, against what tensor2tensor computed of each."""

import json

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.decoding.engine import ModelEngine, decode
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator
from t2t_repro.interop import tensor2tensor
from t2t_repro.models import parameters
from t2t_repro.text.encoders import TextEncoder
from t2t_repro.training import distribution, learning_rate, optimizers
from tests.conftest import GOLDEN, GOLDEN_VOCAB_SIZE, GoldenCase

CASES = sorted(path.stem for path in (GOLDEN / "baselines").glob("*.npz"))
QUICK = {"bahdanau", "bytenet"}


@pytest.fixture(
    scope="module",
    params=[
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES
    ],
)
def case(request):
    return GoldenCase(request.param, "baselines")


def test_outputs_logits_and_losses(case):
    model = case.model()
    assert parameters.count(model.hparams, GOLDEN_VOCAB_SIZE).total == model.count_params()
    outputs = model(case.batch, logits=False)
    length = outputs.shape[1]  # T2T gives what ByteNet makes of the positions behind, too
    np.testing.assert_allclose(outputs, case["decoder_output"][:, :length], atol=5e-6)
    logits = model(case.batch)
    np.testing.assert_allclose(logits, case["logits"][:, :length], atol=5e-6)
    case.check_losses(logits, 1e-6)


@pytest.mark.slow
def test_twenty_steps_of_training(case):
    model = case.model(dropout=0.0, symbol_dropout=0.0)
    rate = learning_rate.Schedule(model.hparams)
    np.testing.assert_allclose([rate(i) for i in range(20)], case["train_lr"], rtol=1e-5)
    model.compile(optimizer=optimizers.from_hparams(model.hparams))
    step = distribution.step_function(model)
    found = [step(case.batch).loss for _ in range(20)]
    np.testing.assert_allclose(found, case["train_loss"], rtol=2e-6)
    before = case.group("var")
    for name, value in tensor2tensor.export_variables(model).items():
        norm, change = case[f"after20_norm:{name}"], case[f"after20_change:{name}"]
        np.testing.assert_allclose(np.linalg.norm(value), norm, rtol=1e-5, err_msg=name)
        moved = np.linalg.norm(value - before[name])
        np.testing.assert_allclose(moved, change, rtol=5e-3, atol=1e-9, err_msg=name)


@pytest.mark.slow
def test_greedy_and_beam_search(case):
    model = case.model("trained")
    ids, _ = decode(model, case["inputs"], beam_size=1, decode_length=8)
    assert _ended(ids[:, 0]) == _ended(case["greedy_ids"])
    ids, scores = decode(model, case["inputs"], 4, 0.6, 8, top_beams=4)
    assert [_ended(beams) for beams in ids] == [_ended(beams) for beams in case["beam_ids"]]
    np.testing.assert_allclose(scores, case["beam_scores"], atol=1e-4)


def _alone_and_together(model, sources):
    """What a translator and a scorer make of each sentence, one by one and all at once."""
    engine = ModelEngine(model)
    encoders = dict.fromkeys(("inputs", "targets"), TextEncoder())
    translator = Translator(engine, encoders, DecodeHParams(beam_size=3, extra_length=5))
    together = translator.translate_ids(sources)
    alone = [translator.translate_ids([source])[0] for source in sources]
    pairs = [(source, sources[0]) for source in sources]
    scores = engine.token_log_probs(pairs)
    return together, alone, scores, [engine.token_log_probs([pair])[0] for pair in pairs]


def test_a_translation_does_not_depend_on_its_neighbours(case):
    sources = [[*ids[ids > 1].tolist(), 1] for ids in case["inputs"]]
    together, alone, *scores = _alone_and_together(case.model("trained"), sources)
    for beams, own in zip(together, alone, strict=True):
        assert [h.ids for h in beams] == [h.ids for h in own]
        np.testing.assert_allclose([h.score for h in beams], [h.score for h in own], rtol=1e-5)
    for found, expected in zip(*scores, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.fixture(scope="module")
def models():
    """A tiny model of each kind."""
    tiny = {"hidden_size": 6, "num_hidden_layers": 1, "num_heads": 1, "num_block_repeat": 1}
    tiny |= {"initializer": "uniform_unit_scaling"}
    sizes = {"inputs_vocab_size": 7, "targets_vocab_size": 5}
    return [
        registry.get_model(name).from_hparams(HParams(model=name, **tiny), **sizes)
        for name in ("lstm_seq2seq_attention", "byte_net")
    ]


def test_a_model_is_made_again_from_its_configuration(models):
    batch = {"inputs": np.array([[3, 4, 1]]), "targets": np.array([[2, 3, 4, 1]])}
    for model in models:
        config = json.loads(json.dumps(model.get_config()))
        type(model).from_config(config)
        again = type(model).from_config(config)  # it is as it was
        again.build()
        again.set_weights(model.get_weights())
        assert again.hparams == model.hparams
        np.testing.assert_array_equal(again(batch), model(batch))


def test_their_engine_draws_no_alignments(models):
    assert ModelEngine(models[0]).cannot == {"return_alignments"}


def _ended(rows: np.ndarray) -> list[list[int]]:
    """Each row up to its first end; T2T writes on."""
    rows = [row.tolist() for row in rows]
    return [row[: row.index(1) + 1] if 1 in row else row for row in rows]
