import dataclasses
import json
import re

import keras
import pytest

from t2t_repro import cli, decoder
from t2t_repro.decoding import files
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.registry import get_problem
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.text import trees

PROBLEM, SET = "algorithmic_identity_decimal40", "transformer_test"
OVERRIDES = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with a checkpoint of an untrained model, and a dev split."""
    from t2t_repro import Transformer, get_hparams, get_problem
    from t2t_repro.data import records
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
    records.write_examples(problem.filepaths("dev", str(path), 1)[0], examples)
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
    assert "Decoding with step 7" in said.err and "3 sentences in" in said.err


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


def test_shards(run, source, tmp_path):
    shard = source.rename(tmp_path / "in.txt001")
    flags = ["--decode_shards=2", "--worker_id=1", "--decode_hparams=extra_length=0"]
    decode(f"--output_dir={run}", f"--decode_from_file={source}", *flags)
    decode(
        f"--output_dir={run}", f"--decode_from_file={source}", f"--decode_to_file={source}o", *flags
    )
    assert (tmp_path / "in.txto001").read_text().count("\n") == 3
    name = f"{shard.name}.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.decodes"
    assert (tmp_path / name).read_text() == (tmp_path / "in.txto001").read_text()
    to = f"--decode_to_file={tmp_path}/data"
    decode(f"--output_dir={run}", to, "--decode_hparams=shards=2,shard_id=0,extra_length=0")
    name = f"data000.transformer.{SET}.{PROBLEM}.beam4.alpha0.6.inputs"
    assert (tmp_path / name).read_text() == "3 4\n7\n"


def test_interactive(run, monkeypatch, capsys):
    typed = iter(["3 4", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    decode(f"--output_dir={run}", "--decode_interactive")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_another_engine_writes_the_same_and_its_model_once(run, tmp_path, capsys):
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
    assert (run / "export" / "ctranslate2-7" / "model.bin").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--output_dir="], "Expected --output_dir, the directory of a trained run. Received: non"),
        (["--problem=algorithmic_sort_problem"], "Expected --problem=algorithmic_identity_decimal"),
        (["--hparams_set=transformer_base"], "Expected --hparams_set=transformer_test, with which"),
        (["--hparams=hidden_size=16"], "Expected no --hparams but those with which"),
        (["--decode_from_file=nowhere.txt"], "No such file: 'nowhere.txt'."),
        (["--decode_interactive", "--decode_from_file=HERE"], "Expected one thing to decode."),
        (["--decode_json_file=x"], "--decode_json_file works with --decode_from_file and"),
        (["--decode_interactive", "--score_file=HERE"], "--score_file and --decode_interactive."),
        (["--score_file=HERE"], "--score_file needs --decode_to_file, for the scores."),
        (["--score_file=nowhere.tsv"], "No such file: 'nowhere.tsv'."),
        (
            ["--score_file=HERE", "--decode_to_file=x", "--decode_reference=HERE"],
            "--score_file does not read --decode_reference.",
        ),
        (
            ["--score_file=HERE", "--decode_to_file=x", "--decode_hparams=alpha=1"],
            "--score_file reads the decode hparams batch_size, shards, shard_id only.",
        ),
        (["--worker_id=1"], "shard_id to be smaller than shards. Received: shard_id=1, shards=1"),
        (["--decode_shards=2", "--worker_id=1"], "one of the 1 files of algorithmic_identity_deci"),
        (["--decode_shards=2", "--decode_from_file=a"], "No such file: 'a000'."),
        (["--decode_hparams=beams=3"], "Unknown decode hparam. Received: 'beams'."),
        (["--decode_from_fil=x"], "Unknown flag. Received: '--decode_from_fil'. Did you mean"),
        (["--eval_use_test_set"], "Expected files"),
        (["--checkpoint_path=nowhere"], "Expected a checkpoint in nowhere."),
        (["--t2t_usr_dir=nowhere"], "nowhere"),
        (["--compute_type=int8"], "Expected --compute_type with --engine=ctranslate2."),
        (["--engine=ctranslate2", "--t2t_exact"], "Expected what CTranslate2 can do. Received: --"),
        (["--engine=ctranslate2", "--engine_dir=nowhere"], "Expected a CTranslate2 model in nowh"),
    ],
)
def test_errors(run, capsys, flags, message):
    flags = [flag.replace("HERE", __file__) for flag in flags]
    assert message in error_of(capsys, f"--output_dir={run}", *flags)


def test_another_vocabulary_is_refused(run, tmp_path):
    config = dataclasses.replace(RunDirectory(run).config(), problem="text2text_tmpdir")
    vocabulary = tmp_path / "vocab.text2text_tmpdir.32768.subwords"
    vocabulary.write_text("a\nb\n")
    text_run = RunDirectory(tmp_path / "run")
    text_run.begin(config, ["t2t-trainer"], [vocabulary])
    vocabulary.write_text("b\na\n")
    with pytest.raises(UserError, match="vocabulary of the run .* differs is line 1: 'a' became"):
        decoder.load(text_run, config, str(tmp_path))


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    """The run of an untrained parser, with its vocabularies."""
    from t2t_repro import get_hparams, get_problem
    from t2t_repro.models.build import transformer_for
    from t2t_repro.training import checkpoints

    path, raw = tmp_path_factory.mktemp("parser"), tmp_path_factory.mktemp("raw")
    tree = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
    (raw / "wsjTrain.trees").write_text(f"{tree}\n" * 3)
    hparams, problem = get_hparams("transformer_parsing_small", OVERRIDES), get_problem(PARSING)
    problem.prepare_vocabulary(str(path), str(raw))
    config = RunConfig(
        hparams_set="transformer_parsing_small",
        hparams=hparams,
        problem=PARSING,
        data_dir=str(path),
        version="0",
    )
    directory = RunDirectory(path)
    directory.begin(config, ["t2t-trainer"], [])
    keras.utils.set_random_seed(1)
    model = transformer_for(problem, hparams, str(path))
    checkpoints.save(directory.checkpoints_dir, model, checkpoints.State(step=7))
    (path / "words").write_text("the dog barks .\n\nthe barks dog .\n")
    return path


PARSING = "parsing_wsj4k"


def test_a_parser_writes_trees(parser, tmp_path, capsys):
    arguments = [f"--output_dir={parser}", f"--decode_from_file={parser / 'words'}"]
    target = tmp_path / "trees"
    short = "--decode_hparams=beam_size=2,extra_length=9"
    decode(*arguments, f"--decode_to_file={target}", short)
    first, empty, second = target.read_text().splitlines()
    assert empty == ""
    assert trees.parse(first).words() == "the dog barks .".split()
    assert trees.parse(second).words() == "the barks dog .".split()
    counts = json.loads((tmp_path / "trees.repairs.json").read_text())
    assert counts["sentences"] == 2
    assert f"Repaired {counts['repaired']} of 2 trees (unclosed " in capsys.readouterr().err

    decode(*arguments, f"--decode_to_file={tmp_path / 'raw'}", f"{short},raw_output=True")
    lines = (tmp_path / "raw").read_text().splitlines()
    again = [trees.tree_from_words_and_tags("the dog barks .", lines[0])[0]]
    assert [str(tree) for tree in again] == [first]
    assert not (tmp_path / "raw.repairs.json").exists()

    settings = "--decode_hparams=beam_size=3,extra_length=99,well_formed=True"
    decode(*arguments, f"--decode_to_file={target}", settings)
    counts = json.loads((tmp_path / "trees.repairs.json").read_text())
    assert counts["repaired"] == 0
    tree = trees.parse(target.read_text().splitlines()[0])
    assert [leaf.label for leaf in tree.leaves()] != [] and len(tree.children) == 1


def test_a_parser_decodes_as_the_paper_unless_told_otherwise(parser, capsys):
    error = error_of(
        capsys, f"--output_dir={parser}", f"--score_file={parser / 'words'}", "--decode_to_file=x",
        "--decode_hparams=beam_size=4",
    )  # fmt: skip
    assert "reads the decode hparams batch_size" in error
    name = files.output_name(
        "words", "s", PARSING, DecodeHParams.parse("", get_problem(PARSING).decode_hparams)
    )
    assert name == f"words.transformer.s.{PARSING}.beam21.alpha0.3.decodes"


def test_what_has_no_effect_on_trees_or_text_is_refused(parser, run, source, capsys):
    for name in ("raw_output", "well_formed"):
        error = error_of(capsys, f"--output_dir={run}", f"--decode_hparams={name}=True")
        assert f"Decode hparam {name} has no effect on {PROBLEM}" in error
    error = error_of(capsys, f"--output_dir={parser}", f"--decode_reference={source}")
    assert "which writes trees. Leave it out, and score them: t2t-score-trees" in error
