"""t2t-datagen on Apache Beam: the same files, byte for byte, made by many machines.

One worker reads the raw files and numbers the samples, all encode blocks of them, and each file is
put together, shuffled and written by one. The data directory and the folder of raw files must be
the same for all workers (a shared file system). Beam itself tries failed parts again.
"""

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import registry
from t2t_repro.data import generate
from t2t_repro.data.job import Files, Job, Track, is_encoded_by_sample
from t2t_repro.files import INCOMPLETE, writing
from t2t_repro.problem import Problem, Sample, Text2TextProblem
from t2t_repro.text import tokenizer


class Beam:
    """A cluster, whose workers read the raw files themselves.

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
        self._runner, self._options, self._load = runner, options, load

    def close(self) -> None:
        """Does nothing: each pipeline ends by itself."""

    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        """As `Local`'s."""
        import apache_beam as beam

        del texts
        read = functools.partial(_texts, self._problem(job), job.data_dir, job.tmp_dir)

        def build(pipeline: Any, store: Any) -> None:
            counts = pipeline | beam.Create([None]) | beam.FlatMap(read) | beam.Reshuffle()
            counts |= beam.Map(tokenizer.count_tokens)
            _ = counts | beam.CombineGlobally(generate.add_counts) | beam.Map(store)

        name = f"{job.problem.dataset_filename()}-counts{INCOMPLETE}"
        return self._run(build, os.path.join(job.data_dir, name))

    def make(self, job: Job, files: Files, track: Track) -> dict[str, Any]:
        """As `Local`'s."""
        import apache_beam as beam

        del track
        paths, load = files.paths, self._problem(job)
        where = job.data_dir, job.tmp_dir, files.source, job.max_cases
        read = functools.partial(_samples, load, job.seed, where)
        are_texts = is_encoded_by_sample(load())
        frames = generate.MakeFrames(len(paths), job.data_dir, load, are_texts)
        finish = functools.partial(_finish, files)

        def build(pipeline: Any, store: Any) -> None:
            made = pipeline | beam.Create([None]) | beam.FlatMap(read) | beam.Reshuffle()
            made |= beam.Map(frames)
            none = [(file, (-1, b"")) for file in range(len(paths))]  # every file is written
            nothing = pipeline | "every file" >> beam.Create(none)
            parts = made | "frames" >> beam.FlatMap(_by_file)
            _ = (parts, nothing) | beam.Flatten() | beam.GroupByKey() | beam.Map(finish)
            counts = made | "statistics" >> beam.Map(lambda block: block.statistics)
            _ = counts | beam.CombineGlobally(generate.add_statistics) | beam.Map(store)

        return self._run(build, f"{paths[0]}.statistics{INCOMPLETE}")

    def _problem(self, job: Job) -> Callable[[], Problem]:
        return functools.partial(self._load, job.problem.name)

    def _run(self, build: Callable[[Any, Any], None], path: str) -> dict[str, Any]:
        """Returns what a pipeline stores in a file."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        options = PipelineOptions([f"--runner={self._runner}", *self._options])
        with beam.Pipeline(options=options) as pipeline:
            build(pipeline, functools.partial(_store, path))
        stored = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        os.unlink(path)
        return stored


def _texts(load: generate.LoadProblem, data_dir: str, tmp_dir: str, _: None) -> Iterator[list[str]]:
    """Yields blocks of the texts that the vocabulary is built from."""
    problem = load().forward()
    assert isinstance(problem, Text2TextProblem), problem
    while other := problem.use_vocab_from_other_problem:
        problem = other
    yield from generate.batched(problem.generate_text_for_vocab(data_dir, tmp_dir), generate.TEXTS)


def _samples(
    load: generate.LoadProblem, seed: int, where: tuple[str, str, str, int], _: None
) -> Iterator[tuple[int, list[Sample]]]:
    """Yields numbered blocks of the samples of a split."""
    problem = load().forward()
    problem.random_seed = seed
    yield from generate.numbered(generate.samples_of(problem, *where))


def _finish(files: Files, number_and_parts: tuple[int, Iterable[tuple[int, bytes]]]) -> None:
    """Writes the file of a number, of its parts, which come in any order."""
    number, parts = number_and_parts
    generate.write_file(files, files.paths[number], b"".join(part for _, part in sorted(parts)))


def _by_file(made: generate.Made) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for file, frames in made.frames.items():
        yield file, (made.number, frames)


def _store(path: str, content: Any) -> None:
    with writing(path) as file:
        json.dump(content, file)
