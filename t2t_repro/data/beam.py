"""t2t-datagen on Apache Beam: the same files, byte for byte, made by many machines.

One worker reads the raw files and numbers the samples, all encode blocks of them, and each file is
put together, shuffled and written by one. The data directory and the folder of raw files must be
the same for all workers (a shared file system). Beam itself tries failed parts again; a split is
renamed to its final names by the program that started the pipeline, when all of it is there.
"""

import dataclasses
import functools
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import registry
from t2t_repro.data import blocks
from t2t_repro.data.job import Files, Job
from t2t_repro.data.local import Track
from t2t_repro.data.workers import batched
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, writing
from t2t_repro.problem import Problem, Sample, Text2TextProblem
from t2t_repro.text import vocabulary

RUNNERS = ("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")
_WHOLE = ".whole" + INCOMPLETE  # behind the name of a file that only waits for the others


class Beam:
    """A cluster, whose workers read the raw files themselves.

    Args:
        runner: one of RUNNERS.
        options: Beam's own flags, such as "--flink_master=host:8081".
        load: as `Local`'s.
    """

    def __init__(
        self,
        runner: str,
        options: Sequence[str] = (),
        load: Callable[[str], Problem] = registry.get_problem,
    ):
        if runner not in RUNNERS:
            raise UserError(
                f"Expected --runner to be one of {', '.join(RUNNERS)}. Received: {runner!r}."
            )
        _import()
        self._load = load
        self._runner, self._options = runner, options

    def __enter__(self) -> "Beam":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        """Does nothing: each pipeline ends by itself."""

    def count_tokens(self, job: Job, texts: Iterable[str]) -> dict[str, int]:
        del texts
        beam = _import()
        load = functools.partial(self._load, job.problem.name)
        read = functools.partial(_texts, load, job.data_dir, job.tmp_dir)

        def build(pipeline: Any, store: Any) -> None:
            _ = (
                pipeline
                | beam.Create([None])
                | beam.FlatMap(read)
                | beam.Reshuffle()
                | beam.Map(vocabulary.count_tokens)
                | beam.CombineGlobally(_add_counts)
                | beam.Map(store)
            )

        name = f"{job.problem.dataset_filename()}-counts{INCOMPLETE}"
        return self._run(build, os.path.join(job.data_dir, name))

    def make(self, job: Job, files: Files, track: Track) -> dict[str, Any]:
        del track
        beam, paths = _import(), files.paths
        load = functools.partial(self._load, job.problem.name)
        problem = load()
        where = job.data_dir, job.tmp_dir, files.source
        read = functools.partial(_samples, load, where, job.seed, job.max_cases or None)
        apart = blocks.is_encoded_by_sample(problem)
        encode = blocks.EncodeSamples(load, job.data_dir) if apart else None
        make_file = blocks.FinishFile(job.seed if files.shuffled else None, problem)
        finish = functools.partial(_finish, paths, make_file)

        def build(pipeline: Any, store: Any) -> None:
            made = (
                pipeline
                | beam.Create([None])
                | beam.FlatMap(read)
                | beam.Reshuffle()
                | beam.Map(blocks.MakeFrames(len(paths), encode))
            )
            none = [(file, (-1, b"")) for file in range(len(paths))]  # every file is written
            nothing = pipeline | "every file" >> beam.Create(none)
            parts = made | "frames" >> beam.FlatMap(_by_file)
            _ = (parts, nothing) | beam.Flatten() | beam.GroupByKey() | beam.Map(finish)
            counts = made | "statistics" >> beam.Map(lambda block: block.statistics)
            _ = counts | beam.CombineGlobally(_merge) | beam.Map(store)

        statistics = self._run(build, f"{paths[0]}.statistics{INCOMPLETE}")
        if statistics["examples"]:
            for path in paths:
                os.replace(path + _WHOLE, path)
        return statistics

    def _run(self, build: Callable[[Any, Any], None], path: str) -> dict[str, Any]:
        """Returns what a pipeline stores in a file."""
        beam = _import()
        from apache_beam.options.pipeline_options import PipelineOptions

        options = PipelineOptions([f"--runner={self._runner}", *self._options])
        try:
            with beam.Pipeline(options=options) as pipeline:
                build(pipeline, functools.partial(_store, path))
        except Exception as error:  # each runner has its own kinds
            # Beam puts the names of its steps behind the message of the function that failed.
            message = str(error).partition(" [while running")[0].strip()
            said = message if isinstance(error, UserError) else f"{type(error).__name__}: {message}"
            raise UserError(
                f"Expected the pipeline to run on {self._runner}. Received: {said}"
            ) from error
        stored = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        os.unlink(path)
        return stored


def _texts(load: blocks.LoadProblem, data_dir: str, tmp_dir: str, _: None) -> Iterator[list[str]]:
    """Yields blocks of the texts that the vocabulary is built from."""
    problem = load().forward()
    assert isinstance(problem, Text2TextProblem), problem
    while other := problem.use_vocab_from_other_problem:
        problem = other
    yield from batched(problem.generate_text_for_vocab(data_dir, tmp_dir), blocks.TEXTS)


def _samples(
    load: blocks.LoadProblem, where: tuple[str, str, str], seed: int, most: int | None, _: None
) -> Iterator[tuple[int, list[Sample]]]:
    """Yields numbered blocks of the samples of a split."""
    problem = load().forward()
    problem.random_seed = seed
    apart = blocks.is_encoded_by_sample
    samples = problem.kept_samples if apart(problem) else problem.generate_encoded_samples
    yield from blocks.numbered(itertools.islice(samples(*where), most))


def _finish(
    paths: list[str],
    make_file: blocks.FinishFile,
    file_and_parts: tuple[int, Iterable[tuple[int, bytes]]],
) -> None:
    """Writes a file of its parts, which come in any order."""
    file, parts = file_and_parts
    frames = b"".join(part for _, part in sorted(parts))
    make_file.write(paths[file], frames, paths[file] + _WHOLE)


def _by_file(made: blocks.Made) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for file, frames in made.frames.items():
        yield file, (made.number, frames)


def _merge(parts: Iterable[blocks.Statistics]) -> blocks.Statistics:
    merged = blocks.Statistics()
    for part in parts:
        merged.merge(part)
    return merged


def _add_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        blocks.add_counts(counts, part)
    return counts


def _store(path: str, content: Any) -> None:
    with writing(path) as file:
        json.dump(content if isinstance(content, dict) else dataclasses.asdict(content), file)


def _import() -> Any:
    try:
        import apache_beam
    except ImportError:
        raise UserError(
            "Expected the package apache-beam, which --runner needs. Received: none installed. "
            "Install it: pip install 't2t_repro[beam]'; or leave --runner out: all cores of this "
            "machine are used."
        ) from None
    return apache_beam
