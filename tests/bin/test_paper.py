"""t2t-paper: the tables as files, and the rows as commands."""

import json
import shlex

import pytest
from absl import flags

from t2t_repro import cli
from t2t_repro.bin import paper, trainer
from tests import untrained
from tests.paper.test_paper_runs import BLEU

F1 = {"all": {"f1": 88.76, "precision": 89.1, "recall": 88.4, "valid_sentences": 237}}


def run(*argv):
    cli.run(
        "t2t-paper",
        paper.__doc__,
        paper.define_flags,
        paper.main,
        list(argv),
        positional="action",
    )


def commands(capsys, *argv):
    run("reproduce", *argv, "--plan")
    return capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_tables(folder, capsys):
    run("tables")
    out = capsys.readouterr().out
    for text in ("ByteNet", "c_dmodel1024", "Luong et al. (2015)", "65.13"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 100
    values = json.loads((folder / "paper" / "paper.json").read_text())
    assert list(values) == ["2", "2-cost", "2-others", "3", "3-parameters", "4"]
    base, big = values["2-cost"]["rows"]
    assert base["FLOP by time"] == pytest.approx(3.2832e18)
    assert big["FLOP by time"] == pytest.approx(2.29824e19)
    markdown = (folder / "paper" / "paper.md").read_text()
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3e19 | 2.3e19 | 27.7 |" in markdown


def test_runs_stand_beside_the_papers(folder, capsys):
    for name, problem in (("a", "translate_ende_wmt32k"), ("b", "parsing_wsj16k")):
        untrained.begun(folder / name, "transformer_base_v1", problem)
    (folder / "a" / "bleu.json").write_text(json.dumps(BLEU))
    (folder / "b" / "f1.json").write_text(json.dumps(F1))
    (folder / "b" / "bleu-dev.json").write_text('{"sacrebleu": {"score": 3.25}}')
    run("tables", "--runs=a,b", "--output_dir=here")
    out = capsys.readouterr().out
    assert "26.61" in out and "27.11" in out and "tok:13a" in out and "88.76" in out
    values = json.loads((folder / "here" / "paper.json").read_text())
    (bleu,), (dev,), (f1,) = (values[f"{table}-runs"]["rows"] for table in (2, 3, 4))
    assert (dev["run"], dev["BLEU"]) == ("b", 3.25)
    assert (bleu["run"], bleu["sacreBLEU"]) == ("a", 26.61)
    assert (f1["run"], f1["F1"], f1["sentences"]) == ("b", 88.76, 237)


def test_one_command_for_each_row_of_table_2(capsys):
    lines = commands(capsys, "--rows=ende_base,enfr_big", "--worker_gpu=8", "--data_dir=d")
    assert lines == [
        f"t2t-trainer --problem={problem} --hparams_set={hparams_set} --data_dir=d "
        f"--output_dir=paper_runs/{row} --local_eval_frequency={every} "
        f"--keep_checkpoint_max={keep} --random_seed=0 --generate_data "
        "--tmp_dir=/tmp/t2t_datagen --worker_gpu=8"
        for row, problem, hparams_set, every, keep in (
            ("ende_base", "translate_ende_wmt14", "paper_table3_base", 1389, 5),
            ("enfr_big", "translate_enfr_wmt14", "paper_table2_big_enfr", 595, 20),
        )
    ]


def test_table_3_made_smaller(capsys):
    lines = commands(capsys, "--table=3", "--yes", "--save_checkpoints_secs=600")
    assert len(lines) == 60 and "--hparams_set=paper_table3_base " in lines[0]
    for number, line in enumerate(lines):
        args = flags.FlagValues()
        trainer.define_flags(args)
        args(shlex.split(line))
        assert args.yes and args.save_checkpoints_secs == 600
        assert "effective_batch_size=2048" in args.hparams
        seed = number // 20  # all rows with one, then with the next
        assert args.random_seed == seed and args.output_dir.endswith(f"-{seed}")
    argv = ["--table=3", "--seeds=1"]
    (line,) = commands(capsys, *argv, "--rows=a_h32", "--scale=4", "--train_steps=70")
    assert "hidden_size=128,filter_size=512,train_steps=70,learning_rate_warmup_steps=35," in line
    (line,) = commands(capsys, *argv, "--rows=big", "--warmup_steps=70", "--train_steps=210")
    assert "train_steps=630,learning_rate_warmup_steps=70," in line


@pytest.mark.parametrize(
    "argv, named",
    [
        ([], "reproduce"),
        (["tables", "--tables=5"], "'5'"),
        (["tables", "--runs=nowhere"], "nowhere"),
        (["reproduce"], "--rows"),
        (["reproduce", "--rows=ende_bas"], "'ende_bas'"),
        (["reproduce", "--table=3", "--rows=a_h3"], "'a_h3'"),
        (["reproduce", "--rows=ende_big", "--hparams=batch_siz=9", "--plan"], "'batch_size'"),
        (["reproduce", "--table=3", "--problem=foo", "--plan"], "'foo'"),
        (
            ["reproduce", "--table=3", "--problem=algorithmic_identity_decimal40", "--plan"],
            "algorithmic_identity_decimal40",
        ),
        (["reproduce", "--table=3", "--plan", "--hparams=num_heads=2,batch_size=9"], "num_heads"),
        (["reproduce", "--table=3", "--plan", "--hparams=num_encoder_layers=1"], "num_encoder"),
    ],
)
def test_what_is_refused(folder, capsys, argv, named):
    with pytest.raises(SystemExit) as leaving:
        run(*argv)
    assert leaving.value.code == 2 and named in capsys.readouterr().err
    assert not list(folder.iterdir())
