"""distill.json: what was made of what, by which commands, and how student and teacher compare."""

import dataclasses
import json
import pathlib
from typing import ClassVar

from t2t_repro import __version__, schema
from t2t_repro.certificate import environment
from t2t_repro.distilling.comparison import Comparison
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.own_text.record import Stage, check_same

FILE = "distill.json"
_MEND = "Give another --output_dir, or delete the file to make all stages again."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What there is so far.

    Attributes:
        version: the project's.
        packages: {package: version}, Python's too.
        begun_with: the flags that must stay.
        inputs: {file: SHA-256} of the teacher's weights and the texts.
        pairs: {what: how many} of the training text.
        stages: those that were finished, in order.
        comparison: of student and teacher; None before there is one.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}

    version: str
    packages: dict[str, str]
    begun_with: dict[str, str]
    inputs: dict[str, str]
    pairs: dict[str, int] = dataclasses.field(default_factory=dict)
    stages: dict[str, Stage] = dataclasses.field(default_factory=dict)
    comparison: Comparison | None = None

    def write(self, folder: pathlib.Path) -> None:
        """Writes it into the folder of all."""
        write_text_atomic(folder / FILE, json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def begin(folder: pathlib.Path, begun_with: dict[str, str], inputs: dict[str, str]) -> Record:
    """Returns the record of a folder, begun where there is none.

    Raises:
        UserError: if it was begun with other flags or inputs, or holds something else.
    """
    try:
        before = schema.read(folder / FILE, Record, _MEND)
    except FileNotFoundError:
        if folder.is_dir() and any(folder.iterdir()):
            raise UserError(
                f"Expected --output_dir to be a new or empty folder, or one of t2t-distill. "
                f"Received: {folder}, which holds files. Name another."
            ) from None
        return Record(
            version=__version__,
            packages=environment.packages(),
            begun_with=begun_with,
            inputs=inputs,
        )
    check_same(folder, before, begun_with, inputs)
    return before
