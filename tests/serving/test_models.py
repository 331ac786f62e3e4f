"""Which models --model names."""

import asyncio
import hashlib
import threading
import types

import numpy as np
import pytest

from t2t_repro.decoding.engine import Engine
from t2t_repro.errors import UserError
from t2t_repro.serving import exported, models
from t2t_repro.serving.exported import Question
from t2t_repro.text import SubwordTextEncoder
from tests.provenances import recorded
from tests.serving.conftest import FakeModel, served


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("7", "a,b=c", "en-de"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()


@pytest.mark.parametrize(
    "given, found",
    [
        (["7"], [("7", "", "")]),
        (["a,b=c"], [("a,b=c", "", "")]),
        (["de-en=7"], [("7", "de", "en")]),
        (["de-en=7,en-de=a,b=c"], [("7", "de", "en"), ("a,b=c", "en", "de")]),
        (["zh_Hans-en=7", "en-de=7"], [("7", "zh_Hans", "en"), ("7", "en", "de")]),
    ],
)
def test_what_is_named(folders, given, found, monkeypatch):
    monkeypatch.setattr(exported, "ExportedModel", str)
    loaded = [folder.load(None) for folder in models.find(given)]
    assert [(m.model, m.source, m.target) for m in loaded] == found
    assert loaded[0].name == (f"{found[0][1]}-{found[0][2]}" if found[0][1] else found[0][0])


def test_a_full_batch_is_shared_as_the_decoder_shares_it(monkeypatch):
    monkeypatch.setattr("t2t_repro.decoding.program.share_cores", lambda rows: rows)
    assert models.searches(32) == 128


@pytest.mark.parametrize(
    "problem, languages",
    [
        ("translate_ende_wmt32k", ("en", "de")),
        ("translate_enfr_wmt32k_rev", ("fr", "en")),
        ("text2text_tmpdir", ("", "")),
        ("translate_text_mine", ("", "")),
        ("translate_many_rev", ("", "")),
    ],
)
def test_the_languages_of_a_problem(problem, languages):
    assert models.languages_of(problem) == languages


class Reversing(Engine):
    """Turns the ids around; a second hypothesis repeats the first one's first."""

    fingerprint = "reversing"

    def decode(self, sentences, search):
        count = search.top_beams
        ids = np.zeros((len(sentences), count, sentences.inputs.shape[1] + 1), "int32")
        for i, row in enumerate(sentences.inputs):
            turned = [*row[row > 1][::-1], 1]
            ids[i, :, : len(turned)] = turned
        scores = np.float32([-search.alpha, -2e5])[:count]
        return ids, np.tile(scores, (len(sentences), 1))


def test_a_ctranslate2_model_has_its_vocabulary_and_how_to_decode(tmp_path, monkeypatch):
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789", "ab_", "cd_", "ef_"]
    encoder = SubwordTextEncoder.from_subtokens(subtokens)
    encoders = {"inputs": encoder, "targets": encoder}
    problem = types.SimpleNamespace(feature_encoders=lambda folder: encoders)
    monkeypatch.setattr(models.registry, "get_problem", lambda name: problem)
    (tmp_path / "model.bin").write_bytes(b"weights")
    decoding = {"beam_size": 2, "alpha": 0.5, "extra_length": 5, "max_input_size": 9}
    recorded("ctranslate2", problem="translate_ende_own", decoding=decoding).write(tmp_path)
    (folder,) = models.find([str(tmp_path)])
    found = folder.load(lambda path, given: Reversing())
    model = found.model
    assert (found.name, found.record.step, model.longest) == ("en-de", 7, 9)
    assert model.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert model.count_tokens(["ab cd", "ef"]) == model.count_target_tokens(["ab cd", "ef"])
    for beams in (False, True):
        answers = model.translate([Question(text, beams) for text in ("ab cd", "cd ef", "ef")])
        assert [[vars(each) for each in answer] for answer in answers] == [
            [{"translation": "cd ab", "score": -0.5}],
            [{"translation": "ef cd", "score": -0.5}],
            [{"translation": "ef", "score": -0.5}],
        ]


@pytest.mark.parametrize(
    "given, message",
    [
        ([], "Expected --model, the folder that t2t-exporter wrote. Received: none."),
        (["de-en=nowhere"], "Received: nowhere, which does not exist."),
        (["7", "en-de"], "the languages of each, no two the same. Received: --model=7,en-de."),
        (["de-en=7", "en-de"], "Expected of several models the languages of each"),
        (["de-en=7", "De-en=en-de"], "no two the same"),
    ],
)
def test_what_is_refused(folders, given, message):
    with pytest.raises(UserError, match=message):
        models.find(given)


@pytest.mark.parametrize(
    "at_once, characters, here",
    [(True, 2000, True), (True, 2001, False), (False, 1, False)],
)
def test_tokens_are_counted_by_another_thread_where_that_takes_long(
    monkeypatch, at_once, characters, here
):
    model, threads = FakeModel(), []

    def count_tokens(texts):
        threads.append(threading.current_thread())
        return [len(text) for text in texts]

    monkeypatch.setattr(model, "count_tokens", count_tokens)
    monkeypatch.setattr(model, "counts_at_once", at_once)
    (one,) = served(model)
    assert asyncio.run(one.count_tokens(["a" * characters])) == [characters]
    assert [thread is threading.current_thread() for thread in threads] == [here]
