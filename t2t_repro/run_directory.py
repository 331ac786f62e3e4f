"""The run directory, which a training run writes and every later program reads.

`hparams.json` (every resolved value, T2T's file), `run.json` (set, problem, version, seed,
data_dir, command lines, SHA-256 of the vocabularies), the vocabularies that the run needs,
`metrics.jsonl`, `checkpoints/`; and, where there is a reason for them, `best/`, `nonfinite/`,
`trainer.lock` and the files that the constants below name.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import shlex
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import registry, schema
from t2t_repro.config import HParams, may_change
from t2t_repro.errors import UserError, changes
from t2t_repro.files import sha256, write_json, write_text_atomic, writing

TUNED = "decoding.json"  # in a run that t2t-avg-all --tune has made: how to decode with it
PROVENANCE = "provenance.json"  # what it was made of, and how it translates
PLAN = "plan.json"  # what it was to take, as t2t-trainer saw it at its beginning
TRAINING_DATA = "training-data.json"  # what its training data are
WARM_START = "warm-start.json"  # in a run: the weights that it began with, and what it took
_LOCK = "trainer.lock"
_DESCRIPTION = ("hparams.json", PLAN, TRAINING_DATA, WARM_START, "run.json")
_FIX = "Correct the file, or start a new run in another --output_dir."


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RunFile:
    """run.json: a `RunConfig` except the hparams, which have a file of their own, as T2T's.

    Fields of other versions are ignored.
    """

    hparams_set: str
    problem: str
    data_dir: str
    version: str
    random_seed: int = 0
    xla_compile: bool = False
    commands: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    t2t_usr_dir: str | None = None
    options: dict[str, str] | None = None
    vocabularies: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(_RunFile):
    """What a run is.

    `xla_compile`: whether XLA compiles its steps under TensorFlow too, for which its batches are
    padded to few lengths.
    `commands` holds each command line that worked on it, oldest first, and `changes` what one of
    them has changed, and from which step on; `t2t_usr_dir` is the folder
    of the user's package that was loaded, None where none was. `options` are flags of t2t-trainer
    that say how it trains, not what it is; None: as the run says already. `vocabularies`
    is {file: its SHA-256}, which `RunDirectory.begin` knows; None: an older version began it.
    """

    hparams: HParams


class RunDirectory:
    """A run directory at `path`, with its checkpoints and metrics. It need not exist yet."""

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path).expanduser()
        self.checkpoints_dir = self.path / "checkpoints"
        self.metrics_path = self.path / "metrics.jsonl"  # one JSON object a line

    def exists(self) -> bool:
        """Whether there is a run here."""
        return (self.path / "run.json").is_file()

    @functools.cached_property
    def config(self) -> RunConfig:
        """What the run is; it is read once.

        Raises:
            UserError: if `path` is no run directory, or its files are not readable.
        """
        try:
            run = schema.read(self.path / "run.json", _RunFile, _FIX)
            file = self.path / "hparams.json"
            hparams = HParams.from_json(file.read_bytes(), str(file), _FIX)
            return RunConfig(hparams=hparams, **vars(run))
        except FileNotFoundError as error:
            missing = pathlib.Path(error.filename).name
            received = of_tensor2tensor(self.path) or (
                f"{self.path} without {missing}. Give the --output_dir of a t2t-trainer run."
            )
            raise UserError(f"Expected a run directory. Received: {received}") from error

    def begin(
        self,
        config: RunConfig,
        command: Sequence[str],
        vocabularies: Sequence[str],
        named: Iterable[str] = (),
    ) -> list[str]:
        """Writes `config`, or checks it against the existing run.

        Args:
            config: what is to run.
            command: the command line, kept with those before it.
            vocabularies: the vocabulary files, which are copied into the run.
            named: settings in the command: a resumed run may change them if `config.may_change`.

        Returns:
            The changed settings, which `changes` keeps.

        Raises:
            UserError: if the existing run has another configuration, problem, seed or vocabulary
                (all differences are listed), or the folder holds something else. Nothing is written
                then.
        """
        news = self.check(config, named)
        self.check_vocabularies(vocabularies)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        commands: tuple[str, ...] = (f"{stamp}Z {shlex.join(command)}",)
        hparams = config.hparams
        if self.exists():
            before = self.config
            commands = before.commands + commands
            if hparams.train_steps < self.newest_step():  # nothing will be trained
                hparams = dataclasses.replace(hparams, train_steps=before.hparams.train_steps)
            kept = tuple(f"step {self.newest_step():,}: {each}" for each in news)
            config = dataclasses.replace(
                config,
                changes=before.changes + kept,
                t2t_usr_dir=config.t2t_usr_dir or before.t2t_usr_dir,
                options=before.options if config.options is None else config.options,
            )
        for file in map(pathlib.Path, vocabularies):
            _copy(file, self.path / file.name)
        digests = {pathlib.Path(file).name: sha256(file) for file in vocabularies}
        run = vars(config) | {"commands": commands, "vocabularies": digests}
        left_out = {"hparams", *(n for n in ("t2t_usr_dir", "options", "changes") if not run[n])}
        run = {name: value for name, value in run.items() if name not in left_out}
        self.path.mkdir(parents=True, exist_ok=True)
        write_text_atomic(self.path / "hparams.json", hparams.to_json())
        write_json(self.path / "run.json", run)
        vars(self).pop("config", None)  # what was read is old
        return news

    def parent(self) -> pathlib.Path | None:
        """Returns the checkpoint with whose weights it began; None: with random ones.

        Raises:
            schema.Malformed: if the file that says so is broken.
        """
        file = self.path / WARM_START
        if not file.is_file():
            return None
        return pathlib.Path(schema.read(file, dict[str, Any], "Delete it.")["checkpoint"])

    def newest_step(self) -> int:
        """Returns the step of the newest checkpoint by its name; 0: there is none."""
        names = (path.name[len("ckpt-") :] for path in self.checkpoints_dir.glob("ckpt-*"))
        return max((int(name) for name in names if name.isdigit()), default=0)

    def is_continued_by(self, other: "RunDirectory") -> bool:
        """Returns whether another run is this one, moved or copied, or of averages of its weights.

        They have the same first command, at the same time. Settings that a run may change may
        differ.
        """
        mine, others = self.config, other.config
        free = filter(may_change, [*vars(mine.hparams), "random_seed"])
        return mine.commands[:1] == others.commands[:1] and not _differences(mine, others, free)

    def check(self, config: RunConfig, named: Iterable[str] = ()) -> list[str]:
        """Checks `config` against the existing run, if there is one.

        Returns:
            As `begin`.

        Raises:
            UserError: as `begin`, except for the vocabularies.
        """
        if self.exists():
            before, others = self.config, set(filter(may_change, named))
            if differs := _differences(before, config, others):
                raise UserError(
                    f"Expected the settings of {self.path}. Received: {'; '.join(differs)}. Give "
                    "the same flags to continue the run, or another --output_dir for a new one."
                )
            return _differences(before, config)
        strange = of_tensor2tensor(self.path)
        if not strange and self.newest_step():
            strange = f"{self.path}, which has checkpoints and no run.json."
        if strange:
            raise UserError(f"Expected --output_dir to be new, or a run. Received: {strange}")
        return []

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks out other writers of the run during the block; readers need no lock.

        The lock is the kernel's, on the file `trainer.lock`: it ends with the process, however
        that ends.

        Raises:
            UserError: naming another process that writes here.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / _LOCK, "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    f"Expected no other program to write to {self.path}. Received: "
                    f"{self.lock_holder()}. Wait until it ends, or give another --output_dir."
                ) from error
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            file.truncate(0)
            print(f"process {os.getpid()} on {socket.gethostname()}, since {stamp}", file=file)
            file.flush()
            yield

    def lock_holder(self) -> str:
        """Returns the description of the process that has it `locked`; "": none has."""
        with contextlib.suppress(OSError), open(self.path / _LOCK, encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip()
        return ""  # also where there is no file, or no locks: nobody writes

    def copy_description(self, out: "RunDirectory") -> None:
        """Copies the configuration and vocabularies, which a decoder needs besides checkpoints.

        Nothing else, since the folder may also hold text and data. run.json comes last, so that it
        marks a whole copy.
        """
        vocabularies = (self.config.vocabularies if self.exists() else None) or ()
        for name in (*vocabularies, *_DESCRIPTION):
            if (self.path / name).is_file():
                _copy(self.path / name, out.path / name)

    def check_vocabularies(self, files: Iterable[str | os.PathLike]) -> None:
        """Checks vocabularies against the run's own.

        Raises:
            UserError: if one differs: its ids do not fit this run.
        """
        known = self.config.vocabularies if self.exists() else None
        for file in map(pathlib.Path, files):
            digest = sha256(file)
            # One that t2t-checkpoint has carried over may have tensor2tensor's name for its size.
            if known and not (known.get(file.name, digest) == digest in known.values()):
                raise UserError(
                    f"Expected {file} to be the vocabulary of {self.path}. Received: a different "
                    "one. Give the --data_dir of this run, or another --output_dir for a new run."
                )

    def append_metrics(self, values: dict[str, Any]) -> None:
        """Appends one line to metrics.jsonl; after a truncated one it begins a new line."""
        with open(self.metrics_path, "a+b") as file:
            file.seek(max(0, file.tell() - 1))
            file.write(b"\n" * (file.read() not in (b"", b"\n")))
            file.write(json.dumps(values).encode() + b"\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the rows of metrics.jsonl, without a truncated one."""
        rows = []
        lines = self.metrics_path.read_bytes().splitlines() if self.metrics_path.exists() else ()
        for line in lines:
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
        return rows

    def cut_metrics(self, step: int) -> None:
        """Removes the lines of metrics.jsonl of later steps, and truncated ones."""
        kept = [row for row in self.read_metrics() if row.get("step", 0) <= step]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        if self.metrics_path.exists() and self.metrics_path.read_bytes() != text.encode():
            write_text_atomic(self.metrics_path, text)


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    with writing(target, "wb") as file:
        file.write(source.read_bytes())


def problem_of(config: RunConfig) -> Any:
    """Returns the problem of a run.

    Raises:
        UserError: if it is unknown; the error names the run's --t2t_usr_dir.
    """
    try:
        return registry.get_problem(config.problem)
    except UserError as error:
        package = config.t2t_usr_dir
        hint = f" The run was made with --t2t_usr_dir={package}: give it again." if package else ""
        raise UserError(f"{error}{hint}") from error


def usr_dir_flag(t2t_usr_dir: str | None) -> str:
    """Returns the --t2t_usr_dir flag of a run for a shell command, or ""."""
    return f" --t2t_usr_dir={shlex.quote(t2t_usr_dir)}" if t2t_usr_dir else ""


def of_tensor2tensor(path: pathlib.Path) -> str:
    """Returns the end of an error if `path` is tensor2tensor's; else "".

    It may be a folder of its checkpoints, or the prefix of one.
    """
    prefix = ".ckpt-" in path.name and path.with_name(f"{path.name}.index").is_file()
    if not prefix and not any(path.glob("*.ckpt-*.index")):
        return ""
    return (
        f"{path}, in tensor2tensor's format. To make a run of it: t2t-checkpoint import "
        f"--checkpoint={shlex.quote(os.fspath(path))} --output_dir=RUN"
    )


def _differences(before: RunConfig, now: RunConfig, but: Iterable[str] = ()) -> list[str]:
    names = dataclasses.asdict(now.hparams)
    # Such as the steps of a decay that neither schedule has.
    left_out = before.hparams.unused(names).keys() & now.hparams.unused(names).keys()
    # A longer run continues a shorter one, unless its steps depend on where it ends.
    left_out |= {"train_steps"} if not now.hparams.reads_train_steps else set()
    left_out |= set(but)
    of_run = ("problem", "random_seed", "xla_compile")
    old, new = (
        vars(config.hparams) | {name: getattr(config, name) for name in of_run}
        for config in (before, now)
    )
    return changes({name: value for name, value in old.items() if name not in left_out}, new)
