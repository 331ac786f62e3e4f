"""t2t-distill itself, killed on the way: the same command ends as if it had not been."""

import json
import random
import time

import pytest

from tests.programs import finish, kill_and_finish

pytestmark = pytest.mark.slow
TINY = "num_hidden_layers=1,hidden_size=16,filter_size=24,num_heads=2,batch_size=256"
TEACHER = [
    *("t2t_repro.bin.trainer", "--generate_data", "--problem=text2text_tmpdir", "--tmp_dir=."),
    *("--data_dir=data", "--output_dir=teacher", "--hparams_set=transformer_own_text_small"),
    *(f"--hparams={TINY}", "--train_steps=40", "--local_eval_frequency=40", "--samples_every=0"),
]
COMMAND = [
    *("t2t_repro.bin.distill", "--teacher=teacher", "--output_dir=out", "--monolingual=more"),
    *("--n_best=2", "--decode_hparams=extra_length=7", "--repeat_gold=1", "--train_steps=60"),
    "--hparams=num_encoder_layers=2,num_decoder_layers=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with 380 training pairs, and a teacher that was trained on them."""
    folder = tmp_path_factory.mktemp("distill")
    draw = random.Random(3)
    words = {f"{a}{b}{c}": f"{c}{b}{a}" for a in "klmnr" for b in "aeiou" for c in "pst"}
    lines = [draw.choices(list(words), k=draw.randint(3, 9)) for _ in range(430)]
    for split, part in {"train": lines[:380], "eval": lines[380:400]}.items():
        for side, of in {"inputs": str, "targets": words.get}.items():
            text = "".join(" ".join(map(of, line)) + ".\n" for line in part)
            (folder / f"{side}.{split}.txt").write_text(text)
    (folder / "more").write_text("".join(" ".join(line) + ".\n" for line in lines[400:]))
    finish(folder, TEACHER)
    return folder


def end(folder):
    found = json.loads((folder / "out" / "distill.json").read_text())
    files = {name: stage["files"] for name, stage in found["stages"].items()}
    results = {name: stage["found"] for name, stage in found["stages"].items()}
    comparison = results["comparison"]
    del comparison["said"]  # it has the rates
    for side in ("teacher", "student"):
        del comparison[side]["sentences_per_second"]
    weights = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in (folder / "out" / "model" / "checkpoints").rglob("*.npz")
    }
    assert len(weights) == 1 and not list((folder / "out").rglob("*.incomplete*"))
    return files, results, found["inputs"], weights


def test_killed_and_stopped_it_ends_with_the_same_student(folder):
    began = time.monotonic()
    finish(folder, COMMAND)
    seconds = time.monotonic() - began
    straight = end(folder)
    (folder / "out").rename(folder / "straight")  # what is made says in which folder
    assert "done before" in kill_and_finish(folder, COMMAND, seconds)
    assert end(folder) == straight
    assert (
        straight[1]["pairs"]["translated"] > 410
    )  # the two best of 410 sentences, where they differ
