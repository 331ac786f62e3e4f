import dataclasses
import json
import re
import shutil

import keras
import pytest

from t2t_repro.bin import decoder
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests.data.record_files import write_examples
from tests.programs import call

SAMPLE = "sampling_method=random,beam_size=1"
PROBLEM, SET = "algorithmic_identity_decimal40", "transformer_test"
OVERRIDES = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with a checkpoint of an untrained model, and a dev split."""
    from t2t_repro import Transformer, get_hparams, get_problem
    from t2t_repro.training import checkpoints

    path = tmp_path_factory.mktemp("run")
    hparams, problem = get_hparams(SET, OVERRIDES), get_problem(PROBLEM)
    config = RunConfig(
        hparams_set=SET, hparams=hparams, problem=PROBLEM, data_dir=str(path), version="0"
    )
    directory = RunDirectory(path)
    directory.begin(config, ["t2t-trainer"], [])
    keras.utils.set_random_seed(1)
    model = Transformer.from_hparams(
        hparams,
        inputs_vocab_size=problem.inputs_vocab_size(str(path)),
        targets_vocab_size=problem.targets_vocab_size(str(path)),
        target_space_id=problem.target_space_id,
    )
    checkpoints.save(directory.checkpoints_dir, model, checkpoints.State(step=7))
    examples = [{"inputs": [5, 6, 1], "targets": [5, 6, 1]}, {"inputs": [9, 1], "targets": [9, 1]}]
    write_examples(problem.filepaths("dev", str(path), 1)[0], examples)
    return path


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("3 4 5\n\n7\n")
    return path


def decode(*flags):
    call(decoder, *flags)


def test_from_file(run, source, tmp_path, capsys):
    out, details = tmp_path / "out.txt", tmp_path / "out.jsonl"
    decode(
        f"--output_dir={run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={out}",
        f"--decode_json_file={details}",
        "--decode_hparams=beam_size=2,extra_length=5",
        f"--decode_reference={source}",
        f"--problem={PROBLEM}",
        f"--hparams_set={SET}",
        f"--hparams={OVERRIDES}",
    )
    lines = out.read_text().split("\n")
    assert len(lines) == 4 and lines[1] == lines[3] == ""
    assert len(details.read_text().splitlines()) == 3
    said = capsys.readouterr()
    assert re.search(r"[\d.]+ +sacreBLEU, cased", said.out) and "tok:13a" in said.out


@pytest.mark.parametrize(
    "dataset, columns",
    [
        (False, "return_beams=True,write_beam_scores=True"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                (False, "return_beams=True,write_beam_scores=True,return_alignments=True"),
                (True, "return_beams=True,write_beam_scores=True"),
            )
        ),
    ],
)
def test_the_translations_alone_are_scored(run, source, tmp_path, capsys, dataset, columns):
    """Whatever else the file holds, its BLEU is that of the best translations."""
    flags = [f"--output_dir={run}", f"--decode_to_file={tmp_path / 'out.decodes'}"]
    flags += [] if dataset else [f"--decode_from_file={source}"]
    beams = "--decode_hparams=beam_size=2,extra_length=9"
    decode(*flags, beams)
    (out,) = (path for path in tmp_path.iterdir() if path.name.endswith(".decodes"))
    (tmp_path / "right").write_text(out.read_text().replace("4", "5"))
    flags.append(f"--decode_reference={tmp_path / 'right'}")
    tables = []
    for more in ("", f",{columns}"):
        capsys.readouterr()
        decode(*flags, beams + more)
        tables.append(capsys.readouterr().out.partition("sentences")[2])
    assert tables[0] == tables[1] and "sacreBLEU" in tables[0]
    assert dataset or "\t" in out.read_text()


def test_the_default_name_and_the_exact_mode(run, source):
    decode(f"--output_dir={run}", f"--decode_from_file={source}", "--t2t_exact")
    name = f"in.txt.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.decodes"
    assert len((source.parent / name).read_text().split("\n")) == 4


def test_from_dataset(run, tmp_path):
    decode(f"--output_dir={run}", f"--checkpoint_path={run}/checkpoints/ckpt-7")
    base = f"{PROBLEM}.dev.transformer.{SET}.{PROBLEM}.beam4.alpha0.6"
    assert (run / "decode" / f"{base}.inputs").read_text() == "3 4\n7\n"
    assert (run / "decode" / f"{base}.targets").read_text() == "3 4\n7\n"
    assert len((run / "decode" / f"{base}.decodes").read_text().splitlines()) == 2


def test_scores(run, tmp_path, capsys):
    pairs, out, details = (tmp_path / name for name in ("pairs", "out", "out.jsonl"))
    (tmp_path / "pairs001").write_text("3 4\t3 4\n7\t9 9\n")
    decode(
        f"--output_dir={run}",
        f"--score_file={pairs}",
        f"--decode_to_file={out}",
        f"--decode_json_file={details}",
        "--decode_hparams=batch_size=2,shards=2,shard_id=1",
    )
    rows = [line.split("\t") for line in (tmp_path / "out001").read_text().splitlines()]
    assert all(abs(3 * float(mean) - float(total)) < 1e-5 for mean, total in rows)
    assert len(rows) == 2 and len((tmp_path / "out.jsonl001").read_text().splitlines()) == 2
    said = capsys.readouterr().err
    assert re.search(r"out001: [\d.]+ a token over all 6 tokens, perplexity [\d.]+", said)


def test_every_option_of_a_file_together(run, source, tmp_path):
    """The beginnings stay, an empty line stays empty, and JSON lines hold all there is to say."""
    begun, out = tmp_path / "begun", tmp_path / "out.jsonl"
    begun.write_text("9 8\n\n\n")
    flags = [
        f"--output_dir={run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={out}",
        f"--partial_targets_file={begun}",
        "--output_format=jsonl",
    ]
    decode(
        *flags,
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
def test_an_ensemble_is_of_the_runs_that_are_named(run, source, tmp_path, capsys):
    from t2t_repro.training import checkpoints

    other = RunDirectory(tmp_path / "other")
    RunDirectory(run).copy_description(other)
    model = trained_run(run).model()
    keras.utils.set_random_seed(2)
    for variable in model.trainable_variables:
        variable.assign(keras.random.normal(variable.shape))
    checkpoints.save(other.checkpoints_dir, model, checkpoints.State(step=9))
    flags = [f"--decode_from_file={source}", "--decode_hparams=beam_size=1,extra_length=4"]
    out = tmp_path / "both"
    decode(f"--output_dir={run}", f"--decode_to_file={out}", *flags, f"--ensemble= {other.path},")
    assert f"step 7 of {run}\nDecoding with step 9 of {other.path}" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 3


def test_runs_of_another_problem_do_not_decode_together(run, tmp_path, refused):
    another = RunDirectory(tmp_path / "another")
    config = RunDirectory(run).config
    another.begin(dataclasses.replace(config, problem="algorithmic_sort_problem"), ["t"], [])
    error = refused(decoder, f"--output_dir={run}", f"--ensemble={another.path}").err
    assert str(another.path) in error


@pytest.mark.slow
def test_shards(run, source, tmp_path):
    shard = source.rename(tmp_path / "in.txt001")
    flags = ["--decode_shards=2", "--worker_id=1", "--decode_hparams=extra_length=0"]
    of_file = f"--output_dir={run}", f"--decode_from_file={source}"
    decode(*of_file, *flags)
    decode(*of_file, f"--decode_to_file={source}o", *flags)
    assert (tmp_path / "in.txto001").read_text().count("\n") == 3
    name = f"{shard.name}.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.decodes"
    assert (tmp_path / name).read_text() == (tmp_path / "in.txto001").read_text()
    (whole,) = run.glob(f"{PROBLEM}-dev-*")
    for i in range(2):
        shutil.copy(whole, tmp_path / f"{PROBLEM}-dev-0000{i}-of-00002")
    flags = [f"--data_dir={tmp_path}", "--decode_hparams=shards=2,shard_id=0,extra_length=0"]
    decode(f"--output_dir={run}", f"--decode_to_file={tmp_path}/data", *flags)
    name = f"data000.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.inputs"
    assert (tmp_path / name).read_text() == "3 4\n7\n"


def test_interactive(run, monkeypatch, capsys):
    typed = iter(["3 4", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    decode(f"--output_dir={run}", "--decode_interactive")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_another_engine_writes_the_same_and_its_model_once(run, tmp_path, capsys, monkeypatch):
    its_own = "max_length_ratio=2,return_beams=True"  # which no export keeps
    monkeypatch.setattr(type(get_problem(PROBLEM)), "decode_hparams", its_own)
    source = tmp_path / "in.txt"
    source.write_text("3 4\n\n7 1 2\n")
    flags = [f"--output_dir={run}", f"--decode_from_file={source}", "--decode_hparams=beam_size=1"]
    written = []
    for number, engine in enumerate(("tensorflow", "ctranslate2", "ctranslate2")):
        target = tmp_path / f"out{number}"
        decode(*flags, f"--decode_to_file={target}", f"--engine={engine}")
        written.append(target.read_text())
    assert written[0].count("\n") == 3 and written == written[:1] * 3
    assert capsys.readouterr().err.count(f"Wrote {run}/export/") == 1
    (export,) = (run / "export").glob("ctranslate2-7-????????")
    assert (export / "model.bin").exists()
    # Other weights of the same step, such as a mean of more checkpoints, have their own.
    arrays = checkpoints.read_arrays(run / "checkpoints" / "ckpt-7" / checkpoints.WEIGHTS)
    others = {checkpoints.WEIGHTS: {name: -value for name, value in arrays.items()}}
    path = checkpoints.write(tmp_path / "checkpoints", others, checkpoints.State(step=7))
    flags += [f"--checkpoint_path={path}", f"--decode_to_file={tmp_path / 'other'}"]
    decode(*flags, "--engine=ctranslate2")
    assert (tmp_path / "other").read_text() != written[0]


_SAME = ("--decode_from_file=HERE", "--decode_reference=HERE")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--problem=algorithmic_sort_problem"], "--problem"),
        (["--hparams_set=transformer_base"], "--hparams_set"),
        (["--hparams=hidden_size=16"], "--hparams"),
        (["--decode_interactive", "--decode_from_file=HERE"], "--decode_interactive"),
        (["--decode_from_file=HERE", "--decode_to_file=."], "'.'"),
        ([*_SAME, "--decode_hparams=num_samples=0"], __file__),
        (["--score_file=HERE"], "--decode_to_file"),
        (["--worker_id=1"], "shard_id"),
        (["--decode_shards=2"], "shards=1"),
        (["--decode_shards=2", "--decode_from_file=a"], "a000"),
        (["--checkpoint_path=nowhere"], "nowhere"),
        (["--engine=ctranslate2", "--t2t_exact"], "--t2t_exact"),
        (["--engine=ctranslate2", f"--decode_hparams={SAMPLE}"], "sampling_method"),
        (["--partial_targets_file=no", "--decode_from_file=HERE"], "no"),
        (["--engine=ctranslate2", "--engine_dir=nowhere"], "nowhere"),
    ],
)
def test_errors(run, refused, flags, name):
    flags = [f.replace("HERE", __file__) for f in flags]
    assert name in refused(decoder, f"--output_dir={run}", *flags).err
