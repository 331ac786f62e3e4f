"""t2t-decoder's requests, names and files, and how a killed decoding of a file goes on."""

import gzip
import json
import re
import signal
import types

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.decoding import decode_files, translate, tune
from t2t_repro.decoding.decode_files import DecodeRequest, best_translations
from t2t_repro.decoding.search import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import Interrupted
from t2t_repro.parsing.reader import TreeReader
from t2t_repro.run_directory import RunConfig
from t2t_repro.runs import TrainedRun
from tests.decoding.doubled import Doubled
from tests.tuned import choice

TYPED, FILE, CT2 = (
    {"decode_interactive": True},
    {"decode_from_file": "in"},
    {"engine": "ctranslate2"},
)
DEV = {"eval_use_test_set": True, "decode_to_file": "x"}
PAIRS = {"score_file": "pairs", "decode_to_file": "x"}


@pytest.mark.parametrize(
    "asked, decode_hparams, names",
    [
        (TYPED | {"decode_to_file": "x", "decode_reference": "r"}, "", ["--decode_reference"]),
        (FILE | {"eval_use_test_set": True}, "", ["--eval_use_test_set"]),
        (PAIRS | {"output_format": "jsonl"}, "alpha=1", ["--output_format", "alpha"]),
        (FILE | CT2 | {"worker_gpu": 2}, "", ["--worker_gpu"]),
        (FILE | CT2 | {"engine_dir": "E", "checkpoint_path": "C"}, "", ["--checkpoint_path"]),
        (FILE | {"compute_type": "int8"}, "", ["--compute_type"]),
        (FILE, "write_beam_scores=1,sampling_seed=3", ["sampling_seed", "write_beam_scores"]),
        (FILE, "force_decode_length=1", ["force_decode_length"]),
        (DEV, "return_alignments=1,return_token_scores=1", ["return_alignments"]),
        (FILE, "return_alignments=1", []),
        (FILE | {"decode_reference": "r", "decode_to_file": "x"}, "beam_size=2", []),
        (DEV, "", []),
    ],
)
def test_what_has_no_effect_is_said(asked, decode_hparams, names):
    request = DecodeRequest(**asked, given=frozenset(asked), decode_hparams=decode_hparams or None)
    found = request.unused(DecodeHParams.parse(decode_hparams))
    assert set(names) <= set(found) and (names or not found)


@pytest.fixture
def tuned(tmp_path):
    """A run that has nothing but what was chosen for it."""
    choice(40, 31.0, tune.Beams(5, 1.1, 31.25)).write(tmp_path)
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test"),
        problem="doubled",
        data_dir=str(tmp_path),
        version="0",
    )
    run = TrainedRun(tmp_path)
    run.config, run.problem = config, Doubled()
    return run


@pytest.mark.parametrize(
    "asked, found",
    [
        ({}, (5, 1.1)),
        ({"decode_hparams": "beam_size=2"}, (2, 1.1)),
        ({"decode_hparams": "alpha=0.7,beam_size=3"}, (3, 0.7)),
        ({"t2t_exact": True}, (4, 0.6)),
        ({"score_file": "x"}, (4, 0.6)),
    ],
)
def test_what_was_tuned_is_how_a_run_decodes_unless_it_is_told_otherwise(tuned, asked, found):
    said = []
    settings = DecodeRequest(**asked).settings(tuned, said.append)
    assert (settings.beam_size, settings.alpha) == found
    assert len(said) == (not asked)


def test_output_name():
    hparams = HParams(model="lstm_seq2seq_attention", initializer="uniform_unit_scaling")
    run = types.SimpleNamespace(hparams_set="set_a", hparams=hparams, problem="p")
    name = decode_files.output_name("in.txt", run, DecodeHParams())
    assert name == "in.txt.lstm_seq2seq_attention.set_a.p.beam4.alpha0.6.decodes"
    assert decode_files.output_name(name, run, DecodeHParams()) == name


def test_the_best_translations_of_a_file(tmp_path):
    (tmp_path / "out").write_text("a\tb\n\t\n")
    for settings, lines in (
        ({}, ["a\tb", "\t"]),
        ({"return_beams": True}, ["a", ""]),
        ({"return_beams": True, "beam_size": 1}, ["a\tb", "\t"]),
        ({"return_alignments": True}, ["a", ""]),
    ):
        assert list(best_translations(tmp_path / "out", DecodeHParams(**settings))) == lines


# --- files that grow --------------------------------------------------------------------------


class Stopping(Engine):
    """An engine that decodes so many batches, counts them, and is interrupted then."""

    def __init__(self, engine, batches=99):
        self.engine, self.left, self.done = engine, batches, 0
        self.fingerprint = engine.fingerprint

    fingerprint = None

    def decode(self, *args):
        if self.done == self.left:
            raise Interrupted(signal.SIGINT)
        self.done += 1
        return self.engine.decode(*args)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Eleven lines, of which one is empty, in windows of three."""
    monkeypatch.setattr(translate, "WINDOW", 3)
    lines = [f"w{i + 3} w{30 - i} w{i + 9}" for i in range(11)]
    (tmp_path / "in.txt").write_text("\n".join([*lines[:4], "", *lines[5:]]) + "\n")
    return tmp_path / "in.txt"


@pytest.fixture
def translator(translator):
    """Makes a translator of short translations, which take less time."""

    def make(settings="", *of, **options):
        return translator(",".join(filter(None, ["extra_length=3", settings])), *of, **options)

    return make


def decoded(translator, source, folder, **options):
    """The bytes of both files."""
    paths = folder / "out.txt", folder / "out.jsonl"
    decode_files.translate_file(translator, source, *paths, report=lambda text: None, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["out.jsonl", "out.txt"]
    return [path.read_bytes() for path in paths]


@pytest.fixture
def stopped(translator, base, source, tmp_path):
    """Interrupts a decoding behind so many batches; returns the two files that it has left."""

    def stop(batches, settings="", **options):
        made = translator(settings, Stopping(base.engine, batches), **options.pop("made", {}))
        with pytest.raises(Interrupted):
            decoded(made, source, tmp_path / "parts", **options)
        return sorted((tmp_path / "parts").glob("out.*.*.incomplete"))

    return stop


@pytest.fixture(scope="module")
def whole():
    """What a decoding without a kill has written, once one was made."""
    return []


BATCHES = 6  # of two sentences; the windows have 2, 1, 2 and 1


@pytest.mark.parametrize("batches, lines, kept", [(1, None, 0), (4, 6, 3), (5, 9, 5)])
def test_whatever_a_kill_leaves_it_goes_on_and_ends_with_the_same_bytes(
    translator, base, stopped, source, tmp_path, whole, batches, lines, kept
):
    settings = "return_beams=1,batch_size=2"
    if not whole:
        whole += decoded(translator(settings), source, tmp_path / "whole")
    left = stopped(batches, settings)
    assert [path.read_bytes().count(b"\n") for path in left] == ([lines] * 2 if lines else [])
    engine = Stopping(base.engine)
    assert decoded(translator(settings, engine), source, tmp_path / "parts") == whole
    assert engine.done == BATCHES - kept


@hypothesis.settings(max_examples=50, deadline=None, database=None)
@given(st.integers(1, 4), st.lists(st.integers(0, 50), min_size=2, max_size=2))
def test_files_of_any_lengths_go_on_after_their_last_whole_window(tmp_path_factory, window, sizes):
    folder, text = tmp_path_factory.mktemp("parts"), "".join(f"line {n}\n" for n in range(6))
    job = [folder / "a", folder / "b"], {}, window, print
    with pytest.raises(Interrupted), decode_files.growing(*job) as (_, append):
        append([text] * 2)
        raise Interrupted(signal.SIGINT)
    for path, size in zip(folder.iterdir(), sizes, strict=True):
        path.write_bytes((path.read_bytes() + bytes(50))[:size])
    with decode_files.growing(*job) as (done, append):
        append([text[7 * done :]] * 2)
    assert done == min(*sizes, 42) // 7 // window * window
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": text, "b": text}


@pytest.mark.parametrize("change", ["source", "settings", "weights", "prefixes", "as_json"])
def test_remains_of_something_else_do_not_count(
    translator, base, stopped, source, tmp_path, change
):
    begun, variable = tmp_path / "begun", base.model.weights[0]
    begun.write_text("w4\n\nw5 w6\n" + "\n" * 7 + "w7\n")
    options, before, settings = {"prefixes": begun}, variable.numpy(), "batch_size=2"
    assert len(stopped(3, settings, **options)) == 2
    if change == "source":
        source.write_text(source.read_text().replace("w9", "w8"))
    elif change == "prefixes":
        begun.write_text("w4\n" + "\n" * 10)
    elif change == "as_json":
        options["as_json"] = True
    elif change == "settings":
        settings += ",alpha=0.7"
    else:
        variable.assign(variable + 1e-3)
    try:
        engine = Stopping(base.engine)
        found = decoded(translator(settings, engine), source, tmp_path / "parts", **options)
        assert engine.done == BATCHES
        assert found == decoded(translator(settings), source, tmp_path / "whole", **options)
    finally:
        variable.assign(before)


@pytest.mark.parametrize("exact", [True, False])
def test_the_exact_mode_and_repairs_of_trees_begin_anew(
    translator, stopped, source, tmp_path, exact
):
    def made():
        return {"t2t_exact": True} if exact else {"reader": TreeReader()}

    whole, again = made(), made()
    texts = decoded(translator("batch_size=2", **whole), source, tmp_path / "whole")
    stopped(5, "batch_size=2", made=made())
    assert decoded(translator("batch_size=2", **again), source, tmp_path / "parts") == texts
    if not exact:
        assert whole["reader"].sentences == 10 and whole["reader"].repaired
        assert vars(again["reader"]) == vars(whole["reader"])


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files(translator, tmp_path, ending):
    lines = ["w5 w7", "", "w9\u2028w11\r", "w2 w2 w2"]
    source = tmp_path / f"in.txt{ending}"
    source.write_bytes((gzip.compress if ending else bytes)("\n".join(lines).encode()))
    target, details = tmp_path / "new" / "out.txt", tmp_path / "out.jsonl"
    made = translator("return_beams=True")
    decode_files.translate_file(made, source, target, details, str)
    written = target.read_text().split("\n")
    assert len(written) == 5 and written[1] == "\t\t\t" and written[4] == ""
    objects = [json.loads(line) for line in details.read_text().split("\n")[:-1]]
    assert [o["source"] for o in objects] == ["w5 w7", "", "w9\u2028w11", "w2 w2 w2"]
    best = objects[0]["hypotheses"][0]
    assert set(best) == {"text", "ids", "score", "log_prob", "finished"}
    assert written[0].split("\t")[0] == best["text"]
    first = tmp_path / "first"
    some = translator("return_beams=True,num_samples=2")
    decode_files.translate_file(some, source, first, report=str)
    assert first.read_text().split("\n") == [*written[:2], ""]


def test_examples(translator, tmp_path):
    """An empty one has as many lines as the others, and of each the best is found again."""
    examples = [{"inputs": [*ids, 1], "targets": [9, 1]} for ids in ([5, 7], [], [11])]
    examples[2]["targets"] = [2, 1]
    target = tmp_path / "a.b.decodes"
    decode_files.translate_examples(translator(), iter(examples), target, str)
    assert (tmp_path / "a.b.inputs").read_text() == "w5 w7\n\nw11\n"
    assert (tmp_path / "a.b.targets").read_text() == "w9\nw9\nodd line\ttab\n"
    best = target.read_text().splitlines()
    assert len(best) == 3
    for more in ("", ",write_beam_scores=1"):
        beams = translator(f"return_beams=1{more}")
        decode_files.translate_examples(beams, examples, target, str)
        rows = target.read_text().splitlines()
        assert len(rows) == 3 * 4
        assert bool(re.search(r"\t-\d+\.\d\d$", rows[0])) == bool(more)
        assert list(best_translations(target, beams.settings, of_examples=True)) == best
    scored = translator("return_beams=1,beam_size=2,num_samples=1")
    decode_files.translate_examples(scored, examples, target, str)
    assert (tmp_path / "a.b.inputs").read_text() == "w5 w7\nw5 w7\n"
