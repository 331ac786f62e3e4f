"""A run's certificate: what it says, that any byte that changes is named, and who has none."""

import dataclasses
import json
import shutil

import pytest

from t2t_repro import cli, registry, tuning
from t2t_repro.bin import avg_all, show
from t2t_repro.certificate import certify, golden, record, verify, verify_export
from t2t_repro.certificate.record import Score
from t2t_repro.certificate.verify_export import CHANGED, MISSING, NOT_HERE, NOTE, OK
from t2t_repro.decoding.tuned import Beams
from t2t_repro.errors import UserError
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import trained_run
from tests.tuned import choice

PROBLEM = "text2text_tmpdir"


@pytest.fixture
def copy(made, tmp_path, monkeypatch):
    """A copy of the folder that may be changed; what it translates is what is to come out."""
    shutil.copytree(made, tmp_path / "copy")
    for file in (tmp_path / "copy").rglob("*.json"):
        text = file.read_text().replace(str(made), str(tmp_path / "copy"))
        if file.name == record.NAME:
            zeros = f'"seal": "{64 * "0"}"'
            text = verify_export.sealed(text[: text.index('"seal"')] + zeros + "\n}\n")
        file.write_text(text)
    found = record.read(tmp_path / "copy" / "run")
    if found is None:
        raise AssertionError
    written = [(each.translation, each.score) for each in found.golden]
    monkeypatch.setattr(golden, "translations", lambda *args: written)
    # What was hashed before its paths became those of the copy
    files = {kind: again(getattr(found.data, kind), tmp_path) for kind in ("reports",)}
    data = dataclasses.replace(found.data, **files)
    dataclasses.replace(found, data=data).write(tmp_path / "copy" / "run")
    return tmp_path / "copy"


def again(files, folder):
    return tuple(record.File.of(each.path, folder / "copy" / "run") for each in files)


def states(run):
    """{(part, what): state} of what is not OK, and the number of what is."""
    checks = list(verify.verify_run(run))
    bad = {(c.part, c.what): c.state for c in checks if c.state not in (OK, NOTE)}
    return bad, sum(c.state == OK for c in checks)


def test_what_it_says(made):
    found = record.read(made / "run")
    assert (found.kind, found.problem, found.random_seed, found.step) == ("run", PROBLEM, 3, 9)
    (by,) = found.made
    assert by.program == "t2t-trainer" and by.packages["tensorflow"] and by.device
    assert len(by.commit.removesuffix("-changed")) in (40, len(by.version))
    data = found.data
    assert [file.path for file in data.raw_files] == [str(made / n) for n in ("source", "target")]
    assert data.raw_files[0].sha256 == verify_export.sha256(made / "source")
    assert len(data.raw_text) == 4 and data.seeds == {"datagen": 5, "splits": 5}
    assert {name: len(files) for name, files in data.splits.items()} == {"train": 1, "dev": 1}
    assert [file.path for file in data.vocabulary] == [f"vocab.{PROBLEM}.32768.subwords"]
    assert len(data.reports) == 2
    paths = [file.path for file in found.files]
    assert paths == [
        "hparams.json",
        *(f"checkpoints/ckpt-9/{name}" for name in ("state.json", "weights.npz")),
    ]
    assert [(score.name, score.value) for score in found.scores] == [("loss", 2.5), ("bleu", 11.5)]
    assert found.scores[1].signature == "nrefs:1|tok:zh"
    before = certify.scores_in(trained_run(str(made / "run")), 8)
    assert before[1].signature == "sacreBLEU; the run says no signature"
    assert found.decoding == {
        "beam_size": 4,
        "alpha": 0.6,
        "extra_length": 100,
        "max_input_size": -1,
    }
    assert len(found.golden) == golden.COUNT
    lines = (made / "source").read_text().splitlines()
    assert {each.source for each in found.golden} < set(lines)


def test_it_is_verified_by_decoding_again(made, capsys):
    argv = [str(made / "run")]
    cli.run("t2t-show", "", show.define_flags, show.main, [f"--output_dir={argv[0]}", "--verify"])
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"All {len(out) - 2} are as they were."
    assert sum(line.startswith("ok        translations") for line in out) == golden.COUNT


PARTS = {
    "source": "raw file",
    "target": "raw file",
    "raw/inputs.train.txt": "raw text",
    "raw/targets.eval.txt": "raw text",
    f"data/datagen.{PROBLEM}.json": "report",
    f"data/datagen.{PROBLEM}.report.json": "report",
    f"data/{PROBLEM}-train-00000-of-00001": "train",
    f"data/{PROBLEM}-dev-00000-of-00001": "dev",
    f"run/vocab.{PROBLEM}.32768.subwords": "vocabulary",
    "run/hparams.json": "run",
    "run/checkpoints/ckpt-9/weights.npz": "run",
    "run/checkpoints/ckpt-9/state.json": "run",
    "run/certificate.json": "certificate",
}


def test_a_changed_byte_is_named_and_nothing_else(copy):
    bad, ok = states(copy / "run")
    more_text, run_json, scores = 2, 1, 2
    assert bad == {} and ok == len(PARTS) + more_text + run_json + scores + golden.COUNT
    for file, part in PARTS.items():
        before = (copy / file).read_bytes()
        content = bytearray(before)
        content[len(content) // 2] ^= 1
        (copy / file).write_bytes(content)
        bad, _ = states(copy / "run")
        named = [what for where, what in bad if where == part]
        assert [what for what in named if what.endswith(file.removeprefix("run/"))], file
        (copy / file).write_bytes(before)


def test_what_is_gone_and_what_need_not_be_here(copy):
    (copy / "raw" / "inputs.train.txt").unlink()
    shutil.rmtree(copy / "data")
    (copy / "run" / f"vocab.{PROBLEM}.32768.subwords").unlink()
    bad, _ = states(copy / "run")
    assert bad[("raw text", str(copy / "raw" / "inputs.train.txt"))] == MISSING
    assert bad[("vocabulary", f"vocab.{PROBLEM}.32768.subwords")] == MISSING
    away = {what for (_, what), state in bad.items() if state == NOT_HERE}
    assert len(away) == 4 and all(str(copy / "data") in what for what in away)


def test_data_that_have_moved_are_named_and_read(copy):
    (copy / "data").rename(copy / "moved")
    (copy / "run" / record.NAME).unlink()
    certify.certify_run(copy / "run", "t2t-avg-all", data_dir=str(copy / "moved"))
    found = record.read(copy / "run")
    assert len(found.golden) == golden.COUNT and len(found.data.reports) == 2
    names = {split: [file.path for file in files] for split, files in found.data.splits.items()}
    assert names["dev"] == [str(copy / "moved" / f"{PROBLEM}-dev-00000-of-00001")]
    assert [file.path for file in found.data.vocabulary] == [f"vocab.{PROBLEM}.32768.subwords"]


def test_tuning_certifies_by_the_data_that_it_is_given(copy, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(registry, "get_problem", lambda name: get_problem(PROBLEM))
    values = json.loads((copy / "run" / "run.json").read_text())
    (copy / "run" / "run.json").write_text(json.dumps(values | {"t2t_usr_dir": "/my package"}))
    for name in ("check", "tune"):
        monkeypatch.setattr(tuning, name, lambda *args, **kwargs: None)
    monkeypatch.setattr(certify, "certify_run", lambda *of, data_dir: asked.append(data_dir))
    argv = ["--tune", f"--model_dir={copy / 'run'}", f"--data_dir={copy / 'moved'}"]
    cli.run("t2t-avg-all", "", avg_all.define_flags, avg_all.main, argv)
    assert asked == [str(copy / "moved")]
    known = f"{copy / 'run' / 'finished'} --t2t_usr_dir='/my package'"
    said = capsys.readouterr().out
    assert said == f"Translate: t2t-decoder --output_dir={known} --decode_interactive\n"


def test_another_translation_another_score_and_another_run_json(copy):
    found = record.read(copy / "run")
    first, second, *rest = found.golden
    others = [
        dataclasses.replace(first, translation="another"),
        dataclasses.replace(second, score=second.score + 0.02),
    ]
    dataclasses.replace(found, golden=(*others, *rest), random_seed=8).write(copy / "run")
    metrics = copy / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace("2.5", "2.4"))
    checks = [check for check in verify.verify_run(copy / "run") if check.is_bad]
    assert [(check.part, check.state) for check in checks] == [
        ("run", CHANGED),
        ("score", CHANGED),
        ("translations", CHANGED),
        ("translations", CHANGED),
    ]
    assert checks[0].why == "random_seed is 3, and was 8"
    assert "metrics.jsonl says 2.4" in checks[1].why and "was 'another'" in checks[2].why
    assert verify.summary(checks) == "4 are not as they were, 0 are."


def test_a_score_that_is_not_a_number_is_not_another(copy):
    metrics = copy / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace("2.5", "NaN"))
    (copy / "run" / record.NAME).unlink()
    certify.certify_run(copy / "run", "t2t-trainer", say=lambda line: None)
    assert states(copy / "run")[0] == {}


def test_exit_codes_and_json(copy, capsys):
    def shown(*flags):
        argv = [f"--output_dir={copy / 'run'}", "--verify", *flags]
        cli.run("t2t-show", "", show.define_flags, show.main, argv)

    shown("--json")
    assert json.loads(capsys.readouterr().out)["verified"] is True
    (copy / "source").write_text("another\n")
    with pytest.raises(SystemExit) as left:
        shown()
    assert left.value.code == 1
    out = capsys.readouterr().out.splitlines()
    assert f"CHANGED   raw file      {copy / 'source'}" in out
    (copy / "run" / record.NAME).unlink()
    with pytest.raises(SystemExit) as left:
        shown()
    assert left.value.code == 2
    assert "Received: none. t2t-trainer writes it" in capsys.readouterr().err


def test_a_run_of_a_package_is_not_called_changed_where_that_is_not_loaded(
    copy, capsys, monkeypatch
):
    run, said = RunDirectory(copy / "run"), []
    values = json.loads((run.path / "run.json").read_text())
    values |= {"problem": "their_certified_problem", "t2t_usr_dir": "/my package"}
    (run.path / "run.json").write_text(json.dumps(values))
    with pytest.raises(SystemExit) as left:
        argv = [f"--output_dir={run.path}", "--verify"]
        cli.run("t2t-show", "", show.define_flags, show.main, argv)
    out, errors = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert "The run was made with --t2t_usr_dir=/my package: give that." in errors
    checks = list(verify.verify_run(run.path, with_package=True))  # which does not know it either
    assert [check.state for check in checks if check.what == str(run.path)] == [CHANGED]
    monkeypatch.setattr(registry, "get_problem", lambda name: get_problem(PROBLEM))
    (run.path / record.NAME).unlink()
    certify.certify_run(run.path, "t2t-trainer", say=said.append)
    assert said[0].endswith(f"t2t-show {run.path} --t2t_usr_dir='/my package' --verify checks it.")


def test_it_is_written_once_and_does_not_travel_with_a_copy(copy, tmp_path):
    run, said = RunDirectory(copy / "run"), []
    certify.certify_run(run.path, "t2t-trainer", say=said.append)
    assert said == []
    run.copy_description(RunDirectory(tmp_path / "other"))
    assert not (tmp_path / "other" / record.NAME).exists()
    (copy / "run" / record.NAME).write_text("{")
    certify.certify_run(run.path, "t2t-trainer", say=said.append)
    assert said[0].startswith("Certified") and states(copy / "run")[0] == {}


def test_scores_of_others_are_added(copy):
    score = Score("sacrebleu", 31.4, "test", "nrefs:1|tok:13a")
    for value in (30.0, 31.4):
        assert record.add_scores(copy / "run", [dataclasses.replace(score, value=value)])
    assert record.read(copy / "run").scores[2:] == (score,)
    assert states(copy / "run")[0] == {}
    assert not record.add_scores(copy, [score])


def test_data_of_tensor2tensor_have_no_origin(copy):
    (copy / "data" / f"datagen.{PROBLEM}.json").unlink()
    (copy / "run" / record.NAME).unlink()
    certify.certify_run(copy / "run", "t2t-trainer", say=lambda line: None)
    data = record.read(copy / "run").data
    assert data.raw_files == data.raw_text == () and data.seeds == {} and len(data.splits) == 2
    assert states(copy / "run")[0] == {}


def test_a_run_whose_text_is_gone_is_certified(copy, monkeypatch):
    """As of t2t-distill's problem, which wants its text to say which files it is."""

    def wanting(self, tmp_dir, split):
        raise UserError("Expected inputs.")

    monkeypatch.setattr(type(get_problem(PROBLEM)), "raw_text_files", wanting)
    before = record.read(copy / "run").data
    (copy / "run" / record.NAME).unlink()
    certify.certify_run(copy / "run", "t2t-trainer", say=lambda line: None)
    files = record.read(copy / "run").data.raw_text
    assert [file.sha256 for file in files] == [file.sha256 for file in before.raw_text] != []


@pytest.mark.parametrize(
    "of, taken, scores",
    [
        ("run", "run", ["loss", "bleu"]),
        ("run", "run/best", ["loss", "bleu"]),
        ("run", "run/finished", []),
        ("run/finished", "run/finished", ["bleu"]),
        ("run/finished", "run", []),
    ],
)
def test_an_export_has_the_scores_of_its_own_weights_alone(copy, tmp_path, of, taken, scores):
    run = copy / "run"
    for name in ("best", "finished"):
        RunDirectory(run).copy_description(RunDirectory(run / name))
        shutil.copytree(run / "checkpoints" / "ckpt-9", run / name / "checkpoints" / "ckpt-9")
    choice(9, 20.5, Beams(4, 0.6, 20.5)).write(run / "finished")
    (tmp_path / "export").mkdir()
    exported = trained_run(copy / of)
    certify.certify_export(
        exported,
        copy / taken / "checkpoints" / "ckpt-9",
        tmp_path / "export",
        "saved_model",
        exported.decode_settings(),
        lambda texts: [("", 0.0)] * len(texts),
    )
    assert [score.name for score in record.read(tmp_path / "export").scores] == scores


def test_an_export_is_certified_whose_checkpoint_a_trainer_removes(copy, tmp_path):
    exported, taken = trained_run(copy / "run"), copy / "run" / "checkpoints" / "ckpt-9"
    (tmp_path / "export").mkdir()
    shutil.rmtree(taken)
    certify.certify_export(
        exported,
        taken,
        tmp_path / "export",
        "saved_model",
        exported.decode_settings(),
        lambda texts: [("", 0.0)] * len(texts),
    )
    assert record.read(tmp_path / "export").step == 9
