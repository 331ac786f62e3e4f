"""A newcomer's mistakes: each program ends with exit code 2 and one line that names what is wrong.

A row says the program (a module of t2t_repro/bin), its flags, and the name that the line must hold.
Every row runs in an empty folder with the files that `folder` makes.
"""

import importlib
import sys

import pytest

from t2t_repro import registry
from t2t_repro.run_directory import RunConfig, RunDirectory

NEW = "--output_dir=new --data_dir=data"
TINY = f"{NEW} --hparams_set=transformer_tiny"
REVERSE = "--problem=algorithmic_reverse_nlplike32k"
PAIR = "--train_source=en --train_target=de --data_dir=data --problem=text2text_tmpdir"

ROWS = [
    # A misspelt flag.
    ("trainer", "--ouput_dir=run", "output_dir"),
    ("trainer", "--train_step=10", "train_steps"),
    ("datagen", "--data-dir=data", "data_dir"),
    ("decoder", "--decode_from_files=en", "decode_from_file"),
    ("avg_all", "--model_dirs=run", "model_dir"),
    ("bleu", "--translations=en --reference=de", "translation"),
    ("own_text", "--sources=en --target=de", "source"),
    ("server", "--modle=run", "model"),
    ("exporter", "--output-dirs=run", "output_dir"),
    ("evaluator", "--checkpoints=run", "checkpoint_path"),
    # A flag's value that cannot be, or none.
    ("trainer", f"{TINY} {REVERSE} --train_steps=many", "--train_steps"),
    ("trainer", f"{TINY} {REVERSE} --schedule=tarin", "--schedule"),
    ("trainer", "--problem", "--problem"),
    ("trainer", "run", "run"),
    ("server", "--model=run --port=http", "--port"),
    # A misspelt hparam, value of one, set, problem or model.
    ("trainer", f"{TINY} {REVERSE} --hparams=batchsize=64", "batch_size"),
    ("trainer", f"{TINY} {REVERSE} --hparams=batch_size=big", "batch_size"),
    ("trainer", f"{TINY} {REVERSE} --hparams=norm_type=leyer", "norm_type"),
    ("trainer", f"{TINY} {REVERSE} --hparams=hidden_size=10,num_heads=3", "num_heads"),
    ("trainer", f"{NEW} --hparams_set=transformer_bse {REVERSE}", "transformer_base"),
    ("trainer", "--problem=text2text_tmpdir", "--hparams_set"),
    ("trainer", "--hparams_set=transformer_tiny", "--problem"),
    ("trainer", f"{TINY} --problem=translate_ende_wmt32", "translate_ende_wmt32k"),
    ("trainer", f"{TINY} {REVERSE} --model=transfomer", "transformer"),
    ("datagen", "--problem=translate_ende_wmt --data_dir=data", "translate_ende_wmt32k"),
    ("decoder", "--output_dir=run --decode_from_file=en", "checkpoint in run"),
    # A missing file, or data that are not there.
    ("trainer", f"{TINY} {REVERSE} --data_dir=nowhere", "nowhere"),
    ("trainer", f"{TINY} {REVERSE} --t2t_usr_dir=nowhere", "nowhere"),
    ("datagen", PAIR.replace("=de", "=nowhere"), "nowhere"),
    ("datagen", f"{PAIR} --vocab=nowhere", "nowhere"),
    ("datagen", f"{PAIR} --vocab=en --vocab_size=900", "--vocab"),
    ("bleu", "--translation=nowhere --reference=de", "nowhere"),
    ("bleu", "--translation=en", "--reference"),
    ("own_text", "--source=nowhere --target=de --output_dir=new", "nowhere"),
    ("own_text", "--source=en --output_dir=new", "target"),
    # Files that do not belong together, and text that is not UTF-8.
    ("bleu", "--translation=en --reference=short", "short"),
    ("datagen", PAIR.replace("=de", "=short"), "short"),
    ("own_text", "--source=en --target=short --output_dir=new", "short"),
    ("bleu", "--translation=latin1 --reference=de", "latin1"),
    ("own_text", "--source=latin1 --target=de --output_dir=new", "latin1"),
    # A directory that is no run, or no model.
    ("decoder", "--output_dir=nowhere --decode_from_file=en", "nowhere"),
    ("decoder", "--output_dir=other --decode_from_file=en", "other"),
    ("evaluator", "--output_dir=other", "other"),
    ("avg_all", "--model_dir=other --output_dir=averaged", "other"),
    ("exporter", "--output_dir=nowhere", "nowhere"),
    ("server", "--model=other", "other"),
    ("show", "--output_dir=nowhere", "nowhere"),
    ("translate_all", "--model_dir=nowhere --source=en --translations_dir=out", "nowhere"),
    ("visualize", "--output_dir=nowhere --source=A", "nowhere"),
    ("checkpoint", "import --checkpoint=nowhere --output_dir=new", "nowhere"),
    ("checkpoint", "export --output_dir=other --t2t_dir=new", "other"),
    ("checkpoint", "exprot --output_dir=run --t2t_dir=new", "export"),
    ("distill", "--teacher=nowhere --output_dir=new", "nowhere"),
    ("compare", f"{TINY} --problem=nowhere", "nowhere"),
    ("trainer", f"{TINY} {REVERSE} --warm_start_from=nowhere", "nowhere"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two texts that belong together, one that is shorter, one that is not UTF-8, and two folders:
    a run that was begun, and one of something else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en").write_text("A dog runs.\nA cat sleeps.\nTwo men talk.\n")
    (tmp_path / "de").write_text("Ein Hund läuft.\nEine Katze schläft.\nZwei Männer reden.\n")
    (tmp_path / "short").write_text("Ein Hund läuft.\nEine Katze schläft.\n")
    (tmp_path / "latin1").write_bytes("Ein Hund läuft.\n".encode("latin-1") * 3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("something else\n")
    hparams = registry.get_hparams("transformer_tiny")
    config = RunConfig(
        hparams_set="transformer_tiny",
        hparams=hparams,
        problem="algorithmic_reverse_nlplike32k",
        data_dir="data",
        version="0",
    )
    RunDirectory(tmp_path / "run").begin(config, ["t2t-trainer"], [])
    return tmp_path


@pytest.mark.parametrize("program, argv, name", ROWS)
def test_a_mistake_is_one_line_that_names_it(program, argv, name, folder, monkeypatch, capfd):
    module = importlib.import_module(f"t2t_repro.bin.{program}")
    monkeypatch.setattr(sys, "argv", [program, *argv.split()])
    with pytest.raises(SystemExit) as stop:
        module.console()
    error = capfd.readouterr().err
    assert stop.value.code == 2
    assert name in error and error.count("\n") == 1 and "error: " in error


def test_there_are_no_more_than_150_rows():
    assert len(ROWS) == len(set(ROWS)) <= 150
