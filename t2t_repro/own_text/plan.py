"""The plan: set, steps and time, by a trial of a few steps."""

import dataclasses
import itertools
import json
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from t2t_repro import registry
from t2t_repro.corpora import near_duplicates
from t2t_repro.data import preset
from t2t_repro.data.preset import TextSize
from t2t_repro.own_text.request import OwnTextRequest
from t2t_repro.problem import Problem
from t2t_repro.progress import duration
from t2t_repro.run_directory import PLAN, TRAINING_DATA, RunDirectory
from t2t_repro.text import raw
from t2t_repro.training import trainable

CPU_MINUTES = 40  # of training, where nothing else is said
# Of the checkpoints these stay while it trains.
KEEPING = {"keep_checkpoint_max": 10, "keep_best": 5, "best_metric": "bleu"}
BLEU_SENTENCES = 200
TRIAL_STEPS = 40
REPORTS = 4  # in a trial; the first, which compiles, does not count
NO_TRANSLATOR = 10.0  # BLEU of dev: below it the translations are hardly of use
EVALUATIONS = 20  # in a training, about
LEAST_STEPS = 20  # between two of them, and of a training that is cut to a time
_SHARE = 0.2  # of the time of a training, which evaluations take at most
_PATIENCE = 6  # evaluations whose BLEU does not rise end the training
# Pairs of which any time makes a translator, and of sentences of that many words: 6,400 pairs of
# news English-Yoruba (20 words) give 2.7 BLEU, 30,000 of English-Swahili (19) 18.6.
_LEAST_PAIRS, _LEAST_LONG, _LONG = 3000, 20_000, 15
# Of COOLDOWN, about, if these are more steps and the time allows: with fewer than 28 the dropout is
# low. News English-Swahili has 17.1 BLEU after 16 passes and 18.6 after 26.
_EPOCHS = 27
_LINES, _WORDS = 5000, 30_000  # lines from all over a side, and words of them, that are counted
USABLE_BLEU = 20
# (distinct words up to which the row holds; target tokens of training for USABLE_BLEU). Ten minutes
# of two cores, 4 to 5 million tokens, give 37 BLEU for 3,400 distinct words (En-Ja), 37 for 7,900
# (Tatoeba), 21 for 7,500 (Bible, three times as long sentences) and 5.5 for 14,300 (news En-Sw).
USABLE = ((10_000, 3.5e6), (math.inf, 30e6))


class Text(NamedTuple):
    """The data of t2t-datagen: training text, dev pairs, subwords; of a sample, distinct words and
    the words of a sentence on the shorter side."""

    train: TextSize
    dev: int
    subwords: int
    words: int
    length: float

    @classmethod
    def read(cls, summary: pathlib.Path, sides: Sequence[pathlib.Path]) -> "Text":
        """Returns the values of its summary and of both files of training."""
        made, words, lengths = json.loads(summary.read_bytes()), 0, []
        train, dev = TextSize.from_summary(made), made["splits"]["dev"]["examples"]
        for side in sides:
            lines = itertools.islice(raw.lines(side), 0, None, max(1, train.pairs // _LINES))
            found = [near_duplicates.words(line) for line in lines]
            words += len(set(itertools.islice(itertools.chain.from_iterable(found), _WORDS)))
            lengths.append(statistics.fmean(map(len, found)))
        return cls(train, dev, made["vocab_size"]["targets"], words, min(lengths))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurements of a trial.

    Attributes:
        hparams_set: the tried set.
        parameters: of the model.
        seconds_per_step, tokens_per_step: of an update; target tokens.
        evaluation_seconds: of one evaluation.
        gpu: whether it computed on GPUs.
    """

    hparams_set: str
    parameters: int
    seconds_per_step: float
    tokens_per_step: float
    evaluation_seconds: float
    gpu: bool

    def seconds(self, request: OwnTextRequest) -> float:
        """Returns how long to train at most; 0: as long as it takes."""
        default = 0 if self.gpu else CPU_MINUTES
        return 60 * (default if request.train_minutes is None else request.train_minutes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan(Measured):
    """The decisions before step 0, and their reasons.

    Attributes:
        pairs: of training.
        subwords: in the vocabulary.
        reason: for this set.
        hparams: the changes to it for its text.
        of_length: the changes for its number of steps (`preset.of_length`).
        train_steps: the most steps.
        wanted_steps: to train if the time allowed.
        goes_on: whether a longer training continues this one.
        local_eval_frequency: steps between evaluations.
        patience: it stops when BLEU has not risen for this many steps.
        bleu_sentences: dev sentences decoded at each evaluation.
        minutes: of training, at most.
        expects: what to expect of the training, in words.
    """

    pairs: int
    subwords: int
    reason: str
    hparams: str
    of_length: str
    train_steps: int
    wanted_steps: int
    goes_on: bool
    local_eval_frequency: int
    patience: int
    bleu_sentences: int
    minutes: float
    expects: str

    def __str__(self) -> str:
        """Returns two lines: what is trained and why; cost and expected result."""
        end = f" of {self.wanted_steps:,}" if self.train_steps < self.wanted_steps else ""
        return (
            f"  {self.hparams_set}, {self.parameters:,} parameters, {self.subwords:,} subwords: "
            f"{self.reason}.\n  {self.train_steps:,}{end} steps in at most "
            f"{duration(60 * self.minutes)}, at {self.seconds_per_step:.3f} s a step. "
            f"{self.expects}"
        )

    @property
    def to_the_end(self) -> str:
        """How to change a command with fewer steps to make all."""
        minutes = math.ceil(self.minutes * self.wanted_steps / self.train_steps / 10) * 10
        where = "" if self.goes_on else ", another --output_dir"
        return f"with --train_minutes={minutes}{where} and no --train_steps"


def measured(trial: RunDirectory) -> Measured:
    """Returns what a run of `TRIAL_STEPS` steps shows, reported and evaluated in parts: the first
    of each compiles."""
    config, rows = trial.config, trial.read_metrics()
    *_, train, evaluated = rows
    data, seen = (json.loads((trial.path / n).read_bytes()) for n in (TRAINING_DATA, PLAN))
    tokens = trainable.batches_per_step(config.hparams) * data["targets_tokens"] / data["batches"]
    # Subword dropout makes more tokens of a batch than these: tokens a second say too little.
    took = [b["time"] - a["time"] for a, b in itertools.pairwise(rows) if a["kind"] == b["kind"]]
    return Measured(
        hparams_set=config.hparams_set,
        parameters=seen["parameters"],
        seconds_per_step=statistics.median(took) * REPORTS / TRIAL_STEPS,
        tokens_per_step=tokens,
        evaluation_seconds=max(0.0, evaluated["time"] - train["time"]),
        gpu=seen["machine"]["kind"] == "GPU",
    )


def chosen_set(
    request: OwnTextRequest,
    text: Text,
    problem: Problem,
    data_dir: pathlib.Path,
    tried: Measured | None = None,
) -> preset.Preset:
    """Returns the requested set, or the one for the size of the text and its vocabulary.

    Args:
        request: what is asked for.
        text: what there is to train on.
        problem, data_dir: whose vocabulary it is.
        tried: the trial of another set; None: the smallest where the time has an end.
    """
    if request.hparams_set:
        apart = preset.of_separate_tables(problem, data_dir)
        return preset.Preset(request.hparams_set, "as asked", apart).beside(request.hparams)
    endless = request.train_minutes == 0 or request.train_minutes is None and preset.has_gpu()

    def tokens(row: preset.Row) -> float:
        whole = preset.tokens_of(row.hparams_set, most_steps(request, row.hparams_set, text))
        if tried is None:
            return whole if endless or request.train_steps else 0
        in_time = tried.seconds(request) * tried.tokens_per_step / tried.seconds_per_step
        costs = {each.hparams_set: each.cost for each in preset.ROWS}
        in_time *= costs.get(tried.hparams_set, 1.0) / row.cost
        return min(whole, in_time) if in_time else whole

    chosen = preset.proposed(problem, data_dir, text.train, tokens)
    return chosen.beside(request.hparams)


def make(
    request: OwnTextRequest,
    text: Text,
    chosen: preset.Preset,
    found: Measured,
    of_length: str | None = None,
) -> Plan:
    """Returns the plan.

    Args:
        request: what is asked for.
        text: what there is to train on.
        chosen: the set.
        found: what a trial of it has measured.
        of_length: that of a training which is under way and goes on; None: there is none.
    """
    hparams = registry.get_hparams(chosen.hparams_set, request.hparams).override(chosen.hparams)
    a_step, an_evaluation = found.seconds_per_step, found.evaluation_seconds
    most = most_steps(request, chosen.hparams_set, text)
    steps, frequency = schedule(most, found.seconds(request), a_step, an_evaluation)
    seconds = steps * a_step + -(-steps // frequency) * an_evaluation
    if of_length is None:
        of_length = preset.of_length(chosen.hparams_set, request.hparams, steps)
    # Before the rate is warm there may be no BLEU at all; of a rate that ends, the best is there.
    patience = max(_PATIENCE * frequency, hparams.learning_rate_warmup_steps)
    own: dict[str, Any] = {f.name: getattr(found, f.name) for f in dataclasses.fields(Measured)}
    return Plan(
        **own,
        pairs=text.train.pairs,
        subwords=text.subwords,
        reason=chosen.reason,
        hparams=chosen.hparams,
        of_length=of_length,
        train_steps=steps,
        wanted_steps=max(most, hparams.train_steps),
        goes_on=not hparams.reads_train_steps,
        local_eval_frequency=frequency,
        patience=steps if hparams.reads_train_steps else patience,
        bleu_sentences=min(BLEU_SENTENCES, text.dev),
        minutes=round(seconds / 60, 1),
        expects=expectation(text, steps, most, found),
    )


def most_steps(request: OwnTextRequest, hparams_set: str, text: Text) -> int:
    """Returns how many steps to train if the time allows.

    Args:
        request: what is asked for.
        hparams_set: the set.
        text: what there is to train on.
    """
    own = registry.get_hparams(hparams_set, request.hparams).train_steps
    if request.train_steps or request.hparams_set or hparams_set != preset.COOLDOWN:
        return request.train_steps or own
    a_step = preset.tokens_of(hparams_set, 1)
    return max(own, _rounded(_EPOCHS * text.train.size / preset.BYTES_OF_A_TOKEN / a_step))


def schedule(steps: int, seconds: float, a_step: float, an_evaluation: float) -> tuple[int, int]:
    """Returns the number of steps, and that between evaluations.

    Evaluations take a fifth of the time at most; there are about 20 of them, or fewer.

    Args:
        steps: the most.
        seconds: about the most; 0: no limit.
        a_step, an_evaluation: seconds that each takes.
    """
    whole = min(steps * a_step / (1 - _SHARE), seconds or math.inf)
    count = max(1, min(EVALUATIONS, int(_SHARE * whole / max(an_evaluation, 1e-3))))
    if seconds:
        in_time = _rounded((seconds - count * an_evaluation) / a_step)
        steps = max(min(steps, in_time), min(steps, LEAST_STEPS))
    return steps, min(steps, max(LEAST_STEPS, _rounded(steps / count)))


def expectation(text: Text, steps: int, most: int, found: Measured) -> str:
    """Returns what to expect of a training, by the tokens that it sees and the words of its text.

    Args:
        text: of training.
        steps: of the training.
        most: the steps if the time allowed.
        found: what a trial of it has measured.
    """
    least = _LEAST_PAIRS if text.length < _LONG else _LEAST_LONG
    if text.train.pairs < least:
        of = f"{text.train.pairs:,} pairs of sentences of {text.length:.0f} words are too few"
        return f"A usable translator is unlikely: {of}, about {least:,} are needed."
    usable = next(tokens for words, tokens in USABLE if text.words <= words)
    of = f"steps for {text.words:,} distinct words (in a sample)"
    if steps * found.tokens_per_step >= usable:
        return f"Expect a usable translator, {USABLE_BLEU}+ BLEU on similar text: enough {of}."
    needed = math.ceil(usable / found.tokens_per_step)
    minutes = math.ceil(needed * found.seconds_per_step / (1 - _SHARE) / 600) * 10
    longer = f" --train_steps={needed}" * (needed > most)
    return (
        f"Expect the gist at best: too few {of}. For {USABLE_BLEU} BLEU or more, train "
        f"on about {usable / 1e6:.2g} million target tokens: --train_minutes={minutes}{longer}"
    )


def _rounded(number: float) -> int:
    """Returns a number of two digits, not above `number`."""
    whole = int(max(number, 1))
    unit = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit
