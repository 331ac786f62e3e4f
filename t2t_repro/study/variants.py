"""What t2t-compare compares: sequences under one hparam set, or whole sets, by depth and warm-up.

Where sequences are compared, nothing else differs between two cells of one depth, warm-up and
seed: the initial kernels, the batches and their order, the dropout's seeds and the learning rate
are the same. Where sets are compared, all that the sets say differs.
"""

import dataclasses
import functools
import itertools
import pathlib
import re

from t2t_repro import registry
from t2t_repro.config import BASELINES, HParams
from t2t_repro.errors import UserError

WARMUP = "linear_warmup"
NAMED_SCHEDULE = "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"
_WORDS = {"none/dan": "post-norm", "n/da": "pre-norm"}
# A set, and in brackets what is changed of this one alone.
_SET = re.compile(r"\s*([^\s,\[\]]+)\s*(?:\[([^\[\]]*)\])?\s*(?:,|$)")


@dataclasses.dataclass(frozen=True)
class Variant:
    """One of those that are compared.

    Attributes:
        name: "post-norm", "n/dan", "transformer_base_v1"; where several are of one set, with their
            changes: "lstm_attention[hidden_size=256]".
        hparams_set: its set.
        hparams: changes of this one alone, as t2t-trainer's flag.
        sequences: "PREPROCESS/POSTPROCESS" in the place of the set's; "": the set's own.
        text: what the user wrote for it.
    """

    name: str
    hparams_set: str
    hparams: str
    sequences: str
    text: str

    @property
    def folder(self) -> str:
        """What the user wrote as a part of a folder's name."""
        return re.sub(r"[^\w.=]+", "-", self.text).strip("-")


def of_sequences(hparams_set: str, text: str) -> tuple[Variant, ...]:
    """Reads "none/dan,n/da": pairs of layer_preprocess_sequence/layer_postprocess_sequence.

    Raises:
        UserError: if there are not two different pairs. (`Grid` refuses wrong letters.)
    """
    pairs = tuple(piece.strip() for piece in text.split(",") if piece.strip())
    well = all(re.fullmatch(r"[^/]+/[^/]+", pair) for pair in pairs)
    if not well or len(set(pairs)) < max(2, len(pairs)):
        raise UserError(
            "Expected --sequences to be different pairs PREPROCESS/POSTPROCESS with commas "
            f"between, such as none/dan,n/da. Received: {text!r}."
        )
    return tuple(Variant(_WORDS.get(pair, pair), hparams_set, "", pair, pair) for pair in pairs)


def of_sets(text: str) -> tuple[Variant, ...]:
    """Reads "transformer_base_v1,lstm_attention[hidden_size=256,dropout=0.3]".

    Raises:
        UserError: if there are not two different ones. (`Grid` refuses unknown names.)
    """
    asked, at = [], 0
    while (piece := _SET.match(text, at)) and at < len(text):
        asked.append((piece[1], (piece[2] or "").strip()))
        at = piece.end()
    sets = [hparams_set for hparams_set, _ in asked]
    found = []
    for hparams_set, changes in asked:
        written = f"{hparams_set}[{changes}]" if changes else hparams_set
        name = hparams_set if sets.count(hparams_set) == 1 else written
        found.append(Variant(name, hparams_set, changes, "", written))
    if at < len(text.rstrip(", ")) or len({v.folder for v in found}) < max(2, len(found)):
        raise UserError(
            "Expected --hparams_sets to be different sets with commas between, each with changes "
            "of its own in brackets, such as transformer_base_v1,lstm_attention[dropout=0.3]. "
            f"Received: {text!r}."
        )
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Attributes:
        depth: layers of the encoder, and as many of the decoder; None: as the set has them.
        warmup: steps; 0: none (`Grid.hparams_of` says what that means); None: the set's.
        variant: what is compared, by its name.
        seed: of weights, dropout and the order of the data.
    """

    depth: int | None
    warmup: int | None
    variant: str
    seed: int

    def __str__(self) -> str:
        setting = setting_in_words(self.depth, self.warmup)
        return ", ".join(filter(None, [setting, self.variant, f"seed {self.seed}"]))


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
        evaluations: how often each run is evaluated.
        eval_steps: at most this many batches for an evaluation on the way; 0: all.
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
        for cell in self.cells():
            self.hparams_of(cell)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is compared."""
        return tuple(variant.name for variant in self.variants)

    @property
    def of_sequences(self) -> bool:
        """Whether sequences are compared, and nothing else differs."""
        return all(variant.sequences for variant in self.variants)

    @property
    def title(self) -> str:
        """Such as "post-norm against pre-norm"."""
        return " against ".join(self.names)

    def variant(self, name: str) -> Variant:
        """Returns one of them by its name."""
        return self.variants[self.names.index(name)]

    def folder(self, cell: Cell) -> str:
        """Returns the name of a cell's folder: "depth-6_warmup-0_none-dan_seed-1"."""
        axes = {"depth": cell.depth, "warmup": cell.warmup}
        setting = [f"{name}-{value}" for name, value in axes.items() if value is not None]
        return "_".join([*setting, self.variant(cell.variant).folder, f"seed-{cell.seed}"])

    def settings(self) -> list[tuple[int | None, int | None]]:
        """Returns each (depth, warm-up)."""
        return list(itertools.product(self.depths, self.warmups))

    def cells(self) -> list[Cell]:
        """Returns all runs: the shallow ones first, seed after seed, so that each seed is whole."""
        axes = (self.depths, self.warmups, range(self.seeds), self.names)
        return [Cell(d, w, name, seed) for d, w, seed, name in itertools.product(*axes)]

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

    def changes_of(self, cell: Cell) -> str:
        """Returns what a cell changes of its set, as t2t-trainer's --hparams."""
        base, own = (
            registry.get_hparams(self.variant(cell.variant).hparams_set),
            self.hparams_of(cell),
        )
        names = [field.name for field in dataclasses.fields(own)]
        differs = [n for n in names if getattr(own, n) != getattr(base, n) and not own.unread([n])]
        return ",".join(f"{name}={getattr(own, name)}" for name in differs)


@dataclasses.dataclass(frozen=True)
class Request:
    """What t2t-compare is asked for.

    Attributes:
        grid: what to compare.
        output_dir: where to.
        command: the command line, which the report shows.
        usr_dir: the user's own package; None: there is none.
        worker_gpu: on how many devices each cell is trained; None: as t2t-trainer finds them.
    """

    grid: Grid
    output_dir: pathlib.Path
    command: str = "t2t-compare"
    usr_dir: str | None = None
    worker_gpu: int | None = None


@functools.lru_cache(maxsize=1024)
def _hparams_of(grid: Grid, cell: Cell) -> HParams:
    variant = grid.variant(cell.variant)
    hparams = registry.get_hparams(variant.hparams_set, grid.hparams).override(variant.hparams)
    if variant.sequences and hparams.model in BASELINES:
        raise UserError(
            "Expected an hparams set of a Transformer, whose sublayers have sequences. Received: "
            f"{variant.hparams_set}, of model={hparams.model}. Compare it by --hparams_sets."
        )
    if variant.sequences or cell.warmup == 0 or grid.learning_rate_constant is not None:
        hparams = _with_named_schedule(hparams)
    if grid.learning_rate_constant is not None:
        hparams = hparams.override(f"learning_rate_constant={grid.learning_rate_constant}")
    if cell.warmup is not None:
        hparams = _warmed_up(hparams, cell.warmup)
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


def _warmed_up(hparams: HParams, warmup: int) -> HParams:
    """Returns hparams with a warm-up of so many steps."""
    factors = [name.strip() for name in hparams.learning_rate_schedule.split("*")]
    if WARMUP not in factors and not (warmup and "legacy" in factors):
        raise UserError(
            f"Expected a learning_rate_schedule with the factor {WARMUP}, or T2T's noam. Received: "
            f'{hparams.learning_rate_schedule!r}. Add --hparams="learning_rate_schedule='
            f'{NAMED_SCHEDULE}".'
        )
    if warmup:
        return dataclasses.replace(hparams, learning_rate_warmup_steps=warmup)
    kept = "*".join(name for name in factors if name != WARMUP)
    return dataclasses.replace(hparams, learning_rate_schedule=kept)


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


def setting_in_words(depth: int | None, warmup: int | None) -> str:
    """Returns "depth 6, warm-up 4,000", without what each set has as its own."""
    parts = [f"depth {depth}"] if depth is not None else []
    return ", ".join(parts + ([f"warm-up {warmup:,}"] if warmup is not None else []))
