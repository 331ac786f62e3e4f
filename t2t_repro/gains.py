"""What fine-tuning gained in the new domain and lost in the old: both runs decode both dev sets.

The intervals and p are those of sacreBLEU's paired bootstrap (Koehn 2004), parent against child.
"""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.progress import took
from t2t_repro.requests import flag
from t2t_repro.run_directory import WARM_START
from t2t_repro.runs import TrainedRun
from t2t_repro.scoring.significance import paired_bootstrap
from t2t_repro.translation import check_text

OLD, NEW = "old", "new"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GainsRequest:
    """What to compare by, as the flags of t2t-gains."""

    sentences: int = flag(
        1000, "Decode this many dev sentences of each, spread over the split; 0: all.", least=0
    )
    decode_hparams: str = flag("", "How to decode, for both runs; default: as the run says.")
    max_bleu_drop: float | None = flag(
        None, "Leave with exit code 2 where the old domain fell by more BLEU than this.", least=0
    )


@dataclasses.dataclass(frozen=True)
class Scored:
    """BLEU in percent, and half of its 95 % interval."""

    bleu: float
    interval: float

    def __str__(self) -> str:
        return f"{self.bleu:.2f} ± {self.interval:.2f}"


@dataclasses.dataclass(frozen=True)
class Domain:
    """What two runs make of one dev set.

    Attributes:
        name: OLD or NEW.
        sentences: which, in words.
        data_dir: where they lie.
        parent, child: the scores of the runs.
        p_value: how likely the child would seem as different by chance.
        signature: sacreBLEU's.
        overlap: {"parent", "child": how many pairs of the whole dev stand in its training text},
            of those of which that is known.
    """

    name: str
    sentences: str
    data_dir: str
    parent: Scored
    child: Scored
    p_value: float
    signature: str
    overlap: dict[str, int]

    @property
    def change(self) -> float:
        """BLEU gained by the child."""
        return self.child.bleu - self.parent.bleu

    def __str__(self) -> str:
        overlap = "".join(
            f". {count:,} pairs of this dev stand in the training text of the {run}: what it makes "
            "of them says too much"
            for run, count in self.overlap.items()
            if count
        )
        return (
            f"{self.name} domain: {self.parent} became {self.child}, {self.change:+.2f} BLEU "
            f"(p = {self.p_value:.3f}; {self.sentences} of {self.data_dir}){overlap}"
        )


def parent_of(run: TrainedRun) -> pathlib.Path:
    """Returns the checkpoint that a run began with.

    Raises:
        UserError: if it does not say, or it is not there.
    """
    path = run.directory.parent()
    if not path or not path.is_dir():
        received = f"{path}, which is not there" if path else f"none in {run.path}"
        raise UserError(
            f"Expected the run that {run.path} began with, as t2t-trainer --warm_start_from leaves "
            f"it in {WARM_START}. Received: {received}. Name it by --parent."
        )
    return path


def check(child: TrainedRun, parent: TrainedRun) -> None:
    """Refuses, before anything heavy is loaded, what cannot be compared.

    Raises:
        UserError: if one of them writes no text, or has no checkpoint.
    """
    for run in (child, parent):
        check_text(run.problem, "t2t-gains")
        run.check_checkpoint()


def compare(
    child: TrainedRun,
    parent: TrainedRun,
    request: GainsRequest,
    *,
    checkpoint: str | os.PathLike | None = None,
    say: Callable[[str], None] = print,
    searches: int = 1,
) -> list[Domain]:
    """Returns what the child has gained on its dev set, and lost on that of its parent.

    Args:
        child: the run that was fine-tuned.
        parent: the run that it began with.
        request: by how many sentences, and how to decode.
        checkpoint: of the parent; None: its newest.
        say: gets a line for all that is decoded.
        searches: as `decode.ModelEngine` takes it.

    Raises:
        UserError: as `check`, or if one of them has no dev split.
    """
    check(child, parent)
    settings = child.decode_settings(request.decode_hparams, say=say)
    from t2t_repro.decoding.dev_bleu import DevSample

    samples = {
        name: DevSample(run.problem, run.data_dir, count=request.sentences)
        for name, run in ((NEW, child), (OLD, parent))
    }
    overlaps = _overlaps(child, parent)
    written = [
        _written(run, of, samples, settings, say, searches)
        for run, of in ((parent, checkpoint), (child, None))
    ]
    where = {NEW: child.data_dir, OLD: parent.data_dir}
    old, new = written
    return [
        _domain(name, sample, where[name], old[name], new[name], overlaps[name])
        for name, sample in samples.items()
    ]


def _overlaps(child: TrainedRun, parent: TrainedRun) -> dict[str, dict[str, int]]:
    """Returns {domain: {run: how many pairs of its dev the run was trained on}}, where known."""
    from t2t_repro.data import overlap

    new, old = (overlap.texts(run.problem, run.data_dir) for run in (child, parent))
    found: dict[str, dict[str, int]] = {NEW: {}, OLD: {}}
    for run, training in (("parent", old), ("child", new)):
        for domain, count in zip(found, overlap.counts(training, new, old), strict=True):
            if count is not None:
                found[domain][run] = count
    return found


def _written(
    run: TrainedRun,
    checkpoint: str | os.PathLike | None,
    samples: dict[str, Any],
    settings: DecodeHParams,
    say: Callable[[str], None],
    searches: int,
) -> dict[str, list[str]]:
    """Returns {domain: what a run writes of its sentences}."""
    from t2t_repro.decoding.decode import ModelEngine

    engine, written = ModelEngine(run.model(checkpoint, say=say), searches), {}
    for name, sample in samples.items():
        started = time.monotonic()
        written[name] = sample.written(engine, settings, run.encoders)
        say(f"  {sample.described}, {name} domain ({took(time.monotonic() - started)})")
    return written


def paired(
    old: list[str], new: list[str], references: list[str]
) -> tuple[Scored, Scored, float, str]:
    """Returns the scores of two runs' translations, how likely they differ by chance, and the
    signature, by sacreBLEU's paired bootstrap."""
    (parent, child), signature = paired_bootstrap([old, new], references)
    assert child.p_value is not None  # of the first alone there is none
    old_score, new_score = (Scored(each.score, each.interval) for each in (parent, child))
    return old_score, new_score, child.p_value, signature


def _domain(
    name: str, sample: Any, data_dir: str, old: list[str], new: list[str], overlap: dict[str, int]
) -> Domain:
    parent, child, p_value, signature = paired(old, new, sample.references)
    of = name, sample.described, data_dir, parent, child, p_value, signature, overlap
    return Domain(*of)


def as_json(domains: list[Domain], child: TrainedRun, parent: TrainedRun) -> str:
    """Returns what was found, for programs."""
    rows = [{**dataclasses.asdict(each), "change": round(each.change, 4)} for each in domains]
    report = {"child": str(child.path), "parent": str(parent.path), "domains": rows}
    return json.dumps(report, indent=1) + "\n"


def check_drop(domains: list[Domain], most: float | None) -> None:
    """Raises a UserError if the old domain fell by more BLEU than `most`."""
    (old,) = (each for each in domains if each.name == OLD)
    if most is not None and -old.change > most:
        raise UserError(
            f"Expected the old domain to fall by at most {most:g} BLEU. Received: "
            f"{old.change:+.2f}. Mix more of the old text in (--train_weights), lower "
            "learning_rate_constant, or train fewer steps."
        )
