"""What the programs refuse beyond a newcomer's mistakes (tests/test_refusals.py), and why:

the result would be silently another than what was asked for, or a file be lost.
"""

import importlib
import sys

import pytest

PROBLEM = "algorithmic_identity_decimal40"
PACKED = "--problem=text2text_tmpdir_packed --hparams_set=lstm_attention --output_dir=new "
PACKED += "--data_dir={letters}/../data"
RUN = "--output_dir={numbers}"
TRAINER = f"--problem={PROBLEM} --hparams_set=transformer_test --output_dir=new --data_dir={{data}}"
TEXT = "--data_dir=new --problem="
ALL = "--model_dir={numbers} --translations_dir=new"
COMPARE = "--hparams_set=transformer_test --data_dir=new --output_dir=new"
# Programs, flags, and the names that the line must hold.
ROWS = [
    ("trainer", f"{TRAINER} --worker_gpu=7000", "--worker_gpu"),
    ("trainer", f"{TRAINER} --keep_best=1 --best_metric=acuracy", "'accuracy'"),
    ("trainer", f"{TRAINER} --eval_bleu_sentences=7", "--eval_bleu_sentences"),
    ("trainer", f"{TRAINER} --finish", "--finish"),
    ("trainer", f"{TRAINER} --hparams=freeze=head", "freeze"),
    ("trainer", PACKED, "text2text_tmpdir_packed"),
    (
        "trainer",
        f"{TRAINER} --eval_early_stopping_steps=2 --eval_early_stopping_metric=bleu",
        "--eval_early_stopping_metric",
    ),
    ("decoder", f"{RUN} --worker_id=1", "shard_id"),
    ("decoder", f"{RUN} --decode_shards=2 --decode_from_file=a", "a000"),
    ("decoder", f"{RUN} --ensemble={{letters}}", "letters"),
    ("decoder", f"{RUN} --engine=ctranslate2 --t2t_exact", "--t2t_exact"),
    ("evaluator", f"{RUN} --problem=x", f"--problem={PROBLEM}"),
    ("evaluator", f"{RUN} --hparams_set=x", "--hparams_set=transformer_test"),
    ("evaluator", f"{RUN} --hparams=hidden_size=4", "hidden_size=4"),
    ("evaluator", f"{RUN} --eval_use_test_set", "'test'"),
    ("evaluator", f"{RUN} --data_dir=nowhere", "t2t-datagen"),
    ("exporter", RUN, "SymbolEncoder"),
    ("exporter", "--output_dir={letters} --decode_hparams=return_beams=True", "return_beams"),
    ("exporter", "--output_dir={letters} --export_dir=folder", "folder"),
    ("exporter", "--output_dir={letters} --quantize=int8", "float16"),
    ("translate_all", f"{ALL} --source=in --problem=algorithmic_sort_problem", PROBLEM),
    ("translate_all", f"{ALL} --source=empty", "empty"),
    ("translate_all", f"{ALL} --source=in --reference=short", "short"),
    ("datagen", f"{TEXT}text2text_tmpdir --vocab_size=50 --t2t_exact", "--t2t_exact"),
    ("datagen", f"{TEXT}{PROBLEM} --vocab_size=50", PROBLEM),
    ("bleu", "--translation=in --translations_dir=b --reference=in", "--translations_dir"),
    (
        "compare",
        f"{COMPARE} --problem=translate_ende_wmt32k_packed",
        "translate_ende_wmt32k_packed",
    ),
    ("paper", "reproduce", "--rows"),
    ("paper", "reproduce --rows=ende_bas", "'ende_bas'"),
    ("paper", "reproduce --table=3 --hparams=batch_siz=9", "'batch_size'"),
]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("program, argv, name", ROWS)
def test_it_is_one_line_and_nothing_is_written(
    program, argv, name, numbers, letters, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("3 4 5\n7\n")
    (tmp_path / "short").write_text("3\n")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes").touch()
    places = [tmp_path, numbers.path, letters.path]
    before = [files(place) for place in places]
    names = {"numbers": numbers.path, "letters": letters.path}
    flags = argv.format(**names, data=numbers.path.parent / "data").split()
    monkeypatch.setattr(sys, "argv", [program, *flags])
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(f"t2t_repro.bin.{program}").console()
    error = capfd.readouterr().err
    assert stop.value.code == 2 and name in error and error.count("error: ") == 1
    assert [files(place) for place in places] == before
