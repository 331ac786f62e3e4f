"""t2t-trainer as two processes of this host (TF_CONFIG): undisturbed, killed and stopped."""

import contextlib
import json
import os
import pathlib
import re
import socket
import sys
import time

import numpy as np
import pytest

from tests import forks
from tests.training.runs import arrays, assert_same

pytestmark = pytest.mark.slow

PROBLEM = "algorithmic_reverse_binary40_test"
TIMEOUT = 300  # seconds a launch may take; on a machine with nothing else to do it takes ten
NO_DROPOUT = "attention_dropout=0,layer_prepostprocess_dropout=0,relu_dropout=0"
STEPS = 60
OFTEN = 10  # steps from one checkpoint and evaluation to the next


class Launch:
    """t2t-trainer on `workers` processes; the one with index i has the output_dir RUN-i."""

    def __init__(self, folder: pathlib.Path, run: str, overrides: str, workers: int, *flags: str):
        self.folder, self.run, self.processes = folder, run, []
        hparams = "num_hidden_layers=1,batch_size=256,learning_rate_schedule=constant,"
        command = [
            *(sys.executable, "-m", "t2t_repro.trainer", f"--problem={PROBLEM}"),
            f"--hparams={hparams}learning_rate_constant=0.01,{overrides}",
            *("--hparams_set=transformer_test", f"--data_dir={folder / 'data'}"),
            *(f"--train_steps={STEPS}", f"--local_eval_frequency={OFTEN}"),
            *("--log_step_count_steps=1", "--eval_steps=2", *flags),
        ]
        with contextlib.ExitStack() as free:  # ports that are
            found = [socket.create_server(("localhost", 0)) for _ in range(workers)]
            addresses = [f"localhost:{free.enter_context(each).getsockname()[1]}" for each in found]
        own = os.environ | forks.OWN
        for index in range(workers):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": addresses}, "task": task})
            own["TF_CONFIG"] = config if workers > 1 else ""
            output = f"--output_dir={folder / run}-{index}"
            with open(self.log(index), "w") as log:
                process = forks.Popen([*command, output], log, log, own)
            self.processes.append(process)

    def log(self, index: int) -> pathlib.Path:
        return self.folder / f"{self.run}-{index}.log"

    def wait_for_step(self, step: int) -> None:
        """Returns once the chief has said that it made `step`."""
        end = time.monotonic() + TIMEOUT
        while f"step {step}/{STEPS} " not in self.log(0).read_text():
            assert self.processes[0].poll() is None, self.log(0).read_text()[-3000:]
            assert time.monotonic() < end
            time.sleep(0.02)

    def end(self, code: int | None = 0) -> list[str]:
        """Waits; returns what each worker said. They leave with that code; None: with any."""
        try:
            codes = [process.wait(TIMEOUT) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        said = [self.log(index).read_text() for index in range(len(codes))]
        assert code is None or set(codes) == {code}, said
        return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_reversals) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("workers")
    write_reversals(folder / "data", PROBLEM, 400)
    return folder


def weights(run: pathlib.Path, step: int = STEPS) -> dict[str, np.ndarray]:
    return arrays(run / "checkpoints" / f"ckpt-{step}")


def rows(run: pathlib.Path, kind: str) -> list[dict]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def test_two_workers_train_as_one_process_with_two_devices(folder):
    Launch(folder, "two", NO_DROPOUT, 2).end()
    Launch(folder, "one", NO_DROPOUT, 1, "--worker_gpu=2").end()
    two, one = folder / "two-0", folder / "one-0"
    assert not (folder / "two-1").exists()  # the chief alone writes
    assert [row["step"] for row in rows(two, "eval")] == [*range(OFTEN, STEPS + 1, OFTEN)]
    losses = [[row["loss"] for row in rows(run, "train")] for run in (two, one)]
    assert len(losses[0]) == STEPS and losses[0][-1] < losses[0][0] - 0.05
    assert losses[0][:20] == pytest.approx(losses[1][:20], rel=1e-5)
    start, last = weights(one, OFTEN), weights(one)
    for name, value in weights(two, OFTEN).items():
        np.testing.assert_allclose(value, start[name], rtol=0, atol=1e-5, err_msg=name)
    assert max(np.abs(last[name] - start[name]).max() for name in last) > 0.01


def test_workers_that_were_killed_and_stopped_end_as_if_they_had_not_been(folder):
    dropping = "attention_dropout=0.3"
    Launch(folder, "straight", dropping, 2).end()

    launch = Launch(folder, "halted", dropping, 2)
    launch.wait_for_step(15)
    launch.processes[1].kill()
    killed = time.monotonic()
    assert launch.processes[0].wait(TIMEOUT) != 0
    assert time.monotonic() - killed < 60
    launch.end(code=None)

    launch = Launch(folder, "halted", dropping, 2)
    launch.wait_for_step(25)
    launch.processes[1].terminate()  # this worker alone
    said = launch.end(code=143)
    saved = re.search(r"at step (\d+), saved as", said[0])
    assert f"at step {saved[1]}," in said[1]
    assert 25 <= int(saved[1]) < STEPS
    assert (folder / "halted-0" / "checkpoints" / f"ckpt-{saved[1]}").is_dir()

    said = Launch(folder, "halted", dropping, 2).end()
    assert f"(step {saved[1]})" in said[0]
    straight, halted = folder / "straight-0", folder / "halted-0"
    assert_same(weights(straight), weights(halted))
    for kind in ("train", "eval"):
        one, other = (
            [(row["step"], row["loss"]) for row in rows(run, kind)] for run in (straight, halted)
        )
        assert one == other
