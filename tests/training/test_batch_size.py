"""Which batch_size fits: halved, each tried in a process of its own."""

import pytest

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.process import OutOfMemory
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import batch_size
from t2t_repro.training.request import Plan, TrainRequest

MB = 2**20


@pytest.fixture
def request_of_1000(tmp_path):
    problem = "text2text_tmpdir"
    hparams = HParams(batch_size=1000)
    config = RunConfig(hparams_set="x", hparams=hparams, problem=problem, data_dir="d", version="0")
    return TrainRequest(
        run=RunDirectory(tmp_path),
        config=config,
        problem=registry.get_problem(problem),
        plan=Plan(train_steps=1),
    )


@pytest.mark.parametrize("peak", [OutOfMemory(), 600 * MB])
def test_a_size_that_does_not_fit_is_halved(request_of_1000, monkeypatch, capsys, peak):
    tried = []

    def call(function, config, load_user_code):
        tried.append(config.hparams.batch_size)
        if tried[-1] > fits and isinstance(peak, OutOfMemory):
            raise peak
        return 500 * MB if tried[-1] <= fits else peak

    fits = 250
    monkeypatch.setattr(batch_size.process, "call", call)
    monkeypatch.setattr(batch_size.process, "total_memory", lambda: 569 * MB)
    assert batch_size.find(request_of_1000) == 250 and tried == [1000, 500, 250]
    assert capsys.readouterr().out.endswith("--hparams=batch_size=250\n")
    fits = 0
    with pytest.raises(UserError):
        batch_size.find(request_of_1000)


def test_the_largest_batches():
    hparams = HParams(batch_size=1000, max_length=100, min_length_bucket=8, length_bucket_step=1.5)
    shapes = [batch["inputs"].shape for batch in batch_size.largest_batches(hparams, 300)]
    # The last bucket holds 10 of up to 100; no other holds more tokens.
    assert shapes == [(10, 100)]
    # Of up to 70: most tokens in 36 of 26, and in 15 of 59 most pairs of them.
    shapes = [batch["targets"].shape for batch in batch_size.largest_batches(hparams, 70)]
    assert shapes == [(15, 59), (36, 26)]
    packed = batch_size.largest_batches(hparams, 256, packed_length=256)
    assert [batch["inputs"].shape for batch in packed] == [(3, 256), (36, 26)]
    fixed = HParams(batch_size=6, max_length=50, use_fixed_batch_size=True)
    (batch,) = batch_size.largest_batches(fixed, 40)
    assert batch["inputs"].shape == (6, 40)
