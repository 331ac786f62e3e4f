"""t2t-reproduce's flags: which commands they are, and what is refused."""

import shlex

import pytest
from absl import flags

from t2t_repro import cli
from t2t_repro.bin import reproduce, trainer


def run(*argv):
    cli.run("t2t-reproduce", reproduce.__doc__, reproduce.define_flags, reproduce.main, list(argv))


def commands(capsys, *argv):
    run(*argv, "--plan")
    return capsys.readouterr().out.splitlines()


def test_one_command_for_each_row_of_table_2(capsys):
    lines = commands(capsys, "--rows=ende_base,enfr_big", "--worker_gpu=8", "--data_dir=d")
    assert lines == [
        "t2t-trainer --problem=translate_ende_wmt14 --hparams_set=paper_table3_base "
        "--generate_data --tmp_dir=/tmp/t2t_datagen --data_dir=d --output_dir=paper_runs/ende_base "
        "--local_eval_frequency=1389 --keep_checkpoint_max=5 --random_seed=0 --worker_gpu=8",
        "t2t-trainer --problem=translate_enfr_wmt14 --hparams_set=paper_table2_big_enfr "
        "--generate_data --tmp_dir=/tmp/t2t_datagen --data_dir=d --output_dir=paper_runs/enfr_big "
        "--local_eval_frequency=595 --keep_checkpoint_max=20 --random_seed=0 --worker_gpu=8",
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
    "argv, message",
    [
        ([], "Expected --rows of table 2: ende_base, ende_big,"),
        (["--rows=ende_bas"], "Unknown row of table 2. Received: 'ende_bas'. Did you mean"),
        (["--table=3", "--rows=a_h3"], "Unknown row of table 3. Received: 'a_h3'."),
        (["--table=4", "--rows=a"], "Expected --table=2 or 3. Received: 4."),
        (["--table=3", "--scale=3"], "Expected --scale of 1, 2, 4, 8 or 16. Received: 3."),
        (["--rows=ende_big", "--seeds=2"], "--seeds has no effect on table 2. Leave it out."),
        (["--table=3", "--batch=99999999", "--plan"], "Expected effective_batch_size <= 10000000."),
        (["--rows=ende_big", "--hparams=batch_siz=9", "--plan"], "Did you mean 'batch_size'"),
        (["--table=3", "--problem=foo", "--plan"], "Unknown problem. Received: 'foo'."),
        (
            ["--table=3", "--problem=algorithmic_identity_decimal40", "--plan"],
            "Received: algorithmic_identity_decimal40",
        ),
        (
            ["--table=3", "--plan", "--hparams=num_heads=2,batch_size=512,label_smoothing=0.0"],
            "num_heads and label_smoothing, in which rows differ. Leave them out",
        ),
        (
            ["--table=3", "--plan", "--hparams=num_encoder_layers=1"],
            "Received: num_encoder_layers",
        ),
        (["--rows=ende_big", "--batch=7"], "--batch has no effect on table 2."),
    ],
)
def test_what_is_refused(capsys, argv, message):
    with pytest.raises(SystemExit) as stopped:
        run(*argv)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
