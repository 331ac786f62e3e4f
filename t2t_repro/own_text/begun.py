"""The record of a folder that stages fill, each once.

It is written after each of them, so that whatever ends the process, the same command goes on behind
the last stage that was finished; and it is one JSON of the whole for who checks it later.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self

from t2t_repro import __version__, schema
from t2t_repro.errors import UserError, changes
from t2t_repro.files import INCOMPLETE, write_text_atomic

_MEND = "Give another --output_dir, or delete the file to make all stages again."


def named_files(value: str, files: Collection[str]) -> list[str] | None:
    """Returns the files that a flag names, "" for a place that is empty; None: they are no files.

    Args:
        value: of the flag, with commas between.
        files: what was read.
    """
    parts = [os.path.expanduser(part.strip()) for part in value.split(",")]
    are_files = any(parts) and all(not part or part in files for part in parts)
    return parts if are_files else None


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Begun:
    """What a folder was begun with, and what was done; that of each program holds more.

    Attributes:
        FILE: its name.
        PROGRAM: whose it is.
        RESULTS: {stage: (field, value of none)}: what a stage found, beside what it made.
        version: the project's.
        begun_with: the flags that must stay, {name: value}.
        inputs: {file that was read: SHA-256}.
        stages: those that were finished, in order.
    """

    __pydantic_config__: ClassVar[dict] = {"extra": "forbid"}
    FILE: ClassVar[str]
    PROGRAM: ClassVar[str]
    RESULTS: ClassVar[Mapping[str, tuple[str, Any]]]

    version: str
    begun_with: dict[str, str]
    inputs: dict[str, str]
    stages: dict[str, Stage] = dataclasses.field(default_factory=dict)

    def write(self, folder: pathlib.Path) -> None:
        """Writes it into its folder."""
        write_text_atomic(folder / self.FILE, json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    def of_stages(self, stages: dict[str, Stage]) -> Self:
        """Returns it with these stages finished, less what others found: it is of what was there
        before."""
        lost = dict(found for stage, found in self.RESULTS.items() if stage not in stages)
        return dataclasses.replace(self, stages=stages, **lost)

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self | None:
        """Returns the record of a folder; None: nothing was begun there.

        Raises:
            schema.Malformed: if it is broken.
        """
        try:
            return schema.read(folder / cls.FILE, cls, _MEND)
        except FileNotFoundError:
            return None

    @classmethod
    def begin(
        cls,
        folder: pathlib.Path,
        begun_with: dict[str, str],
        inputs: dict[str, str],
        flag_of: Callable[[str], str] = "--{}".format,
        **more: Any,
    ) -> Self:
        """Returns the record of a folder, begun where there is none, or none of its stages is done.

        Args:
            folder: of all.
            begun_with: the flags that must stay.
            inputs: {file: SHA-256} of the files as they are, in the order in which they are named.
            flag_of: makes a name of `begun_with` the flag that the user gives.
            more: what else a new one holds.

        Raises:
            UserError: if it was begun with others, or other files: all that differs is named; or if
                it holds something else.
        """
        before = cls.read(folder)
        if before is not None and before.stages:
            before._check_same(folder, begun_with, inputs, flag_of)
            return dataclasses.replace(before, inputs=inputs)  # which may have been moved
        cls.check_folder(folder)
        return cls(
            version=__version__,
            begun_with=begun_with,
            inputs=inputs,
            **more,
        )

    @classmethod
    def check_folder(cls, folder: pathlib.Path) -> None:
        """Refuses a folder that holds something else.

        Raises:
            UserError: naming it.
        """
        begun = f"{cls.FILE}{INCOMPLETE}"  # by a process that was killed at once
        there = folder.is_dir() and any(path.name != begun for path in folder.iterdir())
        if there and cls.read(folder) is None:
            raise UserError(
                f"Expected --output_dir to be a new or empty folder, or one of {cls.PROGRAM}. "
                f"Received: {folder}, which holds files. Name another."
            )

    def _check_same(
        self,
        folder: pathlib.Path,
        begun_with: dict[str, str],
        inputs: dict[str, str],
        flag_of: Callable[[str], str],
    ) -> None:
        names = sorted(self.begun_with.keys() | begun_with.keys())
        before, now = (
            {flag_of(n): each.get(n) for n in names} for each in (self.begun_with, begun_with)
        )
        differs = changes(before, now)
        if list(self.inputs.values()) != list(inputs.values()):
            differs += [
                f"{path} has changed" if path in self.inputs else f"{path} is new"
                for path, digest in inputs.items()
                if self.inputs.get(path) != digest
            ]
            differs += [f"{path} is gone" for path in self.inputs if path not in inputs]
            differs = differs or ["the files in another order"]
        if differs:
            raise UserError(
                f"Expected the text and flags with which {folder} was begun. Received: "
                f"{'; '.join(differs)}. Put them back, or give another --output_dir."
            )
