import gzip
import json
import re
import signal

import pytest

from t2t_repro.decoding import files, translate
from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.files import best_translations
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.parsing.reader import TreeReader


@pytest.fixture
def source(tmp_path):
    """Eleven lines, of which one is empty, in windows of three."""
    path = tmp_path / "in.txt"
    lines = [f"w{i + 3} w{30 - i} w{i + 9}" for i in range(11)]
    path.write_text("\n".join([*lines[:4], "", *lines[5:]]) + "\n")
    return path


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(translate, "WINDOW", 3)


class Stop(Exception):
    pass


def stop_after(translator, batches, error=Stop):
    """Lets `translator` decode so many batches, and fail then."""
    engine, left = ModelEngine(translator.engine.model), [batches]
    decode = translator.engine.decode

    def limited(*args):
        left[0] -= 1
        if left[0] < 0:
            raise error
        return decode(*args)

    engine.decode, translator.engine = limited, engine
    return translator


def decoded(translator, source, folder, **options):
    """The bytes of both files."""
    paths = folder / "out.txt", folder / "out.jsonl"
    files.translate_file(translator, source, *paths, report=lambda text: None, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["out.jsonl", "out.txt"]
    return [path.read_bytes() for path in paths]


def lines_done(folder):
    """How many lines are in what a decoding has left."""
    left = folder / "out.txt.incomplete"
    return left.read_bytes().count(b"\n") if left.exists() else 0


@pytest.mark.parametrize(("batches", "done"), [(0, 0), (1, 0), (2, 3), (3, 6), (4, 6), (5, 9)])
@pytest.mark.slow
def test_a_file_goes_on_behind_its_last_window(
    translator, windows, source, tmp_path, batches, done
):
    settings = "return_beams=1,batch_size=2"  # the windows are 2, 1, 2 and 1 batches
    whole = decoded(translator(settings), source, tmp_path / "whole")
    with pytest.raises(Stop):
        decoded(stop_after(translator(settings), batches), source, tmp_path / "parts")
    assert lines_done(tmp_path / "parts") == done
    assert bool(list((tmp_path / "parts").iterdir())) == bool(done)
    left = 6 - {0: 0, 3: 2, 6: 3, 9: 5}[done]  # batches behind what is done
    assert decoded(stop_after(translator(settings), left), source, tmp_path / "parts") == whole


def change_source(source, translator):
    source.write_text(source.read_text().replace("w9", "w8"))
    return translator("batch_size=2")


def change_settings(source, translator):
    return translator("batch_size=2,alpha=0.7")


def change_weights(source, translator):
    other = translator("batch_size=2")
    variable = other.engine.model.weights[0]
    variable.assign(variable + 1e-3)
    return other


@pytest.mark.parametrize("change", [change_source, change_settings, change_weights])
def test_remains_of_something_else_do_not_count(translator, windows, source, tmp_path, change):
    with pytest.raises(Stop):
        decoded(stop_after(translator("batch_size=2"), 3), source, tmp_path / "parts")
    variable = translator().engine.model.weights[0]
    before = variable.numpy()
    other = change(source, translator)
    try:
        whole = decoded(other, source, tmp_path / "whole")
        assert decoded(other, source, tmp_path / "parts") == whole
    finally:
        variable.assign(before)


@pytest.mark.slow
def test_a_sampled_file_with_beginnings_goes_on_and_with_others_begins_anew(
    translator, windows, source, tmp_path
):
    begun, other = tmp_path / "begun", tmp_path / "other"
    begun.write_text("w4\n\nw5 w6\n" + "\n" * 7 + "w7\n")
    other.write_text("w4\n" + "\n" * 10)
    settings = (
        "beam_size=1,sampling_method=random,sampling_temp=1.3,sampling_keep_top_k=7,"
        "sampling_keep_top_p=0.95,extra_length=3,min_length_ratio=0.1"
    )
    options = {"prefixes": begun, "as_json": True}
    whole = decoded(translator(settings), source, tmp_path / "whole", **options)
    assert whole[0] == whole[1] and whole[0].count(b"\n") == 11
    for change, words in [
        ({}, settings),
        ({"prefixes": other}, settings),
        ({"as_json": False}, settings),
        ({}, f"{settings},sampling_seed=1"),
    ]:
        with pytest.raises(Stop):
            decoded(stop_after(translator(settings), 2), source, tmp_path / "parts", **options)
        now = options | change
        found = decoded(translator(words), source, tmp_path / "parts", **now)
        assert found == decoded(translator(words), source, tmp_path / "whole", **now)


def test_there_is_a_beginning_for_each_line(translator, source, tmp_path):
    (tmp_path / "begun").write_text("w4\n" * 10)
    with pytest.raises(UserError):
        decoded(translator(), source, tmp_path / "parts", prefixes=tmp_path / "begun")


@pytest.mark.slow
def test_the_repairs_of_trees_are_counted_on(translator, windows, source, tmp_path):
    whole = TreeReader()
    texts = decoded(translator(reader=whole), source, tmp_path / "whole")
    assert whole.sentences == 10 and whole.repaired
    with pytest.raises(Stop):
        first = stop_after(translator(reader=TreeReader()), 2)
        decoded(first, source, tmp_path / "parts")
    second = TreeReader()
    assert decoded(translator(reader=second), source, tmp_path / "parts") == texts
    assert vars(second) == vars(whole)


def test_what_is_interrupted_goes_on(translator, windows, source, tmp_path):
    whole = decoded(translator(), source, tmp_path / "whole")
    with pytest.raises(Interrupted):
        stopped = stop_after(translator(), 2, Interrupted(signal.SIGINT))
        decoded(stopped, source, tmp_path / "parts")
    assert lines_done(tmp_path / "parts") == 6
    assert decoded(translator(), source, tmp_path / "parts") == whole


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files(translator, tmp_path, ending):
    lines = ["w5 w7", "", "w9\u2028w11\r", "w2 w2 w2"]
    source = tmp_path / f"in.txt{ending}"
    source.write_bytes((gzip.compress if ending else bytes)("\n".join(lines).encode()))
    target, details = tmp_path / "new" / "out.txt", tmp_path / "out.jsonl"
    done = files.translate_file(
        translator("return_beams=True"), source, target, details, report=lambda text: None
    )
    written = target.read_text().split("\n")
    assert done == 4 and len(written) == 5 and written[1] == "\t\t\t" and written[4] == ""
    objects = [json.loads(line) for line in details.read_text().split("\n")[:-1]]
    assert [o["source"] for o in objects] == ["w5 w7", "", "w9\u2028w11", "w2 w2 w2"]
    best = objects[0]["hypotheses"][0]
    assert set(best) == {"text", "ids", "score", "log_prob", "finished"}
    assert written[0].split("\t")[0] == best["text"]
    assert sorted(p.name for p in target.parent.iterdir()) == ["out.txt"]


def test_examples(translator, tmp_path):
    examples = [{"inputs": [5, 7, 1], "targets": [9, 1]}, {"inputs": [11, 1], "targets": [2, 1]}]
    target = tmp_path / "a.b.decodes"
    files.translate_examples(translator(), iter(examples), target, lambda text: None)
    assert (tmp_path / "a.b.inputs").read_text() == "w5 w7\nw11\n"
    assert (tmp_path / "a.b.targets").read_text() == "w9\nodd line\ttab\n"
    assert len(target.read_text().splitlines()) == 2
    scored = translator("return_beams=1,write_beam_scores=1,beam_size=2,num_samples=1")
    assert files.translate_examples(scored, examples, target, lambda text: None) == 1
    assert len(target.read_text().splitlines()) == 2
    assert re.search(r"\t-\d+\.\d\d$", target.read_text().splitlines()[0])
    assert (tmp_path / "a.b.inputs").read_text() == "w5 w7\nw5 w7\n"


@pytest.mark.parametrize("more", ["", ",write_beam_scores=1"])
def test_the_best_translations_of_examples(translator, tmp_path, more):
    """An empty one has as many lines as the others."""
    examples = [{"inputs": [*ids, 1], "targets": [9, 1]} for ids in ([5, 7], [], [11])]
    target = tmp_path / "decodes"
    best = [beams[0] for beams in translator().translate_ids([e["inputs"] for e in examples])]
    beams = translator(f"return_beams=1{more}")
    files.translate_examples(beams, examples, target, lambda text: None)
    assert len(target.read_text().split("\n")) == 3 * 4 + 1
    lines = list(best_translations(target, beams.settings, of_examples=True))
    assert lines == [translate.one_line(hypothesis.text) for hypothesis in best]


def test_num_samples_of_a_file_are_its_first_lines(translator, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("w5 w7\nw9\nw11 w3\n")
    assert files.translate_file(translator(), source, target, report=lambda text: None) == 3
    whole = target.read_text().splitlines()
    some = translator("num_samples=2")
    assert files.translate_file(some, source, target, report=lambda text: None) == 2
    assert target.read_text().splitlines() == whole[:2]
