import pytest

from t2t_repro.decoding.settings import DecodeHParams, Sampling
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem


def test_defaults_are_those_of_tensor2tensor():
    settings = DecodeHParams()
    assert (settings.beam_size, settings.alpha, settings.extra_length) == (4, 0.6, 100)
    assert settings.top_beams == 1


def test_parse():
    settings = DecodeHParams.parse("beam_size=3, alpha=1,return_beams=True,write_beam_scores=1")
    assert settings == DecodeHParams(
        beam_size=3, alpha=1.0, return_beams=True, write_beam_scores=True
    )
    assert settings.top_beams == 3
    assert DecodeHParams.parse("") == DecodeHParams()
    assert DecodeHParams.parse("shards=1,log_results=True") == DecodeHParams()


def test_what_was_chosen_goes_before_the_problems_own_and_the_users_before_both():
    class Own(Problem):
        decode_hparams = "beam_size=8,extra_length=50"

    settings = DecodeHParams.of(Own(), "alpha=0.7", "beam_size=1,alpha=0.6")
    assert settings == DecodeHParams(beam_size=1, alpha=0.7, extra_length=50)


def test_sampling():
    assert DecodeHParams().sampling is None
    settings = "sampling_method=random,beam_size=1,sampling_temp=0.5,sampling_keep_top_k=9"
    assert DecodeHParams.parse(settings).sampling == Sampling(0.5, 9, 1.0)


def test_shards():
    assert DecodeHParams().shard_suffix == ""
    assert DecodeHParams.parse("shards=20,shard_id=12").shard_suffix == "012"


def test_every_name_of_tensor2tensors_is_known():
    """Each is ours, or refused with a reason: none is an unknown name."""
    names = (
        "save_images log_results extra_length min_length_ratio batch_size beam_size alpha "
        "eos_penalty block_size guess_and_check_top_k guess_and_check_epsilon insertion_parallel "
        "return_beams write_beam_scores max_input_size identity_output num_samples delimiter "
        "decode_to_file decode_reference decode_in_memory decode_timeout_mins summaries_log_dir "
        "shards shard_id shards_start_offset shard_google_format num_decodes force_decode_length "
        "display_decoded_images multiproblem_task_id skip_eos_postprocess border_percent "
        "export_extra_infer_outputs frames_per_second max_display_outputs max_display_decodes "
        "vgg_ckpt_path mlperf_decode_step mlperf_threshold mlperf_success"
    )
    for name in names.split():
        with pytest.raises(UserError, match=name):
            DecodeHParams.parse(f"{name}=-7")


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
