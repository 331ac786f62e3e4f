"""The student's configuration: the teacher's with fewer decoder layers, or a set."""

import dataclasses
from typing import NamedTuple

from t2t_repro import config, registry
from t2t_repro.data import preset
from t2t_repro.distill.request import DistillRequest
from t2t_repro.fields import parse_overrides
from t2t_repro.runs import TrainedRun, is_transformer
from t2t_repro.training import trainable

# A deep encoder and a shallow decoder cost little quality after distillation, and most of the time
# of a search is the decoder's (Kasai et al. 2021).
SHALLOW = {"num_encoder_layers": "6", "num_decoder_layers": "2"}
# What is said of a run, not of a model.
_OF_TRAINING = {"train_steps", "freeze", "bidirectional_steps"}


class Student(NamedTuple):
    """The student to train.

    hparams_set: a set.
    hparams: changes to it, as --hparams has them.
    train_steps: how many steps.
    greedy: whether it is to be quick, and decodes greedily.
    """

    hparams_set: str
    hparams: str
    train_steps: int
    greedy: bool


def student(request: DistillRequest, teacher: TrainedRun) -> Student:
    """Returns the requested student.

    Raises:
        UserError: on an unknown set, the teacher's too, or hparam.
    """
    ran, asked = teacher.config.hparams, parse_overrides(request.hparams)
    name = request.hparams_set or teacher.config.hparams_set
    of_set = registry.get_hparams(name)
    # What a teacher wrote is to be learned, not to be read.
    changes = {"bidirectional_steps": "0"} if of_set.bidirectional_steps else {}
    # The rate and the steps of a fine-tuned teacher are for weights that were trained already.
    anew = teacher.parent() and not request.warm_start
    if not request.hparams_set:
        plain, own = dataclasses.asdict(of_set), dataclasses.asdict(ran)
        left_out = {*_OF_TRAINING, *(trainable.CHOSEN if ran.effective_batch_size else ())}
        left_out |= {key for key in own if anew and key.startswith("learning_rate")}
        own = {k: v for k, v in own.items() if v != plain[k] and k not in left_out}
        unused = ran.unused([*own])
        changes |= {key: str(value) for key, value in own.items() if key not in unused}
        if "num_hidden_layers" in asked:  # of both sides, whatever the teacher has
            changes |= dict.fromkeys(SHALLOW, "0")
        elif not request.back_translate and is_transformer(ran.model):
            changes |= SHALLOW
    wanted = dataclasses.replace(of_set, **config.parse_overrides(changes | asked))
    unused = wanted.unused(changes)  # such as of a schedule in whose place another is asked for
    changes = {key: value for key, value in changes.items() if key not in unused} | asked
    hparams = registry.get_hparams(name, changes)
    steps = hparams.train_steps
    if not (request.hparams_set or anew or "train_steps" in asked):
        steps = ran.train_steps
    if request.train_steps and not request.hparams_set:
        whole = dataclasses.replace(hparams, train_steps=steps)
        shares = preset.scaled(whole, request.train_steps, asked)
        changes |= {key: str(value) for key, value in shares.items()}
    shallower = hparams.decoder_layers < ran.decoder_layers
    greedy = shallower or not request.back_translate
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    return Student(name, text, request.train_steps or steps, greedy)
