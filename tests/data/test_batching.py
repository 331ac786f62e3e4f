import json
from pathlib import Path

import pytest

from t2t_repro.config import HParams
from t2t_repro.data.batching import batching_scheme, hparams_to_batching_scheme
from t2t_repro.errors import UserError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/text/batching.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(list(case["args"].values())))
def test_scheme_equals_t2t(case):
    assert batching_scheme(**case["args"], drop_long_sequences=True) == case["result"]


def test_there_are_ten_cases():
    assert len(GOLDEN) == 10


def test_multipliers_and_limit():
    plain = batching_scheme(512, 64, 8, 1.5)
    assert plain["max_length"] == 10**9
    longer = batching_scheme(512, 64, 8, 1.5, drop_long_sequences=True, length_multiplier=2)
    assert longer["boundaries"] == [2 * boundary for boundary in plain["boundaries"]]
    assert longer["max_length"] == 128


def test_hparams_are_read():
    hparams = HParams(batch_size=512, max_length=64, min_length=3, min_length_bucket=5)
    expected = batching_scheme(512, 64, 5, 1.1, shard_multiplier=2, min_length=3)
    assert hparams_to_batching_scheme(hparams, shard_multiplier=2) == expected


def test_fixed_batch_size_counts_sentences():
    hparams = HParams(batch_size=48, max_length=64, use_fixed_batch_size=True)
    scheme = hparams_to_batching_scheme(hparams, shard_multiplier=2)
    assert (scheme["boundaries"], scheme["batch_sizes"]) == ([], [96])


def test_impossible_lengths_are_refused():
    with pytest.raises(UserError, match="min_length"):
        batching_scheme(4096, 8, 8, 1.1, min_length=9)
    with pytest.raises(UserError, match="length_bucket_step"):
        batching_scheme(4096, 8, 8, 1.0)
