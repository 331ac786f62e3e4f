"""Runs that can teach, and text in one language."""

import gzip
import shutil

import numpy as np
import pytest

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.distill.request import DistillRequest
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.training import checkpoints
from tests import untrained

TRAIN = [("ab cd", "cd ab"), ("cd", "ab"), ("ab ab cd", "cd")]
DEV = [("cd cd", "ab ab"), ("ab", "cd")]
SIZES = "num_hidden_layers=3,hidden_size=16,filter_size=24,num_heads=2"


def write_run(path, name, data):
    files = [data / file for file in registry.get_problem(name).vocab_files(data)]
    there = [str(file) for file in files if file.exists()]
    run = untrained.begun(path, "transformer_own_text_small", name, SIZES, data, there)
    arrays = {checkpoints.WEIGHTS: {"kernel": np.zeros(7, "float32")}}
    checkpoints.write(run.checkpoints_dir, arrays, checkpoints.State(step=12))


def request_of(folder, teacher="teach", **more):
    return DistillRequest(teacher=str(folder / teacher), output_dir=str(folder / "out"), **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with teachers: of one vocabulary, and of two; `back` is of the other direction."""
    folder = tmp_path_factory.mktemp("teachers")
    for split, rows in (("train", TRAIN), ("eval", DEV)):
        for side, lines in zip(("inputs", "targets"), zip(*rows, strict=True), strict=True):
            (folder / f"{side}.{split}.txt").write_text("".join(f"{line}\n" for line in lines))
    sides = {}
    for side, size in (("inputs", 30), ("targets", 25)):
        counts = {"ab": 9, "cd": 8, "a": 3, "b": 3, "c": 3, "d": 3}
        encoder = SubwordTextEncoder.build_to_target_size(size, counts, 1, 9)
        encoder.store_to_file(str(folder / side))
        sides[side] = str(folder / side)
    problem = registry.get_problem("text2text_tmpdir")
    for name, vocabularies in {"data": dict.fromkeys(sides, sides["inputs"]), "two": sides}.items():
        generate_data(Job(problem, str(folder / name), str(folder), vocabularies=vocabularies))
    write_run(folder / "teach", "text2text_tmpdir", folder / "data")
    write_run(folder / "back", "text2text_tmpdir_rev", folder / "two")
    write_run(folder / "forth", "text2text_tmpdir", folder / "two")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """Copies of the runs, beside text in one language."""
    for name in ("teach", "back", "forth"):
        shutil.copytree(made / name, tmp_path / name)
    (tmp_path / "more").write_text("cd ab ab\n\ncd\n")
    with gzip.open(tmp_path / "more.gz", "wt") as file:
        file.write("ab cd cd\n")
    return tmp_path
