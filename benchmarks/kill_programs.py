"""Kills a program with SIGKILL at random moments, starts it again, and compares the end.

    python benchmarks/kill_programs.py --program=decoder --kills=20 --out=kills.json

For t2t-datagen, t2t-decoder, t2t-compare, t2t-exporter, t2t-checkpoint import,
t2t-checkpoint export, t2t-avg-all and t2t-translate-all, each on something tiny (small_jobs.py):
once straight through, and again and again killed at a moment that is drawn from the time that the
straight one took. When one has ended, its end has to be that of the straight one, file by file,
and the next begins anew, until there were as many kills. kill_resume.py does it to t2t-trainer.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import small_jobs

PROGRAMS = [program for program in small_jobs.JOBS if program != "trainer"]
_ENDED = ("which holds files", "Expected no checkpoint of step")  # where the last kill came late


def measure(prepared: pathlib.Path, folder: pathlib.Path, program: str, kills: int, seed: int):
    """Returns what was killed, and what differs at the ends.

    Args:
        prepared: the folder that `small_jobs.prepare` filled.
        folder: gets what the program makes.
        program: one of `PROGRAMS`.
        kills: how often to kill.
        seed: decides the moments.
    """
    rng, log = random.Random(seed), folder / "log"
    started = time.monotonic()
    process = small_jobs.start(program, prepared, folder / "straight", log)
    if process.wait():
        raise SystemExit(process.said())
    seconds = time.monotonic() - started
    straight, to = small_jobs.contents(folder / "straight"), folder / "to"
    differ: set[str] = set()
    killed = ends = 0
    while killed < kills or to.exists():
        process = small_jobs.start(program, prepared, to, log)
        limit = rng.uniform(0, 1.2 * seconds) if killed < kills else None
        code = process.wait(limit)
        if code is None:
            process.kill()
            killed += 1
            print(f"kill {killed}: after {limit:.2f} of {seconds:.2f} s", file=sys.stderr)
            continue
        if code and not (code == 2 and any(words in process.said() for words in _ENDED)):
            raise SystemExit(f"Left with {code}: {process.said()[-3000:]}")
        end = small_jobs.contents(to)
        differ |= {name for name in straight | end if straight.get(name) != end.get(name)}
        differ |= {str(path) for path in to.rglob("*incomplete*")}
        ends += 1
        shutil.rmtree(to)
    return {
        "program": program,
        "kills": killed,
        "ends": ends,
        "files": len(straight),
        "files_that_differ": sorted(differ),
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", choices=[*PROGRAMS, "all"], default="all")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", help="a JSON file")
    args = parser.parse_args()
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    found = []
    with tempfile.TemporaryDirectory() as name:
        prepared = pathlib.Path(name, "prepared")
        small_jobs.prepare(prepared)
        for program in PROGRAMS if args.program == "all" else [args.program]:
            folder = pathlib.Path(name, program)
            folder.mkdir()
            found.append(measure(prepared, folder, program, args.kills, args.seed))
            print(json.dumps(found[-1]), flush=True)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(one["files_that_differ"] for one in found))


if __name__ == "__main__":
    main()
