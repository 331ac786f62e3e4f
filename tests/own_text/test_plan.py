"""What the plan reads of the text that t2t-datagen has made, and which training it makes of it."""

import dataclasses
import json
import shutil

import pytest

from t2t_repro import registry
from t2t_repro.data.text_size import TextSize
from t2t_repro.errors import UserError
from t2t_repro.own_text import plan
from t2t_repro.own_text.plan import Text
from t2t_repro.own_text.record import plan_of
from t2t_repro.run_directory import RunConfig, RunDirectory
from tests.own_text.left_files import SECONDS, run

SUMMARY = {
    "splits": {"train": {"examples": 7}, "dev": {"examples": 3}},
    "vocab_size": {"targets": 11},
}


def test_a_summary(tmp_path):
    path = tmp_path / "datagen.json"
    path.write_text(json.dumps(SUMMARY))
    assert Text.of(path) == Text(train=TextSize.like_captions(7), dev=3, subwords=11)


@pytest.mark.parametrize(
    ("lacks", "received"),
    [
        ({"splits": {"train": {"examples": 7}}}, "none of 'dev'"),
        ({"splits": {"train": {}, "dev": {"examples": 3}}}, "none of 'examples'"),
        ({"splits": []}, "none of list indices"),
        ({"splits": SUMMARY["splits"] | {"train": {"examples": "x"}}}, "none of invalid literal"),
        ({"vocab_size": {}}, "none of 'targets'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_summary_that_lacks_something(tmp_path, lacks, received):
    path = tmp_path / "datagen.json"
    path.write_text(json.dumps(SUMMARY | lacks))
    with pytest.raises(UserError, match=received) as refused:
        Text.of(path)
    assert f"in {path}." in str(refused.value) and "Remove its folder" in str(refused.value)


def test_a_training_that_is_lost_begins_by_the_new_plan(programs, request_of, tmp_path):
    run(request_of(train_steps=30))
    shutil.rmtree(tmp_path / "out" / "run")
    del programs.called[:]
    run(request_of(train_steps=90))
    changed = programs.called[1][1]["hparams"]
    assert changed.startswith("bidirectional_steps=30,learning_rate_decay_steps=22")


def test_fewer_steps_than_were_made_are_refused(programs, request_of, tmp_path):
    small = {"hparams_set": "transformer_own_text_small"}  # which may end anywhere
    run(request_of(train_steps=30, **small))  # its checkpoint is of step 12
    record = (tmp_path / "out" / "own-text.json").read_text()
    del programs.called[:]
    with pytest.raises(UserError, match="12"):
        run(request_of(train_steps=11, **small))
    assert not programs.called
    assert (tmp_path / "out" / "own-text.json").read_text() == record
    run(request_of(train_steps=12, **small))


def test_another_end_is_refused_where_the_rate_depends_on_it(tmp_path):
    for name in ("cooldown", "small"):
        hparams_set = f"transformer_own_text_{name}"
        config = RunConfig(
            hparams_set=hparams_set,
            hparams=registry.get_hparams(hparams_set, "train_steps=400"),
            problem="text2text_tmpdir",
            data_dir="x",
            version="0",
        )
        RunDirectory(tmp_path / name).begin(config, [], [])
    message = "train_steps=400, with which .* Received: 500. Give anot"
    small, cooldown = (RunDirectory(tmp_path / name) for name in ("small", "cooldown"))
    hparams = small.config().hparams
    plan.check_same_end(RunDirectory(tmp_path / "none"), 500, hparams)
    plan.check_same_end(small, 500, hparams)
    longer = dataclasses.replace(hparams, learning_rate_decay_steps=7)
    plan.check_same_end(small, 400, longer)
    with pytest.raises(UserError, match=message):
        plan.check_same_end(small, 500, longer)
    plan.check_same_end(cooldown, 400, cooldown.config().hparams)
    with pytest.raises(UserError, match=message):
        plan.check_same_end(cooldown, 500, cooldown.config().hparams)
    begun = RunDirectory(tmp_path / "cooldown").config()
    longer = dataclasses.replace(begun, hparams=begun.hparams.override("train_steps=500"))
    with pytest.raises(UserError, match="400"):
        RunDirectory(tmp_path / "cooldown").check(longer)


def test_minutes_of_fewer_steps_than_were_made_are_refused_once_a_trial_has_told_it(
    programs, request_of, tmp_path
):
    small = {"hparams_set": "transformer_own_text_small"}
    begun, _ = run(request_of(train_steps=30, **small))
    (tmp_path / "out" / "run" / "checkpoints" / "ckpt-25").mkdir()
    del programs.called[:]
    with pytest.raises(UserError, match="25"):
        run(request_of(train_minutes=0.01, **small))
    assert programs.names == ["trainer"]
    again, _ = run(request_of(train_steps=30, **small))
    assert plan_of(again) == plan_of(begun)


def test_a_step_of_several_batches_takes_as_many_times_as_long(programs, request_of):
    name = "transformer_own_text_small"
    more = {"hparams_set": name, "hparams": "effective_batch_size=9000", "train_minutes": 30}
    found, _ = run(request_of(**more))
    assert plan_of(found).seconds_per_step == 8 * SECONDS
    assert plan_of(found).minutes <= 30 and plan_of(found).train_steps == 440


def test_a_gpu_that_the_trial_did_not_find_gives_no_time_without_limit(
    programs, request_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(plan.preset, "has_gpu", lambda: True)
    monkeypatch.setattr(programs, "kind", "CPU")
    on_a_cpu, _ = run(request_of())
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setattr(programs, "kind", "GPU")
    on_a_gpu, _ = run(request_of())
    assert plan_of(on_a_cpu).train_steps == 4700 and plan_of(on_a_gpu).train_steps == 10_000


def test_a_training_that_cannot_be_made_longer_keeps_its_length(programs, request_of):
    name = "transformer_own_text_annealed"
    run(request_of(train_steps=300, hparams_set=name))
    training = programs.called[2][1]
    # What the set does in its last 2,500 of 15,500 steps.
    ends = "subword_dropout_final_steps=48,learning_rate_decay_steps=48,"
    assert training["hparams"].startswith(ends) and training["eval_early_stopping_steps"] == "300"
    del programs.called[:]
    longer = request_of(train_steps=600, hparams_set=name)
    with pytest.raises(UserError, match="300"):
        run(longer)
    assert not programs.called
    run(request_of(train_steps=300, hparams_set=name))
    assert not programs.called


@pytest.mark.parametrize(
    "size, hparams, more",
    [
        ("bidirectional", "num_heads=2,bidirectional_steps=7", ""),
        ("bidirectional", "num_heads=2", "bidirectional_steps=30,"),
    ],
)
def test_both_directions_are_as_the_user_says_or_a_third(programs, request_of, size, hparams, more):
    name = f"transformer_own_text_{size}"
    run(request_of(train_steps=90, hparams_set=name, hparams=hparams))
    assert programs.called[2][1]["hparams"].startswith(f"{hparams},{more}learning_rate_decay_ste")


def test_a_set_too_large_for_the_time_gives_way_to_a_smaller_one(programs, request_of):
    programs.pairs = 200_000
    found, _ = run(request_of(train_minutes=10))  # 200 tokens a second
    assert plan_of(found).hparams_set == "transformer_own_text_cooldown"
    assert programs.names.count("trainer") == 2 and plan_of(found).tokens_in_time == 120_000
    assert "--train_minutes=340" in plan_of(found).expects  # for 4 million tokens


def test_a_larger_set_is_tried_before_it_is_taken(programs, request_of):
    programs.pairs, programs.rate = 200_000, 20_000
    found, _ = run(request_of(train_minutes=600))
    assert [flags.get("hparams_set", "")[21:] for _, flags in programs.called[1:4]] == [
        "cooldown",
        "medium",
        "medium",
    ]
    assert plan_of(found).hparams_set == "transformer_own_text_medium"


def test_evaluations_leave_time_for_training():
    assert plan.schedule(10_000, 0, 0.2, 4.0) == (10_000, 500)
    assert plan.schedule(10_000, 2400, 0.2, 4.0) == (10_000, 500)
    assert plan.schedule(10_000, 180, 0.5, 30.0) == (300, 300)  # one evaluation, 36 s at most
    assert plan.schedule(10_000, 600, 0.5, 30.0) == (960, 240)
    assert plan.schedule(300, 0, 0.5, 30.0) == (300, 300)
    assert plan.schedule(10_000, 1, 0.5, 30.0) == (20, 20)
    assert plan.schedule(7, 0, 0.5, 0.0) == (7, 7)
