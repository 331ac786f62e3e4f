"""Sets whose data nobody can download: what is asked for before a step is tried."""

import pytest
from absl import flags

from t2t_repro import cli, registry
from t2t_repro.bin import trainer
from t2t_repro.bin.data_flags import job_of
from t2t_repro.errors import UserError
from tests.machines import EIGHT


def run(*argv):
    cli.run("t2t-trainer", trainer.__doc__, trainer.define_flags, trainer.main, list(argv))


def test_own_text_that_is_not_there(on, refused, tmp_path):
    line = "--hparams_set=transformer_own_text_small"
    begun = on(EIGHT)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "inputs.eval.txt.gz").touch()
    said = refused(trainer, line, "--tmp_dir=raw")
    lacks = "raw lacks inputs.train.txt, targets.train.txt, targets.eval.txt"
    assert lacks in said.out and lacks in said.err
    assert "--train_source=FILE --train_target=FILE2" in said.err
    run(line, "--tmp_dir=raw", "--plan")
    assert not begun and sorted(path.name for path in tmp_path.iterdir()) == ["raw"]
    run(line, "--tmp_dir=raw", "--yes")
    assert len(begun) == 2


@pytest.mark.parametrize("plan", [[], ["--plan"]])
@pytest.mark.parametrize(
    "given, message",
    [
        (
            [
                *("--hparams_set=transformer_own_text_small", "--tmp_dir=."),
                *("--train_source=no.en", "--train_target=no.de"),
            ],
            "no.en",
        ),
        (
            ["--hparams_set=paper_parsing_wsj", "--treebank_dir=nowhere"],
            "nowhere",
        ),
        (
            ["--hparams_set=paper_parsing_wsj", "--treebank_dir=."],
            "Expected files wsj_0200.mrg and so on, of a Penn Treebank, below .. Received: none",
        ),
    ],
)
def test_what_flags_name_must_be_there(on, refused, tmp_path, given, message, plan):
    begun = on(EIGHT)
    said = refused(trainer, *given, *plan)
    assert message in said.err and not said.out and not begun
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_made_need_no_raw_ones(tmp_path):
    given = flags.FlagValues()
    trainer.define_flags(given)
    given(["t2t-trainer", "--treebank_dir=gone"])
    values = {"generate_data": True, "data_dir": str(tmp_path), "tmp_dir": "none"}
    problem = registry.get_problem("parsing_wsj16k")
    with pytest.raises(UserError):
        job_of(given, values, problem)
    for entry in problem.dataset_splits:
        for shard in range(entry["shards"]):
            name = f"{problem.name}-{entry['split']}-{shard:05d}-of-{entry['shards']:05d}"
            (tmp_path / name).touch()
    assert job_of(given, values, problem).options == {"treebank_dir": "gone"}


def test_a_parser_without_a_treebank(on, refused, tmp_path):
    begun = on(EIGHT)
    error = refused(trainer, "--hparams_set=paper_parsing_wsj", "--tmp_dir=none").err
    assert "lacks wsjTrain.trees, wsjEval.trees, wsjTest.trees, which cannot be" in error
    assert "--treebank_dir=FOLDER" in error
    assert not begun
    for section in range(2, 24):
        (tmp_path / f"wsj_{section:02d}00.mrg").touch()
    run("--hparams_set=paper_parsing_wsj", "--tmp_dir=none", "--treebank_dir=.")
    job, (request, _, plan) = begun
    assert plan.vocabulary == (2**14, 128) and job.options == {"treebank_dir": "."}
