"""own-text.json: what was made of what, by which commands, and what came out."""

import dataclasses
from typing import Any

from t2t_repro.stages import Record


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What was decided before step 0, and what it was decided by.

    Attributes:
        pairs: of training.
        subwords: in the vocabulary.
        hparams_set, reason: the set, and why it is that.
        hparams: the changes to it that its vocabularies need.
        of_length: those that its number of steps needs (`preset.of_length`).
        parameters: of the model.
        seconds_per_step, evaluation_seconds: measured by a few steps and one evaluation.
        train_steps: how many to make at most.
        wanted_steps: how many the set would make.
        goes_on: whether a longer training continues this one.
        local_eval_frequency: an evaluation each so many.
        patience: it stops when BLEU has not risen for so many steps.
        bleu_sentences: so many dev sentences are decoded at each.
        minutes: of training, at most.
        tokens_in_time: target tokens that the trained set sees in the time asked for; 0: no limit.
        expects: what to expect of so much training, for a reader.
        disk_mb: what all will take at most.
    """

    pairs: int
    subwords: int
    hparams_set: str
    reason: str
    parameters: int
    seconds_per_step: float
    evaluation_seconds: float
    train_steps: int
    wanted_steps: int
    local_eval_frequency: int
    patience: int
    bleu_sentences: int
    minutes: float
    disk_mb: float
    tokens_in_time: int = 0
    expects: str = ""
    goes_on: bool = True
    hparams: str = ""
    of_length: str = ""


def plan_of(record: Record) -> Plan:
    """Returns the plan, which has been made."""
    return Plan(**record.stages["plan"].found)


def scores_of(record: Record) -> dict[str, Any]:
    """Returns the scores of the test set, as t2t-bleu --json_file has them; {}: there are none."""
    done = record.stages.get("test")
    return done.found if done else {}
