"""What data to make: the problem, the raw files, the output files."""

import copy
import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, TypeGuard

from t2t_repro.problem import Problem, Split, Text2TextProblem

# What to do with bad pairs of a corpus: stop at errors, drop them, keep all.
STOP, DROP, KEEP = "stop", "drop", "keep"


@dataclasses.dataclass(frozen=True)
class Files:
    """The files that are made together: those of one split; or of all, if one source feeds them.

    Attributes:
        splits: {split: paths}.
        source: the split whose samples they hold.
        seed: of the order of the samples in a file; None: the source's order.
        packing: `Problem.packed_length` and `packed_spacing`, by which each file is packed.
        total: the number of samples; None: unknown.
    """

    splits: dict[str, list[str]]
    source: str
    seed: int | None
    packing: tuple[int | None, int]
    total: int | None = None

    @property
    def name(self) -> str:
        return "+".join(self.splits)

    @property
    def paths(self) -> list[str]:
        return [path for paths in self.splits.values() for path in paths]


@dataclasses.dataclass(frozen=True)
class Job:
    """What to make.

    Attributes:
        problem: a reversed problem has the files of the forward one.
        data_dir: the folder to write to, `~` allowed.
        tmp_dir: the folder of raw files.
        seed: of the order, and of problems that draw their samples.
        overwrite: make existing files again.
        num_shards: the number of training files; 0: as many as the text fills, or the problem says.
        max_cases: stop each split after this many samples; 0: no limit.
        options: flags for this problem's raw files; see `Problem.prepare_raw_files`.
        vocab_size: about how many subwords to build; 0: as the problem says, or as many as the text
            supports.
        vocabularies: {"inputs": path, "targets": path} of vocabularies of the user's; {}: none.
        check: STOP, DROP or KEEP: check the text first; "": do not.

    Raises:
        UserError: on a `vocab_size` for a problem that builds no subwords, or on `vocabularies`
            that are none or for a problem that takes none.
    """

    problem: Problem
    data_dir: str
    tmp_dir: str
    seed: int = Problem.random_seed
    overwrite: bool = False
    num_shards: int = 0
    max_cases: int = 0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocab_size: int = 0
    vocabularies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    check: str = ""

    def __post_init__(self) -> None:
        problem = copy.copy(self.problem.forward())
        problem.random_seed = self.seed
        if self.vocab_size:
            problem.ask_vocab_size(self.vocab_size)
        if self.vocabularies:
            problem.ask_vocabularies(self.vocabularies)
        object.__setattr__(self, "problem", problem)
        for name in ("data_dir", "tmp_dir"):
            path = pathlib.Path(getattr(self, name)).expanduser()
            object.__setattr__(self, name, os.fspath(path))

    def files(self) -> list[Files]:
        """Returns all files, in the order in which they are made."""
        problem, splits = self.problem, {}
        for entry in problem.dataset_splits:
            split, shards = entry["split"], entry["shards"]
            if split == Split.TRAIN and self.num_shards:
                shards = self.num_shards
            splits[split] = problem.filepaths(split, self.data_dir, shards)
        seed = None if problem.already_shuffled else self.seed
        packing = problem.packed_length, problem.packed_spacing
        if not problem.is_generate_per_split:
            return [Files(splits, Split.TRAIN, seed, packing)]
        return [
            Files({split: paths}, split, seed if split == Split.TRAIN else None, packing)
            for split, paths in splits.items()
        ]


def summary_path(problem: Problem, data_dir: str | os.PathLike) -> pathlib.Path:
    """Returns the path of the JSON file that `generate_data` leaves beside the records."""
    return pathlib.Path(data_dir, f"datagen.{problem.dataset_filename()}.json")


def is_encoded_by_sample(problem: Problem) -> TypeGuard[Text2TextProblem]:
    """Returns whether `sample_encoder` encodes the problem's samples one by one."""
    inherited = Text2TextProblem.generate_encoded_samples
    return getattr(type(problem), "generate_encoded_samples", None) is inherited
