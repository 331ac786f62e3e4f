"""t2t-compare: its flags."""

import pytest

from t2t_repro import cli
from t2t_repro.bin import compare
from t2t_repro.study import compared
from t2t_repro.study.study import Study
from tests.study.studies import PROBLEM


@pytest.fixture
def flags(tmp_path):
    return [
        *(f"--problem={PROBLEM}", "--hparams_set=transformer_test", f"--data_dir={tmp_path}"),
        *(f"--output_dir={tmp_path / 'comparison'}", "--depths=1", "--warmup=0"),
        *("--seeds=2", "--train_steps=4"),
    ]


def study_of(argv) -> Study:
    args = cli.flag_values((cli.RunFlags, cli.TaskFlags, compare.CompareFlags))
    args(["t2t-compare", *argv])
    return compare.study_of(args)


def test_what_is_not_given_is_the_sets_own(flags):
    given = [flag for flag in flags if not flag.startswith(("--depths", "--warmup", "--seeds"))]
    study = study_of(given)
    assert (study.depths, study.warmups, study.seeds, study.bleu_sentences) == (
        [None],
        [None],
        3,
        0,
    )
    assert study.names == list(compared.SEQUENCES)
    other = {
        "--problem": "translate_ende_multi30k",
        "--hparams_set": "transformer_own_text_student",
    }
    given = [flag for flag in given if flag.partition("=")[0] not in other]
    study = study_of([*given, *(f"{name}={value}" for name, value in other.items())])
    assert study.bleu_sentences == 200
    (post, _) = study.variants
    assert post.hparams.encoder_layers != post.hparams.decoder_layers == 1


def test_sets_are_compared_as_they_are(flags):
    sets = "--hparams_sets=transformer_base_v1,transformer_base_v2"
    given = [flag for flag in flags if flag.startswith(("--problem", "--data", "--output"))]
    study = study_of([*given, sets, "--t2t_usr_dir=/mine"])
    assert study.names == ["transformer_base_v1", "transformer_base_v2"]
    assert study.settings == [(None, None)]
    # Batches of sets are of other sentences.
    assert study.flags == ("--eval_steps=0", "--t2t_usr_dir=/mine", "--yes")
