import pytest

from t2t_repro.bin import quickstart


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Takes the place of training, in an empty folder; the requests that it gets."""
    requests = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("t2t_repro.training.experiment.run", requests.append)
    monkeypatch.setattr("t2t_repro.certificate.certify.certify_run", lambda *of, data_dir: None)
    monkeypatch.setattr(quickstart, "run", lambda directory, train: train())
    return requests
