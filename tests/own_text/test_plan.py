"""What the plan reads of the text that t2t-datagen has made, and which training it makes of it."""

import json
import re
import shutil

import pytest

from t2t_repro.data import preset
from t2t_repro.own_text import plan
from tests.own_text.conftest import plan_of, run

SMALL = {"hparams_set": "transformer_own_text_small"}  # which may end anywhere


def test_a_training_that_is_lost_begins_by_the_new_plan(programs, request_of, tmp_path):
    run(request_of(train_steps=30))
    shutil.rmtree(tmp_path / "out" / "run")
    del programs.called[:]
    run(request_of(train_steps=90))
    assert programs.names[:2] == ["trainer", "trainer"]
    changed = programs.called[1][1]["hparams"]
    assert changed.startswith("bidirectional_steps=30,learning_rate_decay_steps=22")


def test_another_end_keeps_what_was_measured(programs, request_of):
    begun, _ = run(request_of(train_minutes=40, **SMALL))
    del programs.called[:]
    longer, _ = run(request_of(train_minutes=80, **SMALL))
    assert plan_of(begun).train_steps == 4700 and plan_of(longer).train_steps == 9500
    assert programs.names[0] == "trainer" and programs.names.count("trainer") == 1


@pytest.mark.parametrize(
    "kind, pairs, steps",
    [("CPU", 10**5, 4700), ("GPU", 10**5, 31_000), ("GPU", 20_000, 15500), ("GPU", 10**7, 250_000)],
)
def test_only_a_found_gpu_has_no_limit(programs, request_of, monkeypatch, kind, pairs, steps):
    monkeypatch.setattr(plan.preset, "has_gpu", lambda: True)
    programs.kind, programs.pairs = kind, pairs
    assert plan_of(run(request_of())[0]).train_steps == steps
    named, _ = run(request_of("named", hparams_set="transformer_own_text_cooldown"))
    assert plan_of(named).train_steps == min(steps, 10_000)  # its own


def test_what_a_set_does_at_its_end_keeps_its_share_of_the_steps(programs, request_of):
    run(request_of(train_steps=300, hparams_set="transformer_own_text_annealed"))
    # What the set does in its last 2,500 of 15,500 steps.
    ends = "subword_dropout_final_steps={0},learning_rate_decay_steps={0},".format
    trial, training = (flags for _, flags in programs.called[1:3])
    assert trial["hparams"].startswith(ends(6)) and training["hparams"].startswith(ends(48))
    assert training["eval_early_stopping_steps"] == "300"


@pytest.mark.parametrize(
    "asked, more",
    [
        ({"hparams": "num_heads=2,bidirectional_steps=7"}, ""),
        ({"hparams": "num_heads=2"}, "bidirectional_steps=30,"),
        ({"hparams": "num_heads=2", "hparams_set": ""}, "bidirectional_steps=30,"),
    ],
)
def test_both_directions_are_as_the_user_says_or_a_third(programs, request_of, asked, more):
    named = {"hparams_set": "transformer_own_text_bidirectional"} | asked
    run(request_of(train_steps=90, **named))
    hparams = programs.called[2][1]["hparams"]
    assert hparams.startswith(f"{asked['hparams']},{more}learning_rate_decay_ste")


def test_a_larger_set_is_tried_before_it_is_taken(programs, request_of):
    programs.pairs, programs.seconds = 200_000, 0.005
    found, _ = run(request_of(train_minutes=600))
    tried = [flags.get("hparams_set", "")[21:] for _, flags in programs.called[1:4]]
    assert tried == ["cooldown", "medium", "medium"]
    assert plan_of(found).hparams_set == "transformer_own_text_medium"


@pytest.mark.parametrize(
    "asked, planned",
    [
        ((10_000, 0, 0.2, 4.0), (10_000, 500)),
        ((10_000, 180, 0.5, 30.0), (300, 300)),  # one evaluation, 36 s at most
        ((10_000, 600, 0.5, 30.0), (960, 240)),
        ((10_000, 1, 0.5, 30.0), (20, 20)),
        ((7, 0, 0.5, 0.0), (7, 7)),
    ],
)
def test_evaluations_leave_time_for_training(asked, planned):
    assert plan.schedule(*asked) == planned


@pytest.mark.parametrize(
    "pairs, words, length, steps, longer",
    [
        (30_000, 8_000, 22, 2_200, ["Expect", "--train_minutes=10"]),
        (30_000, 14_000, 19, 10_000, ["Expect", "--train_minutes=70", "--train_steps=20000"]),
        (6_400, 9_500, 14, 2_400, ["Expect"]),
        (6_400, 9_500, 20, 10_000, ["20,000"]),
        (2_900, 8_000, 12, 10_000, ["3,000"]),
    ],
)
def test_rich_text_takes_longer_than_its_set(pairs, words, length, steps, longer):
    text = plan.Text(preset.TextSize(pairs, 10**7), 1000, 8000, words, length)
    found = plan.Measured(
        hparams_set="transformer_own_text_cooldown",
        parameters=1,
        seconds_per_step=0.15,
        tokens_per_step=1500,
        evaluation_seconds=4,
        gpu=False,
    )
    said = plan.expectation(text, steps, 10_000, found)
    assert re.findall(r"^Expect|--[\w=]+|20,000|3,000", said) == longer


def test_the_words_of_a_text_are_counted_from_all_over_it(tmp_path):
    summary, sides = tmp_path / "made.json", [tmp_path / "a", tmp_path / "b"]
    of = {"examples": 10_000, "bytes": {"a": 10**6}}
    made = {"splits": {"train": of, "dev": of}, "vocab_size": {"targets": 9}}
    summary.write_text(json.dumps(made))
    sides[0].write_text("".join(f"A{chr(97 + i % 26)}, the\n" for i in range(10_000)))
    sides[1].write_text("Same.\n" * 10_000)
    assert plan.Text.read(summary, sides)[-2:] == (13 + 1 + 1, 1.0)
