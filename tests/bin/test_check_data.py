import json

import pytest

from t2t_repro import cli
from t2t_repro.bin import check_data, datagen


def run(*argv):
    cli.run("t2t-check-data", check_data.__doc__, check_data.define_flags, check_data.main, argv)


@pytest.fixture
def text(tmp_path):
    lines = [f"the {number} houses stand in street {number * 7 % 31}" for number in range(60)]
    for split, of in (("train", lines), ("eval", [f"a dev line, {i} of it" for i in range(9)])):
        targets = [line.replace("the", "die").replace("street", "Strasse") + " da" for line in of]
        (tmp_path / f"inputs.{split}.txt").write_text("".join(f"{line}\n" for line in of))
        (tmp_path / f"targets.{split}.txt").write_text("".join(f"{line}\n" for line in targets))
    return tmp_path


def add(text, source, target):
    for side, line in (("inputs", source), ("targets", target)):
        with open(text / f"{side}.train.txt", "a") as file:
            file.write(line + "\n")


def test_files_are_checked(text, capsys):
    files = [f"--source={text}/inputs.train.txt", f"--target={text}/targets.train.txt"]
    run(*files)
    assert "Checked 60 train pairs" in capsys.readouterr().out
    add(text, "", "nothing")
    dev = [f"--dev_source={text}/inputs.eval.txt", f"--dev_target={text}/targets.eval.txt"]
    with pytest.raises(SystemExit) as stop:
        run(*files, *dev, f"--output_dir={text}/out")
    out = capsys.readouterr().out
    assert stop.value.code == 1 and "Checked 61 train and 9 dev pairs" in out
    assert "error   empty" in out and "one side is empty: train 61" in out
    assert sorted(path.name for path in (text / "out").iterdir()) == [
        "datagen.inputs.train.txt.bad_pairs.tsv",
        "datagen.inputs.train.txt.report.html",
        "datagen.inputs.train.txt.report.json",
    ]


def test_files_of_both_sides_are_checked(text, capsys):
    (text / "some.tsv").write_text("a house\tein Haus\nb\t\n")
    (text / "more.tsv").write_text("x\tde\ten\n1\tein Haus\ta house\n")
    with pytest.raises(SystemExit) as stop:
        run(f"--source={text}/some.tsv", f"--dev_source={text}/some.tsv.gz")
    assert stop.value.code == 2 and "--dev_source to be files" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run(f"--source={text}/some.tsv")
    assert stop.value.code == 1 and "one side is empty: train 2" in capsys.readouterr().out
    run(f"--source={text}/more.tsv", "--columns=en,de")
    assert "Checked 1 train pairs" in capsys.readouterr().out


def test_it_says_which_pairs_of_several_files_are_whose(text, capsys):
    (text / "more.tsv").write_text("x\ty\nc\tein Haus\nd\t\n")
    files = f"{text}/inputs.train.txt,{text}/more.tsv"
    with pytest.raises(SystemExit):
        run(f"--source={files}", f"--target={text}/targets.train.txt,", f"--output_dir={text}/out")
    note = f"1 to 60 of {text}/inputs.train.txt, 61 to 63 of {text}/more.tsv."
    note = f"The pairs of train are numbered over its files: {note}"
    out = capsys.readouterr().out
    assert note in out and "one side is empty: train 63" in out
    report = text / "out" / "datagen.inputs.train.txt.report.json"
    assert note in json.loads(report.read_text())["notes"]


def test_a_problem_s_text_is_checked(text, capsys):
    run("--problem=text2text_tmpdir", f"--tmp_dir={text}", f"--output_dir={text}/out")
    assert "Checked 60 train and 9 dev pairs" in capsys.readouterr().out
    said = json.loads((text / "out" / "datagen.text2text_tmpdir.report.json").read_text())
    assert said["pairs"] == {"train": 60, "dev": 9}


@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "Expected --source=FILE and --target=FILE, or --problem=NAME. Received: neither"),
        (["--source=a", "--target=b", "--problem=c"], "Received: both"),
        (["--dev_source=a", "--dev_target=b"], "Received: no --source"),
        (["--columns=1,2"], "Received: no --source"),
        ([f"--source={__file__}.tsv", "--columns=1,01"], "of two columns, such as 1,2 or en,de."),
        (["--source=a"], "Expected --source to be files. Received: a, which is not there."),
        (["--source=a,b", "--target=c"], "as many files in --source as in --target. Received: 2 "),
        (["--source=a", "--target=b", "--dev_target=c"], "Expected --dev_source with --dev_target"),
        (["--source=.", "--target=b"], "Received: ., which is a folder. Name its files."),
        ([f"--source={__file__}", f"--target={json.__file__}", "--columns=1,2"], "has no effect"),
        (["--source=a", "--target=b", "--tmp_dir=c"], "--tmp_dir has no effect without --problem"),
        (["--source=/nowhere/a", "--target=b"], "Received: /nowhere/a, which is not there"),
        ([f"--source={__file__}", f"--target={__file__}"], "twice. Leave one out.\n"),
        (
            [f"--source={__file__}", f"--target={json.__file__}", f"--output_dir={__file__}"],
            "File exists",
        ),
        (["--problem=text2text_tmpdri"], "Did you mean 'text2text_tmpdir'"),
        (["--problem=algorithmic_reverse_binary40"], "binary40. Name another; t2t-datagen makes"),
    ],
)
def test_wrong_flags_are_errors(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*argv)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def datagen_of(text, *argv):
    argv = ["--problem=text2text_tmpdir", f"--tmp_dir={text}", f"--data_dir={text}/data", *argv]
    argv.append("--num_concurrent_processes=1")
    cli.run("t2t-datagen", "", datagen.define_flags, datagen.main, [*argv, "--num_shards=2"])


def test_a_file_without_pairs_is_no_clean_corpus(tmp_path, capsys):
    (tmp_path / "head.csv").write_text("source,target\n")
    with pytest.raises(SystemExit) as stop:
        run(f"--source={tmp_path}/head.csv")
    assert stop.value.code == 2
    assert "Expected pairs of train. Received: none in what was named." in capsys.readouterr().err


def test_of_test_nothing_is_left_out(text, capsys):
    for side, lines in (("inputs", ["one", "two"]), ("targets", ["eins", ""])):
        (text / f"{side}.test.txt").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(SystemExit):
        datagen_of(text)
    error = capsys.readouterr().err.splitlines()[-1]
    assert "as test line 2." in error and "or give --keep_bad_pairs to take all." in error
    datagen_of(text, "--drop_bad_pairs")
    assert "Left out 0 pairs" in capsys.readouterr().err
    report = json.loads((text / "data" / "datagen.text2text_tmpdir.report.json").read_text())
    assert report["bad_pairs"] == 0


def test_datagen_stops_at_errors_unless_it_is_told_what_to_do(text, capsys):
    add(text, "", "nothing")
    with pytest.raises(SystemExit) as stop:
        datagen_of(text)
    error = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and "1 (one side is empty), as train line 61. See " in error
    datagen_of(text, "--drop_bad_pairs")
    assert "train: 60 examples" in capsys.readouterr().out
    datagen_of(text, "--keep_bad_pairs", "--overwrite")
    assert "train: 61 examples" in capsys.readouterr().out
    datagen_of(text, "--nocheck_data", "--overwrite")
    assert "Checked" not in capsys.readouterr().err


def test_what_files_that_are_there_were_made_of_is_checked_if_it_is_asked_for(text, capsys):
    report = text / "data" / "datagen.text2text_tmpdir.report.json"
    bad = text / "data" / "datagen.text2text_tmpdir.bad_pairs.tsv"
    add(text, "", "nothing")
    datagen_of(text, "--drop_bad_pairs")
    report.unlink()
    left_out = bad.read_bytes()
    capsys.readouterr()
    datagen_of(text)
    assert "Checked" not in capsys.readouterr().err and not report.exists()
    datagen_of(text, "--check_data")
    said = capsys.readouterr().err
    assert "Checked 61 train and 9 dev pairs" in said and "Keeping the 2 train files" in said
    assert json.loads(report.read_text())["pairs"] == {"train": 61, "dev": 9}
    assert bad.read_bytes() == left_out


@pytest.mark.parametrize(
    "argv",
    [
        ["--drop_bad_pairs", "--keep_bad_pairs"],
        ["--nocheck_data", "--drop_bad_pairs"],
        ["--nocheck_data", "--keep_bad_pairs"],
    ],
)
def test_contradictions_are_errors(text, argv, capsys):
    with pytest.raises(SystemExit) as stop:
        datagen_of(text, *argv)
    assert stop.value.code == 2 and f"Received: {' and '.join(argv)}." in capsys.readouterr().err
