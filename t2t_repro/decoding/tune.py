"""After training: which weights to take, and how to decode with them, by BLEU on dev.

Averages of checkpoints are tried first, with tensor2tensor's search; then the length penalty, with
the weights that were best; then the beams. A search keeps the hypotheses that are best by its own
length penalty, so each search decodes anew. Among weights that are nearly as good as the best, the
mean of the most checkpoints wins; for a rate that falls to 0, the newest. Among such searches the
most usual wins. The result is a run directory, as t2t-avg-all writes one, with decoding.json, which
all programs that decode read.
"""

import dataclasses
import hashlib
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from t2t_repro import fields, files, schema
from t2t_repro.config import HParams
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.problem import check_text
from t2t_repro.progress import took
from t2t_repro.run_directory import PROVENANCE, TUNED, RunDirectory
from t2t_repro.training.state import WEIGHTS, read_ranking

DEFAULT = DecodeHParams()
# BLEU. On a thousand sentences such a difference is chance (benchmarks/RESULTS.md, "Tried, and no
# gain").
_CHANCE = 0.3
_FIX = "To decode with default settings, delete the file; or tune again: t2t-avg-all --tune."


@dataclasses.dataclass(frozen=True)
class Weights:
    """Tried weights: the mean of the checkpoints of these steps, and its BLEU."""

    name: str
    steps: tuple[int, ...]
    bleu: float


@dataclasses.dataclass(frozen=True)
class Beams:
    """A tried search, and its BLEU."""

    beam_size: int
    alpha: float
    bleu: float

    def __str__(self) -> str:
        return f"beam_size={self.beam_size},alpha={self.alpha:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunedDecoding:
    """What was chosen, and from what.

    Attributes:
        weights: the chosen weights.
        search: how to decode with them.
        sentences: the sentences of the choice, in words.
        signature: sacreBLEU's.
        asked: what to try, as flags.
        weights_tried, searches_tried: everything tried.
        weights_digest: of the weights beside it; "": an older version recorded none.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    weights: Weights
    search: Beams
    sentences: str
    signature: str
    asked: dict[str, str]
    weights_tried: tuple[Weights, ...]
    searches_tried: tuple[Beams, ...]
    weights_digest: str = ""

    def write(self, run: pathlib.Path) -> None:
        """Writes it into a run directory."""
        files.write_json(run / TUNED, dataclasses.asdict(self))


def read(run: pathlib.Path) -> TunedDecoding | None:
    """Returns what was chosen for a run; None: nothing.

    Raises:
        schema.Malformed: if the file is broken.
    """
    try:
        return schema.read(run / TUNED, TunedDecoding, _FIX)
    except FileNotFoundError:
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What to try, as the flags of t2t-avg-all --tune; `n` checkpoints at most are averaged."""

    n: int = 8
    beam_sizes: str = flag("1,4,5", "With --tune: the beam sizes to try.")
    alphas: str = flag("0.4,0.6,0.8,1.0,1.2,1.4", "With --tune: the length penalties to try.")
    sentences: int = flag(
        1000, "With --tune: how many dev sentences to use, spread over the split; 0: all.", least=0
    )

    def __post_init__(self):
        for beam_size in self.beams:
            DecodeHParams(beam_size=beam_size)
        for alpha in self.penalties:
            DecodeHParams(alpha=alpha)

    @property
    def beams(self) -> list[int]:
        """The beams, without repeats, fewest first."""
        return sorted({fields.parse_like(1, "beam_sizes", n) for n in self.beam_sizes.split(",")})

    @property
    def penalties(self) -> list[float]:
        """The length penalties, without repeats, the usual one first, then the nearest."""
        numbers = {fields.parse_like(1.0, "alphas", n) for n in self.alphas.split(",")}
        return sorted(numbers, key=lambda alpha: (abs(alpha - DEFAULT.alpha), alpha))


def check(run: Any, out: RunDirectory) -> None:
    """Refuses, before anything heavy is loaded, a run or folder that cannot be tuned.

    Raises:
        UserError: if the run writes no text, has no checkpoint, or is the folder of the result, or
            that folder has checkpoints of something else.
    """
    check_text(run.problem, "t2t-avg-all --tune")
    run.check_checkpoint()
    from t2t_repro.training import checkpoints

    checkpoints.check_free(run, out)
    if not (out.path / TUNED).exists() and next(out.checkpoints_dir.glob("ckpt-*"), None):
        raise UserError(
            "Expected --output_dir to be new, or a result of t2t-avg-all --tune. Received: "
            f"{out.path}, which has checkpoints but no {TUNED}. Name another folder."
        )


def tune(
    run: Any,
    out: RunDirectory,
    request: TuneRequest,
    *,
    say: Callable[[str], None] = print,
    searches: int = 1,
) -> TunedDecoding:
    """Chooses weights and search by a run's dev split, and writes them where `check` lets it.

    Args:
        run: the run, a `runs.TrainedRun`; its `best` is looked at too.
        out: the run directory of the result. An earlier result there is replaced once the new one
            is known. It stays if the same request made it and its weights are unchanged.
        request: what to try.
        say: gets a line for each try.
        searches: as `engine.ModelEngine` takes it.

    Raises:
        UserError: if a checkpoint is damaged, or there is no dev split.
    """
    from t2t_repro.decoding.dev_bleu import DevSample
    from t2t_repro.decoding.engine import ModelEngine
    from t2t_repro.training import checkpoints

    out.path.mkdir(parents=True, exist_ok=True)
    with files.locked(out.path, say), files.scratch_folder(out.path / "candidates") as work:
        candidates = _candidates(run, request.n)
        sample = DevSample(run.problem, run.data_dir, count=request.sentences)
        asked = {name: str(value) for name, value in dataclasses.asdict(request).items()}
        asked["checkpoints"] = _digest(path for _, paths in candidates for path in paths)
        asked["sentences"] = sample.digest
        if run.problem.decode_hparams:
            asked["decode_hparams"] = run.problem.decode_hparams
        before = read(out.path)
        earlier = checkpoints.list_checkpoints(out.path)
        if before and before.asked == asked and before.weights_digest == _digest(earlier):
            say(f"{out.path} is already tuned: {before.weights.name}, {before.search}.")
            return before

        say(f"Tuning by sacreBLEU on {sample.described} ({sample.signature})")
        model = run.new_model()
        engine = ModelEngine(model, searches)

        def score(what: str, settings: DecodeHParams) -> float:
            started = time.monotonic()
            bleu = round(sample.score(engine, settings), 2)
            say(f"{what}: {bleu:.2f} ({took(time.monotonic() - started)})")
            return bleu

        tried: list[Weights] = []
        averages: list[pathlib.Path] = []
        of_problem = DecodeHParams.parse("", run.problem.decode_hparams)
        usual = min(request.beams, key=lambda beam_size: abs(beam_size - DEFAULT.beam_size))
        first = dataclasses.replace(of_problem, beam_size=usual, alpha=DEFAULT.alpha)
        for number, (name, paths) in enumerate(candidates):
            averages.append(checkpoints.average(paths, work / str(number)))
            checkpoints.load_weights(model, averages[-1])
            steps = tuple(checkpoints.step_of(path) for path in paths)
            tried.append(Weights(name, steps, score(name, first)))
        weights = _best(tried, newest=_rate_falls(run.config.hparams, tried[0].steps[-1]))
        taken = averages[tried.index(weights)]
        checkpoints.load_weights(model, taken)

        def search(beam_size: int, alpha: float) -> Beams:
            settings = dataclasses.replace(first, beam_size=beam_size, alpha=alpha)
            if settings == first:
                return Beams(beam_size, alpha, weights.bleu)
            return Beams(beam_size, alpha, score(f"beam {beam_size}, alpha {alpha:g}", settings))

        searched = [search(first.beam_size, alpha) for alpha in request.penalties]
        alpha = _good(searched)[0].alpha  # the most usual
        searched += [search(beams, alpha) for beams in request.beams if beams != first.beam_size]
        best = min(_good(searched), key=lambda each: abs(each.beam_size - first.beam_size))

        # After a kill decoding.json lacks the weights' digest, so they are made again.
        run.copy_description(out)
        written = checkpoints.copy_weights(taken, out.checkpoints_dir)
        (out.path / PROVENANCE).unlink(missing_ok=True)  # it is of the weights before
        for path in earlier:
            if path != written:
                checkpoints.delete(path)
        result = TunedDecoding(
            weights=weights,
            search=best,
            sentences=sample.described,
            signature=sample.signature,
            asked=asked,
            weights_tried=tuple(tried),
            searches_tried=tuple(searched),
            weights_digest=_digest([written]),
        )
        result.write(out.path)
        say(f"Chose {weights.name} and {best}: {best.bleu:.2f} BLEU on dev. Written to {out.path}.")
        return result


def _candidates(run: Any, n: int) -> list[tuple[str, list[pathlib.Path]]]:
    """Returns names and checkpoints of the candidates, the simplest first."""
    from t2t_repro.training import checkpoints

    newest = checkpoints.list_checkpoints(run.path)[-n:]
    # Weights from before the fall would bring back the noise that it removes.
    fallen = [p for p in newest if _rate_falls(run.config.hparams, checkpoints.step_of(p))]
    newest = fallen or newest
    best = run.path / "best"
    ranking = read_ranking(RunDirectory(best).checkpoints_dir)
    there = {checkpoints.step_of(path): path for path in checkpoints.list_checkpoints(best)}
    ranked = [there[e.step] for e in ranking.ranking if e.step in there][:n]
    found: dict[tuple[int, ...], tuple[str, list[pathlib.Path]]] = {}

    def add(name: str, paths: Sequence[pathlib.Path]) -> None:
        paths = sorted(paths, key=checkpoints.step_of)
        steps = tuple(map(checkpoints.step_of, paths))
        if steps:
            said = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"
            found.setdefault(steps, (f"{name} ({said})", paths))

    add("the newest checkpoint", newest[-1:])
    if ranking.ranking:
        add(f"the best checkpoint by {ranking.metric}", ranked[:1])
    add(f"the mean of the newest {len(newest)} checkpoints", newest)
    if ranking.ranking:
        add(f"the mean of the best {len(ranked)} checkpoints by {ranking.metric}", ranked)
    for _, paths in found.values():
        for path in paths:
            checkpoints.verify(path)
    return list(found.values())


def _rate_falls(hparams: HParams, step: int) -> bool:
    """Returns whether a step is among the last, in which the learning rate falls to 0."""
    if not {"train_steps", "learning_rate_decay_steps"} <= hparams.read_by_schedule:
        return False
    if hparams.optimizer_multistep_accumulate_steps:  # there it counts other steps
        return False
    return step > hparams.train_steps - hparams.learning_rate_decay_steps


def _good(tried: Sequence) -> list:
    """Returns the candidates that are tied with the best."""
    least = round(max(each.bleu for each in tried) - _CHANCE, 2)
    return [each for each in tried if each.bleu >= least]


def _best(tried: Sequence[Weights], newest: bool) -> Weights:
    """Returns the mean of most checkpoints among tied weights; or the first, if that is the newest.

    A rate that falls to 0 removes the noise that a mean removes elsewhere: there the newest were as
    good as means of the fall, or better (benchmarks/RESULTS.md, "Tried, and no gain").
    """
    good = _good(tried)
    if newest and tried[0] in good:
        return tried[0]
    return max(good, key=lambda each: (len(each.steps), each.bleu))  # the first of equals


def _digest(paths: Iterable[pathlib.Path]) -> str:
    """Returns the digest of checkpoints."""
    digest = hashlib.sha256()
    for path in sorted(set(paths), key=os.fspath):
        digest.update(path.name.encode() + bytes.fromhex(files.sha256(path / WEIGHTS)))
    return digest.hexdigest()
