import dataclasses
import json
import re
import shutil

import keras
import pytest

from t2t_repro import cli
from t2t_repro.bin import decoder
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints
from tests.data.record_files import write_examples

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
    cli.run("t2t-decoder", decoder.__doc__, decoder.define_flags, decoder.main, list(flags))


def error_of(capsys, *flags):
    with pytest.raises(SystemExit) as stop:
        decode(*flags)
    assert stop.value.code == 2
    return capsys.readouterr().err


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
            pytest.param(dataset, columns, marks=pytest.mark.slow)
            for columns in (
                "",
                "return_alignments=True",
                "return_beams=True",
                "return_beams=True,write_beam_scores=True,return_alignments=True",
            )
            for dataset in (False, True)
        ),
        pytest.param(True, "return_beams=True,write_beam_scores=True", marks=pytest.mark.slow),
    ],
)
def test_the_translations_alone_are_scored(run, source, tmp_path, capsys, dataset, columns):
    """Whatever else the file holds, its BLEU is that of the best translations."""
    if dataset and "alignments" in columns:
        return  # refused
    name = tmp_path / "out.decodes"
    flags = [f"--output_dir={run}", f"--decode_to_file={name}"]
    flags += [] if dataset else [f"--decode_from_file={source}"]
    beams = "--decode_hparams=beam_size=2,extra_length=9"
    decode(*flags, beams)
    (out,) = (path for path in tmp_path.iterdir() if path.name.endswith(".decodes"))
    (tmp_path / "right").write_text(out.read_text().replace("4", "5"))
    flags.append(f"--decode_reference={tmp_path / 'right'}")
    tables = []
    for more in ("", columns):
        capsys.readouterr()
        decode(*flags, f"{beams},{more}" if more else beams)
        tables.append(capsys.readouterr().out.partition("sentences")[2])
    assert tables[0] == tables[1] and "sacreBLEU" in tables[0]
    assert columns == "" or "\t" in out.read_text() or dataset


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
    said = capsys.readouterr().out
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
def test_models_in_chunks_align_as_whole_ones(run, source, tmp_path):
    chunked = RunDirectory(tmp_path / "chunked")
    RunDirectory(run).copy_description(chunked)
    shutil.copytree(run / "checkpoints", chunked.checkpoints_dir)
    chunks = chunked.config().hparams.override("attention_chunk_size=2,attention_dropout=0")
    (chunked.path / "hparams.json").write_text(chunks.to_json())
    files = f"--decode_from_file={source}", f"--data_dir={run}", f"--ensemble={chunked.path}"
    settings = "--decode_hparams=beam_size=1,extra_length=3,return_alignments=1"
    for of in (run, chunked.path):
        decode(f"--output_dir={of}", f"--decode_to_file={tmp_path / of.name}.out", *files, settings)
    alone, both = ((tmp_path / f"{of.name}.out").read_text() for of in (run, chunked.path))
    assert "-" in alone and alone == both


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
    found = trained_run(run).ensemble([trained_run(other.path)])
    assert (found.models[1].weights[0].numpy() == model.weights[0].numpy()).all()
    assert (found.models[0].weights[0].numpy() != model.weights[0].numpy()).any()


def test_runs_of_another_problem_or_vocabulary_do_not_decode_together(run, tmp_path, capsys):
    config = RunDirectory(run).config()
    another = RunDirectory(tmp_path / "another")
    another.begin(dataclasses.replace(config, problem="algorithmic_sort_problem"), ["t"], [])
    error = error_of(capsys, f"--output_dir={run}", f"--ensemble={another.path}")
    assert str(another.path) in error
    vocabulary, letters = tmp_path / "vocab.text2text_tmpdir.32768.subwords", "0123456789;\\_u"
    text = dataclasses.replace(config, problem="text2text_tmpdir")
    runs = []
    for number in range(2):
        vocabulary.write_text(
            "".join(f"'{x}'\n" for x in ["<pad>", "<EOS>", *letters, "ab"[number]])
        )
        runs.append(RunDirectory(tmp_path / f"run{number}"))
        runs[-1].begin(text, ["t2t-trainer"], [vocabulary])
    from t2t_repro.models.build import model_for
    from t2t_repro.training import checkpoints

    model = model_for(get_problem("text2text_tmpdir"), config.hparams, str(runs[0].path))
    checkpoints.save(runs[0].checkpoints_dir, model, checkpoints.State(step=7))
    error = error_of(capsys, f"--output_dir={runs[0].path}", f"--ensemble={runs[1].path}")
    assert str(runs[1].path) in error


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
    assert capsys.readouterr().err.count("Wrote ") == 1
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
        (["--output_dir="], "--output_dir"),
        (["--problem=algorithmic_sort_problem"], "--problem"),
        (["--hparams_set=transformer_base"], "--hparams_set"),
        (["--hparams=hidden_size=16"], "--hparams"),
        (["--decode_from_file=nowhere.txt"], "nowhere.txt"),
        (["--decode_interactive", "--decode_from_file=HERE"], "--decode_interactive"),
        (["--decode_from_file=HERE", "--decode_to_file=."], "'.'"),
        ([*_SAME, "--decode_hparams=num_samples=0"], __file__),
        (["--score_file=HERE"], "--decode_to_file"),
        (["--score_file=nowhere.tsv"], "nowhere.tsv"),
        (["--worker_id=1"], "shard_id"),
        (["--decode_shards=2"], "shards=1"),
        (["--decode_shards=2", "--decode_from_file=a"], "a000"),
        (["--decode_hparams=beams=3"], "beams"),
        (["--eval_use_test_set"], "files"),
        (["--checkpoint_path=nowhere"], "nowhere"),
        (["--t2t_usr_dir=nowhere"], "nowhere"),
        (["--engine=ctranslate2", "--t2t_exact"], "--t2t_exact"),
        (["--engine=ctranslate2", f"--decode_hparams={SAMPLE}"], "sampling_method"),
        (["--partial_targets_file=no", "--decode_from_file=HERE"], "no"),
        (["--engine=ctranslate2", "--engine_dir=nowhere"], "nowhere"),
    ],
)
def test_errors(run, capsys, flags, name):
    flags = [f.replace("HERE", __file__) for f in flags]
    assert name in error_of(capsys, f"--output_dir={run}", *flags)


def test_an_empty_file_is_named_before_the_model_is_loaded(run, source, monkeypatch, capsys):
    monkeypatch.setattr("t2t_repro.export.engines.carry_out", None)
    source.write_text("")
    error = error_of(capsys, f"--output_dir={run}", f"--decode_from_file={source}")
    assert str(source) in error
