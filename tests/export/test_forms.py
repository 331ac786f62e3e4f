"""What every form of an export has: its folder, its settings, its record, and what it costs."""

import json

import pytest

from t2t_repro import runs
from t2t_repro.errors import UserError
from t2t_repro.export import forms, saved_model
from t2t_repro.export.forms import ExportRequest
from tests import untrained


@pytest.fixture
def written(monkeypatch):
    """The requests of a form that takes any model and writes a file, in the place of SavedModel."""
    requests = []

    def write(job):
        (job.folder / "paper").write_text("")
        requests.append(job.request)

    monkeypatch.setattr(saved_model, "check", lambda request: None)
    monkeypatch.setattr(saved_model, "write", write)
    return requests


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose model is never made."""
    directory = untrained.begun(
        tmp_path / "run", "transformer_test", "algorithmic_identity_decimal40"
    )
    (directory.checkpoints_dir / "ckpt-7").mkdir(parents=True)
    model = type("Model", (), {"hparams": directory.config.hparams})
    monkeypatch.setattr(runs.TrainedRun, "model", lambda run, *args, **kwargs: model)
    return runs.trained_run(directory.path)


@pytest.fixture
def request_of(run):
    path = str(run.checkpoints_dir / "ckpt-7")
    return lambda **asked: ExportRequest(checkpoint_path=path, **asked)


def test_where_an_export_goes_and_what_it_refuses(written, run, request_of, tmp_path):
    said = []
    folder = run.path / "export" / "7"
    assert forms.export(run, request_of(), said.append) == folder
    assert str(folder) in said[0] and request_of().checkpoint_path in said[0]
    assert json.loads((folder / "provenance.json").read_text())["kind"] == "saved_model"
    hparams = type(run.config.hparams).from_json((folder / "hparams.json").read_text())
    assert hparams == run.config.hparams
    half = forms.export(run, request_of(quantize="float16"), said.append)
    assert half.name == "7-float16" and "float16" in said[1]  # that it is not measured, and why
    assert [request.export_dir for request in written] == [str(folder), str(half)]
    with pytest.raises(UserError):
        forms.export(run, request_of(max_bleu_drop=1.0, export_dir=str(tmp_path / "new")))
    (tmp_path / "file").touch()
    for taken in (run.path, tmp_path / "file"):
        with pytest.raises(UserError, match=str(taken)):
            forms.export(run, request_of(export_dir=str(taken)))


def test_what_a_problem_says_of_its_own_output_is_left_out(run, monkeypatch):
    def kept(decode_hparams):
        return forms.kept_settings(run, ExportRequest(decode_hparams=decode_hparams))

    own = "beam_size=2,batch_size=16,return_beams=True"
    monkeypatch.setattr(type(run.problem), "decode_hparams", own)
    assert (kept(None).beam_size, kept(None).alpha) == (2, 0.6)
    assert (kept("alpha=1.0").beam_size, kept("alpha=1.0").alpha) == (2, 1.0)
    for asked in ("batch_size=8", "identity_output=True"):
        with pytest.raises(UserError, match=asked):
            kept(asked)
    monkeypatch.setattr(type(run.problem), "decode_hparams", f"{own},min_length_ratio=0.5")
    with pytest.raises(UserError, match="min_length_ratio=0.5"):
        kept("")
    assert kept("min_length_ratio=0.0").beam_size == 2


@pytest.mark.slow
def test_what_another_form_loses(make_model, encoders):
    from t2t_repro.decoding.dev_bleu import Sample
    from t2t_repro.decoding.engine import ModelEngine
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.provenance import translations

    model, settings = make_model(), DecodeHParams(extra_length=5)
    references = [encoders["targets"].decode([22, 23]), ""]
    sample = Sample([[20, 21, 1], [15, 1]], references, encoders, "two")

    def lost(translate):
        return forms.compare(model, translate, settings, sample)

    equal = lost(lambda texts: translations(ModelEngine(model), encoders, settings, texts))
    assert equal.drop == 0 and equal.identical == equal.sentences == 2
    nothing = lost(lambda texts: [("", 0.0) for _ in texts])
    assert nothing.after == 0


@pytest.mark.parametrize(
    "before, after, text", [(30.0, 29.4, "0.60"), (30.0, 31.48, "1.48"), (3, 3 + 1e-15, "0.00")]
)
def test_a_drop_of_bleu(before, after, text):
    lost = forms.Comparison(before=before, after=after, identical=7, sentences=11)
    assert text in str(lost)
    forms.check_drop(lost, 0.7)
    forms.check_drop(lost, None)
    if lost.drop > 0.5:
        with pytest.raises(UserError):
            forms.check_drop(lost, 0.5)
