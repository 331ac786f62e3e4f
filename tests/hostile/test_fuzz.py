"""Inputs that nobody has thought of, drawn by hypothesis from a fixed seed: done, or one line."""

import importlib
import io
import json
import pathlib
import shutil
import signal
import socket
import tarfile
import zipfile

import pytest
from absl import flags
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from t2t_repro.corpora import archives
from t2t_repro.data import tfrecord
from t2t_repro.errors import UserError
from t2t_repro.serving import app
from t2t_repro.serving.requests import Limits
from t2t_repro.text import raw
from tests.hostile.test_server import ASKED, ask, start  # noqa: F401
from tests.serving.conftest import FakeModel, served

BIN = pathlib.Path(__file__).parents[2] / "t2t_repro" / "bin"
REFUSED = (UserError, OSError)  # what a program says in one line


def fuzzed(examples):
    """The draws of a test: as many as this, the same each time."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


NOWHERE = {  # what lets each program end early, whatever else it is given
    "avg_all": "--model_dir=nowhere",
    "bleu": "--translation=nowhere --reference=nowhere",
    "checkpoint": "import --checkpoint=nowhere --output_dir=elsewhere",
    "check_data": "--source=nowhere --target=nowhere",
    "compare": "--problem=nowhere",
    "datagen": "--problem=nowhere",
    "decoder": "--output_dir=nowhere",
    "distill": "--teacher=nowhere --output_dir=elsewhere",
    "evaluator": "--output_dir=nowhere",
    "experiments": "--name=nowhere",
    "exporter": "--output_dir=nowhere",
    "gains": "--output_dir=nowhere",
    "own_text": "--source=nowhere --target=nowhere --output_dir=elsewhere",
    "paper": "--tables=nowhere",
    "reproduce": "--rows=nowhere --output_dir=elsewhere",
    "score_trees": "--gold=nowhere --predicted=nowhere",
    "server": "--model=nowhere",
    "show": "--output_dir=nowhere",
    "trainer": "--schedule=nowhere --problem=nowhere --output_dir=elsewhere",
    "translate_all": "--model_dir=nowhere --source=nowhere",
    "visualize": "--output_dir=nowhere --source=1",
}
ODD = st.sampled_from(
    [
        *("", "0", "-1", "1e308", "1e400", "nan", "inf", "-inf", "10" * 30, "0x10", "1_000", "²"),
        *("true", "None", "null", "[]", "{}", "a=b", "=", ",", "a,b,,", "=,=", "x=1,x=2", "/", "."),
        *("~", "~nobody", "%s", "{}", "\\", "'", '"', "\n", "\r\n", "\t", "\0", "\u202e", "\udcff"),
        *("/dev/null", "/dev/full", "/dev/stdin", "/proc/self/mem", "a" * 5000, "é", "none/dan"),
    ]
)
VALUES = st.one_of(ODD, st.text(max_size=12), st.integers().map(str), st.floats().map(str))


def test_every_program_is_in_the_table():
    named = {path.stem for path in BIN.glob("*.py") if "cli.program(" in path.read_text("utf-8")}
    assert named == NOWHERE.keys()


@pytest.mark.parametrize("program", NOWHERE)
def test_flags(call, orderly, tmp_path, monkeypatch, program):
    module, known = importlib.import_module(f"t2t_repro.bin.{program}"), flags.FlagValues()
    module.define_flags(known)
    names = st.sampled_from(sorted(known)) | st.text(max_size=8)
    given_flags = st.builds("--{}={}".format, names, VALUES) | st.builds("--{}".format, names) | ODD
    monkeypatch.chdir(tmp_path)

    @fuzzed(25)
    @given(st.lists(given_flags, min_size=1, max_size=3))
    def check(argv):
        # Both before and behind: a flag without a value takes the next word for it.
        nowhere = NOWHERE[program].split()
        orderly(call(program, *nowhere, *argv, *nowhere))

    check()
    assert not (tmp_path / "elsewhere").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
FILES = {
    "run.json": "run.json",
    "hparams.json": "hparams.json",
    "metrics.jsonl": "metrics.jsonl",
    "training-data.json": "training-data.json",
    "state.json": "checkpoints/ckpt-6/state.json",
    "ranking.json": "best/checkpoints/ranking.json",
}


@pytest.mark.parametrize("name", FILES)
def test_json_of_a_run(call, orderly, run, name):
    file = run / FILES[name]
    *before, content = file.read_text().splitlines() if name.endswith("l") else [file.read_text()]
    fields = json.loads(content)

    @fuzzed(30)
    @given(st.data())
    def check(data):
        changed = dict(fields)
        for field in data.draw(st.lists(st.sampled_from(sorted(fields)), max_size=2)):
            changed[field] = data.draw(JSON)
        for field in data.draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)):
            changed.pop(field)
        value = data.draw(st.just(changed) | JSON)
        file.write_text("\n".join([*before, json.dumps(value)]) + "\n")
        orderly(call("show", str(run)))

    check()


@st.composite
def damaged(draw, content):
    """Bytes of which some are changed, cut off, doubled or added; never the same."""
    place, size = draw(st.integers(0, len(content) - 1)), draw(st.integers(1, 40))
    some = draw(st.binary(min_size=1, max_size=20))
    flipped = content[:place] + bytes([content[place] ^ draw(st.integers(1, 255))])
    return draw(
        st.sampled_from(
            [
                flipped + content[place + 1 :],
                content[:place],
                content[:place] + content[place + size :],
                content[:place] + some + content[place:],
                content + some,
                content[:place] + content[max(0, place - size) :],
            ]
        ).filter(lambda changed: changed != content)
    )


def test_records(tmp_path):
    records = [bytes(range(number)) for number in range(30)]
    whole, path = b"".join(tfrecord.frames(records)), tmp_path / "records"

    @fuzzed(400)
    @given(damaged(whole))
    def check(content):
        path.write_bytes(content)
        try:
            found = tfrecord.read(path)
        except REFUSED as error:
            assert str(path) in str(error)
        else:  # it ends between two records, which no reader can know
            assert whole.startswith(content) and b"".join(tfrecord.frames(found)) == content

    check()


TEXTS = {f"dev/file{number}": bytes([97 + number]) * 500 for number in range(3)}


def packed(kind):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in TEXTS.items():
                archive.writestr(zipfile.ZipInfo(name), content)
    else:
        with tarfile.open(fileobj=out, mode=f"w:{kind}") as archive:
            for name, content in TEXTS.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("kind", ["zip", "gz", "bz2", "xz"])
def test_archives(tmp_path, kind):
    path = tmp_path / (f"a.tar.{kind}" if kind != "zip" else "a.zip")
    if not archives.is_archive(path):
        path = tmp_path / "a.tgz"

    @fuzzed(150)
    @given(damaged(packed(kind)))
    def check(content):
        path.write_bytes(content)
        folder = tmp_path / "folder"
        try:
            archives.extract(path, folder, lambda name: True)
        except REFUSED as error:
            assert str(error)
            assert not any(file.is_file() for file in folder.rglob("*"))
        else:
            for file in folder.rglob("*"):
                assert not file.is_file() or file.read_bytes() in TEXTS.values()
        shutil.rmtree(folder, ignore_errors=True)
        assert list(tmp_path.iterdir()) == [path]

    check()


def test_text_files(tmp_path):
    pieces = st.sampled_from(
        [b"\n", b"\r\n", b"\r", b"\t", b"a b", b"\xc3\xa4", b"\xff\xfe", b"\0"]
    )
    path = tmp_path / "text"

    @fuzzed(400)
    @given(st.lists(pieces | st.binary(max_size=6) | st.text().map(str.encode)).map(b"".join))
    def check(content):
        path.write_bytes(content)
        try:
            lines = list(raw.lines(path))
        except REFUSED as error:
            assert str(path) in str(error)
        else:
            content.decode("utf-8")
            assert len(lines) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
            assert not any("\n" in line for line in lines)

    check()


BODIES = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"inputs": JSON | st.lists(st.text(max_size=9), max_size=5) | st.text(max_size=90)},
        optional=dict.fromkeys(
            ["n_best", "alpha", "targets", "split", "model", "q", "source", "target"], JSON
        ),
    ),
).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40)


def test_requests_to_the_app():
    paths = st.sampled_from(["/", "/translate", "/attention", "/healthz", "/metrics", "/x", "//"])
    methods = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "ODD"])
    limits = Limits(max_body_bytes=300, max_sentences=4, max_sentence_tokens=20)
    with TestClient(
        app.create(served(FakeModel()), limits), raise_server_exceptions=False
    ) as client:

        @fuzzed(400)
        @given(st.just("POST") | methods, st.just("/translate") | paths, BODIES)
        def check(method, path, body):
            answer = client.request(method, path, content=body)
            assert answer.status_code in (200, 400, 404, 405, 413), answer.text
            if answer.status_code != 200 and method != "HEAD":
                assert answer.json()["error"]
            elif path == "/translate" and method == "POST":
                asked = json.loads(body)["inputs"]
                found = [entry["input"] for entry in answer.json()["translations"]]
                assert found == ([asked] if isinstance(asked, str) else asked)

        check()


def test_bytes_to_the_server(start):  # noqa: F811
    server = start("--timeout_s=1")

    @fuzzed(300)
    @given(damaged(ASKED * 2))
    def check(content):
        with socket.create_connection(server.address, timeout=10) as client:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            try:
                answer = client.recv(100_000)
            except OSError:
                answer = b""
            assert b" 500 " not in answer[:20]

    check()
    assert ask(server.address) == 200
    server.process.send_signal(signal.SIGTERM)
    _, error = server.process.communicate(timeout=20)
    assert server.process.returncode == 0 and error == ""
