import json

import pytest

from t2t_repro.parsing import score

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
def run(tmp_path, capsys):
    """Writes files, scores them by the program; returns what is printed, by its rows too."""

    def run(*flags, gold=GOLD, **predicted):
        (name, text), gold_file = *predicted.items(), tmp_path / "gold"
        gold_file.write_text(gold)
        (tmp_path / name).write_text(text)
        score.main([f"--gold={gold_file}", f"--{name}={tmp_path / name}", *flags])
        out = capsys.readouterr().out
        rows = (line.split() for line in out.splitlines() if line)
        return out, {first: rest for first, *rest in rows}

    return run


def refused(capsys, call, *args, **kwargs):
    with pytest.raises(SystemExit) as leaving:
        call(*args, **kwargs)
    assert leaving.value.code == 2
    return capsys.readouterr().err


def test_trees(run, tmp_path):
    out, rows = run(f"--json_file={tmp_path / 'o'}", "--cutoff=3", predicted=PREDICTED)
    assert rows["f1"] == ["72.73", "100.00"] and rows["exact_match"] == ["50.00", "100.00"]
    assert rows["error_sentences"] == rows["skipped_sentences"] == ["1", "1"]
    order = [line.split()[1] for line in out.splitlines() if line.startswith("sentence ")]
    assert order == ["3:", "4:", "2:"]
    assert "F1 40.00" in out and all(PREDICTED.splitlines()[n] in out for n in (1, 2))
    result = json.loads((tmp_path / "o").read_text())
    assert set(result) == {"all", "len<=3", "sentences"}
    assert [row["status"] for row in result["sentences"]] == [0, 0, 1, 2]
    assert result["sentences"][1]["recall"] == pytest.approx(100 / 3)


def test_tags(run, tmp_path):
    made, flags = tmp_path / "made", ("--worst=0", f"--json_file={tmp_path / 'o'}")
    out, rows = run(f"--trees_file={made}", *flags, predicted_tags=TAGS)
    assert rows["tagging_accuracy"] == ["100.00", "100.00"] and "F1 40.00" not in out
    lines = made.read_text().splitlines()
    assert lines[1] == "(TOP (FRAG (NP (DT A) (NN dog)) (VBZ barks) (. .)))"
    assert lines[2] == "(TOP (S (NP (NNS Dogs)) (VP (VBP bark))))"
    repairs = json.loads((tmp_path / "o").read_text())["repairs"]
    assert (repairs["sentences"], repairs["unclosed"], repairs["unopened"]) == (1, 2, 0)
    _, rows = run("--no-gold_parts_of_speech", predicted_tags=TAGS)
    assert rows["tagging_accuracy"] == ["87.50", "87.50"]


def test_gold_parts_of_speech_for_trees(run, capsys):
    """A comma that the parser calls a noun makes EVALB compare four words with three."""
    gold = "(TOP (S (NN a) (, ,) (NP (NN b)) (. .)))\n(TOP (NP (NN c)))\n"
    predicted = "(TOP (S (NN a) (NN ,) (NP (VB b)) (. .)))\n(TOP (X (NN d)))\n"
    assert run(gold=gold, predicted=predicted)[1]["error_sentences"] == ["2", "2"]
    _, rows = run("--gold_parts_of_speech", gold=gold, predicted=predicted)
    assert rows["error_sentences"] == ["1", "1"]  # other words than the gold tree's
    assert rows["f1"] == ["100.00", "100.00"]
    predicted = "(()\n(TOP (NP (VB c)))\n"  # which EVALB skips
    _, rows = run("--gold_parts_of_speech", gold=gold, predicted=predicted)
    assert rows["skipped_sentences"] == ["1", "1"]
    flags, predicted = ["--gold_parts_of_speech"], "(TOP (S (NN a)\n\n"
    assert "predicted, line 1" in refused(capsys, run, *flags, gold=gold, predicted=predicted)
    assert "--gold" in refused(capsys, run, "--gold=other", predicted=PREDICTED)
