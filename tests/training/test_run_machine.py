"""A run directory under savings, kills, damages and resumes in any order: nothing in it is half."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import tempfile
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.best import RANKING, KeepBest
from t2t_repro.training.checkpoints import TRAINING, WEIGHTS
from tests.test_run_directory import CONFIG

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where a file takes no time
FIRST = 7  # the step before the first: the second has more digits than that
LIFE = st.tuples(
    *map(st.integers, (0, 0, 1, 1), (3, 3, 2, 90)), st.sampled_from(["", '{"step": 1, "lo'])
)
OPERATIONS = ("mkdir", "link", "fsync", "rename", "replace", "unlink", "rmdir")


class Killed(BaseException):
    """A kill: no handler of errors sees it."""


@contextlib.contextmanager
def dying(operation):
    """Ends the block behind an operation on a file, by its number; none is made after it."""
    numbers = itertools.count(1)

    def of(do):
        def call(*args, **options):
            number = next(numbers)
            if number <= operation:
                made = do(*args, **options)
            if number >= operation:
                raise Killed
            return made

        return call

    with contextlib.suppress(Killed), contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("builtins.open", of(open)))
        for name in OPERATIONS:
            stack.enter_context(mock.patch.object(os, name, of(getattr(os, name))))
        yield


def flipped(content, at):
    """Another bit of JSON or of an array; before an array are headers that nothing reads."""
    at = (max(0, content.find(b"\x93NUMPY")) + int(150 * at)) % len(content)
    return content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :]


DAMAGES = [
    lambda content, at: content[: int(len(content) * at)],
    flipped,
    lambda content, at: b"{}",
    lambda content, at: None,  # it is gone
]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def loss(step):
    return 7 * step % 5


def arrays(step):
    return {WEIGHTS: {"a/kernel": np.full((2, 3), step)}, TRAINING: {"seed": np.full(5, step)}}


class RunMachine(RuleBasedStateMachine):
    """`damaged` has {file: what stood in it, and what does now; None: nothing}."""

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=MEMORY))
        self.path, self.damaged = self.folder / "run", {}
        (self.folder / "vocab.x").write_text("'a_'\n")

    def teardown(self):
        shutil.rmtree(self.folder)

    def hurt(self):
        """The files that are damaged, as far as nobody has written or removed them since."""
        now, damaged = contents(self.path), self.damaged.items()
        return [file for file, (_, to) in damaged if file.parent.is_dir() and now.get(file) == to]

    def newest(self):
        """The last step whose checkpoint nobody has damaged."""
        hurt = {file.parent for file in self.hurt()}
        found = [path for path in checkpoints.list_checkpoints(self.path) if path not in hurt]
        return max(map(checkpoints.step_of, found), default=FIRST)

    @rule(lives=st.lists(LIFE, min_size=1, max_size=3))
    def train(self, lives):
        """What trainers do with the files until each ends, is refused, or is killed."""
        for saves, keep, best, dies, torn in lives:
            run, before = RunDirectory(self.path), self.newest()
            folder, ranking = run.checkpoints_dir, KeepBest(count=best)
            try:
                with dying(dies), run.locked():
                    run.begin(CONFIG, ["t2t-trainer"], [self.folder / "vocab.x"])
                    newest = checkpoints.newest_whole(folder, lambda text: None)
                    start = checkpoints.verify(newest).step if newest else FIRST
                    assert newest or not checkpoints.list_checkpoints(folder)
                    run.cut_metrics(start)
                    with open(run.metrics_path, "a") as file:
                        file.write(torn)  # by another program, whose end it was
                    for step in range(start, start + saves + 1):
                        if step > start:
                            run.append_metrics({"step": step})
                            checkpoints.write(folder, arrays(step), checkpoints.State(step=step))
                            checkpoints.prune(folder, keep, step)
                        if step > FIRST:
                            ranking.add(run, step, {"loss": loss(step)}, "dev", "all")
                    with pytest.raises(UserError, match=str(os.getpid())):
                        RunDirectory(self.path).locked().__enter__()
            except UserError:
                assert self.hurt()
            assert self.newest() >= before

    @rule(data=st.data(), how=st.sampled_from(DAMAGES), at=st.floats(0, 0.999))
    def damage(self, data, how, at):
        files = contents(self.path)
        if some := sorted(file for file in files if file.suffix in (".json", ".npz")):
            file = data.draw(st.sampled_from(some))
            file.unlink()  # of two links one is damaged
            now = how(files[file] or b"{}", at)
            if now is not None:
                file.write_bytes(now)
            self.damaged[file] = (self.damaged.get(file, [files[file]])[0], now)

    @rule()
    def restore(self):
        """Copies are put back."""
        for file in self.hurt():
            file.write_bytes(self.damaged[file][0])
        self.damaged.clear()

    @invariant()
    def nothing_is_half(self):
        hurt = self.hurt()
        for folder in self.path, self.path / "best":
            whole, there = [], []
            for path in checkpoints.list_checkpoints(folder):
                there.append(step := checkpoints.step_of(path))
                try:
                    state = checkpoints.verify(path)
                except checkpoints.CorruptCheckpoint as error:
                    assert any(file.parent == path and str(path) in str(error) for file in hurt)
                    continue
                whole.append(step)
                assert state.step == step and WEIGHTS in state.files
                for name in state.files:
                    found = checkpoints.read_arrays(path / name)
                    np.testing.assert_equal(found, arrays(step)[name])
            file, order = folder / "checkpoints" / RANKING, []
            if file.exists() and file not in hurt:
                order = [entry["step"] for entry in json.loads(file.read_bytes())["ranking"]]
            assert order == sorted(order, key=lambda step: (loss(step), step))
            assert {*order} - {*there} <= {RunDirectory(self.path).newest_step()}
            found = checkpoints.latest(folder, lambda text: None)
            expected = next((step for step in [*order, *whole[::-1]] if step in whole), None)
            assert (found and checkpoints.step_of(found)) == expected
        steps = [row["step"] for row in RunDirectory(self.path).read_metrics()]
        assert steps == [*range(FIRST + 1, max([*steps, self.newest()]) + 1)]


TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = settings(  # of "ci": it may be slow
    settings.get_profile("ci"), max_examples=30, stateful_step_count=12, phases=["generate"]
)
