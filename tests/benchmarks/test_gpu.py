"""benchmarks/gpu.py: its rows, what it says where something is missing, and a tiny one for real."""

import json

import gpu
import pytest

from t2t_repro import cli
from tests import forks

TINY = (
    "--hparams=num_hidden_layers=1,hidden_size=8,filter_size=12,num_heads=2 --batch=3 --src=5 "
    "--tgt=4 --vocab_size=60 --steps=1 --gemm=64"
).split()


def run(*argv, process=None):
    main = lambda args: gpu.main(args, process)  # noqa: E731
    cli.program("", "gpu", "", [gpu.Rows], main)([*argv])


class Machine:
    """Takes the place of the processes: GPUs of a name, on which bfloat16 is twice as fast."""

    def __init__(self, described="2 x NVIDIA H100 80GB HBM3", kind="GPU", fails=()):
        self.described, self.kind, self.fails, self.commands = described, kind, fails, []

    def __call__(self, command):
        self.commands.append(command)
        given = dict(flag.lstrip("-").split("=", 1) for flag in command[1:])
        if given["backend"] in self.fails:
            return {"failure": "ResourceExhausted"}
        rate = 200 * int(given.get("devices", 1)) * (1 + (given.get("precision") == "bfloat16"))
        machine = f"{given['backend']} on {self.described}"
        return {
            "kind": self.kind,
            "machine": machine,
            "gflops": 1e3 * rate,
            "tokens_per_s": 10.0 * rate,
        }


def rows(tmp_path):
    return json.loads((tmp_path / "gpu.json").read_text())


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_row_is_measured_and_the_share_of_the_peak_is_that_of_the_data_sheet(tmp_path):
    machine = Machine()
    run(process=machine)
    found = rows(tmp_path)
    assert len(found) == len(machine.commands) == 6 + 4 + 2
    assert [row["program"] for row in found].count("decode") == 2
    half = [row for row in found if row.get("precision") == "bfloat16"]
    assert {row["mfu"] for row in half} == {round(400 / 989, 4)}  # of each device
    assert not any("mfu" in row for row in found if row.get("precision") == "float32")
    several = [row for row in found if row.get("devices") == 2]
    assert len(several) == 4 and {row["scaling"] for row in several} == {1.0}
    assert "--xla_compile=true" in machine.commands[2]


def test_what_fails_is_a_row_and_the_others_go_on(tmp_path):
    run("--precisions=float32", process=Machine(fails=["jax"]))
    assert [row.get("failure") for row in rows(tmp_path)].count("ResourceExhausted") == 2


@pytest.mark.slow
def test_a_tiny_one_on_this_machine(tmp_path, monkeypatch):
    def start(command, **_):
        _, program, *flags = command
        (backend,) = (flag.split("=")[1] for flag in flags if flag.startswith("--backend="))
        return forks.run(program, *flags, KERAS_BACKEND=backend)

    monkeypatch.setattr(gpu, "TRAINING", (("tensorflow", False), ("jax", False)))
    monkeypatch.setattr(gpu.subprocess, "run", start)
    run(*TINY, "--precisions=float32")
    found = rows(tmp_path)
    assert [row.get("failure") for row in found] == [None] * len(found)
    assert all(row["step_ms"] > 0 and row["tokens_per_s"] > 0 for row in found)
