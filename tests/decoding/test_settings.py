import pytest

from t2t_repro.decoding.settings import DecodeHParams, Sampling
from t2t_repro.errors import UserError


def test_parse():
    settings = DecodeHParams.parse("beam_size=3, alpha=1,return_beams=True,write_beam_scores=1")
    assert settings == DecodeHParams(
        beam_size=3, alpha=1.0, return_beams=True, write_beam_scores=True
    )
    assert settings.top_beams == 3
    defaults = DecodeHParams.parse("shards=1,log_results=True")
    assert defaults == DecodeHParams() and defaults.sampling is None
    assert (defaults.beam_size, defaults.alpha, defaults.extra_length) == (4, 0.6, 100)
    assert (defaults.top_beams, defaults.shard_suffix) == (1, "")
    drawn = DecodeHParams.parse(
        "sampling_method=random,beam_size=1,sampling_temp=0.5,sampling_keep_top_k=9,"
        "shards=20,shard_id=12"
    )
    assert (drawn.sampling, drawn.shard_suffix) == (Sampling(0.5, 9, 1.0), "012")


def test_later_defaults_go_before_earlier_ones_and_the_users_before_all():
    settings = DecodeHParams.parse(
        "alpha=0.7", "beam_size=8,extra_length=50", "beam_size=1,alpha=0.6"
    )
    assert settings == DecodeHParams(beam_size=1, alpha=0.7, extra_length=50)
    assert DecodeHParams.parse(None) == DecodeHParams()


@pytest.mark.parametrize(
    "text",
    [
        *("beam_sise=3", "beam_size=x", "return_beams=yes", "beam_size=0", "alpha=nan"),
        *("max_input_size=1", "shard_id=1", "shards_start_offset=3", "min_length_ratio=-1"),
        *("sampling_method=random_per_example", "sampling_method=random", "eos_penalty=0.5"),
        *("sampling_temp=0", "sampling_keep_top_k=0", "sampling_keep_top_p=2"),
    ],
)
def test_errors(text):
    with pytest.raises(UserError, match=text.partition("=")[0][:6]):
        DecodeHParams.parse(text)
