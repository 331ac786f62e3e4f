"""The stages of t2t-own-text, with programs that only leave the files that the next one needs."""

import shlex

import pytest

from t2t_repro import provenance, schema
from t2t_repro.own_text import stages
from t2t_repro.stages import Record
from tests.own_text.conftest import run

STAGES = ["text", "plan", "training", "tuning", "test", "export_saved_model", "explain"]
PROGRAMS = ["datagen", "trainer", "trainer", "avg-all", "decoder", "exporter", "visualize"]


def test_all_stages_once_and_a_record_and_a_page_of_them(programs, request_of, tmp_path):
    found, said = run(request_of())
    out = tmp_path / "out"
    assert list(found.stages) == STAGES and programs.names == PROGRAMS
    text = programs.called[0][1]
    assert text["test_size"] == "2" and text["random_seed"] == "0" and "drop_bad_pairs" in text
    # 40 minutes of 0.5 s a step, less 20 evaluations of 2 s, in two digits.
    training = programs.called[2][1]
    assert (training["train_steps"], training["local_eval_frequency"]) == ("4700", "230")
    assert (training["eval_bleu_sentences"], training["eval_early_stopping_steps"]) == ("7", "4700")
    assert training["hparams_set"] == "transformer_own_text_bidirectional"
    # a third of the steps, a quarter, and a fifth
    assert training["hparams"] == (
        "bidirectional_steps=1567,learning_rate_decay_steps=1175,learning_rate_warmup_steps=940,"
        "learning_rate=0.173448"
    )
    assert "--train_minutes=90" in said and "4,700 of 10,000" in said and "0.500 s" in said
    for name, stage in found.stages.items():
        assert f"  {stage.command}" in said, name
    assert not (out / "trial").exists()
    assert schema.read(out / "own-text.json", Record) == found
    assert set(found.inputs) == {str(tmp_path / side) for side in ("en", "de")}
    scores = found.stages["test"].found
    certified = {score.name: score for score in provenance.read(out / "model").scores}
    assert certified["sacrebleu"].of == "test (2 sentences)" and "sentences" not in certified
    assert certified["chrf2"].signature == scores["chrf2"]["signature"]
    page = (out / "index.html").read_text()
    assert "<td>a &lt;b&gt; &amp; c</td>" in page and "{{" not in page and "{%" not in page
    assert "img-src data:" in page and "the newest checkpoint" in page and "base64," in page
    assert "score 100.00" in page and '<a href="https' in page
    assert '<a href="explain.html">' in page and (out / "explain.html").exists()
    assert f"t2t-server --model=en-de={out / 'export' / 'saved_model'}" in said
    assert "/translate -d " + shlex.quote('{"inputs": "it\'s"}') in said
    assert f"t2t-show {out / 'model'} --verify" in said
    assert 'report.json"' in page and "3 pairs" in page and "<td>test</td>" in page
    assert "2.5 BLEU" in said and "2.5 BLEU" in page  # no translator
    # The same again does nothing.
    del programs.called[:]
    again, said = run(request_of())
    assert again == found and not programs.called and said.count("done before") == len(STAGES)


def test_what_no_page_can_compute_has_no_such_stage(programs, request_of, tmp_path):
    programs.sides = "inputs", "targets"
    found, _ = run(request_of())
    assert "explain" not in found.stages and "visualize" not in programs.names
    assert "explain.html" not in (tmp_path / "out" / "index.html").read_text()


def test_a_longer_training_makes_what_depends_on_it_anew(
    programs, request_of, tmp_path, monkeypatch
):
    """A test that was not scored is made again, or it had the scores of an earlier training."""
    steady = "learning_rate_schedule=legacy"
    steadily = {"hparams_set": "transformer_own_text_bidirectional", "hparams": steady}
    run(request_of(train_steps=30, **steadily))
    del programs.called[:]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            stages, "score_files", lambda *files: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        run(request_of(train_steps=90, **steadily))
    found, _ = run(request_of(train_steps=90, **steadily))
    assert programs.names == [*PROGRAMS[2:5], *PROGRAMS[4:]] and list(found.stages) == STAGES
    training = programs.called[0][1]
    assert training["train_steps"] == "90"
    assert training["hparams"].startswith(f"{steady},bidirectional_steps=10,")  # as it was begun
