"""What t2t-compare compares: a grid of runs that differ in depth, warm-up, sequences and seed.

Between two cells of one depth, warm-up and seed nothing differs but the two sequence strings: the
initial kernels, the batches and their order, the dropout's seeds and the learning rate are the
same.
"""

import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.fields import parse_overrides
from t2t_repro.files import write_text_atomic
from t2t_repro.hparam_rules import OPPONENTS
from t2t_repro.run_directory import RunDirectory

GRID_FILE = "compare.json"
CELLS = "cells"  # the folder of the runs
RESULT_FILE = "compare-cell.json"  # in a run directory; written last
WARMUP = "linear_warmup"
NAMED_SCHEDULE = "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"
# What the grid sets itself, and the flag that says so.
_SET_HERE = {
    "num_hidden_layers": "depths",
    "num_encoder_layers": "depths",
    "num_decoder_layers": "depths",
    "learning_rate_warmup_steps": "warmup",
    "layer_preprocess_sequence": "sequences",
    "layer_postprocess_sequence": "sequences",
    "train_steps": "train_steps",
}


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One run of the grid.

    Attributes:
        depth: layers of the encoder, and as many of the decoder.
        warmup: steps; 0: none (`Grid.hparams_of` says what that means).
        sequences: pre- and postprocessing, such as "none/dan".
        seed: of weights, dropout and the order of the data.
    """

    depth: int
    warmup: int
    sequences: str
    seed: int

    @property
    def name(self) -> str:
        """The folder's name: "depth-6_warmup-0_none-dan_seed-1"."""
        sequences = self.sequences.replace("/", "-")
        return f"depth-{self.depth}_warmup-{self.warmup}_{sequences}_seed-{self.seed}"

    def __str__(self) -> str:
        return f"depth {self.depth}, warm-up {self.warmup:,}, {self.sequences}, seed {self.seed}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """A whole comparison.

    Attributes:
        problem, data_dir, hparams_set, hparams: as t2t-trainer's flags; the hparams are changes.
        depths, warmups, sequences: the axes of the grid.
        seeds: how many runs of each: the seeds are 0, 1, ...
        train_steps: of each run.
        learning_rate_constant: instead of the set's own; None: that.
        evaluations: how often each run is evaluated, and a checkpoint of it measured.
        eval_steps: at most this many batches for an evaluation on the way; 0: all.
        bleu_sentences: how many sentences of the dev split are decoded at the end; 0: none.
    """

    problem: str
    data_dir: str
    hparams_set: str
    hparams: str = ""
    depths: tuple[int, ...]
    warmups: tuple[int, ...]
    sequences: tuple[str, ...]
    seeds: int
    train_steps: int
    learning_rate_constant: float | None = None
    evaluations: int = 8
    eval_steps: int = 20
    bleu_sentences: int = 0

    def __post_init__(self):
        for name, least in (("depths", 1), ("warmups", 0)):
            values = getattr(self, name)
            if not values or min(values) < least or len(set(values)) < len(values):
                flag = "warmup" if name == "warmups" else name
                raise UserError(
                    f"Expected --{flag} to be different numbers, each at least {least}. Received: "
                    f"{','.join(map(str, values))!r}."
                )
        for name in sorted(parse_overrides(self.hparams).keys() & _SET_HERE.keys()):
            raise UserError(
                f"Expected --hparams without {name}. Received: {self.hparams!r}. "
                f"--{_SET_HERE[name]} sets it."
            )
        for cell in self.cells():
            self.hparams_of(cell)

    def cells(self) -> list[Cell]:
        """Returns all runs: the shallow ones first, seed after seed, so that each seed is whole."""
        return [
            Cell(depth, warmup, sequences, seed)
            for depth, warmup, seed, sequences in itertools.product(
                self.depths, self.warmups, range(self.seeds), self.sequences
            )
        ]

    def hparams_of(self, cell: Cell) -> HParams:
        """Returns the configuration of a cell.

        T2T's legacy "noam" schedule becomes the product of named factors that T2T's own later sets
        have in its place, so that `learning_rate_constant` means the same in all sets (it differs
        from "noam" in that it counts from step, not from step + 1).

        A warm-up of 0 leaves the factor "linear_warmup" out and nothing else: the rate begins at
        the peak that the set's own warm-up would have led to, stays there as long as that, and
        falls then. (T2T's formula with 0 in it would begin at hidden_size**-0.5, some sixty times
        that peak, where nothing learns.) Any other warm-up is T2T's learning_rate_warmup_steps,
        which sets the length of the rise and with it the peak.

        Raises:
            UserError: if the flags do not make a configuration, or its schedule has no warm-up to
                leave out.
        """
        hparams = _with_named_schedule(registry.get_hparams(self.hparams_set, self.hparams))
        if hparams.model in OPPONENTS:
            raise UserError(
                "Expected an hparams set of a Transformer, whose sublayers have sequences. "
                f"Received: {self.hparams_set}, of model={hparams.model}. t2t-trainer trains it."
            )
        if self.learning_rate_constant is not None:
            hparams = hparams.override(f"learning_rate_constant={self.learning_rate_constant}")
        factors = [name.strip() for name in hparams.learning_rate_schedule.split("*")]
        if WARMUP not in factors:
            raise UserError(
                f"Expected an hparams set whose learning_rate_schedule has the factor {WARMUP}, or "
                f"T2T's noam. Received: {hparams.learning_rate_schedule!r} of {self.hparams_set}. "
                f'Add --hparams="learning_rate_schedule={NAMED_SCHEDULE}".'
            )
        if cell.warmup:
            hparams = dataclasses.replace(hparams, learning_rate_warmup_steps=cell.warmup)
        else:
            kept = "*".join(name for name in factors if name != WARMUP)
            hparams = dataclasses.replace(hparams, learning_rate_schedule=kept)
        before, after = cell.sequences.split("/")
        return dataclasses.replace(
            hparams,
            num_hidden_layers=cell.depth,
            num_encoder_layers=0,
            num_decoder_layers=0,
            layer_preprocess_sequence=before,
            layer_postprocess_sequence=after,
            train_steps=self.train_steps,
        )

    def settings(self) -> list[tuple[int, int]]:
        """Returns each (depth, warm-up)."""
        return list(itertools.product(self.depths, self.warmups))


def in_words(sequences: str) -> str:
    """Returns such as "post-norm (none/dan)": where the norm stands, and the pair."""
    before, after = ("n" in part.removeprefix("none") for part in sequences.split("/"))
    names = {(False, True): "post-norm", (True, False): "pre-norm"}
    return f"{names[before, after]} ({sequences})" if before != after else sequences


def parse_sequences(text: str) -> tuple[str, ...]:
    """Reads "none/dan,n/da": pairs of layer_preprocess_sequence/layer_postprocess_sequence.

    Raises:
        UserError: if there are not two different pairs. (`Grid` refuses wrong letters.)
    """
    pairs = tuple(piece.strip() for piece in text.split(",") if piece.strip())
    for pair in pairs:
        if not re.fullmatch(r"[^/]+/[^/]+", pair):
            raise UserError(
                f"Expected each of --sequences to be PREPROCESS/POSTPROCESS, such as none/dan or "
                f"n/da. Received: {pair!r}."
            )
    if len(set(pairs)) < max(2, len(pairs)):
        raise UserError(
            "Expected --sequences to be at least two different pairs with commas between, such as "
            f"none/dan,n/da. Received: {text!r}."
        )
    return pairs


def parse_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Reads "2,6,12".

    Raises:
        UserError: naming the flag, if something in it is no whole number.
    """
    try:
        return tuple(int(piece) for piece in text.split(",") if piece.strip())
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


def run_of(output_dir: pathlib.Path, cell: Cell) -> RunDirectory:
    """Returns the run directory of a cell."""
    return RunDirectory(output_dir / CELLS / cell.name)


def begin(grid: Grid, output_dir: pathlib.Path) -> None:
    """Writes the grid into `output_dir`, or checks it against the one that is there.

    The axes may have become longer or shorter since; finished cells stay.

    Raises:
        UserError: if another comparison was begun there; what differs is listed.
    """
    file = output_dir / GRID_FILE
    if file.exists():
        old, new = _fixed(_read(file)), _fixed(dataclasses.asdict(grid))
        names = {"warmups": "warmup"}
        differs = [
            f"--{names.get(name, name)} was {old.get(name)!r}, now {value!r}"
            for name, value in new.items()
            if old.get(name) != value
        ]
        if differs:
            raise UserError(
                f"{output_dir} holds another comparison: {'; '.join(differs)}. Give the same flags "
                "to continue it (but for --depths, --warmup, --sequences and --seeds), or another "
                "--output_dir."
            )
    text = json.dumps(dataclasses.asdict(grid), indent=1) + "\n"
    write_text_atomic(file, text)


def _read(file: pathlib.Path) -> dict[str, Any]:
    try:
        return schema.read(file, dict[str, Any])
    except ValueError as error:
        raise UserError(
            f"Expected {file} as t2t-compare wrote it. Received: {error}. Give another "
            "--output_dir, or remove the file if the runs beside it are of the same flags."
        ) from error


def _fixed(values: dict[str, Any]) -> dict[str, Any]:
    """Returns what may not change when a comparison goes on."""
    axes: Iterable[str] = ("depths", "warmups", "sequences", "seeds", "data_dir")
    return {name: value for name, value in values.items() if name not in axes}
