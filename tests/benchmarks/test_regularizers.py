"""benchmarks/regularizers.py: what it runs, that it goes on, and the table that it makes."""

import json
import pathlib
import random
import re

import pytest
import regularizers

from t2t_repro import cli
from t2t_repro.bin import decoder, trainer
from tests.benchmark_programs import Programs, refused, started

PROBLEM = "algorithmic_reverse_binary40_test"
REFERENCE = [f"a line of words, number {n}, and some more of them\n" for n in range(20)]


@pytest.fixture
def argv(tmp_path):
    """Returns the command line for a folder's texts; more flags come behind."""
    (tmp_path / "source").write_text("0 1 1\n" * len(REFERENCE))
    (tmp_path / "reference").write_text("".join(REFERENCE))
    return [
        *(f"--problem={PROBLEM}", f"--data_dir={tmp_path / 'data'}", "--train_steps=6"),
        *(f"--output_dir={tmp_path / 'table'}", "--hparams_set=transformer_test"),
        *(f"--{name}={tmp_path / name}" for name in ("source", "reference")),
    ]


class Translators(Programs):
    """Takes the place of the programs: what is switched on makes the translation better."""

    def ran(self, program, given):
        if program == "trainer":
            pathlib.Path(given["output_dir"]).mkdir(parents=True, exist_ok=True)
            self.better, self.seed = given["hparams"].count("="), int(given["random_seed"])
            return
        right = 10 + 3 * self.better + self.seed
        lines = [line if n < right else "no\n" for n, line in enumerate(REFERENCE)]
        with open(given["decode_to_file"], "w") as file:
            file.writelines(lines)


def test_it_trains_each_subset_once_a_seed_and_goes_on_after_a_kill(argv, tmp_path, capsys):
    argv += ["--seeds=2", "--regularizers=r_drop,moving_average"]
    subsets = [(), ("r_drop",), ("moving_average",), ("r_drop", "moving_average")]
    assert regularizers.subsets(subsets[-1]) == subsets
    killed, again = Translators(stop_after=5), Translators()
    assert "Received: one" in refused(regularizers, argv, killed, capsys)
    started(regularizers, argv, again)
    assert len(killed.commands) == 5 and len(again.commands) == 2 * 8 - 4
    trained = [given["hparams"] for _, given in again.commands[::2]]
    assert trained[:2] == ["ema_decay=0.999", "r_drop_alpha=5.0,ema_decay=0.999"]
    rows = json.loads((tmp_path / "table" / "table.json").read_text())
    assert [row["regularizers"] for row in rows] == [
        *("none", "r_drop alone", "moving_average alone"),
        *("without r_drop", "without moving_average", "all"),
    ]
    assert "difference" not in rows[0] and all(row["seeds"] == 2 for row in rows)
    assert rows[1]["difference"] > 0 > rows[3]["difference"]
    assert rows[5]["difference"] == pytest.approx(rows[5]["bleu"] - rows[0]["bleu"])
    table = (tmp_path / "table" / "table.md").read_text().splitlines()
    assert table[3].startswith("| r_drop alone | 2 | ") and table[3].endswith(" from none |")
    done = Translators()
    started(regularizers, argv, done)
    assert done.commands == []


def test_a_third_of_the_steps_is_in_both_directions():
    cell = regularizers.Cell(("both_directions", "layerdrop"), seed=2)
    assert cell.hparams(3000) == "bidirectional_steps=1000,decoder_layerdrop=0.2"
    assert cell.hparams(2) == "bidirectional_steps=1,decoder_layerdrop=0.2"
    assert regularizers.Cell((), seed=2).hparams(3000) == ""


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--regularizers=r_drop,dropout"], "Unknown regularizer. Received: 'dropout'"),
        (["--source="], "Expected --source. Received: none."),
        (["--hparams=r_drop_alpha=1"], "r_drop_alpha.* twice"),
        (["--train_steps=7"], "Expected the flags with which .* was begun"),
    ],
)
def test_what_is_refused(argv, tmp_path, capsys, flags, message):
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "settings.json").write_text("{}\n")
    assert re.search(message, refused(regularizers, [*argv, *flags], Translators(), capsys))


@pytest.mark.slow
def test_with_the_programs_themselves(argv, tmp_path):
    draw = random.Random(2)
    lines = ["".join(f"{draw.randint(0, 1)} " for _ in range(5)).strip() for _ in range(4)]
    (tmp_path / "source").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "reference").write_text("".join(line[::-1] + "\n" for line in lines))
    programs = {"t2t_repro.bin.trainer": trainer, "t2t_repro.bin.decoder": decoder}

    def run(command):
        of = programs[command[2]]
        more = ["--generate_data", "--eval_steps=1"] if of is trainer else []
        cli.run(command[2], of.__doc__, of.define_flags, of.main, [*command[3:], *more])

    short = ["--decode_hparams=beam_size=1,extra_length=1"]
    size = "--hparams=batch_size=256,num_hidden_layers=1"
    started(
        regularizers,
        [*argv, "--seeds=1", "--regularizers=word_dropout", size, "--train_steps=2", *short],
        run,
    )
    rows = json.loads((tmp_path / "table" / "table.json").read_text())
    assert [row["regularizers"] for row in rows] == [
        *("none", "word_dropout alone", "without word_dropout")
    ]
