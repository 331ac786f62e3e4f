"""A packed problem: generated, trained, evaluated and decoded."""

import itertools

import numpy as np
import pytest

import t2t_repro
from t2t_repro.config import HParams
from t2t_repro.data import generate, packing, pipeline, tfrecord
from t2t_repro.data.job import Job
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import distribution, optimizers
from t2t_repro.training.evaluation import Evaluator
from tests.data.record_files import read_examples, write_examples

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


class Packed(Problem):
    name = "packed"
    packed_length = 40
    dataset_splits = [{"split": Split.TRAIN, "shards": 2}, {"split": Split.EVAL, "shards": 1}]

    def feature_encoders(self, data_dir):
        return {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        for n in range(90):
            ids = [2 + (n + i) % 9 for i in range(1 + n % 8)]
            yield {"inputs": [*ids, 1], "targets": [*ids, *ids[:2], 1]}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    generate.generate_data(Job(Packed(), folder, folder))
    return folder


def test_the_files_hold_packed_examples(data_dir):
    (path,) = tfrecord.find_shards(Packed(), Split.EVAL, data_dir)
    samples = list(Packed().generate_encoded_samples("", "", Split.EVAL))
    assert read_examples(path) == list(packing.pack(samples, 40))
    train = list(pipeline.read_split(Packed(), Split.TRAIN, data_dir))
    assert sorted(map(str, train)) == sorted(map(str, samples))


@pytest.mark.slow
def test_training_evaluation_and_decoding(data_dir):
    model = t2t_repro.Transformer.from_hparams(
        HPARAMS, inputs_vocab_size=258, targets_vocab_size=258
    )
    model.compile(optimizer=optimizers.from_hparams(HPARAMS))
    step = distribution.step_function(model)
    data = pipeline.make_dataset(Packed(), Split.TRAIN, HPARAMS, data_dir, training=True)
    batches = distribution.batches(data)
    losses = [step(batch).loss for batch in itertools.islice(batches, 30)]
    assert losses[-1] < losses[0] - 1
    dev = pipeline.make_dataset(Packed(), Split.EVAL, HPARAMS, data_dir, training=False)
    found = Evaluator(model, ["accuracy", "neg_log_perplexity"]).evaluate(dev)

    class Alone(Packed):
        packed_length = None

    path = Packed().filepaths(Split.EVAL, data_dir / "alone", 1)[0]
    (data_dir / "alone").mkdir()
    write_examples(path, Packed().generate_encoded_samples("", "", Split.EVAL))
    hparams = HPARAMS.override("batch_size=9999")
    dev = pipeline.make_dataset(Alone(), Split.EVAL, hparams, data_dir / "alone", training=False)
    alone = Evaluator(model, ["accuracy", "neg_log_perplexity"]).evaluate(dev)
    assert found["accuracy"] == pytest.approx(alone["accuracy"])
    assert found["neg_log_perplexity"] == pytest.approx(alone["neg_log_perplexity"], rel=1e-5)
    ids, _ = t2t_repro.decode(model, np.array([[2, 3, 4, 1]], "int32"), decode_length=3)
    assert ids.shape[0] == 1
