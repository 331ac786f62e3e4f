"""t2t-visualize: files that a program and a person can read."""

import csv
import json

import numpy as np

from t2t_repro.bin import visualize
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.views import pictures
from tests.programs import call


def test_attention_of_a_sentence_and_its_target(run, tmp_path, capsys):
    out, model = tmp_path / "out", trained_run(run.path).model()
    call(
        visualize,
        *(f"--output_dir={run.path}", "--source=0 1 1 0", "--target=0 1 1"),
        f"--visualization_dir={out}",
    )
    said = capsys.readouterr().out
    assert said.startswith("0 1 1 0\n0 1 1\nEncoder self-attention: 2 heads")
    written = sorted(path.name for path in out.iterdir())
    assert written == sorted(line.split("/")[-1][:-1] for line in said.splitlines() if "/" in line)
    batch = {"inputs": np.array([[2, 3, 3, 2, 1]]), "targets": np.array([[2, 3, 3, 1]])}
    own = model.attention_weights(batch)["decoder/layer_0/encdec_attention"]
    with np.load(out / "attention.npz") as arrays:
        np.testing.assert_allclose(arrays["encoder-decoder"][0], own[0], atol=1e-6)
    content = json.loads((out / "heads.json").read_text())
    assert content["source_tokens"] == ["0", "1", "1", "0", "<EOS>"]
    assert not content["target_is_the_models_own"]
    rows = list(csv.DictReader((out / "heads.csv").open()))
    assert len(rows) == len(content["heads"]) == 6
    assert 0 < float(rows[0]["entropy"]) <= np.log2(5)
    assert (out / "attention.html").exists()
    for name in ("encoder", "decoder", "encoder-decoder", "heads"):
        assert (out / f"{name}.png").stat().st_size < pictures.LIMIT


def test_the_models_own_translation_and_its_learned_positions(run, monkeypatch):
    own, asked = TrainedRun.translator, []  # which knows what a parser may write
    monkeypatch.setattr(
        TrainedRun, "translator", lambda run, *of, **how: asked.append(run) or own(run, *of, **how)
    )
    call(
        visualize,
        *(
            f"--output_dir={run.path}",
            "--source=1 0",
            "--decode_hparams=extra_length=3,beam_size=1",
        ),
        "--positions",
    )
    assert len(asked) == 1
    out, model = run.path / "visualization", trained_run(run.path).model()
    content = json.loads((out / "heads.json").read_text())
    assert content["target_is_the_models_own"] and 1 <= len(content["target_tokens"]) <= 6
    rows = list(csv.reader((out / "positions.csv").open()))
    assert [row[:2] for row in rows[1:]] == [
        [name, str(i)] for name in ("inputs", "targets") for i in range(60)
    ]
    table = np.array(model.targets_position.embeddings)
    np.testing.assert_allclose(np.array([row[2:] for row in rows[61:]], float), table, atol=1e-6)
    assert (out / "positions.png").stat().st_size < pictures.LIMIT
