"""How much text there is, and which hparam set suits it."""

import pytest

from t2t_repro import registry
from t2t_repro.data import preset
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.data.preset import TextSize
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.training import learning_rate


@pytest.mark.parametrize(
    "millions, dropout",
    [(0, "0.1"), (5, "0.1"), (48, "0.1"), (50, "")],  # 3, 27 and 29 passes
)
def test_few_passes_over_the_text_want_less_dropout(millions, dropout):
    text = TextSize(90_000, 13_300_000)
    found = preset.preset(text, False, preset.BIDIRECTIONAL, lambda row: millions * 1e6)
    assert found.hparams == f"layer_prepostprocess_dropout={dropout}" * bool(dropout)
    assert found.beside("layer_prepostprocess_dropout=0.4").hparams == ""
    assert found.beside("num_heads=2") == found


NAME = "text2text_tmpdir"
SHORT = "learning_rate_warmup_steps=18,learning_rate=0.024002"


@pytest.mark.parametrize(
    "pairs, size, gpu, millions, chosen",
    [
        (20_000, 1_500_000, True, None, "regularized"),
        (7_000, 1_500_001, False, None, "annealed"),
        (29_000, 3.9e6, False, 30, "cooldown"),  # 58 epochs
        (29_000, 3.9e6, False, 31, "annealed"),
        (100_000, 2e7, True, None, "cooldown"),
        (100_001, 2e7, False, None, "medium"),
        (1_000_000, 2e8, True, None, "medium"),
        (1_000_001, 2e8, False, None, "medium"),
        (1_000_001, 2e8, True, None, "large"),
        (170_000, 17e6, False, 59, "cooldown"),
        (170_000, 17e6, False, 61, "medium"),
        (2_000_000, 2e8, True, 149, "medium"),
        (2_000_000, 2e8, True, 151, "large"),
    ],
)
def test_text_device_and_time_decide(pairs, size, gpu, millions, chosen):
    tokens = [lambda row: millions * 1e6] if millions else []
    found = preset.preset(TextSize(pairs, size), gpu, preset.REGULARIZED, *tokens)
    assert found.hparams_set == f"transformer_own_text_{chosen}"
    assert preset.preset(TextSize(pairs, size), gpu, preset.SMALL).hparams_set != preset.ANNEALED
    assert f"{pairs:,} pairs" in found.reason


@pytest.mark.parametrize("set_", [row.hparams_set for row in preset.ROWS])
@pytest.mark.parametrize("steps", [20, 400, 3000])
def test_the_warm_up_ends_before_a_third_of_the_steps_at_the_same_rate(set_, steps):
    whole = registry.get_hparams(set_)
    shorter = whole.override(f"train_steps={steps},{preset.of_length(set_, '', steps)}")
    assert shorter.learning_rate_warmup_steps <= max(1, steps / 3)
    rates = [learning_rate.highest(hp, hp.train_steps) for hp in (whole, shorter)]
    assert rates[1] == pytest.approx(rates[0], rel=0.15 if steps > 20 else 0.5)


def test_a_gpu_is_there_and_not_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr(preset, "_DEV", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "nvidiactl").touch()
    assert not preset.has_gpu()
    (tmp_path / "nvidia0").touch()
    assert preset.has_gpu()
    for visible, found in (("0", True), ("", False), ("-1", False)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert preset.has_gpu() is found


DECAY = "learning_rate_decay_steps=22"


@pytest.mark.parametrize(
    "chosen, asked, steps, changes",
    [
        ("bidirectional", "", 90, f"bidirectional_steps=30,{DECAY},{SHORT}"),
        ("bidirectional", "", 10_000, ""),
        ("bidirectional", "bidirectional_steps=7", 90, f"{DECAY},{SHORT}"),
        ("bidirectional", "learning_rate=1", 90, f"bidirectional_steps=30,{DECAY}"),
        ("small", "", 90, "learning_rate_warmup_steps=18,learning_rate=0.009487"),
        ("annealed", "", 31_000, "subword_dropout_final_steps=5000,learning_rate_decay_steps=5000"),
    ],
)
def test_what_begins_or_ends_a_training_keeps_its_share(chosen, asked, steps, changes):
    name = f"transformer_own_text_{chosen}"
    assert preset.of_length(name, asked, steps) == changes
    both = ",".join(filter(None, [asked, changes]))
    assert registry.get_hparams(name, both).train_steps  # nothing of it is without effect


@pytest.mark.parametrize(
    "name, names, little",
    [
        ("text2text_tmpdir", [], preset.BIDIRECTIONAL),  # the problem's own will be subwords
        ("text2text_tmpdir_rev", [], preset.BIDIRECTIONAL),
        ("text2text_tmpdir", ["model"], preset.SMALL),
        ("text2text_tmpdir", ["inputs.model", "targets.model"], preset.SMALL),
        ("text2text_tmpdir_rev", ["inputs.model", "targets.subwords"], preset.REGULARIZED),
        ("text2text_tmpdir_tokens", [], preset.SMALL),
        ("text2text_tmpdir_packed", [], preset.SMALL),
        ("text2text_tmpdir_distill", [], preset.REGULARIZED),  # a teacher's are not turned round
        ("text2text_tmpdir_distill_rev", [], preset.REGULARIZED),
    ],
)
def test_little_text_is_cut_and_turned_round_where_it_can_be(name, names, little, tmp_path):
    for each in names:
        (tmp_path / f"vocab.text2text_tmpdir.{each}").touch()
    assert preset.for_little_text(registry.get_problem(name), tmp_path) == little


@pytest.mark.parametrize("sizes, apart", [((5, 5), True), ((5, 6), False)])
def test_two_vocabularies_of_one_size_get_a_table_each(sizes, apart, tmp_path):
    for side, size in zip(("inputs", "targets"), sizes, strict=True):
        pieces = [f"{side}{number}_" for number in range(size)] + list("0123456789;\\_u")
        encoder = SubwordTextEncoder.from_subtokens(["<pad>_", "<EOS>_", *pieces])
        encoder.store_to_file(str(tmp_path / f"vocab.{NAME}.{side}.subwords"))
    found = preset.proposed(registry.get_problem(NAME), tmp_path, TextSize(300, 9000))
    change = "shared_embedding_and_softmax_weights"
    assert found.hparams == f"{change}=False" * apart
    flags = [f"--hparams_set={found.hparams_set}", *[f"--hparams={change}=False"] * apart]
    assert found.flags() == " ".join(flags)
    assert found.beside(f"{change}=True").hparams == "" and found.beside("num_heads=2") == found


def write(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    "weights, times, once", [("10", 10, 80), ("10,0.5", 8.4, 95), ("1,1", 1, 115)]
)
def test_what_is_repeated_counts_once(tmp_path, weights, times, once):
    count = len(weights.split(","))
    write(tmp_path, "dev.tsv", ["of dev\tof the dev"])
    for n in range(count):
        pairs = [f"line {line} of {n}\tthe line {line}" for line in range(10, 90 >> n)]
        write(tmp_path, f"{n}.tsv", pairs)
    files = ",".join(f"{tmp_path}/{n}.tsv" for n in range(count))
    options = {"train_source": files, "dev_source": f"{tmp_path}/dev.tsv", "train_weights": weights}
    raw, data, problem = str(tmp_path / "raw"), str(tmp_path / "data"), registry.get_problem(NAME)
    summary = generate_data(Job(problem, data, raw, options=options))
    assert summary["splits"]["train"].get("repeated", 1) == pytest.approx(times, rel=0.1)
    text, made = preset.text_of(problem, f"{tmp_path}/no", raw), preset.text_of(problem, data, "")
    assert made == pytest.approx(text, rel=0.1) and made.pairs == pytest.approx(once, rel=0.1)


def test_the_problems_own_files_and_what_was_made_of_them(tmp_path):
    for side, line in (("inputs", "abc"), ("targets", "ä and more")):
        write(tmp_path, f"{side}.train.txt", [f"{line}{n} " for n in range(7)])
        write(tmp_path, f"{side}.eval.txt", [line])
    asked = (registry.get_problem(f"{NAME}_rev"), str(tmp_path / "data"), str(tmp_path))
    before = preset.text_of(*asked)
    assert before == TextSize(7, 7 * (4 + 12))
    generate_data(Job(*asked))
    (tmp_path / "targets.train.txt").unlink()
    assert preset.text_of(*asked) == before
    (tmp_path / "data" / f"datagen.{NAME}.json").unlink()  # as of tensor2tensor's data
    assert preset.text_of(*asked) is None


@pytest.mark.parametrize("pairs, found", [(11, (11, 11 * 135)), (None, None), (0, (0, 0))])
def test_where_the_length_is_not_known_it_is_that_of_captions(pairs, found, tmp_path, monkeypatch):
    problem = registry.get_problem(NAME)
    monkeypatch.setattr(type(problem), "num_samples", lambda self, folder, split: pairs)
    monkeypatch.setattr(type(problem), "raw_text_files", lambda self, folder, split: [])
    assert preset.text_of(problem, str(tmp_path), "raw") == found
    assert TextSize.from_summary({"splits": {"train": {"examples": 11}}}) == (11, 11 * 135)
