import csv
import json

import pytest

from t2t_repro.parsing import parseval, score

GOLD = """(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))
(TOP (S (NP (DT A) (NN dog)) (VP (VBZ barks)) (. .)))
(TOP (S (NP (NNS Dogs)) (VP (VBP bark))))
(TOP (NP (NN End)))
"""
PREDICTED = """(TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))
(TOP (FRAG (NP (DT A) (NN dog)) (NN barks) (. .)))
(TOP (S (NP (NNS Dogs)) (VP (VBP bark) (RB loudly))))

"""
TAGS = """S NP PRP /NP VP VBZ /VP . /S
FRAG NP DT NN /NP NN . /FRAG
S NP NNS /NP VP VBP
NP NN /NP
"""


@pytest.fixture
def files(tmp_path):
    for name, text in {"gold": GOLD, "predicted": PREDICTED, "tags": TAGS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*argv):
    score.main(argv)


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as leaving:
        run(*argv)
    assert leaving.value.code == 2
    return capsys.readouterr().err


def row_of(out, label):
    (line,) = (line for line in out.splitlines() if label in line)
    return [cell for cell in line.replace("│", " ").split(label)[1].split()]


def test_trees(files, capsys):
    out_json, out_csv = files / "o.json", files / "o.csv"
    run(
        f"--gold={files / 'gold'}",
        f"--predicted={files / 'predicted'}",
        f"--json_file={out_json}",
        f"--csv_file={out_csv}",
        "--cutoff=3",
    )
    out = capsys.readouterr().out
    assert row_of(out, "bracketing F1") == ["72.73", "100.00"]
    assert row_of(out, "complete match") == ["50.00", "100.00"]
    assert row_of(out, "error sentences") == ["1", "1"]
    assert row_of(out, "skipped sentences") == ["1", "1"]
    assert "sentence 2: F1 40.00" in out and "sentence 1:" not in out
    assert "- " in out and "+   FRAG" in out
    assert "sentence 3: error: 2 words in gold, 3 predicted" in out
    assert "sentence 4: skipped: no words predicted" in out
    result = json.loads(out_json.read_text())
    assert set(result) == {"all", "len<=3", "sentences"}
    assert out_csv.read_bytes().count(b"\r\n") == 5
    with open(out_csv, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["status"]) for row in rows] == [
        ("1", "0"),
        ("2", "0"),
        ("3", "1"),
        ("4", "2"),
    ]
    assert float(rows[1]["recall"]) == pytest.approx(100 / 3)


def test_tags(files, capsys):
    made = files / "made"
    arguments = [f"--gold={files / 'gold'}", f"--predicted_tags={files / 'tags'}"]
    run(*arguments, f"--trees_file={made}", "--worst=0", f"--json_file={files / 'o.json'}")
    out = capsys.readouterr().out
    assert "repaired 1 of 4 predictions (unclosed 2, unopened 0," in out
    assert row_of(out, "tagging accuracy") == ["100.00", "100.00"]
    assert "F1 40.00" not in out
    lines = made.read_text().splitlines()
    assert lines[1] == "(TOP (FRAG (NP (DT A) (NN dog)) (VBZ barks) (. .)))"
    assert lines[2] == "(TOP (S (NP (NNS Dogs)) (VP (VBP bark))))"
    assert json.loads((files / "o.json").read_text())["repairs"]["sentences"] == 1
    run(*arguments, "--no-gold_parts_of_speech")
    assert row_of(capsys.readouterr().out, "tagging accuracy") == ["87.50", "87.50"]


def test_gold_parts_of_speech_for_trees(files, capsys):
    """A comma that the parser calls a noun makes EVALB compare four words with three."""
    (files / "gold").write_text("(TOP (S (NN a) (, ,) (NP (NN b)) (. .)))\n(TOP (NP (NN c)))\n")
    (files / "predicted").write_text(
        "(TOP (S (NN a) (NN ,) (NP (VB b)) (. .)))\n(TOP (X (NN d)))\n"
    )
    arguments = [f"--gold={files / 'gold'}", f"--predicted={files / 'predicted'}"]
    run(*arguments)
    assert row_of(capsys.readouterr().out, "error sentences") == ["2", "2"]
    run(*arguments, "--gold_parts_of_speech")
    out = capsys.readouterr().out
    assert row_of(out, "error sentences") == ["1", "1"]  # other words than the gold tree's
    assert row_of(out, "bracketing F1") == ["100.00", "100.00"]
    (files / "predicted").write_text("(()\n(TOP (NP (VB c)))\n")  # which EVALB skips
    run(*arguments, "--gold_parts_of_speech")
    assert row_of(capsys.readouterr().out, "skipped sentences") == ["1", "1"]
    (files / "predicted").write_text("(TOP (S (NN a)\n\n")
    assert "predicted, line 1: expected as many ) as (" in refused(
        capsys, *arguments, "--gold_parts_of_speech"
    )


def test_many_errors_are_not_all_listed(files, capsys):
    (files / "gold").write_text("(TOP (NN a))\n" * 13)
    (files / "predicted").write_text("(TOP (NN b))\n" * 13)
    run(f"--gold={files / 'gold'}", f"--predicted={files / 'predicted'}")
    out = capsys.readouterr().out
    assert out.count("the word 'a' in gold is 'b' predicted") == 10
    assert "... and 3 more" in out


def test_wrong_files(files, capsys):
    arguments = [f"--gold={files / 'gold'}", f"--predicted={files / 'predicted'}"]
    (files / "predicted").write_text(PREDICTED.replace("(TOP (FRAG", "(TOP FRAG"))
    assert f"{files / 'predicted'}, line 2: expected" in refused(capsys, *arguments)
    (files / "predicted").write_text(PREDICTED.replace("(. .)))", "(. .))"))
    assert f"{files / 'predicted'}, line 1: expected as many ) as (" in refused(capsys, *arguments)
    (files / "predicted").write_text("(TOP (NN a))\n")
    error = refused(capsys, *arguments)
    assert "has 4 lines" in error and "has 1" in error


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--predicted=p"], "--gold"),
        (["--gold=g"], "--predicted"),
        (["--gold=g", "--predicted=p", "--predicted_tags=t"], "--predicted_tags"),
        (["--gold=no/such", "--predicted=p"], "no/such"),
    ],
)
def test_refused(arguments, named, capsys):
    assert named in refused(capsys, *arguments)


DRAWN = "(TOP (S (NP (NNP Shearson) (NNP Lehman) (NNP Hutton)) (VP (VBD rose)) (. .)))"
BESIDE = "(TOP (S (NNP Shearson) (NNP Lehman) (NNP Hutton) (VP (VBD rose)) (. .)))"


@pytest.mark.parametrize(
    "columns, drawn",
    [
        (100, ["TOP", "  S", "-     NP NNP Shearson NNP Lehman NNP Hutton", "VP VBD rose"]),
        (50, ["TOP", "  S", "-     NP NNP Shearson", "      NNP Lehman NNP", "      Hutton"]),
    ],
)
def test_what_does_not_fit_goes_on_as_far_in(columns, drawn, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    score.print_worst(parseval.score([DRAWN], [BESIDE]), [DRAWN], [BESIDE], 1)
    gold = [
        line.split("│")[1][1:].rstrip()
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    ]
    assert all(line.endswith(expected) for line, expected in zip(gold, drawn, strict=False))
    assert [line for line in gold if line.startswith("-")] == [drawn[2]]
