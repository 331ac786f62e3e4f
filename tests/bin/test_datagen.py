import json

import pytest

from t2t_repro.bin import datagen
from t2t_repro.data import generate
from tests.programs import call


def run(*argv):
    call(datagen, *argv)


def test_makes_a_problem_and_says_what_it_made(tmp_path, capsys):
    name = "algorithmic_reverse_binary40_test"
    run(f"--problem={name}", f"--data_dir={tmp_path}", "--max_cases=50")
    out = capsys.readouterr().out
    assert f"{name}: vocabulary of 4 ids\n  train: 50 examples in 1 files; source -> target:" in out
    assert str(tmp_path) in out and f"datagen.{name}.json" in out
    summary = json.loads((tmp_path / f"datagen.{name}.json").read_text())
    assert summary["splits"]["dev"]["examples"] == 50
    assert (tmp_path / f"{name}-train-00000-of-00001").exists()
    run(f"--problem={name}", f"--data_dir={tmp_path}")
    assert "--overwrite" in capsys.readouterr().err


def test_patterns_and_lists_name_several_problems(capsys):
    assert datagen.chosen_problems("algorithmic_shift*,text2text_tmpdir") == [
        "algorithmic_shift_decimal40",
        "text2text_tmpdir",
    ]
    assert datagen.chosen_problems("translate_ende_multi30k_rev") == ["translate_ende_multi30k_rev"]
    run("--problem=algorithmic_*40", "--exclude_problems=binary,shift", "--only_list")
    assert capsys.readouterr().out.split() == [
        f"algorithmic_{task}_decimal40"
        for task in ("addition", "identity", "multiplication", "reverse")
    ]
    run("--only_list", "--exclude_problems=translate")
    assert capsys.readouterr().out.split() == datagen.chosen_problems("*", "translate")


def test_own_problems_are_loaded_in_every_process(tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "SAMPLES", 7)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text(
        "from t2t_repro import problem, registry\n"
        "@registry.register_problem\n"
        "class MyOwnBytes(problem.Text2TextProblem):\n"
        "    vocab_type = problem.VocabType.CHARACTER\n"
        "    dataset_splits = [{'split': 'train', 'shards': 3}]\n"
        "    def generate_samples(self, data_dir, tmp_dir, dataset_split):\n"
        "        return ({'inputs': str(n), 'targets': str(-n)} for n in range(40))\n"
    )
    files = {}
    for processes in (1, 2):
        data = tmp_path / str(processes)
        flags = [f"--data_dir={data}", f"--num_concurrent_processes={processes}"]
        run("--problem=my_own_bytes", f"--t2t_usr_dir={tmp_path}/own", *flags)
        files[processes] = {path.name: path.read_bytes() for path in data.glob("my_own*")}
    assert files[1] == files[2] and len(files[1]) == 3


def own_text(folder):
    """Writes the four files of text2text_tmpdir: 300 lines of numbers in words."""
    digits = "null eins zwei drei vier fünf sechs sieben acht neun".split()
    folder.mkdir()
    for split, first in (("train", 100), ("eval", 500)):
        lines = [" ".join(digits[int(c)] for c in str(number)) for number in range(first, 900)]
        (folder / f"inputs.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / f"targets.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_own_text_gets_the_subwords_that_it_supports_or_those_of_t2t(tmp_path, capsys):
    own_text(tmp_path / "raw")
    start = ["--problem=text2text_tmpdir", f"--tmp_dir={tmp_path}/raw"]
    start += ["--num_concurrent_processes=1", "--nocheck_data"]
    made = {}
    for flag in ("--vocab_size=0", "--t2t_exact", "--vocab_size=40"):
        run(*start, f"--data_dir={tmp_path}/{flag}", flag)
        summary = tmp_path / flag / "datagen.text2text_tmpdir.json"
        made[flag] = json.loads(summary.read_text())["vocabulary"]
        said = capsys.readouterr().err
        size = 32768 if flag == "--t2t_exact" else made[flag]["made"]
        assert made[flag]["file"] == f"vocab.text2text_tmpdir.{size}.subwords"
        assert (tmp_path / flag / made[flag]["file"]).is_file()
        assert "21,280" in said
    assert [entry["asked"] for entry in made.values()] == [None, 32768, 40]


def test_what_to_do_about_bad_pairs_is_said_by_flags(tmp_path, capsys):
    lines = [f"the {number} houses stand in street {number * 7 % 31}" for number in range(60)]
    for split, of in (("train", [*lines, ""]), ("eval", [f"dev line {i}" for i in range(9)])):
        targets = [f"{line.replace('the', 'die').replace('street', 'Strasse')} da" for line in of]
        (tmp_path / f"inputs.{split}.txt").write_text("".join(f"{line}\n" for line in of))
        (tmp_path / f"targets.{split}.txt").write_text("".join(f"{line}\n" for line in targets))
    flags = ["--problem=text2text_tmpdir", f"--tmp_dir={tmp_path}", f"--data_dir={tmp_path}/data"]
    flags += ["--num_concurrent_processes=1", "--num_shards=2"]
    for more, code in ([], 2), (["--check_only"], 1):
        with pytest.raises(SystemExit) as stop:
            run(*flags, *more)
        assert stop.value.code == code
        assert not list((tmp_path / "data").glob("*-of-*"))
    capsys.readouterr()
    for more, examples in (
        (["--drop_bad_pairs"], 60),
        (["--keep_bad_pairs", "--overwrite"], 61),
        (["--nocheck_data", "--overwrite"], 61),
    ):
        run(*flags, *more)
        said = capsys.readouterr()
        assert f"train: {examples} examples" in said.out
        assert ("Checked" in said.err) == ("--nocheck_data" not in more)
