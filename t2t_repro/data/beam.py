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
        name = f"{job.problem.dataset_filename()}-counts{INCOMPLETE}"
        path = os.path.join(job.data_dir, name)
        load = functools.partial(self._load, job.problem.name)

        def build(pipeline: Any) -> None:
            _ = (
                pipeline
                | beam.Create([None])
                | beam.FlatMap(_Texts(load, job.data_dir, job.tmp_dir))
                | beam.Reshuffle()
                | beam.Map(vocabulary.count_tokens)
                | beam.CombineGlobally(_add_counts)
                | beam.Map(functools.partial(_store, path))
            )

        self._run(build)
        try:
            return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        finally:
            os.unlink(path)

    def make(self, job: Job, files: Files, track: Track) -> dict[str, Any]:
        del track
        beam, paths = _import(), files.paths
        load = functools.partial(self._load, job.problem.name)
        read = _Samples(
            load, job.data_dir, job.tmp_dir, files.source, job.seed, job.max_cases or None
        )
        encode = blocks.EncodeSamples(load, job.data_dir) if read.encodes_apart() else None
        seed = job.seed if files.shuffled else None
        finish = _Finish(paths, blocks.FinishFile(seed, load()))
        statistics_path = f"{paths[0]}.statistics{INCOMPLETE}"

        def build(pipeline: Any) -> None:
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
            _ = (
                made
                | "statistics" >> beam.Map(_statistics)
                | beam.CombineGlobally(_merge)
                | beam.Map(functools.partial(_store, statistics_path))
            )

        self._run(build)
        try:
            statistics = json.loads(pathlib.Path(statistics_path).read_text(encoding="utf-8"))
        finally:
            os.unlink(statistics_path)
        if statistics["examples"]:
            for path in paths:
                os.replace(path + _WHOLE, path)
        return statistics

    def _run(self, build: Callable[[Any], None]) -> None:
        beam = _import()
        from apache_beam.options.pipeline_options import PipelineOptions

        options = PipelineOptions([f"--runner={self._runner}", *self._options])
        try:
            with beam.Pipeline(options=options) as pipeline:
                build(pipeline)
        except Exception as error:  # each runner has its own kinds
            # Beam puts the names of its steps behind the message of the function that failed.
            message = str(error).partition(" [while running")[0].strip()
            said = message if isinstance(error, UserError) else f"{type(error).__name__}: {message}"
            raise UserError(
                f"Expected the pipeline to run on {self._runner}. Received: {said}"
            ) from error


@dataclasses.dataclass
class _Texts:
    """Blocks of the texts that the vocabulary is built from."""

    load: blocks.LoadProblem
    data_dir: str
    tmp_dir: str

    def __call__(self, _: None) -> Iterator[list[str]]:
        problem = self.load().forward()
        assert isinstance(problem, Text2TextProblem), problem
        while other := problem.use_vocab_from_other_problem:
            problem = other
        texts = problem.generate_text_for_vocab(self.data_dir, self.tmp_dir)
        yield from batched(texts, blocks.TEXTS)


@dataclasses.dataclass
class _Samples:
    """Numbered blocks of the samples of a split."""

    load: blocks.LoadProblem
    data_dir: str
    tmp_dir: str
    source: str
    seed: int
    most: int | None

    def encodes_apart(self) -> bool:
        """Whether the samples are texts, to be encoded by others."""
        return blocks.is_encoded_by_sample(self.load())

    def __call__(self, _: None) -> Iterator[tuple[int, list[Sample]]]:
        yield from blocks.numbered(itertools.islice(self._samples(), self.most))

    def _samples(self) -> Iterable[Sample]:
        problem = self.load().forward()
        problem.random_seed = self.seed
        where = self.data_dir, self.tmp_dir, self.source
        if self.encodes_apart():
            assert isinstance(problem, Text2TextProblem), problem
            return problem.kept_samples(*where)
        return problem.generate_encoded_samples(*where)


@dataclasses.dataclass
class _Finish:
    """The parts of a file, in any order, to the file."""

    paths: list[str]
    finish: blocks.FinishFile

    def __call__(self, file_and_parts: tuple[int, Iterable[tuple[int, bytes]]]) -> None:
        file, parts = file_and_parts
        frames = b"".join(part for _, part in sorted(parts))
        path = self.paths[file]
        self.finish.write(path, frames, path + _WHOLE)


def _by_file(made: blocks.Made) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for file, frames in made.frames.items():
        yield file, (made.number, frames)


def _statistics(made: blocks.Made) -> dict[str, Any]:
    return dataclasses.asdict(made.statistics)


def _merge(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged = blocks.Statistics()
    for part in parts:
        merged.merge(blocks.Statistics(**part))
    return dataclasses.asdict(merged)


def _add_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        blocks.add_counts(counts, part)
    return counts


def _store(path: str, content: dict) -> None:
    with writing(path) as file:
        json.dump(content, file)


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
