"""Which configuration a student has."""

import dataclasses

import pytest

from t2t_repro import registry
from t2t_repro.distill.student import student
from t2t_repro.runs import trained_run
from tests.distill.conftest import request_of

QUICK = "transformer_own_text_student"


@pytest.fixture
def wanted(folder):
    """Returns a factory of students of `teach`, with another set or changed hparams."""

    def make(hparams_set="", ran=None, **asked):
        teacher = trained_run(folder / "teach")
        config = teacher.config
        if hparams_set:
            hparams = registry.get_hparams(hparams_set)
            config = dataclasses.replace(config, hparams_set=hparams_set, hparams=hparams)
        hparams = dataclasses.replace(config.hparams, **ran or {})
        config = dataclasses.replace(config, hparams=hparams)
        if asked.pop("back", False):
            asked["back_translate"] = str(folder / "more")
        teacher.config = config
        return student(request_of(folder, **asked), teacher)

    return make


def hparams_of(found):
    return registry.get_hparams(found.hparams_set, found.hparams)


@pytest.mark.parametrize(
    "asked, layers",
    [
        ("", (6, 2)),
        ("num_hidden_layers=3", (3, 3)),
        ("num_hidden_layers=3,num_decoder_layers=1", (3, 1)),
    ],
)
@pytest.mark.parametrize("hparams_set", ["", QUICK])  # which says both sides
def test_the_student_is_the_teacher_but_for_its_layers(wanted, hparams_set, asked, layers):
    found = wanted(hparams_set, hparams=asked)
    made = hparams_of(found)
    assert (made.encoder_layers, made.decoder_layers) == layers and found.greedy
    assert made.hidden_size == (128 if hparams_set else 16)


def test_a_set_is_taken_as_it_is_and_one_of_the_other_direction_is_as_large(wanted, folder):
    steps = registry.get_hparams("transformer_tiny").train_steps
    tiny = student(
        request_of(folder, hparams_set="transformer_tiny", hparams="num_heads=1"),
        trained_run(folder / "teach"),
    )
    assert tiny == ("transformer_tiny", "num_heads=1", steps, True)
    back = wanted(back=True)
    assert hparams_of(back) == trained_run(folder / "teach").config.hparams and not back.greedy
    assert wanted(back=True, hparams="num_encoder_layers=6,num_decoder_layers=1").greedy
    assert wanted(hparams="train_steps=77,moe_k=2").train_steps == 77
    assert wanted("lstm_attention").hparams == ""  # it has no layers of these names


def test_what_a_student_does_at_its_end_keeps_its_share_of_the_steps(wanted):
    end = {"learning_rate_schedule": "legacy*linear_decay", "learning_rate_decay_steps": 1175}
    ran = end | {"train_steps": 4700}
    for asked, steps in {"": 250, "learning_rate_decay_steps=7": 7}.items():
        found = wanted(ran=ran, train_steps=1000, hparams=asked)
        assert hparams_of(found).learning_rate_decay_steps == steps
    assert wanted(ran=ran).train_steps == 4700
    ran["learning_rate_schedule"] = "constant*exp_decay"  # the pace of a decay without an end
    assert "learning_rate_decay_steps=1175" in wanted(ran=ran, train_steps=1000).hparams


def test_the_student_of_a_run_of_both_directions_learns_one(wanted, folder):
    both = "transformer_own_text_bidirectional"
    assert hparams_of(wanted(both)).bidirectional_steps == 0
    named = request_of(folder, hparams_set=both)
    assert hparams_of(student(named, trained_run(folder / "teach"))).bidirectional_steps == 0
