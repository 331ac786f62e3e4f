"""What --tune chose is how a run decodes."""

import json

import pytest

from t2t_repro import registry
from t2t_repro.decoding import tune
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import TrainedRun
from tests.decoding.doubled import Doubled
from tests.tuned import choice


@pytest.fixture
def finished(tmp_path):
    """A run that has nothing but what was chosen for it."""
    choice(40, 31.0, tune.Beams(5, 1.1, 31.25)).write(tmp_path)
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test"),
        problem="doubled",
        data_dir=str(tmp_path),
        version="0",
    )
    return TrainedRun(RunDirectory(tmp_path), config, Doubled())


def test_what_was_chosen_is_how_it_decodes_unless_it_is_told_otherwise(finished):
    said = []
    settings = DecodeRequest().settings(finished, said.append)
    assert (settings.beam_size, settings.alpha) == (5, 1.1)
    assert len(said) == 1
    for request, expected in {
        DecodeRequest(decode_hparams="beam_size=2"): (2, 1.1),
        DecodeRequest(decode_hparams="alpha=0.7,beam_size=3"): (3, 0.7),
        DecodeRequest(t2t_exact=True): (4, 0.6),
        DecodeRequest(score_file="x"): (4, 0.6),
    }.items():
        settings = request.settings(finished, said.append)
        assert (settings.beam_size, settings.alpha) == expected
    assert len(said) == 1


@pytest.mark.parametrize("change", [{"beam_size": 0}, {"alpha": "1"}])
def test_a_file_that_is_broken_is_named(finished, change):
    path = finished.path / "decoding.json"
    values = json.loads(path.read_text())
    values["search"] |= change
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match="decoding.json"):
        finished.decode_settings()
