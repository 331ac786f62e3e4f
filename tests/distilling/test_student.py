"""Which configuration a student has."""

import dataclasses
import json
import shutil

import pytest

from t2t_repro import registry
from t2t_repro.distilling import stages
from t2t_repro.distilling import student as students
from t2t_repro.distilling.student import student
from t2t_repro.errors import UserError
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.models.transformer import Transformer
from t2t_repro.run_directory import WARM_START
from t2t_repro.runs import trained_run
from tests.distilling.conftest import SIZES, request_of, write_run


def test_the_student_is_the_teacher_but_for_its_layers(folder):
    config = trained_run(folder / "teach").config
    request = request_of(folder)
    deep = student(request, config)
    assert deep.hparams.endswith("num_encoder_layers=6,num_decoder_layers=2")
    assert deep.train_steps == config.hparams.train_steps
    one = student(dataclasses.replace(request, hparams="num_decoder_layers=1"), config)
    assert one.hparams.endswith("num_encoder_layers=6,num_decoder_layers=1")
    for layers, sizes in {
        "num_hidden_layers=3": (3, 3),
        "num_hidden_layers=3,num_decoder_layers=1": (3, 1),
    }.items():
        of = student(dataclasses.replace(request, hparams=layers), config)
        made = registry.get_hparams(of.hparams_set, of.hparams)
        assert (made.encoder_layers, made.decoder_layers) == sizes
        quick = registry.get_hparams("transformer_own_text_student")  # it says both sides
        deeper = dataclasses.replace(
            config, hparams_set="transformer_own_text_student", hparams=quick
        )
        of = student(dataclasses.replace(request, hparams=layers), deeper)
        made = registry.get_hparams(of.hparams_set, of.hparams)
        assert (made.encoder_layers, made.decoder_layers) == sizes
    named = dataclasses.replace(request, hparams_set="transformer_tiny", hparams="num_heads=1")
    steps = registry.get_hparams("transformer_tiny").train_steps
    assert student(named, config) == ("transformer_tiny", "num_heads=1", steps, True)
    back = dataclasses.replace(request, back_translate=str(folder / "more"))
    assert registry.get_hparams(*student(back, config)[:2]) == config.hparams
    asked = dataclasses.replace(request, hparams="train_steps=77,moe_k=2")
    assert student(asked, config).train_steps == 77
    recurrent = dataclasses.replace(
        config, hparams_set="lstm_attention", hparams=registry.get_hparams("lstm_attention")
    )
    assert student(request, recurrent).hparams == ""  # it has no layers of these names


def test_what_a_student_does_at_its_end_keeps_its_share_of_the_steps(folder):
    config = trained_run(folder / "teach").config
    end = "learning_rate_schedule=legacy*linear_decay,learning_rate_decay_steps=1175"
    hparams = config.hparams.override(f"{end},train_steps=4700")
    config = dataclasses.replace(config, hparams=hparams)
    for asked, steps in {"": 250, "learning_rate_decay_steps=7": 7}.items():
        request = dataclasses.replace(request_of(folder), train_steps=1000, hparams=asked)
        made = registry.get_hparams(*student(request, config)[:2])
        assert made.learning_rate_decay_steps == steps
    assert student(request_of(folder), config).train_steps == 4700
    pace = "learning_rate_schedule=constant*exp_decay,learning_rate_decay_steps=1175"
    made = registry.get_hparams("transformer_own_text_small", f"{SIZES},{pace},train_steps=4700")
    config = dataclasses.replace(config, hparams=made)
    request = dataclasses.replace(request_of(folder), train_steps=1000)
    assert "learning_rate_decay_steps=1175" in student(request, config).hparams


def test_the_student_of_what_derives_from_a_transformer_is_shallow(folder, monkeypatch):
    config = trained_run(folder / "teach").config
    of = {"mine": Transformer, "other": SequenceModel}
    for name, base in of.items():
        monkeypatch.setitem(registry._MODELS, name, type(name, (base,), {}))
        theirs = dataclasses.replace(config.hparams, model=name)
        found = student(request_of(folder), dataclasses.replace(config, hparams=theirs))
        assert ("num_decoder_layers=2" in found.hparams) == (base is Transformer)


def test_the_student_of_a_teacher_whose_set_is_unknown_needs_one(folder):
    config = trained_run(folder / "teach").config
    imported = dataclasses.replace(config, hparams_set="transformer_theirs")
    with pytest.raises(UserError, match="--hparams_set"):
        student(request_of(folder), imported)
    named = dataclasses.replace(request_of(folder), hparams_set="transformer_tiny")
    assert student(named, imported).hparams_set == "transformer_tiny"


def check(request):
    """Refuses what t2t-distill refuses before the teacher translates."""
    teacher = trained_run(request.teacher)
    stages.check(request, teacher)
    students.check(request, teacher, student(request, teacher.config))


def test_steps_and_rate_of_a_fine_tuned_teacher_are_not_for_random_weights(folder):
    request = request_of(folder)
    (folder / "teach" / WARM_START).write_text('{"checkpoint": "/parent/ckpt-7"}')
    check(request)  # at the rate of its set
    kept = folder / "teach" / "hparams.json"
    values = json.loads(kept.read_text())
    kept.write_text(json.dumps(values | {"learning_rate_schedule": "constant"}))
    message = (
        r"Expected --hparams_set .* of its teacher \(learning_rate_schedule\) is for those of "
        "/parent/ckpt-7, .*Received: none. .*such as --hparams_set=transformer_own_text_small"
    )
    with pytest.raises(UserError, match=f"{message}, or --warm_start.$"):
        check(request)
    back = dataclasses.replace(request, back_translate=str(folder / "more"))
    with pytest.raises(UserError, match=f"{message}.$"):
        check(back)
    check(dataclasses.replace(request, warm_start=True))
    check(dataclasses.replace(request, hparams="learning_rate_schedule=legacy"))
    check(dataclasses.replace(back, hparams_set="transformer_tiny"))


def test_two_vocabularies_of_one_size_share_no_table_of_a_student(folder, made):
    apart = "shared_embedding_and_softmax_weights=False"
    data = shutil.copytree(made / "two", folder / "data")
    symbols = (made / "inputs").read_text().splitlines(keepends=True)
    for side, there in {"inputs": symbols, "targets": symbols[::-1]}.items():
        (data / f"vocab.text2text_tmpdir.{side}.subwords").write_text("".join(there))
    write_run(folder / "apart", "text2text_tmpdir", data, f"{SIZES},{apart}")
    check(request_of(folder, "apart"))
    named = request_of(folder, "apart", hparams_set="transformer_own_text_student")
    with pytest.raises(UserError, match=f"one vocabulary for both sides.* Give --hparams={apart}"):
        check(named)
    check(dataclasses.replace(named, hparams=apart))
    check(dataclasses.replace(named, teacher=str(folder / "teach")))


def test_one_that_is_to_be_quick_decodes_greedily(folder):
    config = trained_run(folder / "teach").config
    assert student(request_of(folder), config).greedy
    peer = request_of(folder, "forth", reverse_teacher=str(folder / "back"))
    assert not student(peer, config).greedy
    shallow = dataclasses.replace(peer, hparams="num_encoder_layers=6,num_decoder_layers=1")
    assert student(shallow, config).greedy


def test_the_set_for_quick_students_begins_with_the_weights_of_what_its_teacher_was_trained_with(
    folder,
):
    name = "transformer_own_text_annealed"
    config = dataclasses.replace(
        trained_run(folder / "teach").config,
        hparams_set=name,
        hparams=registry.get_hparams(name),
    )
    peer = request_of(folder, "forth", reverse_teacher=str(folder / "back"), warm_start=True)
    asked = dataclasses.replace(peer, hparams_set="transformer_own_text_student")
    assert student(asked, config) == ("transformer_own_text_student", "", 16_000, True)


def test_what_a_student_does_not_read_of_its_teachers_settings_is_left_out(folder):
    write_run(
        folder / "steady",
        "text2text_tmpdir",
        folder / "data",
        f"{SIZES},learning_rate_schedule=constant,learning_rate_constant=0.5",
    )
    config = trained_run(folder / "steady").config
    request = request_of(folder, teacher="steady")
    assert "learning_rate_constant=0.5" in student(request, config).hparams
    legacy = dataclasses.replace(request, hparams="learning_rate_schedule=legacy")
    assert "learning_rate_constant" not in student(legacy, config).hparams
    both = dataclasses.replace(request, hparams=f"{legacy.hparams},learning_rate_constant=0.7")
    with pytest.raises(UserError, match="learning_rate_constant"):
        student(both, config)


def test_the_student_of_a_run_of_both_directions_learns_one(folder):
    where = "text2text_tmpdir", folder / "data"
    write_run(folder / "both", *where, SIZES, "transformer_own_text_bidirectional")
    request = request_of(folder, teacher="both")
    for asked in (
        request,
        dataclasses.replace(request, hparams_set="transformer_own_text_bidirectional"),
    ):
        found = student(asked, trained_run(folder / "both").config)
        assert registry.get_hparams(*found[:2]).bidirectional_steps == 0
    asked = dataclasses.replace(request, hparams="bidirectional_steps=7")
    with pytest.raises(UserError, match="bidirectional_steps"):
        student(asked, trained_run(folder / "both").config)


def test_the_student_of_a_run_that_gathers_batches_counts_updates_as_well(folder):
    config = trained_run(folder / "teach").config
    paper = registry.get_hparams("paper_table3_base")
    chosen = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 8}
    ran = dataclasses.replace(paper, **chosen, batch_size=3000, train_steps=8 * 700)
    config = dataclasses.replace(config, hparams_set="paper_table3_base", hparams=ran)
    found = student(request_of(folder), config)
    assert found.train_steps == 700 and "multistep" not in found.hparams
    assert "batch_size" not in found.hparams
