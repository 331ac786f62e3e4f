"""Where --engine=auto finds something that is quicker than an export."""

import types

import pytest

from t2t_repro.certificate.record import Golden
from t2t_repro.decoding import quickest
from t2t_repro.errors import UserError
from t2t_repro.serving import quicker
from tests.serving.conftest import FakeModel

CERTIFICATE = types.SimpleNamespace(golden=[Golden(text, "", 0.0) for text in ("a b", "c", "d e")])


@pytest.fixture
def find(monkeypatch):
    """Asks with an engine that translates as a FakeModel, in so many seconds where that takes 4."""
    now = [0.0]
    monkeypatch.setattr(quickest, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))

    class Timed(FakeModel):
        def __init__(self, seconds):
            super().__init__()
            self.seconds = seconds

        def translate(self, questions):
            now[0] += self.seconds
            return super().translate(questions)

    def find(engine, certificate=CERTIFICATE):
        found, said = Timed(engine) if isinstance(engine, int) else engine, []

        def make(*given):
            if isinstance(found, UserError):
                raise found
            return found

        monkeypatch.setattr(quicker, "engine_model", make)
        chosen = quicker.find(
            "DIR", certificate, Timed(4), open_engine=None, searches=1, say=said.append
        )
        assert chosen in (None, found)
        return chosen is found, *said

    return find


def test_the_engine_that_is_quicker_and_agrees(find):
    assert find(3) == (
        True,
        "--engine=auto takes CTranslate2 for DIR: the 3 sentences of certificate.json are the same "
        "by both, in 4.00 s by the export itself and 3.00 s by CTranslate2",
    )
    taken, said = find(5)
    assert not taken and said.startswith("--engine=auto takes the export itself for DIR: the 3 sen")


def test_an_engine_that_translates_in_another_way_or_not_at_all(find):
    other = FakeModel()
    other.translate = lambda qs: [[types.SimpleNamespace(translation=q.text)] for q in qs]
    taken, said = find(other)
    assert not taken and said.endswith(
        "CTranslate2 translates 3 of the 3 sentences of certifi" + ("cate.json in another way")
    )
    taken, said = find(UserError("Expected the package ctranslate2."))
    assert not taken
    assert said.endswith("CTranslate2 does not compute it. Expected the package ctranslate2.")


@pytest.mark.parametrize("certificate", [None, types.SimpleNamespace(golden=[])])
def test_an_export_without_sentences_to_try(find, certificate):
    taken, said = find(3, certificate)
    assert not taken
    assert said.endswith("it has no certificate.json with sentences that both could translate")
