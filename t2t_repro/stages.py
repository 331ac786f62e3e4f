"""Long jobs made of programs: a stage is whole or is made again; one record, one lock."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from t2t_repro import __version__, files, schema
from t2t_repro.errors import UserError, changes
from t2t_repro.process import run_program
from t2t_repro.progress import took


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage that is to be done.

    Attributes:
        name: one word.
        says: what it does, in a few.
        command: the program and its flags; (): none, the process does it itself.
        outputs: files that are there when it is done, and tell what was made.
        clear: what is removed before it is done again.
        limits: what it depends on besides its command and the stages before it.
    """

    name: str
    says: str
    command: Sequence[str] = ()
    outputs: Sequence[pathlib.Path] = ()
    clear: Sequence[pathlib.Path] = ()
    limits: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """A stage that was finished.

    Attributes:
        key: of its command, and of all before it.
        command: the single program's command that it equals.
        seconds: how long it took.
        files: {path in the folder: SHA-256} of its outputs.
        found: what it found out, as JSON has it.
    """

    key: str
    command: str
    seconds: float
    files: dict[str, str]
    found: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What a folder was begun with, and what was done.

    Attributes:
        version: the project's.
        begun_with: the flags that must stay, {name: value}.
        inputs: {file that was read: SHA-256}.
        stages: those that were finished, in order.
    """

    version: str
    begun_with: dict[str, str]
    inputs: dict[str, str]
    stages: dict[str, Done]


def read(path: pathlib.Path) -> Record | None:
    """Returns the record in a file; None: nothing was begun there.

    Raises:
        schema.Malformed: if it is broken.
    """
    try:
        return schema.read(path, Record, "Give another --output_dir, or delete the file.")
    except FileNotFoundError:
        return None


def check_folder(path: pathlib.Path) -> None:
    """Refuses a folder that holds something else than the file of a record.

    Raises:
        UserError: naming it.
    """
    begun = f"{path.name}{files.INCOMPLETE}"  # by a process that was killed at once
    folder = path.parent
    there = folder.is_dir() and any(each.name != begun for each in folder.iterdir())
    if there and read(path) is None:
        raise UserError(
            f"Expected --output_dir to be a new or empty folder, or one with {path.name}. "
            f"Received: {folder}, which holds files. Name another."
        )


class Stages:
    """Does stages that were not done yet, in order, and keeps the record.

    Args:
        path: of the record, in the folder of all.
        begun_with: the flags that must stay.
        inputs: {file: SHA-256} of the files as they are, in the order in which they are named.
        say: gets lines.

    Raises:
        UserError: if the folder was begun with others, or holds something else.
    """

    def __init__(
        self,
        path: pathlib.Path,
        begun_with: dict[str, str],
        inputs: dict[str, str],
        say: Callable[[str], None] = print,
    ):
        self._path, self._say, self._key = path, say, ""
        check_folder(path)
        before = read(path)
        done = before.stages if before else {}
        if before and done:
            _check_same(path.parent, before, begun_with, inputs)
        self.record = Record(version=__version__, begun_with=begun_with, inputs=inputs, stages=done)
        self._write()

    def run(self, stage: Stage, work: Callable[[], Any] | None = None) -> Any:
        """Does a stage, unless that was done; returns what it found out.

        Args:
            stage: what.
            work: does it; None: its command, as a program.

        Raises:
            UserError: if the program fails; it has said why.
            Interrupted: on a signal; the program has ended in order.
        """
        done, there = self.is_done(stage), self.record.stages
        self._key = self._key_of(stage)
        if done:
            self._say(f"\n{stage.says}: done before, in {took(there[stage.name].seconds)}.")
            return there[stage.name].found
        command = shlex.join(stage.command)
        self._say(f"\n{stage.says}:" + f"\n  {command}" * bool(command))
        for path in stage.clear:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        started = time.monotonic()
        found = (work or (lambda: run_program(stage.command, stage.says)))()
        made = {
            path.relative_to(self._path.parent).as_posix(): files.sha256(path)
            for path in stage.outputs
            if path.is_file()
        }
        seconds = round(time.monotonic() - started, 1)
        done_now = Done(key=self._key, command=command, seconds=seconds, files=made, found=found)
        # What comes after a stage that was done again is to be done again.
        names = list(there)
        kept = names[: names.index(stage.name)] if stage.name in names else names
        stages = {name: there[name] for name in kept} | {stage.name: done_now}
        self.record = dataclasses.replace(self.record, stages=stages)
        self._write()
        return found

    def is_done(self, stage: Stage) -> bool:
        """Whether the next stage was done before, by the same command after the same others."""
        done = self.record.stages.get(stage.name)
        there = all(path.exists() for path in stage.outputs)
        return bool(done and done.key == self._key_of(stage) and there)

    def _key_of(self, stage: Stage) -> str:
        command = shlex.join(map(self._wherever_it_lies, stage.command))
        text = f"{self._key}\n{command}\n{stage.limits}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _wherever_it_lies(self, argument: str) -> str:
        """Returns an argument that is the same when the folder or an input was moved."""
        flag, equals, value = argument.partition("=")
        parts = ((part, os.path.expanduser(part.strip())) for part in value.split(","))
        inputs = self.record.inputs
        value = ",".join(inputs.get(os.path.abspath(path), part) for part, path in parts)
        path, folder = pathlib.Path(value), self._path.parent
        if path.is_relative_to(folder):
            value = f".../{path.relative_to(folder)}"
        return f"{flag}{equals}{value}"

    def _write(self) -> None:
        text = json.dumps(dataclasses.asdict(self.record), indent=1)
        files.write_text_atomic(self._path, text + "\n")


@contextlib.contextmanager
def begin(
    path: pathlib.Path,
    begun_with: dict[str, str],
    inputs: dict[str, str],
    say: Callable[[str], None] = print,
) -> Iterator[Stages]:
    """Yields the stages of a folder, which is this process's own meanwhile; as `Stages`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.locked([path.parent], say):
        yield Stages(path, begun_with, inputs, say)


def _check_same(
    folder: pathlib.Path, before: Record, flags: Mapping[str, str], inputs: Mapping[str, str]
) -> None:
    names = sorted(before.begun_with.keys() | flags.keys())
    was, now = ({f"--{n}": each.get(n) for n in names} for each in (before.begun_with, flags))
    differs = changes(was, now)
    if list(before.inputs.values()) != list(inputs.values()):  # they may be moved
        others = [path for path, digest in inputs.items() if before.inputs.get(path) != digest]
        others += [path for path in before.inputs if path not in inputs]
        differs.append(f"other files or another order: {', '.join(others)}")
    if differs:
        raise UserError(
            f"Expected the text and flags with which {folder} was begun. Received: "
            f"{'; '.join(differs)}. Put them back, or give another --output_dir."
        )
