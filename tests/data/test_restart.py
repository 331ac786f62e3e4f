"""t2t-datagen killed and started again, and on several processes: always the same bytes."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from t2t_repro import registry
from t2t_repro.data import blocks, generate, journal, local, records
from t2t_repro.data.blocks import SIDES
from t2t_repro.data.local import Local
from t2t_repro.errors import UserError
from tests.data.small_text import PROBLEM, SHARDS, contents, job, run, write_text

JOURNAL = f"datagen.{PROBLEM}.unfinished.json"

# Kills itself when a function is called for the so-many-th time.
DYING = """
import os, signal, sys
from t2t_repro import registry
from t2t_repro.data import blocks, generate, journal, local
from t2t_repro.data.job import Job

where, count, raw, data = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
blocks.SAMPLES, local._SECONDS = 7, -1
owner, _, name = where.rpartition(".")
owner = eval(owner)
function, calls = getattr(owner, name), []

def dying(*args):
    calls.append(0)
    if len(calls) == count:
        if where == "blocks.FinishFile.write":
            function(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*args)

setattr(owner, name, dying)
generate.generate_data(Job(registry.get_problem("text2text_tmpdir"), data, raw, num_shards=5))
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("raw"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "SAMPLES", 7)
    monkeypatch.setattr(blocks, "TEXTS", 20)
    monkeypatch.setattr(local, "_SECONDS", -1)


@pytest.fixture(scope="module")
def whole(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    generate.generate_data(job(raw, folder))
    return contents(folder)


@pytest.mark.parametrize("processes", [2, 3])
def test_the_bytes_do_not_depend_on_the_number_of_processes(raw, whole, tmp_path, processes):
    run(raw, tmp_path, processes)
    assert contents(tmp_path) == whole


def kill(where, count, raw, data):
    done = subprocess.run([sys.executable, "-c", DYING, where, str(count), raw, data])
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("where", "count", "finished"),
    [
        ("blocks.Spill.write", 1, 0),
        ("blocks.Spill.write", 6, 0),  # some blocks are in the journal, one is not
        ("journal.Journal.save", 12, 0),  # all samples are there, but not said so
        ("blocks.FinishFile.__call__", 3, 2),
        ("blocks.FinishFile.write", 4, 4),  # a file has its name, and its unshuffled one is there
        ("blocks.Spill.write", 14, 5),  # in the dev split
    ],
)
def test_after_a_kill_the_same_command_goes_on(raw, whole, tmp_path, where, count, finished):
    kill(where, count, raw, tmp_path)
    before = {path: os.stat(path) for path in tmp_path.glob("*-of-*") if path.suffix == ""}
    assert len(before) == finished
    said = run(raw, tmp_path, 1 + finished % 2)
    assert contents(tmp_path) == whole
    for path, status in before.items():
        assert os.stat(path).st_ino == status.st_ino
        assert os.stat(path).st_mtime_ns == status.st_mtime_ns
    assert any(line.startswith("Going on where an earlier run") for line in said)
    assert not any(line.startswith("Making the vocabulary") for line in said)


def test_a_kill_with_overwrite_keeps_what_is_new(raw, whole, tmp_path):
    run(raw, tmp_path, seed=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Local, "_save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(raw, tmp_path, overwrite=True)
    run(raw, tmp_path, overwrite=True)
    assert contents(tmp_path) == whole


def test_splits_of_a_run_that_has_not_ended_are_not_read(raw, whole, tmp_path):
    run(raw, tmp_path)
    make = Local.make
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Local, "make", lambda self, *of: (interrupt if of[1].name == "dev" else make)(self, *of)
        )
        with pytest.raises(KeyboardInterrupt):
            run(raw, tmp_path, overwrite=True)
    problem = registry.get_problem(PROBLEM)
    with pytest.raises(UserError, match=rf"Received: datagen.{PROBLEM}.unfinished.json, of one"):
        records.find_shards(problem, "train", tmp_path)
    run(raw, tmp_path, overwrite=True)
    assert len(records.find_shards(problem, "train", tmp_path)) == SHARDS
    assert contents(tmp_path) == whole


def test_what_was_to_be_overwritten_is_not_kept_by_the_next_command(raw, tmp_path):
    vocabulary = tmp_path / "mine" / "subwords"
    run(raw, vocabulary.parent)
    given = next(vocabulary.parent.glob("vocab.*.subwords")).rename(vocabulary)
    options, data = {"vocabularies": dict.fromkeys(SIDES, str(given))}, tmp_path / "data"
    run(raw, data, max_cases=5, **options)
    make = Local.make
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Local, "make", lambda self, *of: (interrupt if of[1].name == "dev" else make)(self, *of)
        )
        with pytest.raises(KeyboardInterrupt):
            run(raw, data, overwrite=True, **options)
    assert not records.are_there(registry.get_problem(PROBLEM), data)
    summary = generate.generate_data(job(raw, data, **options))
    assert {name: each["examples"] for name, each in summary["splits"].items()} == {
        "train": 83,
        "dev": 9,
    }


def test_a_vocabulary_of_a_killed_run_is_not_taken_for_other_text(raw, whole, tmp_path):
    text = tmp_path / "text"
    shutil.copytree(raw, text)
    for path in text.iterdir():
        path.write_text(path.read_text().upper())
    kill("journal.Journal.save", 1, text, tmp_path / "data")
    assert list((tmp_path / "data").glob("vocab.*.subwords"))
    run(raw, tmp_path / "data")
    assert contents(tmp_path / "data") == whole


def interrupt(*args):
    raise KeyboardInterrupt


def half(raw, data, monkeypatch):
    """Leaves a run that was interrupted when it had finished no file."""
    with monkeypatch.context() as patch:
        patch.setattr(blocks.FinishFile, "__call__", interrupt)
        said = []
        with pytest.raises(KeyboardInterrupt):
            generate.generate_data(job(raw, data), report=said.append)
    assert said[-1] == "Interrupted. The same command goes on from here."


def test_other_inputs_make_the_remains_invalid(raw, whole, tmp_path, monkeypatch):
    half(raw, tmp_path, monkeypatch)
    said = run(raw, tmp_path, seed=8)
    assert said[0] == (
        "Not going on with the 5 unfinished files of an earlier run: they were made with another "
        "random_seed (429459, now 8)."
    )
    assert contents(tmp_path) != whole


def test_a_vocabulary_whose_files_were_not_begun_is_not_taken_for_other_text(
    raw, whole, tmp_path, monkeypatch
):
    text = tmp_path / "text"
    shutil.copytree(raw, text)
    for path in text.iterdir():
        path.write_text(path.read_text().upper())
    error = UserError("Expected good samples. Received: a bad one.")
    for stop in (KeyboardInterrupt(), error):
        with monkeypatch.context() as patch:
            patch.setattr(Local, "make", lambda *args, stop=stop: (_ for _ in ()).throw(stop))
            with pytest.raises(type(stop)):
                run(text, tmp_path / "data")
        run(raw, tmp_path / "data")
        assert contents(tmp_path / "data") == whole
        shutil.rmtree(tmp_path / "data")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("raw", "the raw file targets.train.txt has changed since"),
        ("short", f"{PROBLEM}-train-00002-of-00005.unshuffled.incomplete is not whole"),
        ("missing", f"{PROBLEM}-train-00002-of-00005.unshuffled.incomplete is not whole"),
        ("journal", "their record cannot be read"),
    ],
)
def test_remains_that_do_not_fit_are_not_used(raw, whole, tmp_path, monkeypatch, damage, reason):
    half(raw, tmp_path, monkeypatch)
    spill = tmp_path / f"{PROBLEM}-train-00002-of-00005.unshuffled.incomplete"
    if damage == "raw":
        (raw / "targets.train.txt").touch()
    elif damage == "short":
        os.truncate(spill, 40)
    elif damage == "missing":
        spill.unlink()
    else:
        (tmp_path / JOURNAL).write_text('{"settings": 3')
    said = run(raw, tmp_path)
    assert said[0].startswith("Not going on with the ") and said[0].endswith(f": {reason}.")
    assert contents(tmp_path) == whole


@pytest.mark.parametrize("change", ["text", "seed"])
def test_what_a_run_that_is_not_gone_on_with_had_finished_is_made_again(raw, tmp_path, change):
    text, data, fresh = (tmp_path / name for name in ("text", "data", "fresh"))
    shutil.copytree(raw, text)
    kill("blocks.Spill.write", 14, text, data)  # in the dev split
    assert len(list(data.glob("*-train-*-of-*"))) == SHARDS
    options = {"seed": 8} if change == "seed" else {}
    if change == "text":
        for side in ("inputs", "targets"):
            lines = (text / f"{side}.train.txt").read_text().splitlines(keepends=True)
            (text / f"{side}.train.txt").write_text("".join(f"new {line}" for line in lines[9:]))
    said = run(text, data, **options)
    assert said[0].endswith("The 5 that it had finished are made again.")
    run(text, fresh, **options)
    assert contents(data) == contents(fresh)


def test_an_error_behind_a_finished_split_does_not_hide_whose_it_is(raw, tmp_path, monkeypatch):
    text, data, fresh = (tmp_path / name for name in ("text", "data", "fresh"))
    shutil.copytree(raw, text)
    add, bad = blocks.Statistics.add, []

    def fails_in_dev(self, sample):
        if list(data.glob("*-train-*-of-00005")) and not list(data.glob("*-train-*incomplete")):
            bad.append(sample)
            raise UserError("Expected good samples. Received: a bad one.")
        return add(self, sample)

    with monkeypatch.context() as patch:
        patch.setattr(blocks.Statistics, "add", fails_in_dev)
        with pytest.raises(UserError):
            run(text, data)
    assert bad and not list(data.glob("*incomplete")) and (data / JOURNAL).exists()
    (text / "targets.train.txt").write_text((raw / "targets.train.txt").read_text().upper())
    assert run(text, data)[0].endswith("The 5 that it had finished are made again.")
    run(text, fresh)
    assert contents(data) == contents(fresh)


def test_what_is_finished_stays_where_the_split_in_work_has_been_cut(raw, whole, tmp_path):
    kill("blocks.Spill.write", 14, raw, tmp_path)  # in the dev split, a block of which is written
    before = {path: os.stat(path).st_ino for path in tmp_path.glob("*-train-*-of-00005")}
    (spill,) = tmp_path.glob("*-dev-*.unshuffled.incomplete")
    spill.unlink()
    said = run(raw, tmp_path)
    assert said[0].endswith(f": {spill.name} is not whole.")
    assert contents(tmp_path) == whole and len(before) == SHARDS
    assert {path: os.stat(path).st_ino for path in before} == before


def test_a_file_removed_from_a_finished_split_is_made_again(raw, whole, tmp_path, monkeypatch):
    kill("blocks.Spill.write", 14, raw, tmp_path)
    (tmp_path / f"{PROBLEM}-train-00001-of-00005").unlink()
    said = run(raw, tmp_path)
    assert "Only 4 of 5 train files are there: making all of them again." in said
    assert contents(tmp_path) == whole


def test_a_full_disk_keeps_what_is_made_and_names_the_file(raw, whole, tmp_path, monkeypatch):
    begin = blocks.Spill.__init__

    def full(self, paths, sizes=None):
        begin(self, paths, sizes)
        self._files[1].close()
        self._files[1] = open("/dev/full", "wb", buffering=0)

    with monkeypatch.context() as patch:
        patch.setattr(blocks.Spill, "__init__", full)
        with pytest.raises(OSError) as caught:
            run(raw, tmp_path)
    assert caught.value.filename.endswith("train-00001-of-00005.unshuffled.incomplete")
    run(raw, tmp_path)
    assert contents(tmp_path) == whole


def test_bad_samples_leave_no_unfinished_file(raw, tmp_path, monkeypatch):
    def bad(self, sample):
        raise UserError("Expected good samples. Received: a bad one.")

    monkeypatch.setattr(blocks.Statistics, "add", bad)
    with pytest.raises(UserError):
        run(raw, tmp_path)
    assert not list(tmp_path.glob("*incomplete")) and not (tmp_path / JOURNAL).exists()


def test_the_journal_does_not_look_at_its_own_folder(raw, tmp_path, whole):
    for path in raw.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    log = tmp_path / "nohup.out"
    log.touch()
    kill("blocks.FinishFile.__call__", 3, tmp_path, tmp_path)
    (tmp_path / ".git").mkdir()  # nor at hidden ones
    (tmp_path / ".git" / "index").touch()
    log.write_text("killed")  # nor at what the problem does not read
    said = run(tmp_path, tmp_path)
    assert said[0].startswith("Going on where")
    found = journal.raw_files(job(tmp_path, tmp_path))
    assert sorted(found) == sorted(path.name for path in raw.iterdir())
