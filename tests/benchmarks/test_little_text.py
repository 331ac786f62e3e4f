"""benchmarks/little_text.py: what it runs, that it goes on, and the table that it makes."""

import json
import pathlib
import re

import little_text
import pytest

from t2t_repro import cli
from t2t_repro.bin import avg_all, datagen, decoder, trainer
from tests.benchmark_programs import Programs, refused, started

DEV = [f"a line of words, number {n}, and some more of them\n" for n in range(20)]


@pytest.fixture
def argv(tmp_path):
    """Returns the command line of texts of 50 pairs, and 20 of dev and of test."""
    for name in little_text.TEXTS:
        lines = [f"pair {n} in words\n" for n in range(50)] if name.startswith("train") else DEV
        (tmp_path / name).write_text("".join(lines))
    texts = (f"--{name}={tmp_path / name}" for name in little_text.TEXTS)
    return [*texts, f"--output_dir={tmp_path / 'sizes'}", "--sizes=7:36,30:60", "--seeds=2"]


class Translators(Programs):
    """Takes the place of the programs: the preset translates more lines, seed 2 one more."""

    def ran(self, program, given):
        if program == "trainer":
            run = pathlib.Path(given["output_dir"])
            run.mkdir(parents=True)
            row = {"kind": "eval", "step": 36, "loss": 3.5, "accuracy": 0.5}
            (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
            self.right = 8 + int(given["random_seed"])
            self.right += 5 * (given["hparams_set"] != "transformer_multi30k")
        if program == "decoder":
            lines = [line if n < self.right else "no\n" for n, line in enumerate(DEV)]
            pathlib.Path(given["decode_to_file"]).write_text("".join(lines))


def test_it_trains_both_at_each_size_with_each_seed_and_goes_on_after_a_kill(
    argv, tmp_path, capsys
):
    killed, again = Translators(stop_after=4 + 3 * 4), Translators()
    assert "Received: one" in refused(little_text, argv, killed, capsys)
    started(little_text, argv, again)
    runs = [given for program, given in killed.commands + again.commands if program == "trainer"]
    assert [(run["hparams_set"], run["train_steps"], run["random_seed"]) for run in runs] == [
        (hparams_set, steps, seed)
        for seed in ("1", "2")
        for steps in ("36", "60")
        for hparams_set in ("transformer_multi30k", "transformer_own_text_bidirectional")
    ]
    assert runs[1]["hparams"].startswith("bidirectional_steps=12,learning_rate_decay_steps=9,")
    assert "hparams" not in runs[0]
    made = [given for program, given in killed.commands if program == "datagen"]
    assert [one.get("vocab_size") for one in made] == ["8192", None] * 2
    rows = json.loads((tmp_path / "sizes" / "table.json").read_text())
    assert [(row["pairs"], row["steps"], row["seeds"]) for row in rows] == [(7, 36, 2), (30, 60, 2)]
    assert rows[0]["difference"] == pytest.approx(rows[0]["preset_test"] - rows[0]["floor_test"])
    assert rows[0]["difference"] > 0 and len(rows[0]["p"]) == 2 and max(rows[0]["p"]) < 0.05
    assert (rows[0]["preset_loss"], rows[0]["preset_loss_deviation"]) == (3.5, 0)
    head, _, row, _ = (tmp_path / "sizes" / "table.md").read_text().splitlines()
    assert head.startswith("| pairs | steps | seeds | transformer_multi30k, test | preset, test |")
    assert row.startswith("| 7 | 36 | 2 | ") and row.endswith("| 3.50 ± 0.00 | 3.50 ± 0.00 |")
    done, longer = Translators(), Translators()
    started(little_text, argv, done)
    assert {program for program, _ in done.commands} == {"datagen"}
    started(little_text, [*argv, "--sizes=7:48"], longer)
    runs = [given for program, given in longer.commands if program == "trainer"]
    assert [run["train_steps"] for run in runs] == ["48"] * 4  # nothing of 36 counts for 48


@pytest.mark.parametrize("size, chosen", [(750_000, "bidirectional"), (750_001, "cooldown")])
def test_the_size_of_the_text_chooses_as_it_does_for_a_user(tmp_path, size, chosen):
    for side in little_text.SIDES:
        (tmp_path / f"train.{side}").write_bytes(b"x" * size + b"\n")
    told = little_text.Cell(1, 60, little_text.PRESET, seed=2).training(tmp_path)
    assert told[0] == f"--hparams_set=transformer_own_text_{chosen}"
    of_length = {
        "bidirectional": "bidirectional_steps=20,learning_rate_decay_steps=15",
        "cooldown": "learning_rate_decay_steps=15",
    }
    assert told[1].startswith(f"--hparams={of_length[chosen]},") and not told[2:]


def test_the_pairs_of_a_size_stay_pairs_and_are_the_first_of_a_greater(argv, tmp_path):
    started(little_text, [*argv, "--seeds=1", "--sizes=7:36,50:60"], Translators())
    cuts = [
        [(tmp_path / "sizes" / size / f"train.{side}").read_text().splitlines() for side in sides]
        for size, sides in (("7", little_text.SIDES), ("50", little_text.SIDES))
    ]
    (few, few_targets), (more, _) = cuts
    assert few == few_targets == more[:7] and len(set(more)) == 50
    assert few != sorted(few)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--test_target="], "Expected --test_target. Received: none."),
        (["--sizes=7"], "Expected --sizes such as 1000:1500,2500:3000, .* Received: 7."),
        (["--sizes=7:0"], "Received: 7:0."),
        (["--sizes=7:3,7:5"], "each number of pairs once. Received: 7:3,7:5."),
        (["--sizes=51:3"], "Expected 51 pairs or more. Received: 50 and 50 lines."),
        (["--dev_source=other"], "Expected the flags with which .* was begun"),
    ],
)
def test_what_is_refused(argv, tmp_path, capsys, flags, message):
    started(little_text, [*argv, "--sizes=7:36", "--seeds=1"], Translators())
    capsys.readouterr()
    name = flags[0].partition("=")[0]
    kept = [each for each in argv if not each.startswith(f"{name}=")]
    assert re.search(message, refused(little_text, [*kept, *flags], Translators(), capsys))


@pytest.mark.slow
def test_with_the_programs_themselves(argv, tmp_path):
    programs = {"datagen": datagen, "decoder": decoder, "avg_all": avg_all, "trainer": trainer}
    ran = []

    def run(command):
        name = command[2].rsplit(".", 1)[1]
        ran.append(name)
        of = programs[name]
        small = {
            "trainer": ["--hparams=hidden_size=8,num_heads=2,batch_size=512", "--eval_steps=1"],
            "decoder": ["--decode_hparams=beam_size=1,extra_length=1"],
            "avg_all": ["--beam_sizes=1", "--sentences=2"],
        }
        cli.run(name, of.__doc__, of.define_flags, of.main, [*command[3:], *small.get(name, [])])

    started(little_text, [*argv, "--sizes=40:5", "--seeds=1"], run)
    assert ran[:3] == ["datagen", "datagen", "trainer"] and ran.count("decoder") == 4
    (row,) = json.loads((tmp_path / "sizes" / "table.json").read_text())
    assert row["floor_loss"] > 1 and row["preset_loss"] > 1 and row["seeds"] == 1
