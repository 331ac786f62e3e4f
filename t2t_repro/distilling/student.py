"""Which configuration a student has: the teacher's with fewer decoder layers, or a set."""

import dataclasses
from typing import NamedTuple

from t2t_repro import registry
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.fields import parse_overrides
from t2t_repro.run_directory import RunConfig

# A deep encoder and a shallow decoder cost little quality after distillation, and most of the time
# of a search is the decoder's (Kasai et al. 2021).
SHALLOW = {"num_encoder_layers": "6", "num_decoder_layers": "2"}
_OF_TRAINING = ("train_steps", "freeze")  # what is said of a run, not of a model


class Student(NamedTuple):
    """A set, changes to it as --hparams has them, and how many steps to train."""

    hparams_set: str
    hparams: str
    train_steps: int


def student(request: DistillRequest, teacher: RunConfig) -> Student:
    """Returns the student that is asked for.

    Raises:
        UserError: on an unknown set or hparam, or one that the student would not read.
    """
    name = request.hparams_set or teacher.hparams_set
    changes: dict[str, str] = {}
    if not request.hparams_set:
        changes = _changes(teacher) | ({} if request.back_translate else SHALLOW)
    text = ",".join(
        f"{key}={value}" for key, value in (changes | parse_overrides(request.hparams)).items()
    )
    hparams = registry.get_hparams(name, text)
    steps = hparams.train_steps if request.hparams_set else teacher.hparams.train_steps
    return Student(name, text, request.train_steps or steps)


def _changes(teacher: RunConfig) -> dict[str, str]:
    """Returns what a run has of its own beside its set, {hparam: text}."""
    base, own = (
        dataclasses.asdict(each)
        for each in (registry.get_hparams(teacher.hparams_set), teacher.hparams)
    )
    names = [name for name in own if own[name] != base[name] and name not in _OF_TRAINING]
    unread = teacher.hparams.unread(names)
    return {name: str(own[name]) for name in names if name not in unread}
