"""The BLEU of decoded sentences, as an evaluation in training has it."""

import dataclasses

import numpy as np
import pytest
import sacrebleu

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.decoding import dev_bleu
from t2t_repro.decoding.engine import decode
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints, trainer
from t2t_repro.training.request import Plan, TrainRequest
from tests.decoding.doubled import Doubled


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doubled")
    generate_data(Job(Doubled(), folder, folder))
    return str(folder)


def test_it_is_sacrebleu_of_a_sample_that_is_spread_over_the_split(data_dir):
    hparams = registry.get_hparams("transformer_test", "num_hidden_layers=1")
    model = model_for(Doubled(), hparams, data_dir)
    bleu = dev_bleu.DevBleu(model, dev_bleu.DevSample(Doubled(), data_dir, "dev", 3))
    assert bleu.sample == "3 of 7 dev sentences, decoded greedily"
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in bleu.signature
    encoder = Doubled().feature_encoders(data_dir)["targets"]
    dev = [each["targets"] for each in dev_bleu.read_split(Doubled(), "dev", data_dir)]
    written, references = [], []
    for ids in (dev[0], dev[2], dev[4]):
        (decoded,), _ = decode(model, np.array([ids]), beam_size=1, decode_length=50)
        decoded = decoded[0].tolist()
        decoded = decoded[: decoded.index(1)] if 1 in decoded else decoded
        written.append(" ".join(encoder.decode(decoded).splitlines()))
        references.append(encoder.decode(ids[:-1]))
    assert bleu.score() == sacrebleu.corpus_bleu(written, [references]).score == bleu.score()
    every = dev_bleu.DevBleu(model, dev_bleu.DevSample(Doubled(), data_dir, "dev", 300))
    assert every.sample == "all 7 dev sentences, decoded greedily"


@pytest.fixture
def make(tmp_path, data_dir):
    """Returns a factory of requests that decode 5 dev sentences at each evaluation."""

    def make(name, steps=4, decoded=True, **plan):
        hparams = registry.get_hparams("transformer_test", "num_hidden_layers=1,batch_size=256")
        config = RunConfig(
            hparams_set="transformer_test",
            hparams=dataclasses.replace(hparams, train_steps=steps),
            problem="doubled",
            data_dir=data_dir,
            version="0",
        )

        def make_bleu(model, split):
            return dev_bleu.DevBleu(model, dev_bleu.DevSample(Doubled(), data_dir, split, 5))

        return TrainRequest(
            run=RunDirectory(tmp_path / name),
            config=config,
            problem=Doubled(),
            plan=Plan(train_steps=steps, local_eval_frequency=2, **plan),
            make_bleu=make_bleu if decoded else None,
        )

    return make


def rows(request):
    kept = ("step", "loss", "bleu", "sample")
    found = [row for row in request.run.read_metrics() if row["kind"] == "eval"]
    return [{n: row[n] for n in kept if n in row} for row in found]


@pytest.mark.slow
def test_a_run_has_it_and_is_the_same_without_and_after_a_stop(make, monkeypatch):
    scores = iter([7.5, 3.5] * 2)
    monkeypatch.setattr(dev_bleu.SacreBleu, "score", lambda self, hypotheses: next(scores))
    straight, stopped = make("straight"), make("stopped")
    assert trainer.run(straight)["bleu"] == 3.5
    trainer.run(make("stopped", steps=2))
    trainer.run(stopped)
    plain = make("plain", decoded=False)
    trainer.run(plain)
    assert (
        rows(stopped) == rows(straight) and [row.get("bleu") for row in rows(plain)] == [None] * 2
    )
    for name in (checkpoints.WEIGHTS, checkpoints.TRAINING):
        ends = [
            checkpoints.read_arrays(each.run.checkpoints_dir / "ckpt-4" / name)
            for each in (straight, stopped, plain)
        ]
        for array, value in ends[0].items():
            for other in ends[1:]:
                np.testing.assert_array_equal(value, other[array], array)
