"""What is proposed keeps the user's own flags, however they were written."""

import shlex
import types

import pytest

from t2t_repro.training import alternatives


@pytest.mark.parametrize(
    "flags",
    [
        "--hparams=hidden_size=64 --output_dir=r --yes --keep_checkpoint_max=20",
        "--hparams hidden_size=64 --output_dir r --yes --keep_checkpoint_max 20",
        "-hparams=hidden_size=64 -output_dir r -yes -keep_checkpoint_max=20",
    ],
)
def test_a_flag_more_takes_the_place_of_its_own(flags):
    request = types.SimpleNamespace(command=["t2t-trainer", *shlex.split(flags)])
    changed = alternatives._with_hparam(request, "batch_size=512")
    assert alternatives._again(request, changed) == (
        "t2t-trainer --output_dir=r --yes --keep_checkpoint_max=20 "
        "--hparams=hidden_size=64,batch_size=512"
    )
    assert alternatives._again(request, "--keep_checkpoint_max=1") == (
        "t2t-trainer --hparams=hidden_size=64 --output_dir=r --yes --keep_checkpoint_max=1"
    )
