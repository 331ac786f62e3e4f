"""Carries a stage out: a program in a process of its own, once."""

import dataclasses
import hashlib
import pathlib
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

from t2t_repro.files import sha256
from t2t_repro.own_text.begun import Begun, Stage, named_files
from t2t_repro.processes import run_program
from t2t_repro.progress import took

Say = Callable[[str], None]
Record = TypeVar("Record", bound=Begun)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A stage that is to be done.

    Attributes:
        name: one word.
        says: what it does, in a few.
        command: the program and its flags; (): none, the process does it itself.
        makes: files that are there when it is done, and tell what was made.
        before: what is removed before it is done again.
        limits: what it depends on besides its command and the stages before it.
    """

    name: str
    says: str
    command: Sequence[str] = ()
    makes: Sequence[pathlib.Path] = ()
    before: Sequence[pathlib.Path] = ()
    limits: str = ""


class Runner(Generic[Record]):
    """Does tasks that were not done yet, in order, and keeps the record.

    Args:
        folder: of all.
        record: what was done before.
        say: gets lines.
        inputs: {file as commands name it: SHA-256}; a stage stays done where one was moved.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        record: Record,
        say: Say = print,
        inputs: Mapping[str, str] = MappingProxyType({}),
    ):
        self.record = record
        self._folder, self._say, self._inputs, self._key = folder, say, inputs, ""

    def run(self, task: Task, work: Callable[[], None] | None = None) -> bool:
        """Does a task, unless that was done; returns whether it was to be done.

        Args:
            task: what.
            work: does it; None: its command, as a program.

        Raises:
            UserError: if the program fails; it has said why.
            Interrupted: on a signal; the program has ended in order.
        """
        done = self.is_done(task)
        self._key = self._key_of(task)
        if done:
            seconds = self.record.stages[task.name].seconds
            self._say(f"\n{task.says}: done before, in {took(seconds)}.")
            return False
        command = shlex.join(task.command)
        self._say(f"\n{task.says}:" + f"\n  {command}" * bool(command))
        for path in task.before:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        started = time.monotonic()
        if work:
            work()
        else:
            run_program(task.command, task.says)
        files = {
            path.relative_to(self._folder).as_posix(): sha256(path)
            for path in task.makes
            if path.is_file()
        }
        seconds = round(time.monotonic() - started, 1)
        stage = Stage(key=self._key, command=command, seconds=seconds, files=files)
        # What comes after a stage that was done again is to be done again.
        names = list(self.record.stages)
        kept = names[: names.index(task.name)] if task.name in names else names
        stages = {name: self.record.stages[name] for name in kept} | {task.name: stage}
        self.keep(self.record.of_stages(stages))
        return True

    def is_done(self, task: Task) -> bool:
        """Whether the next task was done before, by the same command after the same others."""
        done = self.record.stages.get(task.name)
        there = all(path.exists() for path in task.makes)
        return bool(done and done.key == self._key_of(task) and there)

    def _key_of(self, task: Task) -> str:
        command = shlex.join(map(self._wherever_it_lies, task.command))
        text = f"{self._key}\n{command}\n{task.limits}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _wherever_it_lies(self, argument: str) -> str:
        """Returns an argument that is the same however the folder is named, and once it moved."""
        flag, equals, value = argument.partition("=")
        if named := named_files(value, self._inputs):
            return f"{flag}{equals}{','.join(self._inputs.get(file, '') for file in named)}"
        path = pathlib.Path(value)
        if not self._folder.parts or not path.is_relative_to(self._folder):
            return argument
        return f"{flag}{equals}{pathlib.Path('...', path.relative_to(self._folder))}"

    def keep(self, record: Record) -> None:
        """Makes a record the one that counts."""
        self.record = record
        record.write(self._folder)
