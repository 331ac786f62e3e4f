"""Measures t2t-datagen: pairs a second beside tensor2tensor's, and memory on a corpus of any size.

  python benchmarks/datagen.py --work_dir=DIR --raw=RAW [--t2t_datagen=T2T_ENV/bin/t2t-datagen]
  python benchmarks/datagen.py --work_dir=DIR --pairs=5000000

RAW holds the four files of the problem text2text_tmpdir. With --pairs the program draws such files
itself: words of a Zipf list, about 25 a sentence. Each run is a process of its own, vocabulary
included; memory is what its whole tree of processes holds (proportional set size, Linux only). One
line of JSON for each run. What is written is removed again.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import string
import subprocess
import sys
import time

import psutil

WORDS = 150_000  # of each language; about half of them occur a few times in a million sentences
LENGTH, DEVIATION = 25, 10  # words a sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work_dir", type=pathlib.Path, required=True, help="for all outputs")
    parser.add_argument("--raw", type=pathlib.Path, help="a folder with the four text files")
    parser.add_argument("--pairs", type=int, default=0, help="draw a corpus of this many pairs")
    parser.add_argument("--t2t_datagen", help="tensor2tensor's program, to run beside ours")
    args = parser.parse_args()
    raw = args.raw or draw_corpus(args.work_dir / "drawn", args.pairs)
    with open(raw / "inputs.train.txt", "rb") as file:
        pairs = sum(1 for _ in file)
    commands = {"t2t_repro": [sys.executable, "-m", "t2t_repro.bin.datagen"]}
    if args.t2t_datagen:
        commands["tensor2tensor"] = [args.t2t_datagen]
    for name, command in commands.items():
        print(json.dumps({"program": name, **measure(command, raw, args.work_dir, pairs)}))
    if not args.raw:
        shutil.rmtree(raw)


def draw_corpus(folder: pathlib.Path, pairs: int) -> pathlib.Path:
    """Writes the files of text2text_tmpdir with `pairs` pairs of drawn sentences."""
    import numpy as np

    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for side in ("inputs", "targets"):
        words = np.array(draw_words(side), object)
        weights = 1 / (np.arange(WORDS) + 2.7)  # Zipf's law as Mandelbrot wrote it
        sums = np.cumsum(weights / weights.sum())
        with open(folder / f"{side}.train.txt", "w", encoding="utf-8") as file:
            for start in range(0, pairs, 20_000):
                count = min(20_000, pairs - start)
                lengths = rng.normal(LENGTH, DEVIATION, count).clip(1, 100).astype(int)
                drawn = words[np.searchsorted(sums, rng.random(lengths.sum())).clip(0, WORDS - 1)]
                ends = np.cumsum(lengths)
                for end, length in zip(ends.tolist(), lengths.tolist(), strict=True):
                    file.write(" ".join(drawn[end - length : end]) + " .\n")
        with open(folder / f"{side}.train.txt", encoding="utf-8") as file:
            lines = [next(file) for _ in range(min(1000, pairs))]
        (folder / f"{side}.eval.txt").write_text("".join(lines), encoding="utf-8")
    return folder


def draw_words(language: str) -> list[str]:
    """Distinct words, the frequent ones short, made of a few hundred syllables."""
    rng = random.Random(language)
    syllables = [
        rng.choice(string.ascii_lowercase) + rng.choice("aeiou") + rng.choice(["", *"nrst"])
        for _ in range(300)
    ]
    found: dict[str, None] = {}
    while len(found) < WORDS:
        count = 1 + min(len(found) // 200, rng.randrange(1, 5))
        word = "".join(rng.choices(syllables, k=count))
        found[word.title() if rng.random() < 0.2 else word] = None
    return list(found)


def measure(command: list[str], raw: pathlib.Path, work: pathlib.Path, pairs: int) -> dict:
    """Runs a datagen program on `raw` in an empty folder; returns times and memory."""
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    flags = ["--problem=text2text_tmpdir", f"--tmp_dir={raw}", f"--data_dir={out}"]
    root = pathlib.Path(__file__).parents[1]
    env = None
    if "-m" in command:  # ours
        flags += ["--t2t_exact", "--nocheck_data"]
        env = {**os.environ, "PYTHONPATH": str(root)}
    with open(work / "log", "wb") as log:
        before = os.times()
        started = time.perf_counter()
        process = subprocess.Popen([*command, *flags], stderr=log, stdout=log, env=env)
        sizes = [0]
        while process.poll() is None:
            sizes.append(tree_memory(process.pid))
            time.sleep(0.1 if pairs < 200_000 else 2)
        seconds = time.perf_counter() - started
        after = os.times()
    if process.returncode:
        sys.exit((work / "log").read_text(errors="replace"))
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    shutil.rmtree(out)
    return {
        "pairs": pairs,
        "seconds": round(seconds, 2),
        "pairs_per_second": round(pairs / seconds),
        "cpu_seconds": round(cpu, 2),
        "peak_mib": round(max(sizes) / 2**20),
    }


def tree_memory(pid: int) -> int:
    """The bytes that a process and all below it hold, shared pages divided among their users."""
    total = 0
    with contextlib.suppress(psutil.Error):  # it has ended
        root = psutil.Process(pid)
        for each in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += each.memory_full_info().pss
    return total


if __name__ == "__main__":
    main()
