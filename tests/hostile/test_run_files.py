"""The files of a run, broken in every way: a line that names the file, or the checkpoint before."""

import json
import re
import shutil
import struct

import pytest

from t2t_repro.run_directory import RunDirectory

DEEP = "[" * 100_000
NOT_UTF8 = b"\xff\xfe\x00{"
WRONG_SHAPES = {
    "null": "null",
    "list": "[1, 2]",
    "string": '"text"',
    "number": "5",
    "deep": DEEP,
    "not UTF-8": NOT_UTF8,
    "empty": "",
    "half": '{"step": 1, "fi',
    "lone surrogate": '{"step": "\\ud800"}',
}
STATE = {
    "step as text": {"step": "6"},
    "step as float": {"step": 6.0},
    "step null": {"step": None},
    "step a list": {"step": [6]},
    "step of 200 digits": {"step": 10**200},
    "step below 0": {"step": -6},
    "files null": {"files": None},
    "files a list": {"files": ["weights.npz"]},
    "files a text": {"files": "weights.npz"},
    "a size as text": {"files": {"weights.npz": "7"}},
    "extra a list": {"extra": []},
    "extra a text": {"extra": "more"},
    "averaged a number": {"averaged": 3},
    "batches as text": {"batches": "6"},
    "a field too many": {"more": 1},
    "another format": {"format": 2},
}


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def readers(run, tmp_path):
    """The programs that read a run, each with its flags."""
    return {
        "show": [str(run)],
        "evaluator": [f"--output_dir={run}", "--eval_steps=1"],
        "avg_all": [f"--model_dir={run}", f"--output_dir={tmp_path / 'average'}", "--n=2"],
        "decoder": [
            *(f"--output_dir={run}", f"--decode_from_file={tmp_path / 'in'}"),
            *(f"--decode_to_file={tmp_path / 'out'}", "--decode_hparams=beam_size=1"),
        ],
    }


# t2t-show reads the same files by the same code as the others, in a tenth of the time.
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("evaluator", "avg_all", "decoder")]


@pytest.fixture(params=["show", *SLOW])
def reader(request, run, tmp_path):
    (tmp_path / "in").write_text("0 1 1\n")
    return request.param, *readers(run, tmp_path)[request.param]


def go_on(trained, run):
    """The flags of a trainer that continues the run."""
    return [f"--output_dir={run}", f"--data_dir={trained / 'data'}", "--train_steps=8"]


@pytest.mark.parametrize("file", ["run.json", "hparams.json"])
@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_a_description_of_another_shape(call, refused, run, reader, file, shape):
    put(run / file, WRONG_SHAPES[shape])
    refused(call(*reader), file, "Expected", "Received: ")


@pytest.mark.parametrize("file", ["run.json", "hparams.json"])
def test_a_description_that_is_a_folder(call, refused, run, reader, file):
    (run / file).unlink()
    (run / file).mkdir()
    refused(call(*reader), file)


@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_a_broken_state_is_passed_over(call, orderly, run, reader, shape):
    put(run / "checkpoints" / "ckpt-6" / "state.json", WRONG_SHAPES[shape])
    outcome = call(*reader)
    orderly(outcome)
    if reader[0] in ("evaluator", "decoder"):
        assert outcome.code == 0 and re.search("ckpt-4|step 4", outcome.out + outcome.err)
        assert "Skipping a checkpoint that is not whole." in outcome.out + outcome.err


@pytest.mark.parametrize("change", STATE)
def test_a_wrong_field_of_the_state_is_passed_over(call, orderly, run, reader, change):
    file = run / "checkpoints" / "ckpt-6" / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | STATE[change]))
    outcome = call(*reader)
    orderly(outcome)
    if reader[0] in ("evaluator", "decoder"):
        assert outcome.code == 0 and "Skipping a checkpoint that is not whole." in (
            outcome.out + outcome.err
        )


def zip_with(content: bytes, kind: str) -> bytes:
    """An .npz whose entries claim to be something that numpy cannot read."""
    offsets = {"encrypted": (6, 8, 1), "method": (8, 10, 99), "version": (4, 6, 99)}
    local, central, value = offsets[kind]
    changed = bytearray(content)
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        start = changed.find(signature)
        while start >= 0:
            changed[start + offset : start + offset + 2] = struct.pack("<H", value)
            start = changed.find(signature, start + 4)
    return bytes(changed)


ARCHIVES = {
    "encrypted": lambda content: zip_with(content, "encrypted"),
    "unknown method": lambda content: zip_with(content, "method"),
    "unknown version": lambda content: zip_with(content, "version"),
    "a changed byte": lambda content: (
        content[: len(content) // 2]
        + bytes([content[len(content) // 2] ^ 255])
        + content[len(content) // 2 + 1 :]
    ),
    "no zip": lambda content: b"x" * len(content),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_broken_archive_is_passed_over(call, orderly, run, reader, kind):
    file = run / "checkpoints" / "ckpt-6" / "weights.npz"
    put(file, ARCHIVES[kind](file.read_bytes()))
    outcome = call(*reader)
    orderly(outcome)
    if reader[0] in ("evaluator", "decoder"):
        assert outcome.code == 0 and re.search("ckpt-4|step 4", outcome.out + outcome.err)


METRICS = {
    "null": "null",
    "number": "5",
    "string": '"text"',
    "list": "[]",
    "deep": DEEP,
    "not UTF-8": b'{"step": "\xff"}',
    "lone surrogate": '{"step": 1, "split": "\\ud800"}',
    "step as text": '{"kind": "train", "step": "6", "loss": 1.0}',
    "step null": '{"kind": "eval", "step": null, "loss": 1.0}',
    "loss a list": '{"kind": "train", "step": 6, "loss": [1.0]}',
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", METRICS)
def test_a_row_of_the_metrics_of_another_shape(call, refused, orderly, trained, run, shape):
    content = METRICS[shape]
    with open(run / "metrics.jsonl", "ab") as file:
        file.write((content if isinstance(content, bytes) else content.encode()) + b"\n")
    number = len((run / "metrics.jsonl").read_bytes().splitlines())
    refused(call("show", str(run)), f"line {number}", "metrics.jsonl")
    refused(call("trainer", *go_on(trained, run)), f"line {number}", "metrics.jsonl")


@pytest.mark.slow
def test_rows_that_kills_cut_short_are_left_out(call, trained, run):
    rows = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(rows + b'{"kind": "train", "st')
    assert call("show", str(run)).code == 0
    outcome = call("trainer", *go_on(trained, run))
    assert outcome.code == 0, outcome.err
    assert max(row["step"] for row in RunDirectory(run).read_metrics()) == 8


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["null", "list", "string", "number", "deep", "not UTF-8", "half"])
def test_a_broken_ranking_of_the_best(call, orderly, refused, trained, run, tmp_path, shape):
    file = run / "best" / "checkpoints" / "ranking.json"
    put(file, WRONG_SHAPES[shape])
    orderly(call("show", str(run)))
    orderly(call("evaluator", f"--output_dir={run / 'best'}", "--eval_steps=1"))
    flags = [*go_on(trained, run), "--keep_best=2", "--eval_steps=1", "--local_eval_frequency=2"]
    refused(call("trainer", *flags), "ranking.json")


@pytest.mark.slow
@pytest.mark.parametrize("content", [NOT_UTF8, b"", b"[" * 1000])
def test_a_lock_that_says_nothing(call, trained, run, content):
    put(run / "trainer.lock", content)
    assert call("trainer", *go_on(trained, run)).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["null", "deep", "not UTF-8", "list"])
def test_broken_statistics_of_the_data(call, orderly, trained, run, shape):
    put(run / "training-data.json", WRONG_SHAPES[shape])
    orderly(call("show", str(run)))
    assert call("trainer", *go_on(trained, run)).code == 0


def test_without_checkpoints(call, refused, run, reader):
    shutil.rmtree(run / "checkpoints")
    if reader[0] != "show":
        refused(call(*reader), "checkpoint")
