"""The BLEU of decoded sentences, as an evaluation in training has it."""

import numpy as np
import pytest
import sacrebleu

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.decoding import dev_bleu
from t2t_repro.decoding.engine import decode
from t2t_repro.models.build import model_for
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
