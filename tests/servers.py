"""t2t-server as a process, with a model that reverses letters: no TensorFlow is loaded."""

import contextlib
import re
import subprocess
import sys
import types

# What the model takes for a batch, in seconds, is filled in.
_PROGRAM = """
import time
from t2t_repro.bin import server
from t2t_repro.serving import exported, models

class Reversing:
    sha256, beam_size, alpha, has_attention, longest = "none", 1, 0.6, False, 99
    counts_at_once = False

    def __init__(self, path):
        pass

    def count_tokens(self, texts):
        return [1 for text in texts]

    def translate(self, questions):
        print("translating", flush=True)
        time.sleep({seconds})
        return [[exported.Hypothesis(question.text[::-1], -1.0)] for question in questions]

    def attend(self, pairs):
        raise NotImplementedError

exported.ExportedModel = Reversing
models.searches = lambda max_batch_size: 1
server.console()
"""


@contextlib.contextmanager
def servers(folder, seconds):
    """Yields what starts a server with flags, and returns its process and its host and port.

    They end with the context. `folder` gets what looks like an export until it is loaded.
    """
    (folder / "saved_model.pb").write_bytes(b"no graph")
    program = [sys.executable, "-c", _PROGRAM.format(seconds=seconds), f"--model={folder}"]
    processes = []

    def start(*flags):
        command = [*program, "--port=0", *flags]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        for line in process.stdout:
            if found := re.search(r"Serving .* on http://(.*):(\d+)/ \(Ctrl-C ends it\)", line):
                return types.SimpleNamespace(process=process, address=(found[1], int(found[2])))
        raise AssertionError(process.stderr.read())

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.communicate()
