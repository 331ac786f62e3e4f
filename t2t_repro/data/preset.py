"""Which hparam set suits so much text, on this device, and what of it follows from the steps."""

import inspect
import os
import pathlib
from collections.abc import Container, Mapping
from typing import NamedTuple

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.data import both_directions
from t2t_repro.data.needs import size_text
from t2t_repro.data.text_size import TextSize
from t2t_repro.fields import parse_overrides
from t2t_repro.problem import Problem, Text2TextProblem, VocabType
from t2t_repro.text import own_vocabulary

SMALL, REGULARIZED, BIDIRECTIONAL, COOLDOWN, MEDIUM, LARGE = (
    f"transformer_own_text_{which}"
    for which in ("small", "regularized", "bidirectional", "cooldown", "medium", "large")
)
# Bytes, at most, some 11,000 captions. More text gains by regularization only in longer trainings
# than these sets have: they pass over it too few times. Less text is learned by heart at a rate
# that falls to 0 where its words are not cut anew (docs/little-text.md).
_OF_REGULARIZED = 1_500_000
_OF_STEPS = ("bidirectional_steps", "subword_dropout_final_steps", "learning_rate_decay_steps")
_OF_SMALL, _OF_MEDIUM = 100_000, 1_000_000  # pairs, at most
_DEV = pathlib.Path("/dev")


class Preset(NamedTuple):
    """A set, why it is proposed, and changes to it as --hparams has them."""

    hparams_set: str
    reason: str
    hparams: str = ""

    def beside(self, asked: str) -> "Preset":
        """Returns it without changes of its own where the user's name the same hparam.

        Raises:
            UserError: if `asked` is not of the form "name=value,name=value".
        """
        named = self.hparams.partition("=")[0] in parse_overrides(asked)
        return self._replace(hparams="") if named else self

    def flags(self) -> str:
        """Returns what names it to t2t-trainer."""
        changes = f" --hparams={self.hparams}" if self.hparams else ""
        return f"--hparams_set={self.hparams_set}{changes}"


def has_gpu() -> bool:
    """Returns whether this machine has a GPU of NVIDIA's that is not hidden.

    No library is loaded for it, so that one whose library is not installed counts too.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(_DEV.glob("nvidia[0-9]*"))


def preset(text: TextSize, gpu: bool, subwords: bool, shared: bool) -> Preset:
    """Returns the set for a text.

    Args:
        text: of training.
        gpu: whether it is trained on a GPU.
        subwords: whether its words can be cut into other subwords (`has_subwords`).
        shared: whether both sides have one vocabulary (`has_one_vocabulary`).
    """
    pairs = text.pairs
    what = f"{pairs:,} training pairs on a {'GPU' if gpu else 'CPU'}"
    if pairs <= _OF_SMALL:
        few = f"{what}: a larger model learns so few by heart"
        if text.size > _OF_REGULARIZED:
            long = f"regularizers help {size_text(text.size)} of text in long runs alone"
            return Preset(COOLDOWN, f"{few}; {long}, a rate that falls to 0 at the end in any")
        if not subwords:
            return Preset(SMALL, few)
        cut = f"{few}, and this one sees their words in other subwords"
        if shared:
            return Preset(BIDIRECTIONAL, f"{cut} and at first in both directions")
        return Preset(REGULARIZED, cut)
    if pairs <= _OF_MEDIUM or not gpu:
        slow = "a larger one takes weeks there" if pairs > _OF_MEDIUM else "they support this width"
        return Preset(MEDIUM, f"{what}: {slow}")
    return Preset(LARGE, f"{what}: they support the paper's base model")


def proposed(
    problem: Problem,
    data_dir: str | os.PathLike,
    text: TextSize,
    vocabularies: Mapping[str, str] | None = None,
) -> Preset:
    """Returns the set for a problem's text on this machine.

    Args:
        problem: for which `is_for` holds.
        data_dir: the folder of its files, or that they will be made in.
        text: of training.
        vocabularies: {side: file} of the user's that will be taken; None: those in `data_dir`.
    """
    subwords, shared = has_subwords(problem, data_dir), has_one_vocabulary(problem, data_dir)
    chosen = preset(text, has_gpu(), subwords, shared)
    return chosen._replace(hparams=of_separate_tables(problem, data_dir, vocabularies))


def of_length(hparams_set: str, asked: str, steps: int) -> str:
    """Returns the changes that a set needs where it makes fewer steps than its own, or more.

    What it does in its first or last steps, it then does in the same share of them: both
    directions, no subword dropout, a rate that falls to 0.

    Args:
        hparams_set: the set.
        asked: the user's changes to it; what these name stays as it is.
        steps: how many it shall make.

    Raises:
        UserError: if the set, or `asked`, is wrong.
    """
    whole, hparams = (registry.get_hparams(hparams_set, changes) for changes in ("", asked))
    changes = scaled(whole, steps, [*parse_overrides(asked), *hparams.unread(_OF_STEPS)])
    return ",".join(f"{name}={value}" for name, value in changes.items())


def scaled(whole: HParams, steps: int, but: Container[str]) -> dict[str, int]:
    """Returns what `whole` does in its first or last steps, in the same share of others.

    Args:
        whole: a configuration.
        steps: how many steps to make instead of its own.
        but: hparams that stay as they are.
    """
    if steps == whole.train_steps:
        return {}
    names = [n for n in _OF_STEPS if n not in but and not whole.unread([n])]
    if "learning_rate_decay_rate" in whole.read_by_schedule:  # the pace of a decay without an end
        names = [n for n in names if n != "learning_rate_decay_steps"]
    return {
        name: max(1, round(value * steps / whole.train_steps))
        for name in names
        if (value := getattr(whole, name))
    }


def of_separate_tables(
    problem: Problem, data_dir: str | os.PathLike, vocabularies: Mapping[str, str] | None = None
) -> str:
    """Returns the change that two vocabularies of one size need, which a table would share.

    Arguments as in `proposed`; "" where there is one vocabulary, or two of different sizes.
    """
    where = os.fspath(data_dir)
    if vocabularies:
        apart = own_vocabulary.are_of_one_size(vocabularies)
    else:
        sizes = problem.inputs_vocab_size, problem.targets_vocab_size
        apart = problem.are_vocabularies_separate(where) and sizes[0](where) == sizes[1](where)
    return "shared_embedding_and_softmax_weights=False" if apart else ""


def has_subwords(problem: Problem, data_dir: str | os.PathLike) -> bool:
    """Returns whether `subword_dropout` can cut the words of a problem's text anew."""
    problem = problem.forward()
    names = problem.vocab_files(data_dir)
    return not problem.packed_length and any(
        name.endswith(f".{VocabType.SUBWORD}") for name in names
    )


def has_one_vocabulary(problem: Problem, data_dir: str | os.PathLike) -> bool:
    """Returns whether a problem's pairs can be turned round, as `bidirectional_steps` does.

    What encoders a subclass makes itself is not known before there is a vocabulary: two.
    """
    problem = problem.forward()
    usual = inspect.getattr_static(Text2TextProblem, "feature_encoders")
    if problem.packed_length or inspect.getattr_static(problem, "feature_encoders") is not usual:
        return False
    if not both_directions.learns_its_targets(problem):
        return False
    return len(problem.vocab_files(data_dir)) < 2


def is_for(problem: Problem) -> bool:
    """Whether a problem is the user's own text: one of T2T's says how many subwords it has."""
    problem = problem.forward()
    return isinstance(problem, Text2TextProblem) and not problem.says_vocab_size
