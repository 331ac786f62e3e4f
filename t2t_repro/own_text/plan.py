"""The plan: which set, how many steps, how long and how much disk, by a few steps of trial."""

import dataclasses
import math
import pathlib
import shutil
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from t2t_repro import registry, schema
from t2t_repro.config import HParams
from t2t_repro.data import preset
from t2t_repro.data.text_size import TextSize
from t2t_repro.errors import UserError
from t2t_repro.own_text.record import Plan
from t2t_repro.own_text.request import OwnTextRequest
from t2t_repro.problem import Problem
from t2t_repro.progress import duration
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from t2t_repro.training import updates
from t2t_repro.views.run_view import view

CPU_MINUTES = 40  # of training, where nothing else is said
KEPT, BEST = 10, 5  # checkpoints that stay while it trains
BLEU_SENTENCES = 200
TRIAL_STEPS = 40
REPORTS = 4  # in a trial; the first, which compiles, does not count
NO_TRANSLATOR = 10.0  # BLEU of dev: below it the translations are hardly of use
EVALUATIONS = 20  # in a training, about
LEAST_STEPS = 20  # between two of them, and of a training that is cut to a time
_SHARE = 0.2  # of the time of a training, which evaluations take at most
_PATIENCE = 6  # evaluations whose BLEU does not rise end the training
_LEAST_PAIRS = 3000  # of which any time makes a translator


# (bytes of a pair, both sides, up to which the row holds; target tokens of training for 20 BLEU).
# Ten minutes of two cores, 4 to 5 million tokens, give 37 BLEU for everyday sentences of 74 bytes,
# 37 for 90 bytes, 21 for verses of 262 and 5.5 for news of 238 (benchmarks/RESULTS.md).
USABLE = ((200, 4e6), (math.inf, 30e6))


@dataclasses.dataclass(frozen=True)
class Text:
    """What t2t-datagen has made: text to train on, dev pairs, subwords."""

    train: TextSize
    dev: int
    subwords: int

    @classmethod
    def of(cls, summary: pathlib.Path) -> "Text":
        """Returns what its summary says.

        Raises:
            UserError: if it lacks a split, or the vocabulary's size.
        """
        made: Any = schema.read(summary, dict[str, Any])
        try:
            dev = made["splits"]["dev"]["examples"]
            return cls(TextSize.of(made), dev, made["vocab_size"]["targets"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"Expected a summary of train and dev in {summary}. Received: none of {error}. "
                "Remove its folder, and give the same command."
            ) from error


class Measured(NamedTuple):
    """What a trial measured: seconds of an update and of an evaluation, target tokens of an update,
    and whether it computed on GPUs."""

    a_step: float
    an_evaluation: float
    tokens: float
    on_gpus: bool

    @classmethod
    def of(cls, trial: RunDirectory) -> "Measured":
        """Returns what a run of `TRIAL_STEPS` steps shows."""
        rows = trial.read_metrics()
        train = [row for row in rows if row["kind"] == "train"]
        evaluated = [row for row in rows if row["kind"] == "eval"][-1]
        data: Any = schema.read(trial.path / TRAINING_DATA, dict[str, Any])
        update = updates.batches_of_an_update(trial.config().hparams)
        tokens = update * data["targets_tokens"] / data["batches"]
        rate = statistics.median(float(row["tokens_per_second"]) for row in train[1:])
        an_evaluation = max(0.0, float(evaluated["time"]) - float(train[-1]["time"]))
        found: Any = schema.read(trial.path / PLAN, dict[str, Any])
        return cls(tokens / rate, an_evaluation, tokens, found["machine"]["kind"] == "GPU")

    def minutes(self, request: OwnTextRequest) -> float:
        """Returns how long to train at most; 0: as long as it takes."""
        if request.train_minutes is not None:
            return request.train_minutes
        return 0 if self.on_gpus else CPU_MINUTES


def chosen_set(
    request: OwnTextRequest,
    text: Text,
    problem: Problem,
    data_dir: pathlib.Path,
    tried: Plan | None = None,
) -> preset.Preset:
    """Returns the set that is asked for, or the one for so much text in such a vocabulary.

    Args:
        request: what is asked for.
        text: what there is to train on.
        problem, data_dir: whose vocabulary it is.
        tried: the plan by a trial of another set; None: the smallest where the time has an end.
    """
    if request.hparams_set:
        registry.get_hparams(request.hparams_set, request.hparams)
        apart = preset.of_separate_tables(problem, data_dir)
        named = preset.Preset(request.hparams_set, "named by --hparams_set", apart)
        return named.beside(request.hparams)
    endless = request.train_minutes == 0 or request.train_minutes is None and preset.has_gpu()

    def tokens(row: preset.Row) -> float:
        whole = preset.tokens_of(row.hparams_set, request.train_steps)
        if tried is None:
            return whole if endless or request.train_steps else 0
        ends = tried.tokens_in_time
        costs = {each.hparams_set: each.cost for each in preset.ROWS}
        return min(whole, ends * costs.get(tried.hparams_set, 1.0) / row.cost) if ends else whole

    return preset.proposed(problem, data_dir, text.train, None, tokens)


def hparams_of(request: OwnTextRequest, chosen: preset.Preset) -> HParams:
    """Returns the set with the changes that are asked for, and those that the text needs."""
    return registry.get_hparams(chosen.hparams_set, request.hparams).override(chosen.hparams)


def check_length(begun: Plan, hparams: HParams) -> None:
    """Refuses another length for a training that is under way and cannot be made longer.

    Raises:
        UserError: naming the one that it was begun with.
    """
    if hparams.reads_train_steps:
        raise UserError(
            "Expected --train_steps and --train_minutes as it was begun with: the steps of "
            f"{begun.hparams_set} depend on where they end, at {begun.train_steps:,}. Received: "
            "others. Put them back, or give another --output_dir."
        )


def check_not_shorter(run: RunDirectory, steps: int) -> None:
    """Refuses fewer steps than a training has made already.

    Args:
        run: of the training, if there is one.
        steps: of updates, that are asked for.

    Raises:
        UserError: naming both.
    """
    if not run.exists():
        return
    made = run.newest_step() // updates.batches_of_an_update(run.config().hparams)
    if steps < made:
        raise UserError(
            f"Expected as many steps as {run.path} has made, {made:,}, or more. Received: "
            f"{steps:,}. Give another --output_dir for a shorter training."
        )


def check_model(run: pathlib.Path, model: pathlib.Path) -> None:
    """Refuses a model whose run is gone: another run's would not go into its place.

    Raises:
        UserError: naming both.
    """
    if RunDirectory(model).exists() and not RunDirectory(run).exists():
        raise UserError(
            f"Expected {run}, of which {model} was made. Received: no run there. Put it back, or "
            f"move {model} away: the same command then trains anew."
        )


def check_same_end(run: RunDirectory, steps: int, wanted: HParams) -> None:
    """Refuses other steps for a training, if there is one, that depends on where they end.

    Args:
        run: of the training, if there is one.
        steps: of updates, that are asked for.
        wanted: what a training of so many would have; a decay may end with them.

    Raises:
        UserError: naming both.
    """
    if not run.exists():
        return
    hparams = run.config().hparams
    begun = hparams.train_steps // updates.batches_of_an_update(hparams)
    decays = wanted.learning_rate_decay_steps != hparams.learning_rate_decay_steps
    if (hparams.reads_train_steps or decays) and steps != begun:
        raise UserError(
            f"Expected --train_steps={begun}, with which {run.path} was begun: what it does "
            f"depends on where it ends. Received: {steps}. Give another --output_dir."
        )


def make(
    request: OwnTextRequest,
    text: Text,
    chosen: preset.Preset,
    trial: RunDirectory,
    room: int,
    before: Plan | None = None,
) -> Plan:
    """Returns the plan.

    Args:
        request: what is asked for.
        text: what there is to train on.
        chosen: the set.
        trial: a run of `TRIAL_STEPS` steps, reported and evaluated in halves: the first of a
            process compiles.
        room: bytes on the disk for all models.
        before: the plan of a training that is under way and goes on; None: there is none.

    Raises:
        UserError: if the disk is too small.
    """
    a_step, an_evaluation, tokens, _ = found = Measured.of(trial)
    minutes = found.minutes(request)
    hparams = hparams_of(request, chosen)
    wanted = hparams.train_steps
    most = request.train_steps or wanted
    steps, frequency = schedule(most, 60 * minutes, a_step, an_evaluation)
    evaluations = -(-steps // frequency)
    of_length = preset.of_length(chosen.hparams_set, request.hparams, steps)
    saved = view(trial)
    checkpoint = max(each.megabytes for each in saved.checkpoints)
    # Adam's checkpoint is the weights three times; behind it come averages and exports.
    disk = checkpoint * (KEPT + 1) + checkpoint / 3 * (BEST + 8)
    if disk * 1e6 > room:
        raise UserError(
            f"Expected {disk:,.0f} MB of disk for {KEPT} checkpoints and what is made of them. "
            f"Received: {room / 1e6:,.0f} MB, with what is there of them. Free some space, or give "
            "an --output_dir on another disk; the same command goes on."
        )
    return Plan(
        pairs=text.train.pairs,
        subwords=text.subwords,
        hparams_set=chosen.hparams_set,
        hparams=chosen.hparams,
        reason=chosen.reason,
        parameters=sum(saved.parameters.values()),
        seconds_per_step=round(a_step, 4),
        evaluation_seconds=round(an_evaluation, 1),
        train_steps=steps,
        wanted_steps=wanted,
        goes_on=not hparams.reads_train_steps,
        local_eval_frequency=frequency,
        patience=_patience(hparams, steps, frequency),
        bleu_sentences=min(BLEU_SENTENCES, text.dev),
        minutes=round((steps * a_step + evaluations * an_evaluation) / 60, 1),
        tokens_in_time=round(60 * minutes * tokens / a_step),
        expects=expectation(text.train, steps * tokens, tokens / a_step),
        disk_mb=round(disk, 1),
        of_length=of_length if before is None else before.of_length,
    )


def schedule(steps: int, seconds: float, a_step: float, an_evaluation: float) -> tuple[int, int]:
    """Returns how many steps to make, and after how many to evaluate.

    Evaluations take a fifth of the time at most; there are about 20 of them, or fewer.

    Args:
        steps: make at most so many.
        seconds: take about so long at most; 0: as long as it takes.
        a_step, an_evaluation: seconds that each takes.
    """
    whole = steps * a_step / (1 - _SHARE)
    if seconds:
        whole = min(whole, seconds)
    count = EVALUATIONS
    if an_evaluation:
        count = max(1, min(count, int(_SHARE * whole / an_evaluation)))
    if seconds:
        in_time = _rounded((seconds - count * an_evaluation) / a_step)
        steps = max(min(steps, in_time), min(steps, LEAST_STEPS))
    return steps, min(steps, max(LEAST_STEPS, _rounded(steps / count)))


def expectation(text: TextSize, tokens: float, rate: float) -> str:
    """Returns what to expect of a training, by how much it sees and how long the sentences are.

    Args:
        text: of training.
        tokens: target tokens that the training sees.
        rate: of them a second.
    """
    if text.pairs < _LEAST_PAIRS:
        return f"Expect no translator: {text.pairs:,} pairs are too few, whatever the time."
    a_pair = text.size / max(1, text.pairs)
    usable = next(tokens for size, tokens in USABLE if a_pair <= size)
    if tokens >= usable:
        return "Expect a usable translator for sentences like these."
    minutes = math.ceil(usable / rate / 600) * 10
    return (
        f"Expect a rough gist at best, by {tokens / 1e6:.3g} million target tokens of training. A "
        f"usable translator takes about {usable / 1e6:.0f} million: --train_minutes={minutes}"
    )


def said(plan: Plan) -> str:
    """Returns a plan for a reader."""
    stops = f"; it stops earlier where BLEU has not risen for {plan.patience:,} steps"
    lines = [
        f"  {plan.hparams_set}: {plan.reason}",
        *([f"  {plan.expects}"] if plan.expects else []),
        f"  {plan.parameters:,} parameters, {plan.subwords:,} subwords",
        f"  {plan.train_steps:,} steps of {plan.seconds_per_step:.3f} s, every "
        f"{plan.local_eval_frequency:,} an evaluation of {plan.evaluation_seconds:.0f} s, as a "
        f"trial measured: {duration(60 * plan.minutes)}, longer on a machine that gets busier"
        f"{stops if plan.patience < plan.train_steps else ''}",
        f"  {plan.disk_mb:,.0f} MB of disk at most",
    ]
    if plan.train_steps < plan.wanted_steps:
        full = plan.wanted_steps * plan.seconds_per_step
        lines.append(
            f"  {plan.wanted_steps:,} steps are what the set is made for, {duration(full)} here; "
            f"the same command {to_the_end(plan)}"
        )
    return "\n".join(lines)


def to_the_end(plan: Plan) -> str:
    """Returns with which flags a command makes all the steps, of which a plan has fewer."""
    end = "goes on to them" if plan.goes_on else "makes them in another --output_dir"
    return f"with --train_minutes=0, and no --train_steps, {end}"


def room(folder: pathlib.Path, models: Sequence[pathlib.Path]) -> int:
    """Returns the bytes that are free where a folder lies, or taken by models in it already."""
    there = (file for path in models for file in path.rglob("*") if file.is_file())
    return shutil.disk_usage(folder).free + sum(file.stat().st_size for file in there)


def _patience(hparams: HParams, steps: int, frequency: int) -> int:
    """Returns after how many steps without a better BLEU a training ends."""
    if hparams.reads_train_steps:
        return steps  # the best is at its end
    # Before the rate is warm there may be no BLEU at all.
    return max(_PATIENCE * frequency, hparams.learning_rate_warmup_steps)


def _rounded(number: float) -> int:
    """Returns a number of two digits, not above `number`."""
    whole = int(max(number, 1))
    unit = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit
