"""Measuring memory in a new process, because the peak of a process only rises."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError

PACKAGE = Path(__file__).parents[1]  # the folder that holds t2t_repro


def call(module: str, function: str, *arguments: Any) -> Any:
    """Returns what a function returns in a new process; all goes through JSON.

    Args:
        module: its full name.
        function: its name.
        arguments: what it gets.

    Raises:
        UserError: if the process fails; it may be killed for its memory.
    """
    given = ", ".join(map(repr, arguments))
    code = f"import json, {module} as module; print(json.dumps(module.{function}({given})))"
    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise UserError(
            f"Expected {function}({given}) of {module} to run in a process of its own. Received: "
            f"exit code {done.returncode}, {last}. Free some memory, and give the same command "
            "again."
        )
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> int:
    """Returns the most bytes of memory that this process has had at once."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Linux; there getrusage's number begins at that of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
