"""What comes after training: which weights to take, and how to decode with them, by BLEU on dev.

Averages of checkpoints are tried first, with tensor2tensor's search; then the length penalty, with
the weights that were best; then the beams. A search keeps the hypotheses that are best by its own
length penalty, so that each is decoded: n-best lists of one do not hold the best of another. Of
weights that are nearly as good as the best the mean of the most checkpoints is taken, but of a run
whose rate falls to 0 the newest, and of such searches the most usual. The result is a run directory
of its own, as t2t-avg-all writes one, with decoding.json beside it.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from t2t_repro import files
from t2t_repro.config import HParams
from t2t_repro.decoding import chosen
from t2t_repro.decoding.chosen import Beams, Chosen, Weights
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.outputs import check_room
from t2t_repro.progress import took
from t2t_repro.requests import flag
from t2t_repro.run_directory import CERTIFICATE, CHOSEN, RunDirectory
from t2t_repro.runs import TrainedRun
from t2t_repro.training.state import CorruptCheckpoint, read_ranking
from t2t_repro.translation import check_text

Tried = TypeVar("Tried", Weights, Beams)
DEFAULT = DecodeHParams()
_WORK = ".candidates"  # in the folder of the result, while it is made
_READY = ".ready"  # there too: a whole result, which takes the place of the one before
# BLEU. On a thousand sentences such a difference is chance: checkpoints and length penalties ahead
# on dev were behind on test (benchmarks/RESULTS.md, "Regularizers").
_CHANCE = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishRequest:
    """What to try, as the flags of t2t-finish."""

    n: int = flag(8, "Average at most this many of the newest checkpoints, and of best.", least=1)
    beam_sizes: str = flag("1,4,5", "The beams to try.")
    alphas: str = flag("0.4,0.6,0.8,1.0,1.2,1.4", "The length penalties to try.")
    sentences: int = flag(
        1000, "Choose by this many dev sentences, spread over the split; 0: all.", least=0
    )

    def __post_init__(self):
        for beam_size in self.beams:
            DecodeHParams(beam_size=beam_size)
        for alpha in self.penalties:
            DecodeHParams(alpha=alpha)

    @property
    def beams(self) -> list[int]:
        """The beams, without repeats, fewest first."""
        return sorted(set(_numbers("beam_sizes", self.beam_sizes, int)))

    @property
    def penalties(self) -> list[float]:
        """The length penalties, without repeats, the usual first, then those nearest to it."""
        numbers = set(_numbers("alphas", self.alphas, float))
        return sorted(numbers, key=lambda alpha: (abs(alpha - DEFAULT.alpha), alpha))


def _numbers(name: str, text: str, kind: Callable) -> list:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"Expected --{name} to be numbers with commas between. Received: {text!r}."
        ) from None


def check(run: TrainedRun, out: RunDirectory) -> None:
    """Refuses, before anything heavy is loaded, what cannot be finished, or not there.

    Raises:
        UserError: if the run writes no text, has no checkpoint, or is the folder of the result, or
            that folder has checkpoints of something else.
    """
    check_text(run.problem, "t2t-finish")
    run.check_checkpoint()
    if run.path.resolve() == out.path.resolve():
        raise UserError(f"Expected --output_dir to be another folder. Received: {run.path} twice.")
    _check_ours(run, out)
    check_room(out.path)


def _check_ours(run: TrainedRun, out: RunDirectory) -> None:
    ours = (out.path / CHOSEN).exists() or (out.path / _READY).exists()
    if not ours and next(out.checkpoints_dir.glob("ckpt-*"), None):
        raise UserError(
            "Expected --output_dir to be a new folder, or one of t2t-finish. Received: "
            f"{out.path}, which has checkpoints and no {CHOSEN}. Name another."
        )
    from t2t_repro.training import averaging

    averaging.check_free(run.directory, out)


def finish(
    run: TrainedRun,
    out: RunDirectory,
    request: FinishRequest,
    *,
    say: Callable[[str], None] = print,
    searches: int = 1,
) -> Chosen:
    """Chooses weights and search by a run's dev split, and writes them as a run directory.

    Args:
        run: the run; its `best` is looked at too.
        out: the run directory of the result. What an earlier call has written there is replaced
            once the new result is whole, or left, where the same would come out and the weights
            are those that were chosen.
        request: what to try.
        say: gets a line for all that is tried.
        searches: as `decode.ModelEngine` takes it.

    Raises:
        UserError: as `check`; if a checkpoint is damaged or removed meanwhile, there is no dev
            split, or `out` holds something else.
    """
    check(run, out)
    out.path.mkdir(parents=True, exist_ok=True)
    with files.locked([out.path], say):
        _check_ours(run, out)  # another process may have filled it meanwhile
        _exchange(out)
        try:
            return _finish(run, out, request, say, searches)
        finally:  # whole sets of weights, perhaps on a disk that is full
            shutil.rmtree(out.path / _WORK, ignore_errors=True)


def _finish(
    run: TrainedRun,
    out: RunDirectory,
    request: FinishRequest,
    say: Callable[[str], None],
    searches: int,
) -> Chosen:
    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.decoding.dev_bleu import DevSample
    from t2t_repro.training import averaging, checkpoints, model_state

    work = out.path / _WORK
    shutil.rmtree(work, ignore_errors=True)  # that of a call that was killed
    candidates = _candidates(run, request.n)
    asked = {name: str(value) for name, value in dataclasses.asdict(request).items()}
    every = sorted({path for _, paths in candidates for path in paths})
    with _read_from(every):
        asked["checkpoints"] = _digest(every)
    if run.problem.decode_hparams:
        asked["decode_hparams"] = run.problem.decode_hparams
    sample = DevSample(run.problem, run.data_dir, count=request.sentences)
    asked["sentences"] = sample.digest
    before = _read(out, say)
    if before and before.asked == asked:
        with contextlib.suppress(FileNotFoundError):  # what is broken is made anew
            if before.weights_digest == _digest(checkpoints.list_checkpoints(out.path)):
                said = f"{before.weights.name}, {before.search}"
                say(f"{out.path} is finished already: {said}.")
                return before

    say(f"Choosing by sacreBLEU of {sample.described}: {sample.signature}")
    model = run.new_model()
    engine = ModelEngine(model, searches)

    def score(what: str, settings: DecodeHParams) -> float:
        started = time.monotonic()
        bleu = round(sample.score(engine, settings), 2)
        say(f"{what}: {bleu:.2f} ({took(time.monotonic() - started)})")
        return bleu

    tried: list[Weights] = []
    averages: list[pathlib.Path] = []
    of_problem = DecodeHParams.of(run.problem, "")
    first = dataclasses.replace(of_problem, beam_size=_usual(request.beams), alpha=DEFAULT.alpha)
    for number, (name, paths) in enumerate(candidates):
        with _read_from(paths):
            averages.append(averaging.average(paths, work / str(number)))
        model_state.load_weights(model, averages[-1])
        steps = tuple(checkpoints.step_of(path) for path in paths)
        tried.append(Weights(name, steps, score(name, first)))
    weights = _best(tried, newest=_rate_falls(run.config.hparams, tried[0].steps[-1]))
    taken = averages[tried.index(weights)]
    model_state.load_weights(model, taken)

    def search(beam_size: int, alpha: float) -> Beams:
        settings = dataclasses.replace(first, beam_size=beam_size, alpha=alpha)
        bleu = (
            weights.bleu
            if settings == first
            else score(f"beam {beam_size}, alpha {alpha:g}", settings)
        )
        return Beams(beam_size, alpha, bleu)

    searched = [search(first.beam_size, alpha) for alpha in request.penalties]
    alpha = _good(searched)[0].alpha  # the most usual
    searched += [search(beams, alpha) for beams in request.beams if beams != first.beam_size]
    _check_ours(run, out)  # t2t-avg-all may have filled it
    run.directory.copy_description(out)
    made = RunDirectory(work / "result")
    checkpoints.copy_weights(taken, made.checkpoints_dir)
    result = Chosen(
        weights=weights,
        search=min(_good(searched), key=lambda each: abs(each.beam_size - first.beam_size)),
        sentences=sample.described,
        signature=sample.signature,
        asked=asked,
        weights_tried=tuple(tried),
        searches_tried=tuple(searched),
        weights_digest=_digest(checkpoints.list_checkpoints(made.path)),
    )
    result.write(made.path)
    os.rename(made.path, out.path / _READY)
    _exchange(out)
    best = result.search
    say(f"Chose {weights.name} and {best}: {best.bleu:.2f} BLEU on dev. Written to {out.path}.")
    return result


def _exchange(out: RunDirectory) -> None:
    """Puts the result that is ready, if one is, in the place of the one before.

    A kill on the way is made good by the next call: what is still to be moved lies there. Until
    then no weights are beside the search of others: the new ones are moved last.
    """
    ready = RunDirectory(out.path / _READY)
    if not ready.path.is_dir():
        return
    (out.path / CERTIFICATE).unlink(missing_ok=True)  # it is of the weights before
    new = ready.checkpoints_dir.is_dir()
    if new and out.checkpoints_dir.is_dir():
        os.rename(out.checkpoints_dir, ready.path / "before")
    if (ready.path / CHOSEN).exists():
        os.replace(ready.path / CHOSEN, out.path / CHOSEN)
    if new:
        os.rename(ready.checkpoints_dir, out.checkpoints_dir)
    shutil.rmtree(ready.path)


def _candidates(run: TrainedRun, n: int) -> list[tuple[str, list[pathlib.Path]]]:
    """Returns names and checkpoints of what may be averaged, the simplest first."""
    from t2t_repro.training import checkpoints

    newest = checkpoints.list_checkpoints(run.path)[-n:]
    # Weights of before the fall would bring the noise back that it takes out.
    fallen = [p for p in newest if _rate_falls(run.config.hparams, checkpoints.step_of(p))]
    newest = fallen or newest
    best = run.directory.path / "best"
    ranking = read_ranking(RunDirectory(best).checkpoints_dir)
    there = {checkpoints.step_of(path): path for path in checkpoints.list_checkpoints(best)}
    ranked = [there[e.step] for e in (ranking.ranking if ranking else ()) if e.step in there][:n]
    found: dict[tuple[int, ...], tuple[str, list[pathlib.Path]]] = {}

    def add(name: str, paths: Sequence[pathlib.Path]) -> None:
        paths = sorted(paths, key=checkpoints.step_of)
        steps = tuple(map(checkpoints.step_of, paths))
        if steps:
            found.setdefault(steps, (f"{name} ({_said(steps)})", paths))

    add("the newest checkpoint", newest[-1:])
    if ranking:
        add(f"the best by {ranking.metric}", ranked[:1])
    add(f"the mean of the newest {len(newest)}", newest)
    if ranking:
        add(f"the mean of the best {len(ranked)} by {ranking.metric}", ranked)
    for _, paths in found.values():
        with _read_from(paths):
            for path in paths:
                checkpoints.verify(path)
    return list(found.values())


def _rate_falls(hparams: HParams, step: int) -> bool:
    """Whether a step is among the last ones, in which the learning rate falls to 0."""
    if not {"train_steps", "learning_rate_decay_steps"} <= hparams.read_by_schedule:
        return False
    if hparams.optimizer_multistep_accumulate_steps:  # there it counts other steps
        return False
    return step > hparams.train_steps - hparams.learning_rate_decay_steps


@contextlib.contextmanager
def _read_from(paths: Sequence[pathlib.Path]) -> Iterator[None]:
    """Says of checkpoints that cannot be read what to do."""
    try:
        yield
    except (CorruptCheckpoint, FileNotFoundError) as error:
        gone = [path for path in paths if not path.exists()]
        if not gone:
            raise UserError(
                f"{error} Remove the checkpoint, to finish without it, or restore it."
            ) from error
        raise UserError(
            f"Expected the checkpoints in {gone[0].parent} to stay while they are averaged. "
            f"Received: {', '.join(path.name for path in gone)} removed meanwhile, as by a "
            "trainer. Finish when it has ended, or let it keep more: --keep_checkpoint_max."
        ) from error


def _good(tried: Sequence[Tried]) -> list[Tried]:
    """Returns what is as good as the best but for chance."""
    least = round(max(each.bleu for each in tried) - _CHANCE, 2)
    return [each for each in tried if each.bleu >= least]


def _best(tried: Sequence[Weights], newest: bool) -> Weights:
    """Returns, of the weights that are good, the widest mean, or the first: the newest, if it is.

    A rate that falls to 0 takes the noise out that a mean takes out of others: there the newest
    were as good as means of the fall, or better (benchmarks/RESULTS.md, "A rate that falls to 0").
    """
    good = _good(tried)
    if newest and tried[0] in good:
        return tried[0]
    return max(good, key=lambda each: (len(each.steps), each.bleu))  # the first of equals


def _said(steps: Sequence[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"


def _usual(beams: Sequence[int]) -> int:
    """The beams to compare weights with: tensor2tensor's, or the nearest."""
    return min(beams, key=lambda beam_size: abs(beam_size - DEFAULT.beam_size))


def _digest(paths) -> str:
    """Returns what distinguishes checkpoints from others of the same steps."""
    from t2t_repro.training.state import WEIGHTS

    digest = hashlib.sha256()
    for path in sorted(set(paths), key=os.fspath):
        with open(path / WEIGHTS, "rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _read(out: RunDirectory, say: Callable[[str], None]) -> Chosen | None:
    """Returns what was chosen before; what is broken is said and made anew."""
    try:
        return chosen.read(out.path)
    except UserError as error:
        say(str(error))
        return None
