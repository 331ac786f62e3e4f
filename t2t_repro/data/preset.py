"""The size of a text, the hparam set for it and for a time, and its scaling to other steps."""

import math
import os
import pathlib
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from t2t_repro import registry, schema
from t2t_repro.config import HParams
from t2t_repro.corpora import raw_record
from t2t_repro.data import packing, tfrecord
from t2t_repro.data.job import summary_path
from t2t_repro.data.needs import size_text
from t2t_repro.fields import parse_overrides
from t2t_repro.problem import Problem, Split, Text2TextProblem, VocabType
from t2t_repro.text import raw

_NAMES = ("small", "regularized", "bidirectional", "cooldown", "annealed", "medium", "large")
SMALL, REGULARIZED, BIDIRECTIONAL, COOLDOWN, ANNEALED, MEDIUM, LARGE = (
    f"transformer_own_text_{name}" for name in _NAMES
)


class TextSize(NamedTuple):
    """The size of a training text; repetitions count once.

    Attributes:
        pairs: of sentences.
        size: bytes in UTF-8, of both sides together.
    """

    pairs: int
    size: int

    @classmethod
    def once(cls, pairs: int, size: int, times: float = 1) -> "TextSize":
        """Returns the size of a text in which each pair occurs `times` times.

        A `size` of 0 is unknown: pairs are then as long as captions.
        """
        pairs, size = round(pairs / max(times, 1)), round(size / max(times, 1))
        return cls(pairs, size or pairs * _BYTES_OF_A_CAPTION)

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> "TextSize":
        """Returns the size in a summary of t2t-datagen.

        Raises:
            LookupError: if it has none.
        """
        made = summary["splits"][Split.TRAIN]
        size = sum(made.get("bytes", {}).values())
        return cls.once(made["examples"], size, made.get(raw_record.REPEATED, 1))


class Row(NamedTuple):
    """A set, the text for it, and the training that it needs.

    Attributes:
        hparams_set: the set.
        pairs: the least number of pairs.
        size: the least bytes, of both sides.
        tokens: target tokens that a training must see for the set to be worth its time.
        cost: of training a token, relative to COOLDOWN, on two cores.
        epochs: that a training must make for the set to be worth its time.
    """

    hparams_set: str
    pairs: int
    size: int
    tokens: float
    cost: float
    epochs: float = 0


# Larger text gains by subword dropout only in many epochs; without it, a rate that falls to 0
# overfits less (docs/own-text.md has what each gives).
# 1.5 MB are some 11,000 captions.
ROWS = (
    Row(LARGE, pairs=1_000_001, size=0, tokens=150e6, cost=20.0),  # on a GPU alone
    Row(MEDIUM, pairs=100_001, size=0, tokens=60e6, cost=3.4),
    Row(ANNEALED, pairs=0, size=1_500_001, tokens=0, cost=1.3, epochs=60),
    Row(COOLDOWN, pairs=0, size=1_500_001, tokens=0, cost=1.0),
)
# layer_prepostprocess_dropout, at most, of a training of fewer passes over its text. With 0.1,
# 166,000 short pairs give 37.1 BLEU after 3 passes (with the sets' own 0.3: 32.4) and 47.3 after 20
# (0.2: 45.6), news English-Swahili 17.1 after 17 (0.2: 15.8), and 50,000 English-Japanese pairs
# 44.4 after 27 (0.3: 42.7); but captions 41.5 after 30 (0.3: 42.2).
_DROPOUT, _FEW_PASSES = 0.1, 28
_BYTES_OF_A_CAPTION = 135  # of both sides, in Multi30k
BYTES_OF_A_TOKEN = 7.6  # of both sides, in four texts with the vocabulary that is chosen for them
_OF_STEPS = ("bidirectional_steps", "subword_dropout_final_steps", "learning_rate_decay_steps")
_FILLED = 0.75  # of `batch_size`: the target tokens that a batch has, without padding
_DEV = pathlib.Path("/dev")


class Preset(NamedTuple):
    """A set, why it is proposed, and changes to it as --hparams has them."""

    hparams_set: str
    reason: str
    hparams: str = ""

    def beside(self, asked: str) -> "Preset":
        """Returns it without changes that the user's override.

        Raises:
            UserError: if `asked` is not of the form "name=value,name=value".
        """
        named = parse_overrides(asked)
        kept = {n: v for n, v in parse_overrides(self.hparams).items() if n not in named}
        return self._replace(hparams=",".join(f"{name}={value}" for name, value in kept.items()))

    def flags(self) -> str:
        """Returns its flags for t2t-trainer."""
        changes = f" --hparams={self.hparams}" if self.hparams else ""
        return f"--hparams_set={self.hparams_set}{changes}"


def has_gpu() -> bool:
    """Returns whether this machine has a GPU of NVIDIA's that is not hidden.

    It loads no library, so a GPU without installed libraries counts too.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(_DEV.glob("nvidia[0-9]*"))


def text_of(problem: Problem, data_dir: str, tmp_dir: str) -> TextSize | None:
    """Returns the size of a problem's training text; None: unknown.

    Args:
        problem: whose.
        data_dir: the folder of its files.
        tmp_dir: the folder of the raw files, if the data do not exist.

    Raises:
        UserError: if the raw files cannot be read.
    """
    problem = problem.forward()
    if tfrecord.are_there(problem, data_dir):
        try:  # tensor2tensor's data have no summary
            return TextSize.from_summary(schema.read(summary_path(problem, data_dir), dict))
        except (OSError, ValueError, LookupError):
            return None
    pairs = problem.num_samples(tmp_dir, Split.TRAIN)
    if pairs is None:
        return None
    paths = problem.raw_text_files(tmp_dir, Split.TRAIN)
    files = [sum(len(line.strip()) for line in raw.raw_lines(path)) for path in paths]
    size = 2 * sum(files) // max(1, len(files))  # of distillation there are three, for two sides
    return TextSize.once(pairs, size, raw_record.repeated(paths))


def tokens_of(hparams_set: str, steps: int | None = None) -> float:
    """Returns about how many target tokens a set sees in `steps`; None: its own steps."""
    hparams = registry.get_hparams(hparams_set)
    return _FILLED * hparams.batch_size * (steps or hparams.train_steps)


def preset(
    text: TextSize,
    gpu: bool,
    little: str,
    tokens: Callable[[Row], float] = lambda row: tokens_of(row.hparams_set),
) -> Preset:
    """Returns the largest set for a text that sees enough tokens in the time.

    Args:
        text: of training.
        gpu: whether it is trained on a GPU.
        little: the set for a text too small for the others (`for_little_text`).
        tokens: returns how many target tokens a training of a set sees; default: its own steps.
    """
    # On a CPU a large set takes days; words that cannot be cut in other ways cannot be annealed.
    unfit = [LARGE] * (not gpu) + [ANNEALED] * (little == SMALL)
    rows = [row for row in (*ROWS, Row(little, 0, 0, 0, 1.0)) if row.hparams_set not in unfit]
    rows = [row for row in rows if text.pairs >= row.pairs and text.size >= row.size]
    epoch = max(1, text.size) / BYTES_OF_A_TOKEN
    row = next(row for row in rows if tokens(row) >= max(row.tokens, row.epochs * epoch))
    seen, passes = tokens(row), tokens(row) / epoch
    reason = (
        f"{text.pairs:,} pairs, {size_text(text.size)}; training sees {seen / 1e6:.3g} million "
        f"target tokens, {passes:,.1f} passes over the text"
    )
    own = registry.get_hparams(row.hparams_set).layer_prepostprocess_dropout
    less = passes < _FEW_PASSES and own > _DROPOUT
    change = f"layer_prepostprocess_dropout={_DROPOUT}" if less else ""
    return Preset(row.hparams_set, reason, change)


def proposed(
    problem: Problem,
    data_dir: str | os.PathLike,
    text: TextSize,
    tokens: Callable[[Row], float] = lambda row: tokens_of(row.hparams_set),
) -> Preset:
    """Returns the set for a problem's text on this machine.

    Args:
        problem: for which `is_for` holds.
        data_dir: the folder of its files, or that they will be made in.
        text: of training.
        tokens: as in `preset`.
    """
    chosen = preset(text, has_gpu(), for_little_text(problem, data_dir), tokens)
    changes = [chosen.hparams, of_separate_tables(problem, data_dir)]
    return chosen._replace(hparams=",".join(filter(None, changes)))


def of_length(hparams_set: str, asked: str, steps: int) -> str:
    """Returns the changes to a set for another number of steps.

    Both directions, steps without subword dropout and the fall of the rate keep their share of the
    steps; with fewer steps also the warm-up, to the same highest rate.

    Args:
        hparams_set: the set.
        asked: the user's changes to it, which stay.
        steps: the new number.

    Raises:
        UserError: if the set, or `asked`, is wrong.
    """
    whole, hparams = (registry.get_hparams(hparams_set, changes) for changes in ("", asked))
    changes = scaled(whole, steps, [*parse_overrides(asked), *hparams.unused(_OF_STEPS)])
    return ",".join(f"{name}={value}" for name, value in changes.items())


def scaled(whole: HParams, steps: int, but: Container[str]) -> dict[str, float]:
    """Returns the changes by which the phases of `whole` keep their share of the steps.

    Args:
        whole: a configuration.
        steps: how many steps to make instead of its own.
        but: hparams that stay.
    """
    if steps == whole.train_steps:
        return {}
    share = steps / whole.train_steps
    names = [n for n in _OF_STEPS if n not in but and not whole.unused([n])]
    if "learning_rate_decay_rate" in whole.read_by_schedule:  # the pace of a decay without an end
        names = [n for n in names if n != "learning_rate_decay_steps"]
    changes: dict[str, float] = {
        name: max(1, round(value * share)) for name in names if (value := getattr(whole, name))
    }
    # A rate that falls by the root of the steps is the higher the shorter its warm-up is.
    rate = "learning_rate" if "legacy" in whole.factors else "learning_rate_constant"
    falls = {"legacy", "rsqrt_decay"} & {*whole.factors}
    warmup = whole.learning_rate_warmup_steps
    said = rate in but or "learning_rate_warmup_steps" in but
    if share < 1 and falls and warmup and not said:
        changes["learning_rate_warmup_steps"] = shorter = max(1, round(warmup * share))
        changes[rate] = round(getattr(whole, rate) * math.sqrt(shorter / warmup), 6)
    return changes


def of_separate_tables(problem: Problem, data_dir: str | os.PathLike) -> str:
    """Returns the change that two vocabularies of one size need, which a table would share; "" for
    one vocabulary, or two of different sizes."""
    where = os.fspath(data_dir)
    apart = problem.are_vocabularies_separate(where)
    same = apart and problem.inputs_vocab_size(where) == problem.targets_vocab_size(where)
    return "shared_embedding_and_softmax_weights=False" if same else ""


def for_little_text(problem: Problem, data_dir: str | os.PathLike) -> str:
    """Returns the best set for a problem with little text.

    It depends on whether words can be segmented in other ways and pairs swapped. A subclass with
    encoders of its own counts as one with two vocabularies.
    """
    problem = problem.forward()
    names = problem.vocab_files(data_dir)
    if problem.packed_length or not any(n.endswith(f".{VocabType.SUBWORD}") for n in names):
        return SMALL
    is_usual = type(problem).feature_encoders is Text2TextProblem.feature_encoders
    one = is_usual and packing.learns_its_targets(problem) and len(names) < 2
    return BIDIRECTIONAL if one else REGULARIZED


def is_for(problem: Problem) -> bool:
    """Returns whether a problem is the user's own text: T2T's problems set their number of
    subwords."""
    problem = problem.forward()
    return isinstance(problem, Text2TextProblem) and not problem.says_vocab_size
