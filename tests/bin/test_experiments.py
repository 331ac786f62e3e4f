"""t2t-experiments: three files and two sentences, and what it refuses."""

import csv
import errno
import os
import re

import pytest

from t2t_repro import cli, outputs
from t2t_repro.bin import experiments
from t2t_repro.studies.experiments import agreement, distance, extrapolation, positions


def run(*argv):
    cli.run(
        "t2t-experiments", experiments.__doc__, experiments.define_flags, experiments.main, [*argv]
    )


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as left:
        run(*argv)
    assert left.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def nothing_trained(monkeypatch):
    """The part of positions that takes minutes has made-up accuracies."""
    rows = [
        extrapolation.Row(kind, seed, length, 0.75, 0.5)
        for kind in extrapolation.CHANGES
        for seed in range(extrapolation.SEEDS)
        for length in extrapolation.LENGTHS
    ]
    monkeypatch.setattr(extrapolation, "run", lambda: extrapolation.result_of(rows))


def test_an_experiment_leaves_pictures_numbers_and_sentences(tmp_path, capsys, nothing_trained):
    run("--name=positions", f"--output_dir={tmp_path / 'new' / 'out'}")
    said = capsys.readouterr()
    folder = tmp_path / "new" / "out"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("extrapolation.csv", "extrapolation.png", "extrapolation.txt"),
        *("positions.csv", "positions.png", "positions.txt"),
    ]
    assert (folder / "positions.png").read_bytes().startswith(b"\x89PNG")
    with open(folder / "positions.csv", newline="") as file:
        first, *_ = rows = list(csv.DictReader(file))
    assert tuple(first) == positions.Pair._fields
    offsets = len(positions.OFFSETS)
    assert len(rows) == offsets * positions.WIDTH // 2
    assert first["frequency"] == "1" and first["angle"] == "1"  # six digits
    sentences = (folder / "positions.txt").read_text().splitlines()
    assert len(sentences) == 2 and said.out.startswith("\n".join(sentences))
    assert f"Written to {folder / 'positions.csv'}." in said.out
    assert re.match(rf"positions: {offsets} offsets in \d+\.\d s", said.err)
    others = (folder / "extrapolation.txt").read_text()
    assert len(others.splitlines()) == 2 and others in said.out


def test_the_name_may_stand_alone(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["t2t-experiments", "position", "--output_dir=out"])
    with pytest.raises(SystemExit) as left:
        experiments.console()
    assert left.value.code == 2
    assert "Received: 'position'. Did you mean 'positions'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--output_dir=out"], "Expected an experiment: t2t-experiments NAME"),
        (["--name=positions"], "Expected --output_dir, a folder for the files. Received: none."),
        (["--name=zzz", "--output_dir=out"], "Expected one of: agreement,"),
    ],
)
def test_what_is_refused(argv, message, capsys):
    assert message in refused(capsys, *argv)


def test_a_file_in_the_folders_place_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    said = refused(capsys, "--name=positions", f"--output_dir={tmp_path / 'out'}")
    assert "offsets" not in said and (tmp_path / "out").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(capsys):
    said = refused(capsys, "--name=positions", "--output_dir=/proc/self")  # for root neither
    assert "'/proc/self'" in said and "offsets" not in said


def test_a_full_disk_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    def full(dir):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a name of its own")

    monkeypatch.setattr(outputs.tempfile, "TemporaryFile", full)
    said = refused(capsys, "--name=positions", f"--output_dir={tmp_path}")
    assert f"No space left on device: '{tmp_path}'" in said
    assert "offsets" not in said


def test_what_is_resumed_is_given_the_folder(tmp_path, monkeypatch, capsys):
    given = []

    class Made:
        sentences = ("One.", "Two.")

        def write(self, folder, name):
            return [folder / f"{name}.png"]

    for module in (distance, agreement):
        monkeypatch.setattr(module, "run", lambda folder: given.append(folder) or Made())
    for name in experiments.RESUMED:
        run(f"--name={name}", f"--output_dir={tmp_path}")
    assert given == [tmp_path, tmp_path]
    assert f"One.\nTwo.\nWritten to {tmp_path / 'agreement.png'}." in capsys.readouterr().out


def test_help_names_every_experiment():
    for name in experiments.EXPERIMENTS:
        assert f"\n  {name} " in experiments.__doc__
