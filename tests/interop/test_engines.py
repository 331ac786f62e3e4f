"""The engines that t2t-decoder knows."""

import pathlib
import threading
import time
import types

import numpy as np
import pytest

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Search, Sentences
from t2t_repro.decoding.request import ENGINES
from t2t_repro.decoding.settings import Ability, DecodeHParams
from t2t_repro.interop import ctranslate2_engine, engines, saved_model


def test_the_model_itself_can_do_all_and_ctranslate2_search():
    assert ENGINES["tensorflow"] == ModelEngine.abilities == set(Ability)
    assert ENGINES["ctranslate2"] == ctranslate2_engine.CTranslate2Engine.abilities == set()


@pytest.mark.slow
def test_an_export_decodes_as_its_model(small):
    model, encoders, folder = small
    texts = [encoders["inputs"].encode(text) for text in ("abba", "ab")]
    inputs = np.array([ids + [1] + [0] * (5 - len(ids)) for ids in texts])
    lengths = (inputs != 0).sum(axis=1)
    sentences = Sentences(inputs, lengths + 9)
    ids, scores = ModelEngine(model).decode(sentences, Search(2, 0.6))
    engine = saved_model.SavedModelEngine(folder)
    its_ids, its_scores = engine.decode(sentences)
    length = min(ids.shape[2], its_ids.shape[2])
    np.testing.assert_array_equal(its_ids[:, :, :length], ids[:, :, :length])
    assert not ids[:, :, length:].any() and not its_ids[:, :, length:].any()
    np.testing.assert_allclose(its_scores, scores, atol=1e-4)
    assert engine.fingerprint == saved_model.SavedModelEngine(folder).fingerprint


def test_who_decodes_beside_another_waits_for_the_model_that_it_writes(tmp_path, monkeypatch):
    checkpoint = tmp_path / "checkpoints" / "ckpt-70"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.npz").write_bytes(b"weights")
    monkeypatch.setattr(engines, "WEIGHTS", "weights.npz")
    run = types.SimpleNamespace(
        path=tmp_path, checkpoint=lambda asked: checkpoint, decode_settings=DecodeHParams
    )
    job = types.SimpleNamespace(
        run=run,
        request=types.SimpleNamespace(checkpoint_path=""),
        settings=DecodeHParams.parse(""),
    )
    made, said, found = [], [], []

    def export(run, request, say):
        made.append(request.export_dir)
        time.sleep(0.3)
        pathlib.Path(request.export_dir).mkdir()

    monkeypatch.setattr(engines.export, "export", export)
    shards = [
        threading.Thread(target=lambda: found.append(engines.written(job, said.append)))
        for _ in range(3)
    ]
    for shard in shards:
        shard.start()
    for shard in shards:
        shard.join()
    assert len(made) == 1 and found == made * 3
    assert said == [f"Waiting for another process that writes to {tmp_path / 'export'}."] * 2
