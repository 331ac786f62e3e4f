"""What a run and its exports say they were made of: any byte that changes is named."""

import dataclasses
import json
import pathlib
import shutil

import keras
import pytest

from t2t_repro import provenance, registry
from t2t_repro.bin import show
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import KEEP, Job
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.tune import Beams
from t2t_repro.export import forms
from t2t_repro.export.forms import ExportRequest
from t2t_repro.models.build import model_for
from t2t_repro.provenance import CHANGED, COUNT, MISSING, NOTE, OK, Score
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests.tuned import choice

PROBLEM = "text2text_tmpdir"
WORDS = "ab ba aab bba abab baba aabb bbaa".split()
SENTENCES = [" ".join(WORDS[i // 8**k % 8] for k in range(3)) for i in range(70)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two files of the user's, the text and data made of them, and a run."""
    folder = tmp_path_factory.mktemp("provenance")
    for side, text in (("source", SENTENCES), ("target", map(str.upper, SENTENCES))):
        (folder / side).write_text("".join(f"{line}\n" for line in text))
    sides = {f"train_{side}": str(folder / side) for side in ("source", "target")}
    options = {**sides, "dev_size": 30}
    problem = registry.get_problem(PROBLEM)
    raw, data = folder / "raw", folder / "data"
    generate_data(Job(problem, data, raw, options=options, check=KEEP, vocab_size=40, seed=5))
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test", "num_hidden_layers=1"),
        problem=PROBLEM,
        data_dir=str(data),
        version="7",
        random_seed=3,
    )
    run = RunDirectory(folder / "run")
    run.begin(config, ["t2t-trainer"], [data / name for name in problem.vocab_files(data)])
    keras.utils.set_random_seed(4)
    model = model_for(problem, config.hparams, config.data_dir)
    for weight in model.weights:  # so that an end is likely enough to come
        weight.assign(3 * weight)
    checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=9))
    for step, loss, more in ((8, 3.0, {}), (9, 2.5, {"bleu_signature": "nrefs:1|tok:zh"})):
        row = {"kind": "eval", "step": step, "time": 1.0, "split": "dev", "sample": "all of it"}
        run.append_metrics({**row, "loss": loss, "bleu": 11.5, **more})
    provenance.write_of_run(run.path, "t2t-trainer")
    return folder


@pytest.fixture
def copy(made, tmp_path, monkeypatch):
    """A copy of the folder that may be changed; what it translates is what is to come out."""
    shutil.copytree(made, tmp_path / "copy")
    for file in (tmp_path / "copy").rglob("*.json"):
        file.write_text(file.read_text().replace(str(made), str(tmp_path / "copy")))
    record = provenance.read(tmp_path / "copy" / "run")
    written = [(each.translation, each.score) for each in record.golden]
    monkeypatch.setattr(provenance, "translations", lambda *args: written)
    summary = tmp_path / "copy" / "data" / f"datagen.{PROBLEM}.json"  # it has paths
    digests = {str(summary): provenance.sha256(summary)}
    data = record.data | {"summary": digests}
    dataclasses.replace(record, data=data).write(tmp_path / "copy" / "run")
    return tmp_path / "copy"


def vocabulary(folder):
    """The name of the vocabulary's file of a run."""
    (path,) = (folder / "run").glob("vocab.*")
    return path.name


def states(folder, translate=None):
    """{what: state} of what is not OK, and the number of what is."""
    checks = list(provenance.verify(folder, translate))
    bad = {what: state for state, what in checks if state not in (OK, NOTE)}
    return bad, sum(state == OK for state, _ in checks)


def shown(folder, *flags):
    argv = [f"--output_dir={folder}", "--verify", *flags]
    show.console(argv)


def test_what_it_says(made):
    found = provenance.read(made / "run")
    assert (found.kind, found.problem, found.random_seed, found.step) == ("run", PROBLEM, 3, 9)
    (by,) = found.programs
    assert by["program"] == "t2t-trainer" and by["tensorflow"] and by["device"]
    assert list(found.data["raw file"]) == [str(made / name) for name in ("source", "target")]
    assert found.data["raw file"][str(made / "source")] == provenance.sha256(made / "source")
    assert list(found.data["vocabulary"]) == [vocabulary(made)]
    assert list(found.files) == [
        *(f"checkpoints/ckpt-9/{name}" for name in ("state.json", "weights.npz")),
        "hparams.json",
    ]
    assert [(score.name, score.value) for score in found.scores] == [("loss", 2.5), ("bleu", 11.5)]
    assert found.scores[1].signature == "nrefs:1|tok:zh"
    decoding = {"beam_size": 4, "alpha": 0.6, "extra_length": 100, "max_input_size": -1}
    assert found.decoding == decoding
    lines = (made / "source").read_text().splitlines()
    assert len(found.golden) == COUNT and {each.source for each in found.golden} < set(lines)


def test_a_changed_byte_is_named_and_nothing_else(copy):
    parts = {
        "source": "raw file",
        "target": "raw file",
        f"data/datagen.{PROBLEM}.json": "summary",
        f"data/{PROBLEM}-train-00000-of-00001": "train",
        f"data/{PROBLEM}-dev-00000-of-00001": "dev",
        f"run/{vocabulary(copy)}": "vocabulary",
        "run/hparams.json": "run",
        "run/checkpoints/ckpt-9/weights.npz": "run",
        "run/checkpoints/ckpt-9/state.json": "run",
    }
    assert states(copy / "run") == ({}, len(parts) + COUNT)
    for file, part in parts.items():
        before = (copy / file).read_bytes()
        content = bytearray(before)
        content[len(content) // 2] ^= 1
        (copy / file).write_bytes(content)
        bad, ok = states(copy / "run")
        name = file.removeprefix("run/") if part in ("run", "vocabulary") else str(copy / file)
        assert bad == {f"{part}: {name}": CHANGED}
        assert ok == len(parts) - 1 + COUNT * (part not in ("run", "vocabulary"))
        (copy / file).write_bytes(before)


@pytest.mark.parametrize("change", [("translation", "another"), ("score", 0.02), ("score", 1e9)])
def test_another_translation_and_another_score(copy, change):
    found, (name, value) = provenance.read(copy / "run"), change
    first, *rest = found.golden
    value = value if name == "translation" else first.score + value
    changed = dataclasses.replace(first, **{name: value})
    dataclasses.replace(found, golden=(changed, *rest)).write(copy / "run")
    ((what, state),) = states(copy / "run")[0].items()
    assert state == CHANGED and what.startswith(f"sentence 1: {first.source!r} gives ")


def test_exit_codes_and_json(made, copy, capsys):
    shown(made / "run", "--json")  # by decoding again
    found = json.loads(capsys.readouterr().out)
    assert found["verified"] is True
    same = [each["state"] == OK for each in found["checks"] if "sentence" in each["what"]]
    assert same == [True] * COUNT
    (copy / "source").write_text("another\n")
    with pytest.raises(SystemExit) as left:
        shown(copy / "run")
    assert left.value.code == 1
    assert f"CHANGED   raw file: {copy / 'source'}" in capsys.readouterr().out.splitlines()
    (copy / "run" / provenance.PROVENANCE).unlink()
    with pytest.raises(SystemExit) as left:
        shown(copy / "run")
    assert left.value.code == 2 and provenance.PROVENANCE in capsys.readouterr().err


def test_it_is_written_once_and_does_not_travel_with_a_copy(copy, tmp_path):
    run = RunDirectory(copy / "run")
    record = run.path / provenance.PROVENANCE
    before = record.stat().st_mtime_ns
    provenance.write_of_run(run.path, "t2t-trainer")
    assert record.stat().st_mtime_ns == before
    dataclasses.replace(provenance.read(run.path), files={}).write(run.path)  # of older weights
    provenance.write_of_run(run.path, "t2t-decoder")
    assert len(provenance.read(run.path).programs) == 2
    run.copy_description(RunDirectory(tmp_path / "other"))
    assert not (tmp_path / "other" / provenance.PROVENANCE).exists()
    record.write_text("{")
    provenance.write_of_run(run.path, "t2t-trainer")
    assert states(run.path)[0] == {}


def upper(texts):
    return [(text.upper(), -1.5) for text in texts]


def write(run, checkpoint, folder):
    folder.mkdir(exist_ok=True)
    settings = DecodeHParams(beam_size=3)
    provenance.write(run, checkpoint, folder, "saved_model", settings, upper)
    return provenance.read(folder)


def test_an_export_has_the_scores_of_its_own_weights_alone(copy, tmp_path):
    run, added = copy / "run", Score("sacrebleu", 31.4, "test", "nrefs:1|tok:13a")
    for value in (30.0, 31.4):
        provenance.add_scores(run, [dataclasses.replace(added, value=value)])
    for name in ("best", "finished"):
        RunDirectory(run).copy_description(RunDirectory(run / name))
        shutil.copytree(run / "checkpoints" / "ckpt-9", run / name / "checkpoints" / "ckpt-9")
    choice(9, 20.5, Beams(4, 0.6, 20.5)).write(run / "finished")
    for of, taken, scores in (
        ("run", "run", ["loss", "bleu", "sacrebleu"]),
        ("run", "run/best", ["loss", "bleu"]),
        ("run", "run/finished", []),
        ("run/finished", "run/finished", ["bleu"]),
        ("run/finished", "run", []),
    ):
        checkpoint = copy / taken / "checkpoints" / "ckpt-9"
        found = write(trained_run(copy / of), checkpoint, tmp_path / "export")
        assert [score.name for score in found.scores] == scores, (of, taken)
    assert provenance.read(run).scores[2:] == (added,)


def test_an_export_carries_the_record_of_its_run_without_folders(made, tmp_path):
    folder, run = tmp_path / "export", trained_run(made / "run")
    (folder / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/data"):
        (folder / name).write_text(f"what {name} holds")
    found, of_run = write(run, run.checkpoint(), folder), provenance.read(made / "run")
    assert (found.kind, found.step, found.decoding["beam_size"]) == ("saved_model", 9, 3)
    assert [by["program"] for by in found.programs] == ["t2t-trainer", "t2t-exporter"]
    assert found.scores == of_run.scores and list(found.data["raw file"]) == ["source", "target"]
    assert list(found.data["dev"].values()) == list(of_run.data["dev"].values())
    assert str(made) not in (folder / provenance.PROVENANCE).read_text()
    assert [each.source for each in found.golden] == [each.source for each in of_run.golden]
    assert states(folder, upper) == ({}, 2 + COUNT)
    (folder / "variables" / "data").unlink()
    assert states(folder) == ({"saved_model: variables/data": MISSING}, 1)


@pytest.mark.slow
def test_an_export_is_verified(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("t2t_repro.export.signatures.Served.names", ("best",))
    form = "saved_model"
    request = ExportRequest(format=form, export_dir=str(tmp_path / "7"))
    folder = forms.export(trained_run(made / "run"), request, lambda line: None)
    moved = pathlib.Path(shutil.move(folder, tmp_path / "elsewhere"))
    shown(moved)
    assert capsys.readouterr().out.count("ok        sentence ") == COUNT
    name = next(moved.glob("vocab*")).name
    (moved / name).write_text("'a_'\n")
    with pytest.raises(SystemExit) as left:
        shown(moved)
    assert left.value.code == 1
    assert f"CHANGED   {form}: {name}" in capsys.readouterr().out
