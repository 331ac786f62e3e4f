"""Record files, damaged in every way: refused with the file and the place, by all who read them."""

import pathlib
import shutil

import pytest

from t2t_repro.data import example, tfrecord
from t2t_repro.data.records import find_shards
from t2t_repro.registry import get_problem
from tests.data.record_files import read_examples, write_examples
from tests.hostile.conftest import PROBLEM

OTHER_FIELD = b"\x0a\x0f\x0a\x0d\x0a\x06inputs\x12\x03\x0a\x01\x61"  # inputs of bytes


def header(length):
    content = length.to_bytes(8, "little")
    return content + tfrecord._CHECKSUM.pack(tfrecord._crc(content))


def cut(size):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def behind(rest):
    return lambda path: path.write_bytes(path.read_bytes() + rest)


def flipped(place):
    def damage(path):
        content = bytearray(path.read_bytes())
        content[place] ^= 0x10
        path.write_bytes(content)

    return damage


def record(number, **features):
    """Gives one record other features; None: without."""

    def damage(path):
        examples = read_examples(path)
        changed = examples[number] | features
        examples[number] = {name: ids for name, ids in changed.items() if ids is not None}
        write_examples(path, examples)

    return damage


def raw(*records):
    return lambda path: path.write_bytes(b"".join(tfrecord.frames(records)))


def a_folder(path):
    path.unlink()
    path.mkdir()


# What is done to a file, and what the message says of it besides its name.
DAMAGE = {
    "cut at byte 1": (cut(1), "byte 0"),
    "cut at byte 8": (cut(8), "byte 0"),
    "cut at byte 11": (cut(11), "byte 0"),
    "cut behind a header": (cut(12), "byte 0"),
    "cut in a record": (cut(40), "byte 0"),
    "cut in a later header": (cut(-10), "byte "),
    "one byte behind": (behind(b"\0"), "record "),
    "a line behind": (behind(b"garbage\n"), "record "),
    "a lot behind": (behind(b"garbage\n" * 100), "byte "),
    "half a header behind": (behind(header(10)[:8]), "record "),
    "a header behind": (behind(header(10)), "record "),
    "2^60 bytes": (behind(header(2**60)), str(2**60 + 16)),
    "2^64-1 bytes": (behind(header(2**64 - 1)), "record "),
    "2^60 bytes at once": (lambda path: path.write_bytes(header(2**60)), str(2**60 + 16)),
    "a length changed": (flipped(0), "byte 0"),
    "a length's checksum changed": (flipped(9), "record at 0"),
    "a record changed": (flipped(20), "record at 12"),
    "another format": (lambda path: path.write_text("0 1 1\t1 1 0\n" * 50), "byte 0"),
    "empty": (cut(0), "without any"),
    "a folder": (a_folder, "to be a file that can be read"),
    "an id below 0": (record(2, inputs=[5, -1, 1]), "-1 in record 2"),
    "a target below 0": (record(0, targets=[-(2**63), 1]), f"{-(2**63)} in record 0"),
    "an id beyond the vocabulary": (record(2, targets=[5, 9999, 1]), "id 9999"),
    "an id beyond 32 bits": (record(1, inputs=[2**32 + 5, 1]), f"id {2**32 + 5}"),
    "the largest id": (record(1, inputs=[2**63 - 1]), f"id {2**63 - 1}"),
    "no targets": (record(3, targets=None), "'targets'"),
    "no features": (record(3, inputs=None, targets=None), "'inputs'"),
    "an empty record": (raw(b""), "'inputs'"),
    "no example": (raw(b"\xff\xff"), "other records"),
    "bytes for ids": (raw(OTHER_FIELD), ""),
}
QUICK = ("cut at byte 1", "one byte behind", "2^60 bytes", "an id below 0", "no targets")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DAMAGE]


@pytest.fixture
def data(trained, tmp_path):
    """A copy of the data, to break."""
    return pathlib.Path(shutil.copytree(trained / "data", tmp_path / "data"))


def first_file(data, split):
    return pathlib.Path(find_shards(get_problem(PROBLEM), split, data)[0])


def trainer(data, output):
    return [
        *("trainer", f"--problem={PROBLEM}", "--hparams_set=transformer_test"),
        *(f"--data_dir={data}", f"--output_dir={output}", "--train_steps=2", "--eval_steps=1"),
        *("--hparams=num_hidden_layers=1,batch_size=256", "--samples_every=0"),
    ]


def evaluator(run, data):
    return ["evaluator", f"--output_dir={run}", f"--data_dir={data}", "--eval_steps=1"]


def decoder(run, data):
    return [
        *("decoder", f"--output_dir={run}", f"--data_dir={data}"),
        *("--decode_hparams=beam_size=1,extra_length=1,num_samples=4",),
        f"--decode_to_file={run / 'decoded'}",
    ]


@pytest.mark.parametrize("damage", CASES)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_the_trainer_refuses(call, refused, data, tmp_path, damage, split):
    path = first_file(data, split)
    change, part = DAMAGE[damage]
    change(path)
    outcome = call(*trainer(data, tmp_path / "out"))
    refused(outcome, path.name, "Expected ", "Received: ", part)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", CASES)
@pytest.mark.parametrize("reader", [evaluator, decoder])
def test_who_reads_the_dev_split_refuses(call, refused, data, run, damage, reader):
    path = first_file(data, "dev")
    change, part = DAMAGE[damage]
    change(path)
    refused(call(*reader(run, data)), path.name, "Expected ", "Received: ", part)
    assert not (run / "decoded").exists()


@pytest.mark.parametrize("damage", CASES)
def test_a_process_without_tensorflow_refuses(monkeypatch, data, damage):
    from t2t_repro.data import pipeline
    from t2t_repro.errors import UserError

    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    path = first_file(data, "dev")
    DAMAGE[damage][0](path)
    found = pipeline.read_split(get_problem(PROBLEM), "dev", data)
    with pytest.raises((UserError, OSError)) as caught:
        next(found)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("program", [trainer, evaluator, decoder])
def test_whole_files_are_read(call, data, run, tmp_path, program):
    flags = trainer(data, tmp_path / "out") if program is trainer else program(run, data)
    assert call(*flags).code == 0


def test_a_feature_more_is_no_damage(call, data, tmp_path):
    path = first_file(data, "train")
    examples = [sample | {"more": [-7]} for sample in read_examples(path)]
    path.write_bytes(b"".join(tfrecord.frames(map(example.serialize, examples))))
    assert call(*trainer(data, tmp_path / "out")).code == 0
