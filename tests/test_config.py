"""HParams: checks, overrides, and names that nothing reads."""

import dataclasses

import numpy as np
import pytest

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.fields import parse_overrides

BASE = HParams()


def test_override_reads_each_type():
    hp = BASE.override(
        "hidden_size=24,num_heads=3,attention_dropout=0.1,attention_dropout_broadcast_dims=0,1,"
        "shared_embedding=true,learning_rate_minimum=1e-5,pos=None,train_steps=1e5,norm_type=layer"
    )
    assert (hp.hidden_size, hp.num_heads, hp.attention_dropout) == (24, 3, 0.1)
    assert hp.attention_dropout_broadcast_dims == "0,1"
    assert hp.shared_embedding is True and hp.pos is None
    assert hp.learning_rate_minimum == 1e-5 and hp.train_steps == 100000
    assert BASE.hidden_size == 64
    assert BASE.override("") == BASE
    values = BASE.override({"pos": None, "train_steps": np.int64(7)}, num_heads=4)
    assert values == BASE.override("pos=None,train_steps=7,num_heads=4")
    mine = dataclasses.replace(BASE, model="mine")  # of which nothing is known
    assert mine.override("filter_size=3,dropout=0.5,num_heads=7").filter_size == 3


@pytest.mark.parametrize(
    "text, name",
    [
        *(("hiden_size=3", "hidden_size"), ("num_heads=x", "num_heads"), ("num_heads=7", "num")),
        *(("learning_rate=nan", "learning_rate"), ("norm_type=lr", "norm_type")),
        *(("d_model=8", "hidden_size"), ("dropout=0.1", "layer_prepostprocess_dropout")),
        *(("dropout=0.1", "lstm_seq2seq"), ("model=byte_net,filter_size=3", "filter_size")),
        ("freeze=encoder,decoder,embeddings", "freeze"),
        ("norm_type=group,layer_preprocess_sequence=n", "norm_type"),
        ("layer_preprocess_sequence=an", "layer_preprocess_sequence"),
        ("attention_value_channels=9", "attention_value_channels"),
        ("self_attention_type=dot_product_relative", "max_relative_position"),
        ("attention_score=cosine", "attention_score"),
        (
            "self_attention_type=dot_product_relative,max_relative_position=4,"
            "attention_score=additive",
            "attention_score",
        ),
        ("attention_chunk_size=8,attention_dropout=0.1", "attention_dropout"),
        (
            "self_attention_type=dot_product_relative,max_relative_position=4,"
            "attention_chunk_size=3",
            "attention_chunk_size",
        ),
        ("attention_block_length=8", "self_attention_type"),
        ("optimizer=multistep_adam", "optimizer_multistep_accumulate_steps"),
        ("optimizer_multistep_accumulate_steps=4", "optimizer=adam"),
        *(("norm_epsilon=0.0", "norm_epsilon"), ("attention_dropout=1.0", "attention_dropout")),
    ],
)
def test_what_is_refused(text, name):
    with pytest.raises(UserError, match=name):
        BASE.override(text)


def test_tensor2tensors_default_of_what_we_lack_may_be_said_and_nothing_else():
    for given in ("moe_num_experts=16", "moe_hidden_sizes=2048", "target_modality=default"):
        assert BASE.override(f"num_heads=4,{given}") == dataclasses.replace(BASE, num_heads=4)
    for given in ("moe_num_experts=8", "symbol_modality_skip_top=True", "z_size=4"):
        with pytest.raises(UserError, match=given.partition("=")[0]):
            BASE.override(given)


RELATIVE = "self_attention_type=dot_product_relative,max_relative_position=4"


@pytest.mark.parametrize(
    "given, reason",
    [
        ("learning_rate_constant=2.0", "learning_rate"),
        ("learning_rate_schedule=constant,learning_rate=2.0", "learning_rate_constant"),
        (
            "learning_rate_schedule=constant,learning_rate_decay_scheme=noam",
            "learning_rate_schedule",
        ),
        ("learning_rate_decay_steps=7", "learning_rate_schedule"),
        ("learning_rate_cosine_cycle_steps=7", "learning_rate_decay_scheme"),
        ("optimizer=adafactor,optimizer_adam_beta1=0.5", "adafactor"),
        ("optimizer_adafactor_beta1=0.5", "adam"),
        ("max_relative_position=20", "dot_product_relative"),
        (f"{RELATIVE},heads_share_relative_embedding=True", "dot_product_relative_v2"),
        (f"{RELATIVE},add_relative_to_values=True", "dot_product_relative_v2"),
        ("learning_rate_schedule=constant,learning_rate_warmup_steps=7", "constant"),
        (
            "shared_embedding_and_softmax_weights=True,shared_embedding=True",
            "shared_embedding_and_softmax_weights",
        ),
        ("num_encoder_layers=3,num_decoder_layers=2,num_hidden_layers=5", "num_encoder_layers"),
        ("use_fixed_batch_size=True,min_length_bucket=9", "use_fixed_batch_size"),
    ],
)
def test_an_override_that_nothing_reads_is_refused(given, reason):
    dead = given.rpartition(",")[2].partition("=")[0]
    with pytest.raises(UserError, match=f"{dead} .*{reason}"):
        BASE.override(given)


def test_json_and_types():
    hp = dataclasses.replace(BASE, pos=None, num_heads=4, learning_rate_minimum=0.25)
    assert HParams.from_json(hp.to_json()) == hp
    for text, name in (('{"nonsense": 1}', "nonsense"), ('{"dropout": -1.0}', "hparams.json")):
        with pytest.raises(UserError, match=name):
            HParams.from_json(text)
    for wrong in ('"8"', "true", "8.0"):
        with pytest.raises(UserError, match="num_heads"):
            HParams.from_json(f'{{"num_heads": {wrong}}}')
    assert parse_overrides(" a = 1 , b=2,3 ") == {"a": "1", "b": "2,3"}
    assert BASE.override("batch_size=1.25e2").batch_size == 125
