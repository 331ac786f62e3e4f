"""Signals at the very start, once or twice: one line, and the exit code of the signal."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = {
    "trainer": "--problem=algorithmic_reverse_binary40_test --output_dir=run --data_dir=data "
    "--hparams_set=transformer_test --generate_data",
    "bin.datagen": "--problem=algorithmic_reverse_binary40 --data_dir=data --tmp_dir=raw",
    "bin.decoder": "--output_dir=TRAINED/run --decode_interactive",
    "bin.evaluator": "--output_dir=TRAINED/run",
    "bin.exporter": "--output_dir=TRAINED/run --export_dir=export",
    "bin.avg_all": "--model_dir=TRAINED/run --output_dir=average --n=2",
    "bin.bleu": "--translation=/dev/stdin --reference=/dev/stdin",
    "bin.show": "TRAINED/run",
}
# Seconds behind the moment at which Python has begun to load the package.
GAPS = [(0.0,), (0.0, 0.0), (0.0, 0.05), (0.1, 0.1), (0.3, 0.3), (0.2, 0.5)]


def began(process):
    """Waits until the handlers are there; before, a signal ends Python and not the program."""
    mask = 1 << (signal.SIGTERM - 1)
    status = pathlib.Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if line[:6] == "SigCgt")
        if int(caught.split()[1], 16) & mask:
            return
        time.sleep(0.001)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("gaps", GAPS, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_signal_at_the_start(trained, tmp_path, program, gaps, signum):
    flags = PROGRAMS[program].replace("TRAINED", str(trained)).split()
    process = subprocess.Popen(
        [sys.executable, "-m", f"t2t_repro.{program}", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    began(process)
    for gap in gaps:
        time.sleep(gap)
        process.send_signal(signum)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = [line for line in err.decode().splitlines() if line]
    if process.returncode in (0, -signum):  # it was done before, as t2t-show, or at Python's end
        assert "Traceback" not in err.decode(), err
        return
    assert process.returncode == 128 + signum, err
    said = [line for line in lines if f"stopped by {signal.Signals(signum).name}" in line]
    assert len(said) == 1 and "Traceback" not in err.decode(), err
