"""Long jobs made of programs: a stage is whole or is made again; one record, one lock."""

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_repro import __version__, files, schema
from t2t_repro.errors import UserError
from t2t_repro.process import run_program
from t2t_repro.progress import took


def command(program: str, *switches: str, **flags: Any) -> list[str]:
    """Returns a program with flags as a command, without those whose value is None or ""."""
    values = {name: value for name, value in flags.items() if value not in (None, "")}
    return [program, *switches, *(f"--{name}={value}" for name, value in values.items())]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of a long job.

    Attributes:
        name: one word.
        says: what it does, in a few words.
        command: the program and its flags; (): the process does the work itself.
        outputs: files that exist when it is done.
        clear: folders to remove before it runs again.
        depends: what it depends on besides its command and the stages before it.
    """

    name: str
    says: str
    command: Sequence[str] = ()
    outputs: Sequence[pathlib.Path] = ()
    clear: Sequence[pathlib.Path] = ()
    depends: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """A finished stage.

    Attributes:
        key: of its command and all before it.
        command: the equivalent command.
        seconds: how long it took.
        files: {path in the folder: SHA-256} of its outputs.
        found: its result, as JSON.
    """

    key: str
    command: str
    seconds: float
    files: dict[str, str]
    found: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """The inputs of a folder, and its finished stages.

    Attributes:
        version: the project's.
        begun_with: the flags that must stay, with the SHA-256 of a file instead of its name.
        inputs: {file that was read: SHA-256}.
        stages: the finished ones, in order.
    """

    version: str
    begun_with: tuple[str, ...]
    inputs: dict[str, str]
    stages: dict[str, Done]


class Stages:
    """Runs unfinished stages in order, and keeps the record. See `begin`."""

    def __init__(self, path: pathlib.Path, record: Record, say: Callable[[str], None]):
        self.record = record
        self._path, self._say, self._key = path, say, ""
        self._write()

    def run(self, stage: Stage, work: Callable[[], Any] | None = None) -> Any:
        """Runs a stage, unless it is done; returns its result.

        Args:
            stage: the stage.
            work: does it; None: its command, as a program.

        Raises:
            UserError: if the program fails; it has printed the reason.
            Interrupted: on a signal; the program has ended.
        """
        folder, done = self._path.parent, self.record.stages.get(stage.name)
        command = (_wherever_it_lies(each, folder, self.record.inputs) for each in stage.command)
        text = "\n".join([self._key, *command, stage.depends])
        self._key = hashlib.sha256(text.encode()).hexdigest()
        if done and done.key == self._key and all(path.exists() for path in stage.outputs):
            self._say(f"\n{stage.says}: done before, in {took(done.seconds)}.")
            return done.found
        self._say("\n  ".join([f"\n{stage.says}:", shlex.join(stage.command)]).rstrip())
        for path in stage.clear:
            shutil.rmtree(path, ignore_errors=True)
        started = time.monotonic()
        found = (work or functools.partial(run_program, stage.command, stage.says))()
        made = {
            path.relative_to(folder).as_posix(): files.sha256(path)
            for path in stage.outputs
            if path.is_file()
        }
        done = Done(
            key=self._key,
            command=shlex.join(stage.command),
            seconds=round(time.monotonic() - started, 1),
            files=made,
            found=found,
        )
        stages = self.record.stages | {stage.name: done}
        self.record = dataclasses.replace(self.record, stages=stages)
        self._write()
        return found

    def _write(self) -> None:
        files.write_json(self._path, dataclasses.asdict(self.record))


@contextlib.contextmanager
def begin(
    path: pathlib.Path,
    flags: Mapping[str, Any],
    inputs: Iterable[str | os.PathLike],
    say: Callable[[str], None] = print,
) -> Iterator[Stages]:
    """Yields the stages of a folder, which is locked meanwhile.

    Args:
        path: of the record, in the folder.
        flags: those that must stay, {name: value}.
        inputs: the input files; they and the folder may be moved.
        say: gets lines.

    Raises:
        UserError: if the folder has other flags or inputs, or holds something else.
    """
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder, say):
        before = None
        if path.exists():
            before = schema.read(path, Record, "Delete this file, or give another --output_dir.")
        elif any(each.name != f"{path.name}{files.INCOMPLETE}" for each in folder.iterdir()):
            raise UserError(
                f"Expected a new --output_dir, or one with {path.name}. Received: {folder}."
            )
        digests = {os.path.abspath(each): files.sha256(each) for each in inputs}
        given = (f"--{name}={value}" for name, value in flags.items())
        begun_with = tuple(_wherever_it_lies(each, folder, digests) for each in given)
        done = before.stages if before else {}
        if before and done:
            differs = {each.partition("=")[0] for each in {*before.begun_with} ^ {*begun_with}}
            known = before.inputs.values()
            differs |= {name for name, digest in digests.items() if digest not in known}
            if differs:
                raise UserError(
                    f"Expected the files and flags that {folder} started with. Received: changed "
                    f"{', '.join(sorted(differs))}. Restore them, or give another --output_dir."
                )
        record = Record(version=__version__, begun_with=begun_with, inputs=digests, stages=done)
        yield Stages(path, record, say)


def _wherever_it_lies(argument: str, folder: pathlib.Path, inputs: Mapping[str, str]) -> str:
    """Returns a flag in a form that stays the same if the folder or an input moves."""
    flag, equals, value = argument.partition("=")
    parts = (os.path.expanduser(part.strip()) for part in value.split(","))
    path = pathlib.Path(",".join(inputs.get(os.path.abspath(part), part) for part in parts))
    if path.is_relative_to(folder):
        path = ".../" / path.relative_to(folder)
    return f"{flag}{equals}{path}"
