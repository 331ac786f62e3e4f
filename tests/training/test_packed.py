"""A packed problem, trained, evaluated and decoded."""

import itertools

import numpy as np
import pytest

import t2t_repro
from t2t_repro.config import HParams
from t2t_repro.data import packing, pipeline
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import distribution, optimizers
from t2t_repro.training.evaluation import Evaluator
from tests.data.record_files import write_examples

HPARAMS = HParams(
    hidden_size=16,
    num_hidden_layers=1,
    num_heads=2,
    filter_size=24,
    batch_size=120,
    max_length=40,
    learning_rate_constant=0.05,
    learning_rate_schedule="constant",
)


class Alone(Problem):
    name = "packed"
    packed_length: int | None = None

    def feature_encoders(self, data_dir):
        return {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}


class Packed(Alone):
    packed_length = 40


@pytest.mark.slow
def test_training_evaluation_and_decoding(tmp_path):
    samples = []
    for n in range(90):
        ids = [2 + (n + i) % 9 for i in range(1 + n % 8)]
        samples.append({"inputs": [*ids, 1], "targets": [*ids, *ids[:2], 1]})
    packed = list(packing.pack(samples, 40))
    for split in (Split.TRAIN, Split.EVAL):
        write_examples(*Packed().filepaths(split, tmp_path, 1), packed)
    (tmp_path / "alone").mkdir()
    write_examples(*Alone().filepaths(Split.EVAL, tmp_path / "alone", 1), samples)
    model = t2t_repro.Transformer.from_hparams(
        HPARAMS, inputs_vocab_size=258, targets_vocab_size=258
    )
    model.compile(optimizer=optimizers.from_hparams(HPARAMS))
    step = distribution.step_function(model)
    data = pipeline.make_dataset(Packed(), Split.TRAIN, HPARAMS, tmp_path, training=True)
    losses = [step(batch).loss for batch in itertools.islice(data, 30)]
    assert losses[-1] < losses[0] - 1

    def evaluated(problem, folder, hparams):
        dev = pipeline.make_dataset(problem, Split.EVAL, hparams, folder, training=False)
        return Evaluator(model, ["accuracy", "neg_log_perplexity"]).evaluate(dev)

    together = evaluated(Packed(), tmp_path, HPARAMS)
    alone = evaluated(Alone(), tmp_path / "alone", HPARAMS.override("batch_size=9999"))
    assert together["accuracy"] == pytest.approx(alone["accuracy"])
    assert together["neg_log_perplexity"] == pytest.approx(alone["neg_log_perplexity"], rel=1e-5)
    ids, _ = t2t_repro.decode(model, np.array([[2, 3, 4, 1]], "int32"), decode_length=3)
    assert ids.shape[0] == 1
