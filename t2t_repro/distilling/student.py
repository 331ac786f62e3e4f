"""Which configuration a student has: the teacher's with fewer decoder layers, or a set."""

import dataclasses
import pathlib
from typing import NamedTuple

from t2t_repro import config, registry
from t2t_repro.config import HParams
from t2t_repro.data import preset
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.errors import UserError
from t2t_repro.fields import parse_overrides
from t2t_repro.models import sharing
from t2t_repro.run_directory import RunConfig
from t2t_repro.runs import TrainedRun, is_transformer
from t2t_repro.training import updates

# A deep encoder and a shallow decoder cost little quality after distillation, and most of the time
# of a search is the decoder's (Kasai et al. 2021).
SHALLOW = {"num_encoder_layers": "6", "num_decoder_layers": "2"}
# By these t2t-trainer fine-tunes, and nobody learns from random weights.
_RATES = {"learning_rate", "learning_rate_constant", "learning_rate_schedule"}
# What is said of a run, not of a model.
_OF_TRAINING = ("train_steps", "freeze", "bidirectional_steps")


class Student(NamedTuple):
    """What is trained.

    hparams_set: a set.
    hparams: changes to it, as --hparams has them.
    train_steps: how many steps.
    greedy: whether it is to be quick, and decodes greedily.
    """

    hparams_set: str
    hparams: str
    train_steps: int
    greedy: bool


def student(request: DistillRequest, teacher: RunConfig) -> Student:
    """Returns the student that is asked for.

    Raises:
        UserError: on an unknown set, the teacher's too, or hparam, one that the student would not
            read, or a student that cannot begin with the teacher's weights and shall.
    """
    name = request.hparams_set or teacher.hparams_set
    if not request.hparams_set and name not in registry.list_hparams():
        raise UserError(
            f"Expected --hparams_set for the student: {name!r}, of which its teacher was imported, "
            "is not known here. Received: none. Give one; --t2t_usr_dir if it is a set of yours."
        )
    asked = parse_overrides(request.hparams)
    # What a teacher wrote is to be learned, not to be read.
    changes = {"bidirectional_steps": "0"} if registry.get_hparams(name).bidirectional_steps else {}
    if not request.hparams_set:
        changes |= _changes(teacher)
        if "num_hidden_layers" in asked:  # of both sides, whatever the teacher has
            changes |= dict.fromkeys(SHALLOW, "0")
        elif not request.is_peer and is_transformer(teacher.hparams.model):
            changes |= SHALLOW
    changes = _read(name, changes, asked)
    text = _text(changes | asked)
    hparams = registry.get_hparams(name, text)
    if hparams.bidirectional_steps:
        raise UserError(
            "Expected a student of one direction: what a teacher wrote is not to be read. "
            f"Received: bidirectional_steps={hparams.bidirectional_steps}. Leave it out."
        )
    if request.warm_start:
        _check_warm_start(hparams, teacher.hparams)
    if request.hparams_set or "train_steps" in asked:
        steps = hparams.train_steps
    else:
        steps = teacher.hparams.train_steps // updates.batches_of_an_update(teacher.hparams)
    if request.train_steps and not request.hparams_set:
        whole = dataclasses.replace(hparams, train_steps=steps)
        shares = preset.scaled(whole, request.train_steps, asked)
        text = _text(parse_overrides(text) | {name: str(n) for name, n in shares.items()})
    shallower = hparams.decoder_layers < teacher.hparams.decoder_layers
    return Student(name, text, request.train_steps or steps, shallower or not request.is_peer)


def check(request: DistillRequest, teacher: TrainedRun, wanted: Student) -> None:
    """Refuses, before its teacher translates, a student that cannot learn.

    Raises:
        UserError: if a teacher's steps and rate, which it takes over, are for weights that were
            trained already; or two vocabularies would share a table.
    """
    parent = teacher.directory.parent()
    rates = _RATES - parse_overrides(request.hparams).keys()
    if parent and not (request.hparams_set or request.warm_start):
        if rate := rates & _changes(teacher.config).keys():
            warm = "" if request.back_translate else ", or --warm_start"
            raise UserError(
                "Expected --hparams_set for a student that begins with random weights: the rate of "
                f"its teacher ({', '.join(sorted(rate))}) is for those of {parent}, its beginning. "
                "Received: none. Give one, with sizes of its own, such as "
                f"--hparams_set={wanted.hparams_set}{warm}."
            )
    texts = {pathlib.Path(path).read_bytes() for path in teacher.vocabularies.values()}
    if len(texts) > 1:
        hparams = registry.get_hparams(wanted.hparams_set, wanted.hparams)
        sharing.check_apart(hparams, teacher.problem, teacher.vocabulary_dir)


def _read(name: str, changes: dict[str, str], asked: dict[str, str]) -> dict[str, str]:
    """Returns the changes of a teacher that a student reads, for which others are asked beside."""
    values = config.parse_overrides(_text(changes | asked))
    unread = dataclasses.replace(registry.get_hparams(name), **values).unread(changes)
    return {key: value for key, value in changes.items() if key not in unread}


def _text(changes: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in changes.items())


def _check_warm_start(student: HParams, teacher: HParams) -> None:
    for name in ("model", "hidden_size"):
        mine, theirs = getattr(student, name), getattr(teacher, name)
        if mine != theirs:
            raise UserError(
                f"Expected a student of the teacher's {name}, {theirs}, with --warm_start. "
                f"Received: {mine}. Leave --warm_start out, or change the student."
            )


def _changes(teacher: RunConfig) -> dict[str, str]:
    """Returns what a run has of its own beside its set, {hparam: text}."""
    base, own = (
        dataclasses.asdict(each)
        for each in (registry.get_hparams(teacher.hparams_set), teacher.hparams)
    )
    chosen = updates.CHOSEN if teacher.hparams.effective_batch_size else ()
    names = [n for n in own if own[n] != base[n] and n not in (*_OF_TRAINING, *chosen)]
    unread = teacher.hparams.unread(names)
    return {name: str(own[name]) for name in names if name not in unread}
