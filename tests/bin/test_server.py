"""The program: what it hears, and how it ends."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from t2t_repro.bin import decoder, exporter, server
from t2t_repro.serving import models
from t2t_repro.serving.server import listen, warn_of_reach
from tests.programs import call
from tests.provenances import recorded


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What the program sets does not outlive a test; nor are there threads to be shared out."""
    monkeypatch.setattr("t2t_repro.decoding.program.share_cores", lambda rows: 1)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "")
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")


@pytest.fixture
def folder(tmp_path):
    """What looks like an export until it is loaded."""
    recorded("saved_model").write(tmp_path)
    return tmp_path


@pytest.mark.parametrize("given", [None, "1"])
def test_onednn_is_off_unless_asked_for(given, folder, monkeypatch):
    """Its kernels would make the memory grow with each shape."""
    seen = []

    def load(folder, record):
        seen.append(os.environ.get("TF_ENABLE_ONEDNN_OPTS"))
        raise SystemExit

    monkeypatch.setattr(models, "SavedModel", load)
    if given:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
    with pytest.raises(SystemExit):
        flags = [f"--model={folder}", "--port=0"]
        server.console(flags)
    assert seen == [given or "0"]


@pytest.mark.parametrize("address, warned", [("127.0.0.1", False), ("::", True)])
def test_a_warning_where_others_can_ask(address, warned, capsys):
    warn_of_reach(address)
    assert (address in capsys.readouterr().err) == warned


def test_a_connection_waits_for_no_full_packet():
    """An answer's body would come 40 ms after its head."""
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        with sock.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# A model that takes its time and reverses letters; no TensorFlow is loaded.
REVERSING = """
import sys, time, types
from t2t_repro.bin import server
from t2t_repro.serving import models
from t2t_repro.serving.server import warn_of_reach

class Reversing:
    sha256, has_attention, counts_at_once, longest = "none", False, False, 99

    def __init__(self, folder, record):
        pass

    def count_tokens(self, texts):
        return [1 for text in texts]

    def translate(self, texts, beams):
        print("translating", flush=True)
        time.sleep(0.5)
        return [[models.Hypothesis(text[::-1], -1.0)] for text in texts]

models.SavedModel = Reversing
program = types.SimpleNamespace(share_cores=lambda rows: 1)
sys.modules["t2t_repro.decoding.program"] = program
server.console()
"""


WITHOUT_TENSORFLOW = """
import sys
from t2t_repro.bin import server
sys.modules.update(tensorflow=None, keras=None)  # whoever imports them fails
server.console()
"""


@contextlib.contextmanager
def serving(code, folder):
    """The program as a process, with its host and port."""
    command = [sys.executable, "-c", code, f"--model={folder}", "--port=0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        for line in process.stdout:
            if found := re.search(r"Serving .* on http://(.*):(\d+)/ ", line):
                break
        yield process, (found[1], int(found[2]))
        process.kill()


@pytest.fixture
def started(folder):
    with serving(REVERSING, folder) as process_and_address:
        yield process_and_address


def ask(address, text):
    body = json.dumps({"inputs": text}).encode()
    url = "http://{}:{}/translate".format(*address)
    with urllib.request.urlopen(url, body, timeout=30) as answer:
        return json.load(answer)["translations"][0]["translation"]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_lets_it_answer_what_it_was_asked_and_end(started, signum):
    process, address = started
    assert address[0] == "127.0.0.1"
    answers = []
    asking = threading.Thread(target=lambda: answers.append(ask(address, "abc")))
    asking.start()
    assert process.stdout.readline() == "translating\n"
    process.send_signal(signum)
    assert process.communicate(timeout=30)[1] == ""
    asking.join()
    assert answers == ["cba"] and process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        ask(address, "abc")


def test_clients_that_break_off_or_send_no_http(started):
    process, address = started
    broken = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",  # TLS
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        bytes(range(256)) * 4,
        b"",
    ]
    for data in broken:
        with socket.create_connection(address, timeout=10) as client:
            try:
                client.sendall(data)
            except OSError:
                pass  # the server has heard enough
    assert ask(address, "still here") == "ereh llits"
    assert process.poll() is None


@pytest.mark.slow
def test_a_ctranslate2_export_is_served_without_tensorflow(letters, tmp_path):
    folder, source, target = (tmp_path / name for name in ("export", "in", "out"))
    source.write_text("a b\ncab dad bad\n\u00e9\n")
    flags = [f"--output_dir={letters.path}", "--decode_hparams=beam_size=2,extra_length=3"]
    call(exporter, *flags, "--format=ctranslate2", f"--export_dir={folder}")
    flags += ["--engine=ctranslate2", f"--engine_dir={folder}"]
    call(decoder, *flags, f"--decode_from_file={source}", f"--decode_to_file={target}")
    with serving(WITHOUT_TENSORFLOW, folder) as (_, address):
        answers = [ask(address, line) for line in source.read_text().splitlines()]
    assert answers == target.read_text().splitlines() and len(set(answers)) > 1
