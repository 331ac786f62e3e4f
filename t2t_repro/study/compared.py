"""The variants of t2t-compare: post-norm and pre-norm of one set, or sets; by depth and warm-up.

Between post-norm and pre-norm nothing else differs in one setting with one seed: the initial
kernels, the batches and their order, the dropout's seeds and the learning rate are the same. Sets
differ in all their settings.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from t2t_repro import registry
from t2t_repro.config import BASELINES, HParams
from t2t_repro.errors import UserError
from t2t_repro.study.study import Variant

NAMED_SCHEDULE = "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"
# layer_preprocess_sequence and layer_postprocess_sequence.
SEQUENCES = {"post-norm": ("none", "dan"), "pre-norm": ("n", "da")}
# A set, and in brackets what is changed of this one alone.
_SET = re.compile(r"\s*([^\s,\[\]]+)\s*(?:\[([^\[\]]*)\])?\s*(?:,|$)")


def norms(hparams_set: str, changes: str) -> list[Variant]:
    """Returns a set as post-norm and as pre-norm.

    T2T's legacy "noam" schedule becomes the product of named factors that T2T's own later sets have
    in its place; it counts from step, where "noam" counts from step + 1.

    Args:
        hparams_set: a set of a Transformer.
        changes: of the set, as t2t-trainer's --hparams.

    Raises:
        UserError: if there is no such set, or it has no such sequences.
    """
    base = registry.get_hparams(hparams_set, changes)
    if base.model in BASELINES:
        raise UserError(
            "Expected the --hparams_set of a Transformer, which can be post- or pre-norm. "
            f"Received: {hparams_set}, with model={base.model}. To compare it, give --hparams_sets."
        )
    base = _with_named_schedule(base)
    return [
        Variant(
            name,
            hparams_set,
            dataclasses.replace(
                base, layer_preprocess_sequence=before, layer_postprocess_sequence=after
            ),
            f"{before}-{after}",
        )
        for name, (before, after) in SEQUENCES.items()
    ]


def sets(text: str, changes: str) -> list[Variant]:
    """Reads "transformer_base_v1,lstm_attention[hidden_size=256,dropout=0.3]".

    Args:
        text: sets, with changes of their own in brackets.
        changes: of all sets, as t2t-trainer's --hparams.

    Raises:
        UserError: if there are not two different ones, or no such sets.
    """
    asked, at = [], 0
    while (piece := _SET.match(text, at)) and at < len(text):
        asked.append((piece[1], (piece[2] or "").strip()))
        at = piece.end()
    if at < len(text.rstrip(", ")) or len(set(asked)) < max(2, len(asked)):
        raise UserError(
            "Expected two or more --hparams_sets, each once, separated by commas, with overrides "
            "in brackets, such as transformer_base_v1,lstm_attention[dropout=0.3]. Received: "
            f"{text!r}."
        )
    names = [hparams_set for hparams_set, _ in asked]
    found = []
    for hparams_set, own in asked:
        written = f"{hparams_set}[{own}]" if own else hparams_set
        name = hparams_set if names.count(hparams_set) == 1 else written
        hparams = registry.get_hparams(hparams_set, changes).override(own)
        folder = re.sub(r"[^\w.=]+", "-", written).strip("-")
        found.append(Variant(name, hparams_set, hparams, folder))
    return found


def in_settings(
    variants: Iterable[Variant],
    depths: Sequence[int | None],
    warmups: Sequence[int | None],
    train_steps: int,
) -> tuple[Variant, ...]:
    """Returns each variant in each setting; None: as the set has it.

    A warm-up of 0 leaves the schedule's factor "linear_warmup" out and nothing else: the rate
    begins at the peak that the set's own warm-up would have led to, stays there as long as that,
    and falls then. (T2T's formula with 0 in it would begin at hidden_size**-0.5, some sixty times
    that peak, where nothing learns.) Any other warm-up is T2T's learning_rate_warmup_steps, which
    sets the length of the rise and with it the peak.

    Raises:
        UserError: if a schedule reads no warm-up.
    """
    found = []
    for depth, warmup, variant in itertools.product(depths, warmups, variants):
        hparams = dataclasses.replace(variant.hparams, train_steps=train_steps)
        if warmup is not None:
            hparams = _warmed_up(hparams, warmup)
        if depth is not None:
            hparams = dataclasses.replace(
                hparams, num_hidden_layers=depth, num_encoder_layers=0, num_decoder_layers=0
            )
        axes = {"depth": depth, "warmup": warmup}
        parts = [f"{name}-{value}" for name, value in axes.items() if value is not None]
        folder = "_".join([*parts, variant.folder])
        own = dataclasses.replace(variant, hparams=hparams, folder=folder)
        found.append(dataclasses.replace(own, depth=depth, warmup=warmup))
    return tuple(found)


def _warmed_up(hparams: HParams, warmup: int) -> HParams:
    """Returns hparams with another warm-up."""
    if not warmup:
        hparams = _with_named_schedule(hparams)
    if warmup or "legacy" in hparams.factors:  # which begins at its peak with a warm-up of 0
        return hparams.override(f"learning_rate_warmup_steps={warmup}")
    kept = "*".join(name for name in hparams.factors if name != "linear_warmup")
    return dataclasses.replace(hparams, learning_rate_schedule=kept)


def _with_named_schedule(hparams: HParams) -> HParams:
    """Returns hparams with NAMED_SCHEDULE in the place of "noam", and the constant of that."""
    if "legacy" not in hparams.factors or hparams.learning_rate_decay_scheme != "noam":
        return hparams
    from t2t_repro.training import learning_rate

    scale = 5000.0 * learning_rate.correction(hparams)  # both T2T's
    return dataclasses.replace(
        hparams,
        learning_rate_schedule=hparams.learning_rate_schedule.replace("legacy", NAMED_SCHEDULE),
        learning_rate_constant=scale * hparams.learning_rate,
    )
