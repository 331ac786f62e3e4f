"""What every form of an export has."""

import dataclasses
import json

import pytest

from t2t_repro import runs
from t2t_repro.errors import UserError
from t2t_repro.interop import export, saved_model
from t2t_repro.interop.form import ExportRequest


class Paper:
    """A form that takes any model and does not write it."""

    prefix, use = "paper-", "Read {path}."

    def __init__(self):
        self.written = []

    def check(self, request):
        pass

    def write(self, run, model, path, request, accept):
        path.mkdir(parents=True)
        accept(path)
        self.written.append((run.path, path, request.quantize))

    def translate(self, run, folder, settings, texts):
        raise AssertionError("there are no sentences")

    def engine(self, folder, model):
        raise AssertionError("nothing is measured")


@pytest.fixture
def paper(monkeypatch):
    form = Paper()
    monkeypatch.setattr(saved_model, "FORM", form)
    return form


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose model is never made."""
    from t2t_repro import get_hparams
    from t2t_repro.run_directory import RunConfig, RunDirectory

    directory = RunDirectory(tmp_path / "run")
    hparams, problem = get_hparams("transformer_test"), "algorithmic_identity_decimal40"
    config = RunConfig(
        hparams_set="transformer_test", hparams=hparams, problem=problem, data_dir="", version="0"
    )
    directory.begin(config, ["t2t-trainer"], [])
    (directory.checkpoints_dir / "ckpt-7").mkdir(parents=True)
    monkeypatch.setattr(runs.TrainedRun, "model", lambda run, *args, **kwargs: "a model")
    return runs.trained_run(directory.path)


def test_where_an_export_goes_and_what_it_refuses(paper, run):
    path = run.directory.checkpoints_dir / "ckpt-7"
    request, said = ExportRequest(checkpoint_path=str(path)), []
    folder = run.path / "export" / "paper-7"
    assert export.export(run, request, said.append) == folder
    assert said == [f"Wrote {folder} from {path}. Read {folder}."]
    assert json.loads((folder / "provenance.json").read_text())["kind"] == "saved_model"
    half = dataclasses.replace(request, quantize="float16")
    assert export.export(run, half, said.append).name == "paper-7-float16"
    assert [quantize for _, _, quantize in paper.written] == ["float32", "float16"]
    assert said[1].startswith("What float16 costs is not measured. Expected files")
    limited = dataclasses.replace(request, max_bleu_drop=1.0, export_dir=str(run.path / "other"))
    with pytest.raises(UserError):
        export.export(run, limited)


def test_what_a_problem_says_of_its_own_output_is_left_out(paper, run, monkeypatch):
    def exported(decode_hparams, name):
        request = ExportRequest(
            checkpoint_path=str(run.directory.checkpoints_dir / "ckpt-7"),
            decode_hparams=decode_hparams,
            export_dir=str(run.path / name),
        )
        path = export.export(run, request, str)
        return json.loads((path / "provenance.json").read_text())["decoding"]

    own = "beam_size=2,batch_size=16,return_beams=True"
    monkeypatch.setattr(type(run.problem), "decode_hparams", own)
    assert exported(None, "1").items() >= {"beam_size": 2, "alpha": 0.6}.items()
    assert exported("alpha=1.0", "2").items() >= {"beam_size": 2, "alpha": 1.0}.items()
    with pytest.raises(UserError, match="batch_size"):
        exported("batch_size=8", "3")
    monkeypatch.setattr(type(run.problem), "decode_hparams", f"{own},min_length_ratio=0.5")
    with pytest.raises(UserError, match="min_length_ratio=0.5"):
        exported("", "3")
    assert exported("min_length_ratio=0.0", "3")["beam_size"] == 2
