"""A study: variants, each with several seeds; every run is one of t2t-trainer's."""

import dataclasses
import itertools
import pathlib
from typing import Any, NamedTuple

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.run_directory import RunDirectory

CELLS = "cells"  # the folder of the runs


@dataclasses.dataclass(frozen=True)
class Variant:
    """Settings under a name.

    Attributes:
        name: such as "post-norm"; several may have it, each in a setting of its own.
        hparams_set: its set.
        hparams: all its settings.
        folder: the name of its runs' folders, without the seed.
        depth: layers of the encoder, and as many of the decoder; None: the set's own.
        warmup: steps; 0: none; None: the set's own.
    """

    name: str
    hparams_set: str
    hparams: HParams
    folder: str
    depth: int | None = None
    warmup: int | None = None

    @property
    def setting(self) -> str:
        """Such as "depth 6, warm-up 4,000", without what is the set's own."""
        axes = {"depth": self.depth, "warm-up": self.warmup}
        return ", ".join(f"{name} {value:,}" for name, value in axes.items() if value is not None)

    @property
    def changes(self) -> str:
        """The differences from the set, as t2t-trainer's --hparams."""
        base, own = registry.get_hparams(self.hparams_set), self.hparams
        names = [field.name for field in dataclasses.fields(own)]
        differs = [n for n in names if getattr(own, n) != getattr(base, n) and not own.unused([n])]
        return ",".join(f"{name}={getattr(own, name)}" for name in differs)


class Cell(NamedTuple):
    """A run of a study."""

    variant: Variant
    seed: int

    def __str__(self) -> str:
        parts = (self.variant.setting, self.variant.name, f"seed {self.seed}")
        return ", ".join(filter(None, parts))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The variants, and how their runs are made and measured.

    Attributes:
        problem, data_dir: as t2t-trainer's flags.
        output_dir: the folder of the runs and the report.
        variants: what is compared.
        seeds: how many runs of each; the seeds are 0, 1, ...
        evaluations: how often a run is evaluated and saved on its way.
        bleu_sentences: how many sentences of dev are translated at the end; 0: none.
        flags: more flags of t2t-trainer.
        command: the command line that makes the study, for the report.
    """

    problem: str
    data_dir: str
    output_dir: pathlib.Path
    variants: tuple[Variant, ...]
    seeds: int
    evaluations: int = 8
    bleu_sentences: int = 0
    flags: tuple[str, ...] = ()
    command: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the variants."""
        return list(dict.fromkeys(variant.name for variant in self.variants))

    @property
    def depths(self) -> list[int | None]:
        """The depths of the variants."""
        return list(dict.fromkeys(variant.depth for variant in self.variants))

    @property
    def warmups(self) -> list[int | None]:
        """The warm-ups of the variants."""
        return list(dict.fromkeys(variant.warmup for variant in self.variants))

    @property
    def settings(self) -> list[tuple[int | None, int | None]]:
        """Each (depth, warm-up)."""
        return list(itertools.product(self.depths, self.warmups))

    def cells(self) -> list[Cell]:
        """Returns all runs, seed after seed."""
        return [Cell(v, seed) for seed in range(self.seeds) for v in self.variants]

    def run_of(self, cell: Cell) -> RunDirectory:
        """Returns the run directory of a cell."""
        folder = f"{cell.variant.folder}_seed-{cell.seed}"
        return RunDirectory(self.output_dir / CELLS / folder)

    def begun_with(self, cell: Cell) -> dict[str, str]:
        """Returns the settings that a finished run must have, as {name: Python's text}."""
        own: dict[str, Any] = {"problem": self.problem, "bleu_sentences": self.bleu_sentences}
        own |= dataclasses.asdict(cell.variant.hparams)
        return {name: repr(value) for name, value in own.items()}
