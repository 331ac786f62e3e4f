"""Which configuration a student has."""

import dataclasses

import pytest

from t2t_repro import registry
from t2t_repro.distill.student import student
from t2t_repro.errors import UserError
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.models.transformer import Transformer
from t2t_repro.run_directory import WARM_START
from t2t_repro.runs import trained_run
from tests.distill.conftest import request_of

QUICK = "transformer_own_text_student"


@pytest.fixture
def wanted(folder):
    """Returns a factory of students of `teach`, with another set or changed hparams."""

    def of(hparams_set="", ran=None, **asked):
        teacher = trained_run(folder / "teach")
        config = teacher.config
        if hparams_set:
            hparams = registry.get_hparams(hparams_set)
            config = dataclasses.replace(config, hparams_set=hparams_set, hparams=hparams)
        hparams = dataclasses.replace(config.hparams, **ran or {})
        config = dataclasses.replace(config, hparams=hparams)
        if asked.pop("back", False):
            asked["back_translate"] = str(folder / "more")
        return student(request_of(folder, **asked), dataclasses.replace(teacher, config=config))

    return of


def hparams_of(found):
    return registry.get_hparams(found.hparams_set, found.hparams)


@pytest.mark.parametrize(
    "asked, layers",
    [
        ("", (6, 2)),
        ("num_decoder_layers=1", (6, 1)),
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


@pytest.mark.parametrize("base", [Transformer, SequenceModel])
def test_the_student_of_what_derives_from_a_transformer_is_shallow(wanted, monkeypatch, base):
    monkeypatch.setitem(registry._MODELS, "mine", type("Mine", (base,), {}))
    found = wanted(ran={"model": "mine"})
    assert ("num_decoder_layers=2" in found.hparams) == (base is Transformer)


def test_steps_and_rate_of_a_fine_tuned_teacher_are_not_for_random_weights(wanted, folder):
    (folder / "teach" / WARM_START).write_text('{"checkpoint": "/parent/ckpt-7"}')
    ran = {"learning_rate_schedule": "constant", "train_steps": 77}
    plain = registry.get_hparams("transformer_own_text_small")
    anew, warm = wanted(ran=ran), wanted(ran=ran, warm_start=True)
    assert anew.train_steps == plain.train_steps and warm.train_steps == 77
    assert hparams_of(anew).learning_rate_schedule == plain.learning_rate_schedule
    assert hparams_of(warm).learning_rate_schedule == "constant"
    assert hparams_of(anew).hidden_size == hparams_of(warm).hidden_size == 16


def test_what_a_student_does_not_read_of_its_teachers_settings_is_left_out(wanted):
    ran = {"learning_rate_schedule": "constant", "learning_rate_constant": 0.5}
    legacy = "learning_rate_schedule=legacy"
    assert "learning_rate_constant=0.5" in wanted(ran=ran).hparams
    assert "learning_rate_constant" not in wanted(ran=ran, hparams=legacy).hparams
    with pytest.raises(UserError, match="learning_rate_constant"):
        wanted(ran=ran, hparams=f"{legacy},learning_rate_constant=0.7")


def test_the_student_of_a_run_of_both_directions_learns_one(wanted, folder):
    both = "transformer_own_text_bidirectional"
    assert hparams_of(wanted(both)).bidirectional_steps == 0
    named = request_of(folder, hparams_set=both)
    assert hparams_of(student(named, trained_run(folder / "teach"))).bidirectional_steps == 0


def test_what_a_run_chose_for_the_size_of_its_updates_is_chosen_anew(wanted):
    chosen = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 8}
    ran = chosen | {"batch_size": 3000, "train_steps": 700}
    found = wanted("paper_table3_base", ran)
    assert found.train_steps == 700 and "multistep" not in found.hparams
    assert "batch_size" not in found.hparams
