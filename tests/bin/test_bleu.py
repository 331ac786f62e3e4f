import json
import os

import pytest

from t2t_repro.bin import bleu as program
from tests.programs import call

REFERENCE = "Ein roter Hut liegt hier.\nZwei Hunde laufen schnell weg.\n"
# Of the words 11 of 12 match in case, of the pairs 9 of 10, then 7 of 8, 5 of 6: BLEU 88.07.
GOOD = "Ein roter Hut liegt hier.\nzwei Hunde laufen schnell weg.\n"
BAD = "Ein Hut ist da.\nHunde laufen schnell weg.\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "ref").write_text(REFERENCE)
    translations = tmp_path / "translations"
    translations.mkdir()
    for step, (text, time) in {1000: (BAD, 50), 2000: (GOOD, 60)}.items():
        path = translations / f"model-{step}"
        path.write_text(text)
        os.utime(path, (time, time))
    (translations / "notes.txt").write_text("no translation")
    os.utime(translations / "notes.txt", (40, 40))
    (translations / "model-1000x").write_text("no step")
    return tmp_path


def run(*argv):
    call(program, *argv)


def events(directory):
    from tensorboard.backend.event_processing import event_file_loader

    found = []
    for path in sorted(directory.glob("events*")):
        for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
            values = {v.tag: round(v.simple_value, 2) for v in event.summary.value}
            if values:
                found.append((event.step, event.wall_time, values))
    return found


def test_one_file(files, capsys):
    json_file = files / "scores.json"
    arguments = [
        f"--translation={files / 'translations/model-2000'}",
        f"--reference={files / 'ref'}",
    ]
    run(*arguments, f"--json_file={json_file}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["BLEU_uncased = 100.00", "BLEU_cased =  88.07"]
    assert any("88.07" in line and "sacreBLEU, cased" in line for line in lines)
    assert any("tok:13a" in line for line in lines)
    report = json.loads(json_file.read_text())
    assert report["t2t_uncased"]["score"] == pytest.approx(100)
    assert report["sacrebleu"]["signature"].startswith("nrefs:1|case:mixed")
    assert report["sentences"] == 2
    run(*arguments, "--bleu_variant=cased")
    assert capsys.readouterr().out.startswith("BLEU_cased =  88.07\n\n")


def test_beside_a_baseline(files, capsys):
    (files / "baseline").write_text(BAD)
    of = [f"--translation={files / 'translations/model-2000'}", f"--baseline={files / 'baseline'}"]
    run(*of, f"--reference={files / 'ref'}", f"--json_file={files / 'scores.json'}")
    found = json.loads((files / "scores.json").read_text())["paired"]
    assert found["translation"]["bleu"] == pytest.approx(88.07, abs=0.01)
    assert 0 < found["baseline"]["bleu"] < 60 and 0 < found["p_value"] < 1
    gained = found["translation"]["bleu"] - found["baseline"]["bleu"]
    assert f"{gained:+.2f} BLEU (p = {found['p_value']:.3f})" in capsys.readouterr().out


def test_a_directory_with_events(files, capsys, refused):
    event_dir, json_file = files / "events", files / "scores.json"
    arguments = [
        f"--translations_dir={files / 'translations'}",
        f"--reference={files / 'ref'}",
        f"--event_dir={event_dir}",
        "--tag_suffix=_beam4",
    ]
    run(*arguments, f"--json_file={json_file}")
    lines = capsys.readouterr().out.splitlines()
    assert "model-1000: BLEU_uncased = " in lines[0]
    assert "model-2000: BLEU_cased =  88.07" in lines[3]
    assert [row["step"] for row in json.loads(json_file.read_text())] == [1000, 2000]
    assert (event_dir / "last_evaluated_step.txt").read_text() == "2000\n"
    first, second, third = events(event_dir)
    assert first == (0, 40, {"BLEU_uncased_beam4": 0, "BLEU_cased_beam4": 0})
    assert second[:2] == (1000, 50)
    assert third == (2000, 60, {"BLEU_uncased_beam4": 100, "BLEU_cased_beam4": 88.07})
    # a second call goes on after the last step
    assert "--min_steps" in refused(program, *arguments).err
    (files / "translations/model-3000").write_text(GOOD)
    run(*arguments, "--bleu_variant=uncased")
    assert "model-3000: BLEU_uncased = 100.00" in capsys.readouterr().out
    assert [step for step, _, _ in events(event_dir)] == [0, 1000, 2000, 3000]


def test_a_directory_without_events(files, capsys):
    where = [f"--translations_dir={files / 'translations'}", f"--reference={files / 'ref'}"]
    run(*where, "--min_steps=1500")
    out = capsys.readouterr().out
    assert "model-2000" in out and "model-1000" not in out
    run(*where, f"--event_dir={files / 'e'}", "--noreport_zero")
    assert [step for step, _, _ in events(files / "e")] == [1000, 2000]
