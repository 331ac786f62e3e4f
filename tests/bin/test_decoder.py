import io
import json
import re
import shutil

import pytest

from t2t_repro.bin import decoder
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunDirectory
from t2t_repro.scoring import bleu
from t2t_repro.training import checkpoints
from tests import untrained
from tests.bin.conftest import TINY
from tests.programs import call

PROBLEM, SET = "algorithmic_identity_decimal40", "transformer_test"
DEV = ["3 4", "7", "0 1 2 3 4 5 6 7 8 9 0", "0", "9 1 5"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("3 4 5\n\n7\n")
    return path


def decode(*flags):
    call(decoder, *flags)


def test_from_file(numbers, source, tmp_path, capsys):
    """Whatever else the file holds, its BLEU is that of the best translations."""
    out, details, right = (tmp_path / name for name in ("out", "out.jsonl", "right"))
    right.write_text("3 3 3 9 1\n\n7 7 7 1\n")
    decode(
        *(f"--output_dir={numbers.path}", f"--decode_from_file={source}"),
        *(f"--decode_to_file={out}", f"--decode_json_file={details}"),
        *(f"--decode_reference={right}", f"--problem={PROBLEM}", f"--hparams_set={SET}"),
        f"--hparams={TINY}",
        "--decode_hparams=beam_size=2,extra_length=9,return_beams=True,write_beam_scores=True",
    )
    lines = out.read_text().split("\n")
    assert len(lines) == 4 and lines[0].count("\t") > 1 and lines[3] == ""
    assert len(details.read_text().splitlines()) == 3
    best = [line.split("\t")[0] for line in lines[:3]]
    expected = bleu.score(best, right.read_text().splitlines()).sacrebleu.score
    said = capsys.readouterr().out
    (found,) = re.findall(r"([\d.]+) +sacreBLEU, cased", said)
    assert best[1] == "" and float(found) == pytest.approx(expected, abs=0.01) and "tok:13a" in said


def test_the_default_name_and_the_exact_mode(numbers, source):
    decode(f"--output_dir={numbers.path}", f"--decode_from_file={source}", "--t2t_exact")
    name = f"in.txt.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.decodes"
    assert len((source.parent / name).read_text().split("\n")) == 4


def test_from_dataset(run):
    decode(f"--output_dir={run.path}", f"--checkpoint_path={run.checkpoints_dir}/ckpt-7")
    base = f"{PROBLEM}.dev.transformer.{SET}.{PROBLEM}.beam4.alpha0.6"
    for side in ("inputs", "targets"):
        assert (run.path / "decode" / f"{base}.{side}").read_text().splitlines() == DEV
    assert len((run.path / "decode" / f"{base}.decodes").read_text().splitlines()) == len(DEV)


def test_scores(numbers, tmp_path, capsys):
    pairs, out, details = (tmp_path / name for name in ("pairs", "out", "out.jsonl"))
    (tmp_path / "pairs001").write_text("3 4\t3 4\n7\t9 9\n")
    decode(
        f"--output_dir={numbers.path}",
        f"--score_file={pairs}",
        f"--decode_to_file={out}",
        f"--decode_json_file={details}",
        "--decode_hparams=batch_size=2,shards=2,shard_id=1",
    )
    rows = [line.split("\t") for line in (tmp_path / "out001").read_text().splitlines()]
    assert all(abs(3 * float(mean) - float(total)) < 1e-5 for mean, total in rows)
    assert len(rows) == 2 and len((tmp_path / "out.jsonl001").read_text().splitlines()) == 2
    said = capsys.readouterr().err
    assert re.search(r"out001\. .* [\d.]+ per token over all 6 tokens, perplexity [\d.]+", said)


def test_every_option_of_a_file_together(numbers, source, tmp_path):
    """The beginnings stay, an empty line stays empty, and JSON lines hold all there is to say."""
    begun, out = tmp_path / "begun", tmp_path / "out.jsonl"
    begun.write_text("9 8\n\n\n")
    decode(
        *(f"--output_dir={numbers.path}", f"--decode_from_file={source}"),
        *(f"--decode_to_file={out}", f"--partial_targets_file={begun}", "--output_format=jsonl"),
        "--decode_hparams=beam_size=1,sampling_method=random,sampling_seed=5,max_length_ratio=2,"
        "min_length_ratio=1.5,return_token_scores=1,return_alignments=1",
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["source"] for row in rows] == ["3 4 5", "", "7"]
    (first,), empty, (last,) = (row["hypotheses"] for row in rows)
    assert empty == [
        {"text": "", "ids": [], "score": 0.0, "log_prob": 0.0, "finished": True}
        | {"token_scores": [], "alignment": ""}
    ]
    assert first["text"].startswith("9 8 ")
    for h, source_words, bounds in [(first, 3, (5, 7)), (last, 1, (2, 3))]:
        assert bounds[0] <= len(h["ids"]) <= bounds[1]
        assert len(h["token_scores"]) == len(h["ids"]) + h["finished"]
        links = [tuple(map(int, link.split("-"))) for link in h["alignment"].split()]
        assert {j for _, j in links} == set(range(len(h["text"].split())))
        assert all(0 <= i < source_words for i, _ in links)


@pytest.mark.slow
def test_an_ensemble_is_of_the_runs_that_are_named(numbers, source, tmp_path, capsys):
    other = RunDirectory(tmp_path / "other")
    numbers.copy_description(other)
    untrained.save(other, 9)
    flags = [f"--decode_from_file={source}", "--decode_hparams=beam_size=1,extra_length=4"]
    flags += [f"--decode_to_file={tmp_path / 'both'}", f"--ensemble= {other.path},"]
    decode(f"--output_dir={numbers.path}", *flags)
    assert f"step 7 of {numbers.path}\nDecoding with the checkpoint at step 9 of {other.path}" in (
        capsys.readouterr().err
    )
    assert len((tmp_path / "both").read_text().splitlines()) == 3


@pytest.mark.slow
def test_shards(numbers, source, tmp_path):
    shard = source.rename(tmp_path / "in.txt001")
    flags = ["--decode_shards=2", "--worker_id=1", "--decode_hparams=extra_length=0"]
    of_file = f"--output_dir={numbers.path}", f"--decode_from_file={source}"
    decode(*of_file, *flags)
    decode(*of_file, f"--decode_to_file={source}o", *flags)
    assert (tmp_path / "in.txto001").read_text().count("\n") == 3
    name = f"{shard.name}.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.decodes"
    assert (tmp_path / name).read_text() == (tmp_path / "in.txto001").read_text()
    (whole,) = (numbers.path.parent / "data").glob(f"{PROBLEM}-dev-*")
    for i in range(2):
        shutil.copy(whole, tmp_path / f"{PROBLEM}-dev-0000{i}-of-00002")
    flags = [f"--data_dir={tmp_path}", "--decode_hparams=shards=2,shard_id=0,extra_length=0"]
    decode(f"--output_dir={numbers.path}", f"--decode_to_file={tmp_path}/data", *flags)
    name = f"data000.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.inputs"
    assert (tmp_path / name).read_text().splitlines() == DEV


def test_interactive(numbers, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("3 4\nq\n"))
    decode(f"--output_dir={numbers.path}", "--decode_interactive")
    assert len(capsys.readouterr().out.splitlines()) == 3  # two prompts


def test_another_engine_writes_the_same_and_its_model_once(
    run, tmp_path, capsys, monkeypatch, refused
):
    its_own = "max_length_ratio=2,return_beams=True"  # which no export keeps
    monkeypatch.setattr(type(get_problem(PROBLEM)), "decode_hparams", its_own)
    source = tmp_path / "in.txt"
    source.write_text("3 4\n\n7 1 2\n")
    flags = [f"--output_dir={run.path}", f"--decode_from_file={source}"]
    flags.append("--decode_hparams=beam_size=1,sampling_method=random")
    assert "sampling_method" in refused(decoder, *flags, "--engine=ctranslate2").err
    assert not list(run.path.glob("export/ctranslate2-*"))
    flags[2] = "--decode_hparams=beam_size=1"
    written = []
    for number, engine in enumerate(("tensorflow", "ctranslate2", "ctranslate2")):
        target = tmp_path / f"out{number}"
        decode(*flags, f"--decode_to_file={target}", f"--engine={engine}")
        written.append(target.read_text())
    assert written[0].count("\n") == 3 and written == written[:1] * 3
    assert capsys.readouterr().err.count(f"Wrote {run.path}/export/") == 1
    (export,) = (run.path / "export").glob("ctranslate2-7-????????")
    assert (export / "model.bin").exists()
    # Other weights of the same step, such as a mean of more checkpoints, have their own.
    arrays = checkpoints.read_arrays(run.checkpoints_dir / "ckpt-7" / checkpoints.WEIGHTS)
    others = {checkpoints.WEIGHTS: {name: -value for name, value in arrays.items()}}
    path = checkpoints.write(tmp_path / "checkpoints", others, checkpoints.State(step=7))
    flags += [f"--checkpoint_path={path}", f"--decode_to_file={tmp_path / 'other'}"]
    decode(*flags, "--engine=ctranslate2")
    assert (tmp_path / "other").read_text() != written[0]
