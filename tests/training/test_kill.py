"""A run that is killed with SIGKILL three times ends as one that never was: bit by bit.

benchmarks/kill_resume.py does it twenty times. Here the processes are forked from one that has
imported TensorFlow and computed nothing, which saves most of their time.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
KILLS = 3
PHASES = {"starting", "stepping", "writing", "evaluating"}


class Forked:
    """A t2t-trainer in a fork of this process, with what kill_resume needs of a Popen."""

    def __init__(self, argv, stdout, stderr):
        self.returncode = None
        self._pid = os.fork()
        if self._pid:
            return
        code = 1
        try:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            from t2t_repro import cli
            from t2t_repro.bin import trainer

            flags = argv[argv.index("t2t_repro.trainer") + 1 :]
            cli.run("t2t-trainer", "", trainer.define_flags, trainer.main, flags)
            code = 0
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.stdout.flush()
            os._exit(code)

    def poll(self):
        return self._wait(os.WNOHANG)

    def wait(self):
        return self._wait(0)

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self._pid, signum)

    def _wait(self, options):
        if self.returncode is None:
            pid, status = os.waitpid(self._pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def main(folder):
    import tensorflow  # noqa: F401

    import t2t_repro.bin.trainer
    import t2t_repro.data.pipeline
    import t2t_repro.training.trainer  # noqa: F401

    spec = importlib.util.spec_from_file_location("kill", ROOT / "benchmarks" / "kill_resume.py")
    kill_resume = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill_resume)
    found = kill_resume.measure(
        pathlib.Path(folder), kills=KILLS, steps=40, every=4, seed=3, start=Forked
    )
    print(json.dumps(found))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path_factory.mktemp("kill"))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_run_that_was_killed_ends_as_one_that_was_not(found):
    assert sum(found["phases"].values()) == KILLS and found["phases"].keys() <= PHASES
    assert found["arrays"] > 30 and found["arrays_that_differ"] == []
    assert found["metrics"] == 40 + 10 and found["metrics_equal"] and found["best_equal"]


if __name__ == "__main__":
    main(sys.argv[1])
