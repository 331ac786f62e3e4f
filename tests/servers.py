"""t2t-server as a process, with a model that reverses letters: no TensorFlow is loaded."""

import contextlib
import re
import subprocess
import sys
import types

from tests.provenances import recorded

# What the model takes for a batch, in seconds, is filled in.
_PROGRAM = """
import sys, time, types
from t2t_repro.bin import server
from t2t_repro.serving import models

class Reversing:
    sha256, has_attention, counts_at_once, longest = "none", False, False, 99

    def __init__(self, folder, record):
        pass

    def count_tokens(self, texts):
        return [1 for text in texts]

    def translate(self, texts, beams):
        print("translating", flush=True)
        time.sleep({seconds})
        return [[models.Hypothesis(text[::-1], -1.0)] for text in texts]

models.SavedModel = Reversing
program = types.SimpleNamespace(share_cores=lambda rows: 1)
sys.modules["t2t_repro.decoding.program"] = program
server.console()
"""


@contextlib.contextmanager
def servers(folder, seconds):
    """Yields what starts a server with flags, and returns its process and its host and port.

    They end with the context. `folder` gets what looks like an export until it is loaded.
    """
    recorded("saved_model").write(folder)
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
