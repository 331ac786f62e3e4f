"""What t2t-datagen does with a block of samples or with one file, here or in another process.

Nothing here loads TensorFlow.
"""

import array
import dataclasses
import os
import pathlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeGuard

from t2t_repro.data import packing, tfrecord
from t2t_repro.data.workers import batched
from t2t_repro.files import INCOMPLETE, writing
from t2t_repro.problem import Problem, Sample, Text2TextProblem
from t2t_repro.text.encoders import EOS_ID

SAMPLES, TEXTS = 1000, 4000  # in a block
UNSHUFFLED = ".unshuffled" + INCOMPLETE  # behind a file's name, until all samples are in the files
SIDES = ("inputs", "targets")

LoadProblem = Callable[[], Problem]


@dataclasses.dataclass
class Statistics:
    """Counts of examples, by side. Tokens include the end of sentence; bytes are of the text in
    UTF-8, 0 where samples are no texts."""

    examples: int = 0
    tokens: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    longest: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    empty: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    bytes: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(SIDES, 0))

    def add(self, sample: Sample) -> None:
        self.examples += 1
        for side in SIDES:
            length = len(sample[side])
            self.tokens[side] += length
            self.longest[side] = max(self.longest[side], length)
            self.empty[side] += length == 1 and sample[side][0] == EOS_ID

    def add_text(self, sample: Sample) -> None:
        for side in SIDES:
            self.bytes[side] += len(sample[side].encode("utf-8", "surrogatepass"))

    def merge(self, other: "Statistics") -> None:
        self.examples += other.examples
        for side in SIDES:
            self.tokens[side] += other.tokens[side]
            self.longest[side] = max(self.longest[side], other.longest[side])
            self.empty[side] += other.empty[side]
            self.bytes[side] += other.bytes[side]


class Made(NamedTuple):
    """What becomes of a block: the number of its first sample, and {file: frames in a row}."""

    number: int
    frames: dict[int, bytes]
    statistics: Statistics


class EncodeSamples:
    """Samples of text to samples of ids, in a process that loads the vocabulary once."""

    def __init__(self, load_problem: LoadProblem, data_dir: str):
        self._load_problem = load_problem
        self._data_dir = data_dir
        self._encode: Callable[[Sample], Sample] | None = None

    def __getstate__(self) -> dict:
        return {**vars(self), "_encode": None}

    def __call__(self, samples: list[Sample]) -> list[Sample]:
        if self._encode is None:
            problem = self._load_problem().forward()
            assert isinstance(problem, Text2TextProblem), problem
            self._encode = problem.sample_encoder(self._data_dir)
        return [self._encode(sample) for sample in samples]


class MakeFrames:
    """A numbered block of samples to the bytes that each file gets of it.

    Args:
        num_files: sample number n goes to file n % num_files, as T2T deals them.
        encode: makes ids of texts; None where they are ids.
    """

    def __init__(self, num_files: int, encode: EncodeSamples | None = None):
        self._num_files = num_files
        self._encode = encode

    def __call__(self, block: tuple[int, list[Sample]]) -> Made:
        number, samples = block
        statistics = Statistics()
        if self._encode is not None:
            texts, samples = samples, self._encode(samples)
            for sample in texts:
                statistics.add_text(sample)
        for sample in samples:
            statistics.add(sample)
        frames = tfrecord.frames(map(tfrecord.serialize, samples))
        count = self._num_files
        firsts = range(min(count, len(frames)))
        of_files = {(number + i) % count: b"".join(frames[i::count]) for i in firsts}
        return Made(number, of_files, statistics)


class FinishFile:
    """A file's frames in the order of their numbers become the file, which then has its name.

    Args:
        seed: of the order; None keeps it. The file must fit into memory.
        problem: says whether, and how, the samples of a file are packed.
    """

    def __init__(self, seed: int | None, problem: Problem):
        self._seed = seed
        self._packed = problem.packed_length, problem.packed_spacing

    def __call__(self, path: str) -> None:
        if self._seed is None and not self._packed[0]:
            os.replace(path + UNSHUFFLED, path)
            return
        self.write(path, pathlib.Path(path + UNSHUFFLED).read_bytes(), path)
        os.unlink(path + UNSHUFFLED)

    def write(self, path: str, frames: bytes, to: str) -> None:
        """Writes the file `to`: the frames of `path` in the order that seed and name give.

        Each file is packed by itself, after it was shuffled, as in T2T (generate_data's extra_fn).
        """
        bounds = array.array("Q", tfrecord.bounds(frames))
        order = list(range(len(bounds) - 1))
        if self._seed is not None:
            random.Random(f"{self._seed} {os.path.basename(path)}").shuffle(order)
        ordered = (frames[bounds[i] : bounds[i + 1]] for i in order)
        length, spacing = self._packed
        with writing(to, "wb") as file:
            if not length:
                file.writelines(ordered)
                return
            samples = (tfrecord.lists(tfrecord.content(frame)) for frame in ordered)
            packed = packing.pack(samples, length, spacing)
            for block in batched(packed, SAMPLES):
                file.writelines(tfrecord.frames(map(tfrecord.serialize, block)))


def is_encoded_by_sample(problem: Problem) -> TypeGuard[Text2TextProblem]:
    """Whether the problem leaves it to `sample_encoder` to encode its samples one by one."""
    inherited = Text2TextProblem.generate_encoded_samples
    return getattr(type(problem), "generate_encoded_samples", None) is inherited


def numbered(samples: Iterable[Sample]) -> Iterator[tuple[int, list[Sample]]]:
    """Yields (number of the first, samples): blocks of SAMPLES."""
    start = 0
    for block in batched(samples, SAMPLES):
        yield start, block
        start += len(block)


def add_counts(counts: dict[str, int], more: dict[str, int]) -> None:
    """Adds `more` to `counts`."""
    for token, count in more.items():
        counts[token] = counts.get(token, 0) + count
