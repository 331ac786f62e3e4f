"""The grid of t2t-compare: runs that differ in depth, warm-up, seed, and in what is compared.

Where sequences are compared, nothing else differs between two cells of one depth, warm-up and
seed: the initial kernels, the batches and their order, the dropout's seeds and the learning rate
are the same. Where sets are compared, all that the sets say differs.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
from typing import Any

from t2t_repro import __version__, registry, schema
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.fields import parse_overrides
from t2t_repro.files import write_text_atomic
from t2t_repro.hparam_rules import OPPONENTS
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.studies.compare.variants import Variant

GRID_FILE = "compare.json"
CELLS = "cells"  # the folder of the runs
RESULT_FILE = "compare-cell.json"  # in a run directory; written last
WARMUP = "linear_warmup"
NAMED_SCHEDULE = "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"
_AXES = ("depths", "warmups", "seeds", "variants", "data_dir")  # may change as it goes on
_FLAGS = {"warmups": "warmup"}  # of fields that are not called as their flag
_DEPTHS = ("num_hidden_layers", "num_encoder_layers", "num_decoder_layers")
_WARMUPS = ("learning_rate_warmup_steps",)
# What decides which of the dev sentences so many batches have.
_BATCHING = (
    *("batch_size", "use_fixed_batch_size", "max_length", "min_length", "min_length_bucket"),
    *("length_bucket_step", "eval_drop_long_sequences", "max_input_seq_length"),
    "max_target_seq_length",
)
_SEQUENCES = ("layer_preprocess_sequence", "layer_postprocess_sequence")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        depth: layers of the encoder, and as many of the decoder; None: as the set has them.
        warmup: steps; 0: none (`Grid.hparams_of` says what that means); None: the set's.
        variant: what is compared, by its name, such as "none/dan".
        seed: of weights, dropout and the order of the data.
    """

    depth: int | None
    warmup: int | None
    variant: str
    seed: int

    def __str__(self) -> str:
        setting = setting_in_words(self.depth, self.warmup)
        return ", ".join([*([setting] if setting else []), self.variant, f"seed {self.seed}"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """A whole comparison.

    Attributes:
        problem, data_dir: as t2t-trainer's flags.
        variants: what is compared.
        hparams: changes of all their sets, as t2t-trainer's flag.
        depths, warmups: the axes of the grid; None: as each set has it.
        seeds: how many runs of each: the seeds are 0, 1, ...
        train_steps: of each run.
        learning_rate_constant: instead of the set's own; None: that.
        evaluations: how often each run is evaluated, and a checkpoint of it measured.
        eval_steps: at most this many batches for an evaluation on the way (`dev_batches`); 0: all.
        bleu_sentences: how many sentences of the dev split are decoded at the end; 0: none.
        decode_hparams: how, as t2t-decoder's flag.
    """

    problem: str
    data_dir: str
    variants: tuple[Variant, ...]
    hparams: str = ""
    depths: tuple[int | None, ...] = (None,)
    warmups: tuple[int | None, ...] = (None,)
    seeds: int
    train_steps: int
    learning_rate_constant: float | None = None
    evaluations: int = 8
    eval_steps: int = 20
    bleu_sentences: int = 0
    decode_hparams: str = ""

    def __post_init__(self):
        for name, least in (("depths", 1), ("warmups", 0)):
            values = [value for value in getattr(self, name) if value is not None]
            given = bool(values) or not getattr(self, name)
            if given and (not values or min(values) < least or len(set(values)) < len(values)):
                raise UserError(
                    f"Expected --{_FLAGS.get(name, name)} to be different numbers, each at least "
                    f"{least}. Received: {','.join(map(str, values))!r}."
                )
        for variant in self.variants:
            self._check_changes(variant)
        for depth, warmup in self.settings():
            for name in self.names:
                self.hparams_of(Cell(depth, warmup, name, 0))

    def _check_changes(self, variant: Variant) -> None:
        """Refuses a change of what the grid sets itself."""
        flags = {"train_steps": "train_steps"}
        flags |= dict.fromkeys(_DEPTHS, "depths") if self.depths != (None,) else {}
        flags |= dict.fromkeys(_WARMUPS, "warmup") if self.warmups != (None,) else {}
        flags |= dict.fromkeys(_SEQUENCES, "sequences") if variant.sequences else {}
        for changes in (self.hparams, variant.hparams):
            for name in sorted(parse_overrides(changes).keys() & flags.keys()):
                raise UserError(
                    f"Expected --hparams without {name}. Received: {changes!r}. "
                    f"--{flags[name]} sets it."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is compared."""
        return tuple(variant.name for variant in self.variants)

    @property
    def dev_batches(self) -> int:
        """At most how many batches an evaluation on the way has, 0: all.

        All, too, where so many would not be of the same sentences in each cell.
        """
        cells = (Cell(*setting, name, 0) for setting in self.settings() for name in self.names)
        batchings = {
            tuple(getattr(self.hparams_of(cell), name) for name in _BATCHING) for cell in cells
        }
        return self.eval_steps if len(batchings) == 1 else 0

    @property
    def of_sequences(self) -> bool:
        """Whether sequences are compared, and nothing else differs."""
        return all(variant.sequences for variant in self.variants)

    def variant(self, name: str) -> Variant:
        """Returns one of them by its name."""
        return self.variants[self.names.index(name)]

    def called(self, name: str) -> str:
        """Returns how a reader knows one of them: "post-norm (none/dan)"."""
        return self.variant(name).described

    def folder(self, cell: Cell) -> str:
        """Returns the name of a cell's folder: "depth-6_warmup-0_none-dan_seed-1"."""
        axes = {"depth": cell.depth, "warmup": cell.warmup}
        setting = [f"{name}-{value}" for name, value in axes.items() if value is not None]
        return "_".join([*setting, self.variant(cell.variant).folder, f"seed-{cell.seed}"])

    def cells(self) -> list[Cell]:
        """Returns all runs: the shallow ones first, seed after seed, so that each seed is whole."""
        return [
            Cell(depth, warmup, name, seed)
            for depth, warmup, seed, name in itertools.product(
                self.depths, self.warmups, range(self.seeds), self.names
            )
        ]

    def hparams_of(self, cell: Cell) -> HParams:
        """Returns the configuration of a cell.

        Where sequences are compared, or a warm-up of 0 or a constant is asked for, T2T's legacy
        "noam" schedule becomes the product of named factors that T2T's own later sets have in its
        place, so that `learning_rate_constant` means the same in all sets (it differs from "noam"
        in that it counts from step, not from step + 1).

        A warm-up of 0 leaves the factor "linear_warmup" out and nothing else: the rate begins at
        the peak that the set's own warm-up would have led to, stays there as long as that, and
        falls then. (T2T's formula with 0 in it would begin at hidden_size**-0.5, some sixty times
        that peak, where nothing learns.) Any other warm-up is T2T's learning_rate_warmup_steps,
        which sets the length of the rise and with it the peak.

        Raises:
            UserError: if the flags do not make a configuration, or its schedule has no warm-up.
        """
        return _hparams_of(self, dataclasses.replace(cell, seed=0))

    def config_of(self, cell: Cell) -> RunConfig:
        """Returns what the run of a cell is; its batch has as many parts as suit the machine."""
        return RunConfig(
            hparams_set=self.variant(cell.variant).hparams_set,
            hparams=self.hparams_of(cell),
            problem=self.problem,
            data_dir=self.data_dir,
            version=__version__,
            random_seed=cell.seed,
        )

    def settings(self) -> list[tuple[int | None, int | None]]:
        """Returns each (depth, warm-up)."""
        return list(itertools.product(self.depths, self.warmups))


@functools.lru_cache(maxsize=1024)
def _hparams_of(grid: Grid, cell: Cell) -> HParams:
    variant = grid.variant(cell.variant)
    hparams = registry.get_hparams(variant.hparams_set, grid.hparams).override(variant.hparams)
    if hparams.effective_batch_size:
        raise UserError(
            "Expected effective_batch_size=0: a step of the comparison is one batch. Received: "
            f"{hparams.effective_batch_size}. Add --hparams=effective_batch_size=0."
        )
    if variant.sequences and hparams.model in OPPONENTS:
        raise UserError(
            "Expected an hparams set of a Transformer, whose sublayers have sequences. Received: "
            f"{variant.hparams_set}, of model={hparams.model}. Compare it by --hparams_sets."
        )
    if variant.sequences or cell.warmup == 0 or grid.learning_rate_constant is not None:
        hparams = _with_named_schedule(hparams)
    if grid.learning_rate_constant is not None:
        hparams = hparams.override(f"learning_rate_constant={grid.learning_rate_constant}")
    if variant.sequences or cell.warmup is not None:
        hparams = _warmed_up(hparams, cell.warmup, variant)
    if cell.depth is not None:
        hparams = dataclasses.replace(
            hparams, num_hidden_layers=cell.depth, num_encoder_layers=0, num_decoder_layers=0
        )
    if variant.sequences:
        before, after = variant.sequences.split("/")
        hparams = dataclasses.replace(
            hparams, layer_preprocess_sequence=before, layer_postprocess_sequence=after
        )
    return dataclasses.replace(hparams, train_steps=grid.train_steps)


def _warmed_up(hparams: HParams, warmup: int | None, variant: Variant) -> HParams:
    """Returns hparams with a warm-up of so many steps."""
    factors = [name.strip() for name in hparams.learning_rate_schedule.split("*")]
    legacy = not variant.sequences and warmup and "legacy" in factors
    if WARMUP not in factors and not legacy:
        raise UserError(
            f"Expected an hparams set whose learning_rate_schedule has the factor {WARMUP}, or "
            f"T2T's noam. Received: {hparams.learning_rate_schedule!r} of {variant.hparams_set}. "
            f'Add --hparams="learning_rate_schedule={NAMED_SCHEDULE}".'
        )
    if warmup:
        return dataclasses.replace(hparams, learning_rate_warmup_steps=warmup)
    kept = "*".join(name for name in factors if name != WARMUP or warmup is None)
    return dataclasses.replace(hparams, learning_rate_schedule=kept)


def setting_in_words(depth: int | None, warmup: int | None) -> str:
    """Returns "depth 6, warm-up 4,000", without what each set has as its own."""
    parts = [f"depth {depth}"] if depth is not None else []
    return ", ".join(parts + ([f"warm-up {warmup:,}"] if warmup is not None else []))


def parse_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Reads "2,6,12".

    Raises:
        UserError: naming the flag, if something in it is no whole number, or nothing is.
    """
    try:
        numbers = tuple(int(piece) for piece in text.split(",") if piece.strip())
        if text and not numbers:
            raise ValueError(text)
        return numbers
    except ValueError as error:
        raise UserError(
            f"Expected --{flag} to be whole numbers with commas between. Received: {text!r}."
        ) from error


def _with_named_schedule(hparams: HParams) -> HParams:
    """Returns hparams with NAMED_SCHEDULE in the place of "noam", and the constant of that."""
    noam = hparams.learning_rate_decay_scheme == "noam"
    if hparams.learning_rate_schedule != "legacy" or not noam:
        return hparams
    from t2t_repro.training import learning_rate

    scale = 5000.0 * learning_rate.correction(hparams)  # both T2T's
    return dataclasses.replace(
        hparams,
        learning_rate_schedule=NAMED_SCHEDULE,
        learning_rate_constant=scale * hparams.learning_rate,
    )


def run_of(output_dir: pathlib.Path, grid: Grid, cell: Cell) -> RunDirectory:
    """Returns the run directory of a cell."""
    return RunDirectory(output_dir / CELLS / grid.folder(cell))


def begin(grid: Grid, output_dir: pathlib.Path) -> None:
    """Writes the grid into `output_dir`, or checks it against the one that is there.

    The axes may have become longer or shorter since; finished cells stay.

    Raises:
        UserError: if another comparison was begun there, or a cell with other hparams, as where the
            definition of a set has changed; what differs is listed. Or if cells that are to be
            trained would be evaluated on other sentences than those that are there.
    """
    file, dev_batches = output_dir / GRID_FILE, grid.dev_batches  # type: pathlib.Path, int | None
    if file.exists():
        old, new = _read(file), _fixed(dataclasses.asdict(grid))
        differs = [
            f"--{_FLAGS.get(name, name)} was {old.get(name)!r}, now {value!r}"
            for name, value in new.items()
            if name in old and old[name] != value or name not in old and " of " not in name
        ]
        if differs:
            raise UserError(
                f"{output_dir} holds another comparison: {'; '.join(differs)}. Give the same flags "
                "to continue it (but for --depths, --warmup, --sequences, --hparams_sets and "
                "--seeds), or another --output_dir."
            )
        dev_batches = old.get("dev_batches")  # of an earlier version: not known
    runs = {cell: run_of(output_dir, grid, cell) for cell in grid.cells()}
    for cell, run in runs.items():
        run.check(grid.config_of(cell))
    finished = all((run.path / RESULT_FILE).is_file() for run in runs.values())
    if dev_batches not in (None, grid.dev_batches) and not finished:
        one, other = (count or "all" for count in (dev_batches, grid.dev_batches))
        raise UserError(
            f"Expected sets with which an evaluation on the way has {one} dev batches, as of the "
            f"cells in {output_dir}. Received: sets with which it has {other}. Give those that it "
            "was begun with, or another --output_dir."
        )
    values = dataclasses.asdict(grid)
    if dev_batches is not None:
        values["dev_batches"] = dev_batches
    write_text_atomic(file, json.dumps(values, indent=1) + "\n")


def _read(file: pathlib.Path) -> dict[str, Any]:
    """Returns `_fixed` of what the file holds."""
    try:
        return _fixed(schema.read(file, dict[str, Any]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"Expected {file} as t2t-compare wrote it. Received: {error}. Give another "
            "--output_dir, or remove the file if the runs beside it are of the same flags."
        ) from error


def _fixed(values: dict[str, Any]) -> dict[str, Any]:
    """Returns what may not change when a comparison goes on: also what each variant is."""
    fixed = {name: value for name, value in values.items() if name not in _AXES}
    for variant in values.get("variants", ()):
        for name in ("hparams_set", "hparams"):
            fixed[f"{name} of {variant.get('text') or variant['name']}"] = variant[name]
    return fixed
