"""Kills a training with SIGKILL at random moments, starts it again, and compares the end.

    python benchmarks/kill_resume.py --kills=20 --out=kill-resume.json

A tiny run is made twice: straight through, and killed each time it trains, evaluates, writes a
checkpoint or starts, in turn, at a random moment of that phase, and started again by the same
command, once more when it has ended too. The last checkpoint's weights, slots and seeds, and every
loss and metric of metrics.jsonl, have to be equal bit by bit.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

PHASES = ("stepping", "writing", "evaluating", "starting")
# Three shapes of batches: JAX compiles each.
HPARAMS = "num_hidden_layers=1,batch_size=512,hidden_size=64,filter_size=128,length_bucket_step=1.5"


def command(folder: pathlib.Path, run: str, steps: int, every: int) -> list[str]:
    """Returns the command line of the run; it is the same after each kill."""
    return [
        *(sys.executable, "-u", "-m", "t2t_repro.trainer"),
        *("--problem=algorithmic_reverse_binary40_test", "--hparams_set=transformer_test"),
        *(f"--hparams={HPARAMS}", f"--train_steps={steps}", f"--local_eval_frequency={every}"),
        *("--generate_data", f"--data_dir={folder / 'data'}", f"--output_dir={folder / run}"),
        *("--log_step_count_steps=1", "--eval_steps=0", "--keep_checkpoint_max=3", "--keep_best=2"),
    ]


class Trainer:
    """The process, and what it does at the moment as far as can be seen from outside."""

    def __init__(self, argv: list[str], folder: pathlib.Path, every: int):
        self._folder = folder
        self._every = every
        self._step = self._first_step = 0
        self._left_over = self._incomplete()
        self._log = open(folder.with_suffix(".log"), "ab")
        self._seen = self._log.tell()
        self.process = subprocess.Popen(argv, stdout=self._log, stderr=self._log)

    def phase(self) -> str:
        """Returns one of `PHASES`, or "over"."""
        if self.process.poll() is not None:
            return "over"
        if self._incomplete() - self._left_over:
            return "writing"
        with open(self._log.name, encoding="utf-8") as file:
            file.seek(self._seen)
            lines = [line for line in file.read().splitlines() if line.startswith("step ")]
        if not lines:
            return "starting"
        self._step = int(lines[-1].split()[1].split("/")[0])
        self._first_step = self._first_step or self._step
        trained = "| loss" in lines[-1]
        return "evaluating" if trained and self._step % self._every == 0 else "stepping"

    def _incomplete(self) -> set[tuple[str, int]]:
        """Returns the folders of checkpoints that are not whole, those of earlier kills too."""
        found = set()
        for path in self._folder.glob("checkpoints/*.incomplete*"):
            with contextlib.suppress(FileNotFoundError):  # it has been renamed
                found.add((path.name, path.stat().st_ino))
        return found

    def kill_in(self, phase: str, rng: random.Random) -> str:
        """Kills the process in a phase, a random time after it began; returns that of the kill.

        A phase that is not seen within two checkpoints is not waited for any longer.
        """
        while self.phase() not in (phase, "over"):
            if self._step > self._first_step + 2 * self._every:
                break
            time.sleep(0.0005)
        longest = {"starting": 8.0, "stepping": 1.5, "evaluating": 0.3, "writing": 0.02}
        until = time.monotonic() + rng.uniform(0, longest[phase])
        while time.monotonic() < until and self.phase() == phase:
            time.sleep(0.0005)
        found = self.phase()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return found

    def wait(self) -> None:
        """Lets the run come to its end."""
        if self.process.wait():
            raise SystemExit(f"The trainer left with {self.process.returncode}: {self._log.name}")


def newest(run: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns every array of the newest checkpoint."""
    path = max(run.glob("checkpoints/ckpt-*"), key=lambda path: int(path.name.split("-")[1]))
    arrays = {}
    for file in ("weights.npz", "training.npz"):
        with np.load(path / file) as content:
            arrays |= {f"{path.name}/{file}/{name}": content[name] for name in content.files}
    return arrays


def metrics(run: pathlib.Path) -> list[dict]:
    """Returns the rows of metrics.jsonl without what tells the time."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    clocks = {"time", "tokens_per_second"}
    return [{name: row[name] for name in row if name not in clocks} for row in rows]


def measure(
    folder: pathlib.Path,
    *,
    kills: int,
    steps: int,
    every: int,
    seed: int,
) -> dict:
    """Returns what was hit, and what differs at the end.

    Args:
        folder: gets the data and both runs.
        kills: how often to kill.
        steps: those of the run.
        every: steps between checkpoints.
        seed: decides the moments.
    """
    rng = random.Random(seed)
    started = time.monotonic()
    argv = command(folder, "straight", steps, every)
    Trainer(argv, folder / "straight", every).wait()
    hit: collections.Counter[str] = collections.Counter()
    argv = command(folder, "killed", steps, every)
    for number in range(kills):
        trainer = Trainer(argv, folder / "killed", every)
        phase = trainer.kill_in(PHASES[number % len(PHASES)], rng)
        print(f"kill {number + 1}: while {phase}", file=sys.stderr, flush=True)
        hit[phase] += 1
    for _ in range(2):  # the second time there is nothing left to do
        Trainer(argv, folder / "killed", every).wait()
    one, two = newest(folder / "straight"), newest(folder / "killed")
    differ = [name for name in one | two if one.get(name) is None or two.get(name) is None]
    differ += [n for n in one if n in two and one[n].tobytes() != two[n].tobytes()]
    return {
        "kills": kills,
        "phases": dict(hit),
        "steps": steps,
        "arrays": len(one),
        "arrays_that_differ": differ,
        "metrics": len(metrics(folder / "straight")),
        "metrics_equal": metrics(folder / "straight") == metrics(folder / "killed"),
        "best_equal": ranking(folder / "straight") == ranking(folder / "killed"),
        "seconds": round(time.monotonic() - started, 1),
    }


def ranking(run: pathlib.Path) -> dict:
    """Returns the order of the best checkpoints."""
    return json.loads((run / "best" / "checkpoints" / "ranking.json").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--out", help="a JSON file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            pathlib.Path(folder),
            kills=args.kills,
            steps=args.steps,
            every=args.every,
            seed=args.seed,
        )
    text = json.dumps(found, indent=1)
    print(text)
    if args.out:
        pathlib.Path(args.out).write_text(text + "\n", encoding="utf-8")
    sys.exit(bool(found["arrays_that_differ"]) or not found["metrics_equal"])


if __name__ == "__main__":
    main()
