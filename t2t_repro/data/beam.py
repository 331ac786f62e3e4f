"""t2t-datagen on Apache Beam: the same files, byte for byte, made by many machines.

One worker reads the raw files and numbers the samples, all encode blocks of them, and one worker a
file joins, shuffles and writes it. The data directory and the folder of raw files must be the same
for all workers (a shared file system). Beam itself retries failed parts.
"""

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import process, registry
from t2t_repro.data import generate
from t2t_repro.data.job import Files, Job
from t2t_repro.files import INCOMPLETE, write_json
from t2t_repro.problem import Problem, Sample


class Beam(generate.Local):
    """A cluster, whose workers read the raw files themselves; this machine counts the tokens.

    Args:
        runner: Beam's name of it, such as "FlinkRunner".
        options: Beam's own flags, such as "--flink_master=host:8081".
        load: as `Local`'s.
    """

    def __init__(
        self,
        runner: str,
        options: Sequence[str] = (),
        load: Callable[[str], Problem] = registry.get_problem,
    ):
        super().__init__(process.available_cores(), load)
        self._runner, self._options = runner, options

    def make(self, job: Job, files: Files) -> dict[str, Any]:
        """As `Local`'s."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        paths, load = files.paths, functools.partial(self._load, job.problem.name)
        where = job.data_dir, job.tmp_dir, files.source, job.max_cases
        read = functools.partial(_samples, load, job.seed, where)
        frames = generate.MakeFrames(len(paths), job.data_dir, load)
        stored = f"{paths[0]}.statistics{INCOMPLETE}"
        options = PipelineOptions([f"--runner={self._runner}", *self._options])
        with beam.Pipeline(options=options) as pipeline:
            made = pipeline | beam.Create([None]) | beam.FlatMap(read) | beam.Reshuffle()
            made |= beam.Map(frames)
            none = [(file, (-1, b"")) for file in range(len(paths))]  # every file is written
            nothing = pipeline | "every file" >> beam.Create(none)
            parts = (made | "frames" >> beam.FlatMap(_by_file), nothing) | beam.Flatten()
            _ = parts | beam.GroupByKey() | beam.Map(functools.partial(_finish, files))
            counts = made | "statistics" >> beam.Map(lambda block: block.statistics)
            counts |= beam.CombineGlobally(generate.add_statistics)
            _ = counts | beam.Map(functools.partial(write_json, stored))
        statistics = json.loads(pathlib.Path(stored).read_text(encoding="utf-8"))
        os.unlink(stored)
        return statistics


def _samples(
    load: generate.LoadProblem, seed: int, where: tuple[str, str, str, int], _: None
) -> Iterator[tuple[int, list[Sample]]]:
    """Yields numbered blocks of the samples of a split."""
    problem = load().forward()
    problem.random_seed = seed
    yield from generate.numbered(generate.samples_of(problem, *where))


def _finish(files: Files, number_and_parts: tuple[int, Iterable[tuple[int, bytes]]]) -> None:
    """Writes the file of a number from its parts, which come in any order."""
    number, parts = number_and_parts
    generate.write_file(files, files.paths[number], b"".join(part for _, part in sorted(parts)))


def _by_file(made: generate.Made) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for file, frames in made.frames.items():
        yield file, (made.number, frames)
