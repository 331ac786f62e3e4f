"""Outputs that would destroy something are refused before the work; devices and links stay."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.hostile.conftest import PROBLEM

TREE = "(S (NP (DT the) (NN dog)) (VP (VB runs)))"
TEXT = {
    "source": "0 1 1\n",
    "reference": "1 1 0\n",
    "pairs": "0 1 1\t1 1 0\n",
    "gold": TREE + "\n",
    "predicted": TREE + "\n",
    "translations/t-5": "1 1 0\n",
    "t.incomplete": "1 1 0\n",
    "source001": "0 1 1\n",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the texts, and links to them, in which the programs run."""
    (tmp_path / "translations").mkdir()
    for name, text in TEXT.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("source")
    (tmp_path / "hard").hardlink_to(tmp_path / "reference")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state(folder: pathlib.Path) -> dict[str, str]:
    """What lies below a folder: the target of each link, the digest of each file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


TEXTS = {  # without a run: the program, its flags, and what the line says
    "bleu: reference": (
        "bleu --translation=source --reference=reference --json_file=reference",
        "Expected --json_file to be another file than --reference.",
    ),
    "bleu: translation": (
        "bleu --translation=source --reference=reference --json_file=./source",
        "--json_file to be another file than --translation. Received: ./source and source",
    ),
    "bleu: a link": (
        "bleu --translation=source --reference=reference --json_file=link",
        "--json_file to be another file than --translation. Received: link and source",
    ),
    "bleu: a hard link": (
        "bleu --translation=source --reference=reference --json_file=hard",
        "--json_file to be another file than --reference.",
    ),
    "bleu: what grows": (
        "bleu --translation=t.incomplete --reference=reference --json_file=t",
        "another file than --translation. Received: t and t.incomplete",
    ),
    "bleu: one of many": (
        "bleu --translations_dir=translations --reference=reference --json_file=translations/t-5",
        "another file than t-5 of --translations_dir.",
    ),
    "bleu: the last step": (
        "bleu --translations_dir=translations --reference=events/last_evaluated_step.txt"
        " --event_dir=events",
        "Expected the last step in --event_dir to be another file than --reference.",
    ),
    "score_trees: gold": (
        "score_trees --gold=gold --predicted_tags=predicted --trees_file=gold",
        "Expected --trees_file to be another file than --gold.",
    ),
    "score_trees: predicted": (
        "score_trees --gold=gold --predicted=predicted --csv_file=predicted",
        "Expected --csv_file to be another file than --predicted.",
    ),
    "score_trees: tags": (
        "score_trees --gold=gold --predicted_tags=predicted --json_file=predicted",
        "Expected --json_file to be another file than --predicted_tags.",
    ),
    "score_trees: each other": (
        "score_trees --gold=gold --predicted=predicted --csv_file=x --json_file=./x",
        "Expected --csv_file to be another file than --json_file.",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_what_is_read_is_not_written(call, refused, here, case):
    command, message = TEXTS[case]
    before = state(here)
    refused(call(*command.split()), message, "Received: ", "Name another.")
    assert state(here) == before


SCORED = "--decode_to_file=out --decode_json_file"
DECODER = {
    "the source": (
        "--decode_from_file=source --decode_to_file=source",
        "--decode_to_file to be another file than --decode_from_file.",
    ),
    "a link to it": (
        "--decode_from_file=source --decode_to_file=link",
        "--decode_to_file to be another file than --decode_from_file.",
    ),
    "by a link": (
        "--decode_from_file=link --decode_to_file=source",
        "--decode_to_file to be another file than --decode_from_file.",
    ),
    "the source of a shard": (
        "--decode_from_file=source --decode_to_file=./source --decode_hparams=shards=2,shard_id=1",
        "Received: ./source001 and source001, which is the same.",
    ),
    "the beginnings": (
        "--decode_from_file=source --partial_targets_file=reference --decode_to_file=reference",
        "--decode_to_file to be another file than --partial_targets_file.",
    ),
    "the reference": (
        "--decode_from_file=source --decode_reference=reference --decode_to_file=hard",
        "--decode_to_file to be another file than --decode_reference.",
    ),
    "the pairs": (
        "--score_file=pairs --decode_to_file=pairs",
        "--decode_to_file to be another file than --score_file.",
    ),
    "the pairs as JSON": (
        f"--score_file=pairs {SCORED}=pairs",
        "--decode_json_file to be another file than --score_file.",
    ),
    "the source as JSON": (
        f"--decode_from_file=source {SCORED}=source",
        "--decode_json_file to be another file than --decode_from_file.",
    ),
    "text and JSON": (
        f"--decode_from_file=source {SCORED}=out",
        "--decode_json_file to be another file than --decode_to_file. Received: out for both.",
    ),
    "scores and JSON": (
        f"--score_file=pairs {SCORED}=./out",
        "--decode_json_file to be another file than --decode_to_file.",
    ),
    "the journal": (
        f"--decode_from_file=source {SCORED}=out.incomplete.json",
        "--decode_json_file to be another file than --decode_to_file.",
    ),
    "what grows": (
        "--decode_from_file=t.incomplete --decode_to_file=t",
        "--decode_to_file to be another file than --decode_from_file.",
    ),
    "the targets of a dataset": (
        "--decode_to_file=x --decode_reference=REFERENCE",
        "the file of the targets to be another file than --decode_reference.",
    ),
    "a checkpoint": (
        "--decode_from_file=source --decode_to_file=run/checkpoints/ckpt-6/weights.npz",
        "--decode_to_file to be a file of your own.",
    ),
    "what the run is": (
        f"--decode_from_file=source {SCORED}=run/hparams.json",
        "--decode_json_file to be a file of your own.",
    ),
    "a device to be scored": (
        "--decode_from_file=source --decode_reference=reference --decode_to_file=/dev/null",
        "--decode_reference scores what stands in --decode_to_file.",
    ),
}


@pytest.mark.parametrize("case", DECODER)
def test_the_decoder_destroys_nothing(call, refused, here, run, case):
    flags, message = DECODER[case]
    name = f"x.transformer.transformer_test.{PROBLEM}.beam4.alpha0.6.targets"
    (here / name).write_text("1 1 0\n")
    flags = flags.replace("REFERENCE", name)
    before = state(here)
    refused(call("decoder", "--output_dir=run", *flags.split()), message, "Received: ", "ame a")
    assert state(here) == before


RUNS = {  # beside the run: another one, an average of that, and a folder with nothing
    "another run": ("--output_dir=other", "Received: other, whose ckpt-2 was trained. Name"),
    "its best": ("--output_dir=run/best", "Received: run/best, whose ckpt-"),
    "its checkpoints": ("--output_dir=run/checkpoints", "in the checkpoints of"),
    "in its checkpoints": ("--output_dir=run/checkpoints/ckpt-6", "in the checkpoints of"),
    "another's checkpoints": ("--output_dir=other/checkpoints/new", "in the checkpoints of"),
    "by a link": ("--output_dir=linked", "Received: linked, whose ckpt-2 was trained. Name"),
    "itself by a link": ("--output_dir=itself", "another folder. Received: "),
}


@pytest.mark.parametrize("case", RUNS)
def test_averages_replace_no_run(call, refused, here, run, case):
    flag, message = RUNS[case]
    shutil.copytree("run", "other")
    pathlib.Path("linked").symlink_to("other")
    pathlib.Path("itself").symlink_to("run")
    before = state(here)
    refused(call("avg_all", "--model_dir=run", "--n=2", flag), message)
    assert state(here) == before


def test_averages_are_written_again(call, here, run):
    for _ in range(2):
        outcome = call("avg_all", "--model_dir=run", "--output_dir=run/avg", "--n=2")
        assert outcome.code == 0, outcome.err
    averages = sorted(path.name for path in (run / "avg" / "checkpoints").iterdir())
    assert averages == ["ckpt-4", "ckpt-6"]


def decode(run, *flags, **options):
    command = [sys.executable, "-m", "t2t_repro.bin.decoder", f"--output_dir={run}", *flags]
    command += ["--decode_hparams=batch_size=2"]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    return subprocess.run(command, capture_output=True, timeout=300, env=environment, **options)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--decode_from_file=source", "--score_file=pairs", ""])
def test_what_is_no_file_is_written_to(here, run, flag):
    flags = [flag] if flag else []
    done = decode(run, *flags, "--decode_to_file=plain")
    assert done.returncode == 0, done.stderr
    (file,) = (
        path for path in here.glob("plain*") if not path.name.endswith((".inputs", ".targets"))
    )
    lines = file.read_bytes()
    before, device = state(here), os.stat(os.devnull)

    done = decode(run, *flags, "--decode_to_file=/dev/stdout")
    assert done.stdout == lines, (done.stdout, done.stderr)
    done = decode(run, *flags, "--decode_to_file=/dev/null")
    assert done.returncode == 0 and done.stdout == b"", (done.stdout, done.stderr)
    after = os.stat(os.devnull)
    assert (after.st_rdev, after.st_ino) == (device.st_rdev, device.st_ino)
    assert not any(os.path.exists(f"/dev/null{end}") for end in (".incomplete", ".inputs"))
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        done = decode(run, *flags, "--decode_to_file=pipe")
        assert done.returncode == 0 and reader.stdout.read() == lines, done.stderr
    assert pathlib.Path("pipe").is_fifo() and state(here) == before
    if not flag:
        return
    pathlib.Path("points").symlink_to("to")
    assert decode(run, *flags, "--decode_to_file=points").returncode == 0
    assert os.readlink("points") == "to" and pathlib.Path("to").read_bytes() == lines


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_of_ones_own(call, here):
    try:
        os.mknod("null", 0o666 | 0o020000, os.makedev(1, 3))
        pathlib.Path("null").write_text("")
    except OSError:
        pytest.skip("no devices in this folder")
    outcome = call("bleu", "--translation=source", "--reference=reference", "--json_file=null")
    assert outcome.code == 0 and pathlib.Path("null").is_char_device(), outcome.err
    assert not pathlib.Path("null.incomplete").exists()
