import shutil

import numpy as np
import pytest

from t2t_repro.bin import avg_all
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.training import checkpoints
from t2t_repro.training.checkpoints import WEIGHTS, State
from tests import untrained
from tests.programs import call


@pytest.fixture
def trained(tmp_path):
    """A run with checkpoints 10, 20, 30, 40 whose one weight is step / 10."""
    vocabulary = tmp_path / "vocab.words"
    vocabulary.write_text("a\n")
    files = [str(vocabulary)]
    run = untrained.begun(
        tmp_path / "run", "transformer_test", "text2text_tmpdir", "", tmp_path, files
    )
    run.append_metrics({"step": 1})
    for step in (10, 20, 30, 40):
        save(run, step)
    return run


def save(run, step):
    arrays = {WEIGHTS: {"kernel": np.full((2, 3), step / 10, "float32")}}
    checkpoints.write(run.checkpoints_dir, arrays, State(step=step))


def kernel(path):
    return float(checkpoints.read_arrays(path / WEIGHTS)["kernel"][0, 0])


def run(*argv):
    call(avg_all, *argv)


def request(run, tmp_path, **flags):
    out = str(tmp_path / "avg")
    return avg_all.AverageRequest(model_dir=str(run.path), output_dir=out, **flags)


def test_every_window_is_averaged_into_a_run_directory(trained, tmp_path, capsys):
    out = tmp_path / "avg"
    run(f"--model_dir={trained.path}", f"--output_dir={out}", "--n=3")
    written = checkpoints.list_checkpoints(out)
    assert {path.name: kernel(path) for path in written} == {"ckpt-30": 2.0, "ckpt-40": 3.0}
    assert checkpoints.verify(written[0]).averaged == (10, 20, 30)
    assert RunDirectory(out).config == trained.config
    assert (out / "vocab.words").read_text() == "a\n" and not (out / "metrics.jsonl").exists()


def test_a_folder_holds_the_averages_of_one_run(trained, tmp_path):
    avg_all.average_all(request(trained, tmp_path, n=3))
    other = RunDirectory(tmp_path / "other")
    (tmp_path / "vocab.words").write_text("b\n")
    other.begin(trained.config, ["t2t-trainer", "another"], [str(tmp_path / "vocab.words")])
    for step in (15, 25):
        save(other, step)
    with pytest.raises(UserError, match="--output_dir"):
        avg_all.average_all(request(other, tmp_path, n=2))
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path / "avg")]
    assert names == ["ckpt-30", "ckpt-40"]
    assert (tmp_path / "avg" / "vocab.words").read_text() == "a\n"


def test_weights_that_were_chosen_are_not_replaced(trained, tmp_path):
    avg_all.average_all(request(trained, tmp_path, n=3, last_only=True))
    with pytest.raises(UserError, match="--n"):
        avg_all.average_all(request(trained, tmp_path, n=2))
    (tmp_path / "avg" / "decoding.json").write_text("{}")
    with pytest.raises(UserError, match="decoding.json"):
        avg_all.average_all(request(trained, tmp_path, n=3))
    names = [path.name for path in checkpoints.list_checkpoints(tmp_path / "avg")]
    assert names == ["ckpt-40"]


def test_a_run_that_was_copied_and_went_on_is_the_same(trained, tmp_path):
    avg_all.average_all(request(trained, tmp_path, n=3))
    moved = RunDirectory(tmp_path / "moved")
    shutil.copytree(trained.path, moved.path)
    vocabulary = str(tmp_path / "vocab.words")
    moved.begin(moved.config, ["t2t-trainer", "--output_dir=moved"], [vocabulary])
    save(moved, 50)
    written = avg_all.average_all(request(moved, tmp_path, n=3, min_steps=30))
    assert [path.name for path in written] == ["ckpt-50"]


def test_only_the_last(trained, tmp_path):
    run(f"--model_dir={trained.path}", f"--output_dir={tmp_path / 'avg'}", "--n=2", "--last_only")
    (only,) = checkpoints.list_checkpoints(tmp_path / "avg")
    assert only.name == "ckpt-40" and kernel(only) == 3.5


def test_it_waits_for_new_checkpoints(trained, tmp_path, make_clock):
    clock = make_clock(lambda naps: save(trained, 50) if naps == 2 else None)
    written = avg_all.average_all(request(trained, tmp_path, n=4, wait_minutes=1))
    assert [path.name for path in written] == ["ckpt-40", "ckpt-50"]
    assert clock.now == 20 + 60


def test_what_a_trainer_removes_meanwhile_is_still_in_the_sum(trained, tmp_path, make_clock):
    def trains_on(naps):
        if naps == 2:
            save(trained, 50)
            for step in (20, 30):
                checkpoints.delete(trained.checkpoints_dir / f"ckpt-{step}")

    waiting = request(trained, tmp_path, n=3, wait_minutes=1)
    make_clock(trains_on)
    written = avg_all.average_all(waiting)
    assert {path.name: kernel(path) for path in written} == {
        "ckpt-30": 2.0, "ckpt-40": 3.0, "ckpt-50": 4.0
    }  # fmt: skip
