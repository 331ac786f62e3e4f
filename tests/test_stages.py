"""Jobs made of stages: a stage is whole or is made again, wherever a job is killed."""

import json
import random

import pytest

from t2t_repro import files, stages
from t2t_repro.errors import UserError
from t2t_repro.stages import Stage
from tests.programs import finish, kill_and_finish, start

JOB = """
import pathlib
from t2t_repro import files, stages

folder, said = pathlib.Path("out"), []

def add(outputs, before):
    text = "".join(path.read_text() for path in before)
    for path in outputs:
        files.write_text_atomic(path, text + path.name)
    return len(text)

with stages.begin(folder / "record.json", {"input": "input"}, ["input"], said.append) as doing:
    before = [pathlib.Path("input")]
    for name, parts in {"one": "ab", "two": "c"}.items():
        made = [folder / f"{name}.{part}" for part in parts]
        doing.run(stages.Stage(name=name, says=name, outputs=made), lambda: add(made, before))
        before = made
print(*said)
"""
WRITES = 1 + (2 + 1) + (1 + 1)  # the record at the beginning and behind each stage, and the files


def made(folder):
    """What a job has made: {file: text}, without times."""
    found = {path.name: path.read_text() for path in (folder / "out").iterdir()}
    record = json.loads(found["record.json"])
    for stage in record["stages"].values():
        del stage["seconds"]
    return found | {"record.json": record}


def test_killed_at_each_write_it_ends_with_the_same_bytes(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "input").write_text("text\n")
    finish(tmp_path, ["job.py"])
    straight = made(tmp_path)
    assert len(straight) == 4 and len(straight["record.json"]["stages"]) == 2
    for write in range(1, WRITES + 2):
        (tmp_path / "out").rename(tmp_path / f"before {write}")
        kills = kill_and_finish(tmp_path, ["job.py"], str(write))
        assert kills == (write <= WRITES) and made(tmp_path) == straight
    assert start(tmp_path, ["job.py"]).stdout.count("done before") == 2


def test_a_stage_is_made_again_with_all_that_follows_if_it_is_another(tmp_path):
    done = []

    def run(**other):
        with stages.begin(tmp_path / "out" / "record.json", {}, [], done.append) as doing:
            done.clear()
            for name in ("one", "two", "three"):
                output = tmp_path / "out" / name
                stage = Stage(name=name, says=name, outputs=[output], depends=other.get(name, ""))
                doing.run(stage, lambda path=output: path.write_text("x"))
        return [name for name in ("one", "two", "three") if f"\n{name}:" in done]

    assert run() == ["one", "two", "three"] and run() == []
    assert run(two="other") == ["two", "three"]
    (tmp_path / "out" / "three").unlink()
    assert run(two="other") == ["three"]
    assert run() == ["two", "three"]


def test_a_folder_of_something_else_and_a_broken_record_are_refused(tmp_path):
    record = tmp_path / "record.json"
    record.with_name(record.name + files.INCOMPLETE).touch()  # of a process that was killed at once
    with stages.begin(record, {}, []):
        pass
    record.write_text('{"version": 7}')
    with pytest.raises(UserError, match=record.name), stages.begin(record, {}, []):
        pass
    with pytest.raises(UserError, match="other.json"):
        with stages.begin(tmp_path / "other.json", {}, []):
            pass


TINY = "num_hidden_layers=1,hidden_size=16,filter_size=24,num_heads=2,batch_size=256"
SMALL = ["--hparams_set=transformer_own_text_small", f"--hparams={TINY}"]
OWN_TEXT = ["-m", "t2t_repro.bin.own_text", "--output_dir=out", "--train_steps=60", *SMALL]
OWN_TEXT += ["--source=inputs.train.txt", "--target=targets.train.txt"]
TEACHER = [
    *("-m", "t2t_repro.bin.trainer", "--generate_data", "--problem=text2text_tmpdir"),
    *("--tmp_dir=.", "--data_dir=data", "--output_dir=teacher", "--train_steps=40", *SMALL),
    "--local_eval_frequency=40",
]
DISTILL = [
    *("-m", "t2t_repro.bin.distill", "--teacher=teacher", "--output_dir=out", "--monolingual=more"),
    *("--n_best=2", "--decode_hparams=extra_length=7", "--repeat_gold=1", "--train_steps=60"),
    "--hparams=num_encoder_layers=2,num_decoder_layers=1",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "before, command, record, holds_times",
    [
        ([], OWN_TEXT, "own-text.json", {"plan", "export_saved_model"}),  # or TensorFlow's bytes
        (TEACHER, DISTILL, "distill.json", set()),
    ],
    ids=["own_text", "distill"],
)
def test_each_program_killed_at_its_writes_ends_the_same(
    tmp_path, before, command, record, holds_times
):
    draw = random.Random(3)
    words = {f"{a}{b}{c}": f"{c}{b}{a}" for a in "klmnr" for b in "aeiou" for c in "pst"}
    lines = [draw.choices(list(words), k=draw.randint(3, 9)) for _ in range(430)]
    for split, part in {"train": lines[:380], "eval": lines[380:400]}.items():
        for side, of in {"inputs": str, "targets": words.get}.items():
            text = "".join(" ".join(map(of, line)) + ".\n" for line in part)
            (tmp_path / f"{side}.{split}.txt").write_text(text)
    (tmp_path / "more").write_text("".join(" ".join(line) + ".\n" for line in lines[400:]))
    if before:
        finish(tmp_path, before)

    def end():
        found = json.loads((tmp_path / "out" / record).read_text())
        done = {n: s for n, s in found["stages"].items() if n not in holds_times}
        saved = list((tmp_path / "out" / "model" / "checkpoints").rglob("*.npz"))
        assert len(saved) == 1 and not list((tmp_path / "out").rglob(f"*{files.INCOMPLETE}*"))
        results = {name: (stage["files"], stage["found"]) for name, stage in done.items()}
        return results, found["inputs"], saved[0].read_bytes()

    finish(tmp_path, command)
    straight = end()
    (tmp_path / "out").rename(tmp_path / "straight")  # what is made says in which folder
    assert kill_and_finish(tmp_path, command, "1,3") > len(straight[0])
    assert end() == straight
