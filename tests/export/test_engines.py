"""The engines that t2t-decoder knows."""

import pathlib
import threading
import time
import types

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.export import engines


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

    monkeypatch.setattr(engines.forms, "export", export)
    shards = [
        threading.Thread(target=lambda: found.append(engines.written(job, said.append)))
        for _ in range(3)
    ]
    for shard in shards:
        shard.start()
    for shard in shards:
        shard.join()
    assert len(made) == 1 and found == made * 3
    assert len(said) == 2 and all(str(tmp_path / "export") in text for text in said)
