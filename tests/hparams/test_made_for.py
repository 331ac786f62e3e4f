"""The problem that each set was made for."""

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError

ALL = {name: registry.problem_of_hparams(name) for name in registry.list_hparams()}
OF_NONE = {  # for tests, for language models and summaries, for data that nobody has, or for any
    *("lstm_seq2seq", "lstm_attention", "lstm_bahdanau_attention", "lstm_luong_attention"),
    *("lstm_bahdanau_attention_multi", "lstm_luong_attention_multi", "bytenet_base"),
    *(f"transformer_{name}" for name in ("test", "tiny", "small", "timeseries", "parsing_ice")),
    *(f"transformer_{name}_tpu" for name in ("tiny", "small", "timeseries", "clean_big")),
    *("transformer_clean", "transformer_clean_big", "transformer_relative_tiny"),
    *("transformer_lm_tpu_0", "transformer_lm_tpu_1", "transformer_wikitext103_l4k_v0"),
    *("transformer_tall", "transformer_tall_big"),
    *("transformer_tall_train_uniencdec", "transformer_tall_finetune_uniencdec"),
}


def test_every_other_set_was_made_for_a_problem():
    assert {name for name, problem in ALL.items() if not problem} == OF_NONE
    assert set(filter(None, ALL.values())) <= set(registry.list_problems())
    with pytest.raises(UserError, match="transformer_big"):
        registry.problem_of_hparams("transformer_bigg")


@pytest.mark.parametrize("name", [name for name, problem in ALL.items() if "parsing" in problem])
def test_sets_that_share_embeddings_have_problems_of_one_vocabulary(name):
    hparams, problem = registry.get_hparams(name), registry.get_problem(ALL[name])
    whole_tags = hasattr(problem, "tags_filename")
    assert whole_tags == (not hparams.shared_embedding_and_softmax_weights)


def test_a_set_of_the_users_says_it_too():
    @registry.register_hparams(name="made_for_it", problem="wsj_parsing")
    def made():
        return registry.get_hparams("transformer_tiny")

    assert registry.problem_of_hparams("made_for_it") == "wsj_parsing"
    assert made() == registry.get_hparams("made_for_it")
