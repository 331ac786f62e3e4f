"""The stages of t2t-own-text, with programs that only leave the files that the next one needs."""

import shlex

import pytest

from t2t_repro import provenance, schema
from t2t_repro.errors import UserError
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
    assert "--train_minutes=0" in said and "4,700 of 10,000" in said and "0.500 s" in said
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


@pytest.mark.parametrize(
    "more, asked",
    [
        ({"parameters": 10_000_001}, {}),
        ({"sides": ("inputs", "targets")}, {}),
        ({}, {"hparams_set": "transformer_own_text_small", "hparams": "norm_type=l2"}),
    ],
)
def test_what_no_page_can_compute_has_no_such_stage(programs, request_of, tmp_path, more, asked):
    for name, value in more.items():
        setattr(programs, name, value)
    found, _ = run(request_of(**asked))
    assert "explain" not in found.stages and "visualize" not in programs.names
    assert "explain.html" not in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize("fails", ["t2t-avg-all", "t2t-exporter"])
def test_it_goes_on_behind_what_is_done(programs, request_of, fails):
    at = PROGRAMS.index(fails.removeprefix("t2t-"))
    programs.fails = fails
    with pytest.raises(UserError, match=fails):
        run(request_of())
    assert programs.names == PROGRAMS[: at + 1]
    programs.fails = ""
    del programs.called[:]
    found, _ = run(request_of())
    assert programs.names == PROGRAMS[at:] and list(found.stages) == STAGES


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


def test_other_text_and_flags_are_refused(programs, request_of, tmp_path):
    (tmp_path / "pieces").write_text("a\n")
    vocab = f"{tmp_path / 'en'},{tmp_path / 'pieces'}"
    found, _ = run(request_of(vocab=vocab))
    assert str(tmp_path / "pieces") in found.inputs
    before = (tmp_path / "out" / "own-text.json").read_text()
    turned = {"train_source": str(tmp_path / "de"), "train_target": str(tmp_path / "en")}
    for named, other in {
        "--random_seed": {"random_seed": 3},
        "--train_source": {"raw": turned},
    }.items():
        with pytest.raises(UserError, match=named):
            run(request_of(**{"vocab": vocab} | other))
    for changed in ("pieces", "de"):
        text = (tmp_path / changed).read_text()
        (tmp_path / changed).write_text("x\n" * 40)
        with pytest.raises(UserError, match=changed):
            run(request_of(vocab=vocab))
        (tmp_path / changed).write_text(text)
    assert (tmp_path / "out" / "own-text.json").read_text() == before
    with pytest.raises(UserError, match="own-text.json"):
        run(request_of("."))


def test_what_cannot_be_is_named_before_the_work(programs, request_of, tmp_path):
    with pytest.raises(UserError, match="transformer_tiny"):
        run(request_of(hparams_set="transformer_tinny"))
    for side in ("en", "de"):
        (tmp_path / side).write_text("a\n")
    with pytest.raises(UserError, match="20"):
        run(request_of())
    assert not programs.called and not (tmp_path / "out").exists()
