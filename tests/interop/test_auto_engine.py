"""Which engine --engine=auto takes, of engines that cost what they are told to."""

import types

import pytest

from t2t_repro.decoding import quickest
from t2t_repro.decoding.files import described
from t2t_repro.decoding.journal import growing
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.interop import auto_engine

LINES = 7


class Told:
    """An engine that writes `text` behind each line, `seconds` for each."""

    def __init__(self, fingerprint, text="!", seconds=1):
        self.fingerprint, self.text, self.seconds = fingerprint, text, seconds
        self.lines = 0


class Run:
    clock = 0

    def translator(self, engine, settings, warn):
        def translate_lines(lines):
            engine.lines += len(lines)
            self.clock += engine.seconds * len(lines)
            return [line + engine.text for line in lines]

        return types.SimpleNamespace(
            translate_lines=translate_lines,
            format=str,
            engine=engine,
            settings=settings,
            t2t_exact=False,
        )


@pytest.fixture
def take(tmp_path, monkeypatch):
    """Chooses between two engines; returns the chosen one's fingerprint and what was said."""
    run, said = Run(), []
    monkeypatch.setattr(auto_engine, "LEAST", LINES)
    monkeypatch.setattr(auto_engine, "SAMPLE", 3)
    monkeypatch.setattr(auto_engine, "library", lambda: None)
    clock = types.SimpleNamespace(perf_counter=lambda: run.clock)
    monkeypatch.setattr(quickest, "time", clock)
    source = tmp_path / "in"
    source.write_text("a\n" * LINES)

    def take(own, other, settings="", **flags):
        request = DecodeRequest(**{"decode_from_file": str(source), **flags})

        def load_other(*given):
            if isinstance(other, UserError):
                raise other
            return other

        monkeypatch.setattr(auto_engine.model_engine, "load", lambda *given: own)
        for name in ("load", "of_model"):
            monkeypatch.setattr(auto_engine.ctranslate2_engine, name, load_other)
        job = types.SimpleNamespace(
            request=request,
            settings=DecodeHParams.parse(settings),
            run=run,
            target=str(tmp_path / "out"),
        )
        chosen = auto_engine.load(job, said.append).fingerprint, said[-1]
        if isinstance(other, UserError):  # else a try would cost twice
            assert auto_engine.of_model(job, own, said.append).fingerprint == chosen[0]
        return chosen

    return take


@pytest.mark.parametrize(
    ("other", "chosen", "reason"),
    [
        (
            Told("ct2", seconds=0.5),
            "ct2",
            "CTranslate2: the first 3 lines are the same by both, in ",
        ),
        (Told("ct2", seconds=2), "own", "3.00 s by the model itself and 6.00 s by CTranslate2"),
        (Told("ct2", "?", 0.5), "own", "CTranslate2 translates 3 of the first 3 lines in another"),
    ],
)
def test_the_quicker_one_that_writes_the_same(take, other, chosen, reason):
    own = Told("own")
    name, said = take(own, other)
    assert name == chosen and reason in said
    assert own.lines == other.lines == 2 * 3


def test_what_has_begun_a_file_goes_on(take, tmp_path):
    own, other = Told("own"), Told("ct2", seconds=2)
    translator = Run().translator(other, DecodeHParams.parse("beam_size=3"), None)
    job = described(translator, tmp_path / "in")[1]
    with pytest.raises(ZeroDivisionError), growing([tmp_path / "out"], job, print) as f:
        f.add(["a\n"], 1)
        raise ZeroDivisionError
    said = "--engine=auto takes CTranslate2: it has begun the file"
    assert take(own, other, "beam_size=3") == ("ct2", said)
    assert own.lines == other.lines == 0
    assert take(own, Told("another"), "beam_size=3")[0] == "own"
    assert take(own, other, "beam_size=2")[0] == "own"
    (tmp_path / "in").write_text("b\n" * LINES)
    assert take(own, other, "beam_size=3")[0] == "own"


@pytest.mark.parametrize(
    ("settings", "flags", "reason"),
    [
        ("", {"decode_from_file": None}, "on --decode_from_file alone"),
        ("return_alignments=True", {}, "it alone decodes with return_alignments as it is asked to"),
        ("return_beams=True", {}, "further beams are not the same to the last digit"),
        ("", {"output_format": "jsonl"}, "further beams are not the same to the last digit"),
        ("num_samples=6", {}, "for 6 lines, fewer than 7, it does not pay to try another"),
    ],
)
def test_where_there_is_nothing_to_try(take, settings, flags, reason):
    name, said = take(Told("own"), Told("ct2", seconds=0.1), settings, **flags)
    assert name == "own" and said.startswith("--engine=auto takes the model itself: ")
    assert said.endswith(reason)


def test_without_ctranslate2_the_model_decodes(take, monkeypatch):
    def missing():
        raise UserError("none")

    monkeypatch.setattr(auto_engine, "library", missing)
    name, said = take(Told("own"), Told("ct2", seconds=0.1))
    assert name == "own" and "ctranslate2 is not installed; pip install" in said


def test_what_ctranslate2_cannot_compute_the_model_decodes(take):
    name, said = take(Told("own"), UserError("Expected heads that share hidden_size."))
    assert name == "own"
    assert said.endswith("CTranslate2 does not compute it. Expected heads that share hidden_size.")
