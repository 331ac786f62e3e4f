"""A text of 83 pairs, and t2t-datagen on it in this process."""

from t2t_repro import registry
from t2t_repro.data import generate
from t2t_repro.data.job import Job

PROBLEM = "text2text_tmpdir"
SHARDS = 5


def write_text(folder):
    """Writes the problem's text files into a folder, and returns that."""
    for side in ("inputs", "targets"):
        lines = [f"{side} {number} of {number * 7 % 31} words\n" for number in range(83)]
        (folder / f"{side}.train.txt").write_text("".join(lines))
        (folder / f"{side}.eval.txt").write_text("".join(lines[:9]))
    return folder


def job(raw, data, **options):
    return Job(registry.get_problem(PROBLEM), data, raw, **{"num_shards": SHARDS, **options})


def run(raw, data, processes=1, **options):
    said = []
    generate.generate_data(job(raw, data, **options), generate.Local(processes), report=said.append)
    return said


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
