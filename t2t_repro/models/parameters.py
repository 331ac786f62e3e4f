"""How many parameters a model has, counted from its hparams without making it.

Tests hold the counts equal to those of the models that `from_hparams` builds.
"""

import os
from dataclasses import dataclass
from typing import Any

from t2t_repro import memory
from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.hparam_rules import BYTENET, DOT_PRODUCTS, RECURRENT
from t2t_repro.models import bytenet_cost, sharing
from t2t_repro.models.lstm_cost import LSTMCost
from t2t_repro.names import snake_case
from t2t_repro.problem import Problem

TARGET_SPACES = 32  # rows of T2T's table of kinds of target


@dataclass(frozen=True)
class Parameters:
    """The variables of a model, by what they belong to."""

    embeddings: int  # (V, D): inputs, targets and softmax, once where they are shared
    attention: int  # kernels of queries, keys, values and outputs, and of scores; no biases
    feed_forward: int  # two kernels, two biases
    norms: int  # a scale and a bias each, where the type has them; and gates of residuals
    others: int  # T2T's embedding of the target space; positions; relative ones; opponents

    @property
    def total(self) -> int:
        """All of them."""
        return self.embeddings + self.attention + self.feed_forward + self.norms + self.others


def check_memory(
    hparams: HParams, problem: Problem, data_dir: str | os.PathLike, *, training: bool
) -> None:
    """Checks that a model fits into memory, before any of it is made.

    What cannot be: activations, gradients and what others hold come on top. A GPU has its own
    memory, but a checkpoint goes through that of the machine.

    Args:
        hparams: the model's settings.
        problem: it knows the vocabularies.
        data_dir: where they lie.
        training: whether the optimizer's slots are needed, too.

    Raises:
        UserError: if it does not, or a vocabulary is missing.
    """
    where = os.fspath(data_dir)
    sizes = problem.inputs_vocab_size(where), problem.targets_vocab_size(where)
    total, held = count(hparams, *sizes).total, copies(hparams) if training else 1
    need, there = 4 * total * held, memory.total()
    if need > there:
        slots = f" and {held - 1} of the optimizer for each" if held > 1 else ""
        raise UserError(
            f"Expected a model that fits into the {there / 1e9:,.1f} GB of memory that are there. "
            f"Received: {total:,} parameters{slots}, 4 bytes each, {need / 1e9:,.1f} GB. Make "
            "hidden_size, filter_size, the number of layers or the vocabulary smaller."
        )


def check_sharing(hparams: HParams, problem: Problem, data_dir: str | os.PathLike) -> None:
    """Refuses one table for two vocabularies of a problem, as `check_apart`."""
    where = os.fspath(data_dir)
    if problem.are_vocabularies_separate(where):
        check_apart(hparams, problem, where)


def check_apart(hparams: HParams, problem: Problem, where: str) -> None:
    """Refuses one table for two vocabularies, in which an id means two things.

    Those of two sizes share nothing: see `sharing.of`.

    Args:
        hparams: the model's settings.
        problem: of two vocabularies.
        where: the folder in which they lie.

    Raises:
        UserError: naming the hparams to change.
    """
    names = ("shared_embedding", "shared_embedding_and_softmax_weights")
    shared = [name for name in names if getattr(hparams, name)]
    sizes = problem.inputs_vocab_size(where), problem.targets_vocab_size(where)
    if sharing.of(hparams, *sizes).both_sides:
        raise UserError(
            f"Expected one vocabulary for both sides, whose embeddings {' and '.join(shared)} "
            f"would share. Received: two, with tables of {sharing.rows(hparams, sizes[0]):,} rows "
            f"each, in {where!r}. Give --hparams={','.join(f'{name}=False' for name in shared)}, "
            "or vocabularies with tables of different sizes, which share nothing."
        )


def check_search(
    hparams: HParams, problem: Problem, data_dir: str | os.PathLike, beams: int, longest: int
) -> None:
    """Checks that the search for one translation fits into memory, before any of it is made.

    What cannot be: of each beam the keys and values of every token, or what its model has in their
    place, and twice the logits of one.

    Args:
        hparams: the model's settings.
        problem: it knows the vocabularies.
        data_dir: where they lie.
        beams: how many hypotheses are kept.
        longest: how many tokens a translation may have.

    Raises:
        UserError: if it does not, or a vocabulary is missing.
    """
    kept = longest * hparams.decoder_layers * sum(_widths(hparams))
    if hparams.model in RECURRENT:
        kept = 2 * hparams.num_hidden_layers * LSTMCost(hparams).width  # the state alone
    elif hparams.model == BYTENET:
        kept = longest * hparams.hidden_size  # of all that was written, anew at each step
    need = 4 * beams * (kept + 2 * problem.targets_vocab_size(os.fspath(data_dir)))
    if need > (there := memory.total()):
        raise UserError(
            f"Expected a search that fits into the {there / 1e9:,.1f} GB of memory that are there. "
            f"Received: beam_size={beams} of up to {longest:,} tokens each, {need / 1e9:,.1f} GB. "
            "Make beam_size or extra_length smaller."
        )


def copies(hparams: HParams) -> int:
    """Returns how many values a checkpoint has of each parameter: its own and the optimizer's.

    Factored ones do not count.
    """
    average = hparams.ema_decay > 0
    if snake_case(hparams.optimizer) == "adafactor":
        whole = not hparams.optimizer_adafactor_factored
        return average + 1 + whole + (hparams.optimizer_adafactor_beta1 > 0)
    return average + 3 + (hparams.optimizer_multistep_accumulate_steps > 0)


def gradients(
    hparams: HParams, vocab_size: int, targets_vocab_size: int | None = None, parts: int = 1
) -> int:
    """Returns how many values the gradients of a step have at once.

    A table that is the softmax's too has a dense one of each side that looks it up, of the softmax,
    and their sum. Processes were measured to hold, besides weights and slots, 4 times such a table,
    6 and 10 times with 2 and 4 parts, and other tables once.

    Args:
        hparams: the model's settings.
        vocab_size: of the inputs.
        targets_vocab_size: of the targets; None: they have one vocabulary.
        parts: of a batch, each of which has its own.
    """
    targets = targets_vocab_size or vocab_size
    total = count(hparams, vocab_size, targets).total
    if not sharing.of(hparams, vocab_size, targets).softmax:
        return parts * total
    table = sharing.rows(hparams, targets) * hparams.hidden_size
    return parts * (total - table) + (2 * parts + 2) * table


def count(hparams: HParams, vocab_size: int, targets_vocab_size: int | None = None) -> Parameters:
    """Returns the parameters of the model of `hparams`.

    Args:
        hparams: the model's settings.
        vocab_size: of the inputs.
        targets_vocab_size: of the targets; None: they have one vocabulary.
    """
    depth, filters = hparams.hidden_size, hparams.filter_size
    keys, values = _widths(hparams)
    encoder, decoder = hparams.encoder_layers, hparams.decoder_layers
    sizes = vocab_size, targets_vocab_size or vocab_size
    source, target = (sharing.rows(hparams, size) for size in sizes)
    one = sharing.of(hparams, *sizes)
    rows = source + (not one.both_sides) * target + (not one.softmax) * target
    if hparams.model in RECURRENT:
        return _of_lstms(hparams, rows, target)
    if hparams.model == BYTENET:
        own = bytenet_cost.parameters(hparams)
        return Parameters(embeddings=rows * depth, attention=0, feed_forward=0, **own)
    before = _letters("n", hparams.layer_preprocess_sequence)
    after = _letters("n", hparams.layer_postprocess_sequence)
    gates = _letters("z", hparams.layer_postprocess_sequence)
    sublayers = 2 * encoder + 3 * decoder
    norms = sublayers * (before + after) + 2 * before  # the stacks preprocess their last sum too
    others = TARGET_SPACES * depth * hparams.use_target_space_embedding
    learned = 2 * hparams.max_length * depth
    others += _of(hparams, "pos", {"timing": 0, "emb": learned, "none": 0, None: 0})
    heads = hparams.num_heads
    size = keys // heads
    of_score = {"multiplicative": heads * size**2, "additive": heads * (2 * size**2 + size)}
    score = _of(hparams, "attention_score", dict.fromkeys(DOT_PRODUCTS, 0) | of_score)
    if hparams.self_attention_type == "dot_product_relative":
        distances = 2 * hparams.max_relative_position + 1
        others += (encoder + decoder) * distances * (keys + values) // hparams.num_heads
    of_norm = {"layer": 2, "group": 2, "l2": 2, "batch": 2, "noam": 0, "none": 0}
    of_norm = {name: vectors * depth for name, vectors in of_norm.items()}
    return Parameters(
        embeddings=rows * depth,
        attention=attentions(hparams) * (2 * depth * (keys + values) + score),
        feed_forward=(encoder + decoder) * (2 * depth * filters + filters + depth),
        norms=norms * _of(hparams, "norm_type", of_norm) + sublayers * gates,
        others=others,
    )


def _of_lstms(hparams: HParams, rows: int, target: int) -> Parameters:
    """Returns the parameters of a recurrent model, given the rows of tables and of the targets'."""
    cost = LSTMCost(hparams)
    embeddings = rows * hparams.hidden_size + target * (cost.softmax_depth - hparams.hidden_size)
    return Parameters(embeddings=embeddings, feed_forward=0, norms=0, **cost.parameters())


def attentions(hparams: HParams) -> int:
    """Returns how many attention sublayers there are."""
    return hparams.encoder_layers + 2 * hparams.decoder_layers


def attention_biases(hparams: HParams) -> int:
    """Returns the biases of the attention's projections, which T2T had in 2017 and then dropped."""
    keys, values = _widths(hparams)
    return attentions(hparams) * (2 * keys + values + hparams.hidden_size)


def _of(hparams: HParams, name: str, counts: dict[Any, int]) -> int:
    """Returns what stands in `counts` for the value of a setting."""
    value = getattr(hparams, name)
    if value not in counts:
        raise UserError(
            f"Expected {name} to be one of {', '.join(map(str, counts))}, whose parameters can be "
            f"counted. Received: {value}. Say here how many it has: {__name__}."
        )
    return counts[value]


def _letters(letter: str, sequence: str) -> int:
    """How often a sequence has a letter; "none" is one of no letters."""
    return 0 if sequence == "none" else sequence.count(letter)


def _widths(hparams: HParams) -> tuple[int, int]:
    """The total widths of keys and of values."""
    depth = hparams.hidden_size
    return hparams.attention_key_channels or depth, hparams.attention_value_channels or depth
