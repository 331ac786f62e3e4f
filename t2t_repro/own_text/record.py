"""own-text.json: what was made of what, by which commands, and what came out.

It is written after each stage, so that whatever ends the process, the same command goes on behind
the last stage that was finished; and it is one JSON of the whole for who checks it later.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from t2t_repro import __version__, schema
from t2t_repro.certificate import environment
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic

FILE = "own-text.json"
_MEND = "Give another --output_dir, or delete the file to make all stages again."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage that was finished.

    Attributes:
        key: of its command, and of all before it.
        command: the single program's command that it equals.
        seconds: how long it took.
        files: {path in the folder: SHA-256} of files that tell what it made.
    """

    key: str
    command: str
    seconds: float
    files: dict[str, str]


class Begun(Protocol):
    """What a record says of the beginning of its folder.

    Attributes:
        begun_with: the flags that must stay.
        inputs: {file that was read: SHA-256}.
    """

    @property
    def begun_with(self) -> dict[str, str]: ...

    @property
    def inputs(self) -> dict[str, str]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What was decided before step 0, and what it was decided by.

    Attributes:
        pairs: of training.
        subwords: in the vocabulary.
        hparams_set, reason: the set, and why it is that.
        parameters: of the model.
        seconds_per_step, evaluation_seconds: measured by a few steps and one evaluation.
        train_steps: how many to make at most.
        wanted_steps: how many the set would make.
        local_eval_frequency: an evaluation each so many.
        patience: it stops when BLEU has not risen for so many steps.
        bleu_sentences: so many dev sentences are decoded at each.
        minutes: of training, at most.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What there is so far.

    Attributes:
        version: the project's.
        packages: {package: version}, Python's too.
        begun_with: the flags that decide text, splits, ids and model.
        test_size: pairs that are drawn for test; 0: none.
        inputs: {raw file: SHA-256}.
        plan: None before it is made.
        stages: those that were finished, in order.
        scores: of the test set, as t2t-bleu --json has them.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    version: str
    packages: dict[str, str]
    begun_with: dict[str, str]
    test_size: int
    inputs: dict[str, str]
    plan: Plan | None = None
    stages: dict[str, Stage] = dataclasses.field(default_factory=dict)
    scores: dict[str, Any] = dataclasses.field(default_factory=dict)

    def write(self, folder: pathlib.Path) -> None:
        """Writes it into the folder of all."""
        write_text_atomic(folder / FILE, json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def read(folder: pathlib.Path) -> Record | None:
    """Returns the record of a folder; None: nothing was begun there.

    Raises:
        schema.Malformed: if it is broken.
    """
    try:
        return schema.read(folder / FILE, Record, _MEND)
    except FileNotFoundError:
        return None


def begin(
    folder: pathlib.Path,
    begun_with: dict[str, str],
    inputs: dict[str, str],
    test_size: int,
    flag_of: Callable[[str], str],
) -> Record:
    """Returns the record of a folder, begun where there is none.

    Args:
        folder: of all.
        begun_with: the flags that must stay.
        inputs: the raw files as they are now.
        test_size: how many pairs a new one draws for test.
        flag_of: makes a name of `begun_with` the flag that the user gives.

    Raises:
        UserError: if it was begun with others, or other text: what differs is named.
    """
    before = read(folder)
    if before is None:
        if folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"Expected --output_dir to be a new or empty folder, or one of t2t-own-text. "
                f"Received: {folder}, which holds files. Name another."
            )
        return Record(
            version=__version__,
            packages=environment.packages(),
            begun_with=begun_with,
            test_size=test_size,
            inputs=inputs,
        )
    check_same(folder, before, begun_with, inputs, flag_of)
    return before


def check_same(
    folder: pathlib.Path,
    before: Begun,
    begun_with: dict[str, str],
    inputs: dict[str, str],
    flag_of: Callable[[str], str] = "--{}".format,
) -> None:
    """Refuses other flags or inputs than those with which a folder was begun.

    Raises:
        UserError: naming all that differs.
    """
    differs = [
        f"{flag_of(name)} was {before.begun_with.get(name)!r}, now {begun_with.get(name)!r}"
        for name in sorted(before.begun_with.keys() | begun_with.keys())
        if before.begun_with.get(name) != begun_with.get(name)
    ]
    differs += [
        f"{path} has changed" if path in before.inputs else f"{path} is new"
        for path, digest in inputs.items()
        if before.inputs.get(path) != digest
    ]
    if differs:
        raise UserError(
            f"Expected the text and flags with which {folder} was begun. Received: "
            f"{'; '.join(differs)}. Put them back, or give another --output_dir."
        )
