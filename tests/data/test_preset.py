"""Which hparam set suits a text."""

import pytest

from t2t_repro import registry
from t2t_repro.data import preset
from t2t_repro.data.text_size import TextSize
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.training import learning_rate


@pytest.mark.parametrize(
    "millions, dropout",
    [(5, "0.1"), (25, "0.2"), (60, ""), (0, "0.1")],  # 3, 14 and 34 passes
)
def test_few_passes_over_the_text_want_less_dropout(millions, dropout):
    found = preset.preset(
        TextSize(90_000, 13_300_000), False, True, True, lambda row: millions * 1e6
    )
    assert found.hparams == f"layer_prepostprocess_dropout={dropout}" * bool(dropout)
    assert found.beside("layer_prepostprocess_dropout=0.4").hparams == ""
    assert found.beside("num_heads=2") == found


SHORT = "learning_rate_warmup_steps=18,learning_rate=0.024002"


@pytest.mark.parametrize(
    "pairs, size, gpu, subwords, shared, chosen",
    [
        (20_000, 1_500_000, True, True, True, "bidirectional"),
        (10_000, 1_500_000, True, True, False, "regularized"),
        (10_000, 1_500_000, False, False, True, "small"),
        (7_000, 1_500_001, False, True, True, "cooldown"),
        (100_000, 2e7, True, False, False, "cooldown"),
        (100_001, 2e7, False, True, True, "medium"),
        (1_000_000, 2e8, True, False, False, "medium"),
        (1_000_001, 2e8, False, True, True, "medium"),
        (1_000_001, 2e8, True, True, True, "large"),
    ],
)
def test_text_device_and_vocabularies_decide(pairs, size, gpu, subwords, shared, chosen):
    found = preset.preset(TextSize(pairs, size), gpu, subwords, shared)
    assert found.hparams_set == f"transformer_own_text_{chosen}"
    assert registry.get_hparams(found.hparams_set).train_steps >= 10_000
    assert f"{pairs:,} pairs" in found.reason


@pytest.mark.parametrize(
    "pairs, gpu, millions, chosen",
    [
        (170_000, False, 59, "cooldown"),
        (170_000, False, 61, "medium"),
        (2_000_000, True, 61, "medium"),
        (2_000_000, True, 151, "large"),
        (20_000, False, 1, "cooldown"),
    ],
)
def test_the_time_decides_too(pairs, gpu, millions, chosen):
    text = TextSize(pairs, 100 * pairs)
    found = preset.preset(text, gpu, True, True, lambda row: millions * 1e6)
    assert found.hparams_set == f"transformer_own_text_{chosen}"


@pytest.mark.parametrize("set_", [row.hparams_set for row in preset.ROWS])
@pytest.mark.parametrize("steps", [20, 400, 3000])
def test_the_warm_up_ends_before_a_third_of_the_steps_at_the_same_rate(set_, steps):
    whole = registry.get_hparams(set_)
    shorter = whole.override(f"train_steps={steps},{preset.of_length(set_, '', steps)}")
    assert shorter.learning_rate_warmup_steps <= max(1, steps / 3)
    rates = [learning_rate.highest(hp, hp.train_steps) for hp in (whole, shorter)]
    assert rates[1] == pytest.approx(rates[0], rel=0.15 if steps > 20 else 0.5)


@pytest.mark.parametrize(
    "there, visible, found",
    [
        ("nvidia0", None, True),
        ("nvidia0", "", False),
        ("nvidia0", "-1", False),
        ("nvidiactl", None, False),
    ],
)
def test_a_gpu_is_there_and_not_hidden(tmp_path, monkeypatch, there, visible, found):
    (tmp_path / there).touch()
    monkeypatch.setattr(preset, "_DEV", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert preset.has_gpu() is found


@pytest.mark.parametrize(
    "chosen, asked, steps, changes",
    [
        ("bidirectional", "", 90, f"bidirectional_steps=30,learning_rate_decay_steps=22,{SHORT}"),
        ("bidirectional", "", 10_000, ""),
        ("bidirectional", "bidirectional_steps=7", 90, f"learning_rate_decay_steps=22,{SHORT}"),
        (
            "bidirectional",
            "learning_rate=1",
            90,
            "bidirectional_steps=30,learning_rate_decay_steps=22",
        ),
        ("regularized", "", 90, f"learning_rate_decay_steps=22,{SHORT}"),
        ("small", "", 90, "learning_rate_warmup_steps=18,learning_rate=0.009487"),
        ("annealed", "", 31_000, "subword_dropout_final_steps=5000,learning_rate_decay_steps=5000"),
        (
            "annealed",
            "subword_dropout=0,learning_rate_warmup_steps=9",
            310,
            "learning_rate_decay_steps=50",
        ),
    ],
)
def test_what_begins_or_ends_a_training_keeps_its_share(chosen, asked, steps, changes):
    name = f"transformer_own_text_{chosen}"
    assert preset.of_length(name, asked, steps) == changes
    both = ",".join(filter(None, [asked, changes]))
    assert registry.get_hparams(name, both).train_steps  # nothing of it is without effect


@pytest.mark.parametrize(
    "names, cut, one",
    [
        ([], True, True),  # the problem's own will be subwords
        (["model"], False, True),
        (["inputs.model", "targets.model"], False, False),
        (["inputs.model", "targets.subwords"], True, False),
    ],
)
def test_words_are_cut_where_a_side_has_subwords(names, cut, one, tmp_path):
    for name in names:
        (tmp_path / f"vocab.text2text_tmpdir.{name}").touch()
    for name in ("text2text_tmpdir", "text2text_tmpdir_rev"):
        problem = registry.get_problem(name)
        assert preset.has_subwords(problem, tmp_path) == cut
        assert preset.has_one_vocabulary(problem, tmp_path) == one
    assert not preset.has_subwords(registry.get_problem("text2text_tmpdir_tokens"), tmp_path)


@pytest.mark.parametrize("name", ["text2text_tmpdir_distill", "text2text_tmpdir_distill_rev"])
def test_what_a_teacher_wrote_is_not_turned_round(name, tmp_path):
    assert not preset.has_one_vocabulary(registry.get_problem(name), tmp_path)


def two_vocabularies(folder, *sizes):
    paths = {}
    for side, size in zip(("inputs", "targets"), sizes, strict=True):
        pieces = [f"{side}{number}_" for number in range(size)] + list("0123456789;\\_u")
        encoder = SubwordTextEncoder.from_subtokens(["<pad>_", "<EOS>_", *pieces])
        paths[side] = str(folder / f"vocab.text2text_tmpdir.{side}.subwords")
        encoder.store_to_file(paths[side])
    return paths


@pytest.mark.parametrize("sizes, apart", [((5, 5), True), ((5, 6), False)])
def test_two_vocabularies_of_one_size_get_a_table_each(sizes, apart, tmp_path):
    problem, change = (
        registry.get_problem("text2text_tmpdir"),
        "shared_embedding_and_softmax_weights",
    )
    paths = two_vocabularies(tmp_path, *sizes)
    for files in (None, paths):
        found = preset.proposed(problem, tmp_path, TextSize(300, 9000), files)
        assert found.hparams == f"{change}=False" * apart
        assert found.flags() == f"--hparams_set={found.hparams_set}" + (
            f" --hparams={change}=False" * apart
        )
        registry.get_hparams(found.hparams_set, found.hparams)
        assert found.beside(f"{change}=True").hparams == ""
        assert found.beside("num_heads=2") == found
    assert not preset.of_separate_tables(problem, tmp_path, dict.fromkeys(paths, paths["inputs"]))
