"""Jobs made of stages: a stage is whole or is made again. See test_faults.py for kills."""

import importlib
import itertools
import json
import multiprocessing
import os
import random
import sys

import pytest

from t2t_repro import files, process, stages
from t2t_repro.errors import UserError
from t2t_repro.stages import Stage
from tests.faulty_files import Faults, Warm


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
SMALL = f"--hparams_set=transformer_own_text_small --hparams={TINY}"
# So few steps that the plan does not depend on the measured speed.
OWN_TEXT = f"--output_dir=out --train_steps=20 {SMALL} --source=train.en --target=train.de"
TEACHER = (
    "--generate_data --problem=text2text_tmpdir --tmp_dir=. --data_dir=data --output_dir=teacher "
    f"--train_steps=40 {SMALL} --local_eval_frequency=40"
)
DISTILL = (
    "--teacher=teacher --output_dir=out --monolingual=more --n_best=2 --repeat_gold=1 "
    "--decode_hparams=extra_length=7 --train_steps=60 "
    "--hparams=num_encoder_layers=2,num_decoder_layers=1"
)


def begin(folder, program, flags):
    """Runs a program in a folder; those that it starts are forks, which have TensorFlow loaded."""
    from t2t_repro.decoding import tune
    from t2t_repro.export import signatures

    os.chdir(folder)
    if program == "own_text":  # each beam is traced for seconds
        tune.TuneRequest.beams, tune.TuneRequest.penalties = [4], [0.6, 1.0]
    signatures.Served.names = ("best",)  # each is traced for a second
    process.SPAWN = multiprocessing.get_context("fork")
    sys.argv = [f"t2t-{program}", *flags.split()]
    importlib.import_module(f"t2t_repro.bin.{program}").console()


@pytest.mark.slow
@pytest.mark.parametrize(
    "program, flags, record, holds_times",
    [
        ("own_text", OWN_TEXT, "own-text.json", {"plan", "export_saved_model"}),  # or TF's bytes
        ("distill", DISTILL, "distill.json", set()),
    ],
)
def test_each_program_killed_ends_the_same(tmp_path, program, flags, record, holds_times):
    draw = random.Random(3)
    words = {f"{a}{b}{c}": f"{c}{b}{a}" for a in "klmnr" for b in "aeiou" for c in "pst"}
    lines = [draw.choices(list(words), k=draw.randint(3, 9)) for _ in range(430)]
    for split, part in {"train": lines[:380], "eval": lines[380:400]}.items():
        for side, of in {"inputs": str, "targets": words.get}.items():
            text = "".join(" ".join(map(of, line)) + ".\n" for line in part)
            (tmp_path / f"{side}.{split}.txt").write_text(text)
    for side, name in (("inputs", "train.en"), ("targets", "train.de")):
        (tmp_path / name).symlink_to(f"{side}.train.txt")
    (tmp_path / "more").write_text("".join(" ".join(line) + ".\n" for line in lines[400:]))
    out, marks = tmp_path / "out", tmp_path / "marks"
    marks.mkdir()

    def run(name, flags, at=()):
        faults = Faults(folder=str(out), at=at, once=str(marks))
        return warm.run("tests.test_stages:begin", [str(tmp_path), name, flags], faults)

    def end():
        found = json.loads((out / record).read_text())
        done = {n: s for n, s in found["stages"].items() if n not in holds_times}
        saved = list((out / "model" / "checkpoints").rglob("*.npz"))
        assert len(saved) == 1 and not list(out.rglob(f"*{files.INCOMPLETE}*"))
        results = {name: (stage["files"], stage["found"]) for name, stage in done.items()}
        return results, found["inputs"], saved[0].read_bytes()

    with Warm("tests.faulty_files:leave_graphs", "t2t_repro.training.trainer") as warm:
        if program == "distill":
            assert run("trainer", TEACHER).code == 0
        ended = run(program, flags)
        assert ended.code == 0, ended.said
        straight = end()
        out.rename(tmp_path / "straight")  # what is made says in which folder
        for number in itertools.count(1):
            ended = run(program, flags, at=[7])
            if ended.code == 0:
                break
            assert len(list(marks.iterdir())) == number, ended.said  # it ended by a kill
    assert number > 3 and end() == straight
