"""HParams: checks, overrides, and names that nothing reads."""

import dataclasses

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


def test_a_whole_number_by_an_exponent_is_whole():
    assert BASE.override("batch_size=1.25e2").batch_size == 125
    with pytest.raises(UserError, match="batch_size"):
        BASE.override("batch_size=1.9999e3")


def test_json_round_trip():
    hp = dataclasses.replace(BASE, pos=None, num_heads=4, learning_rate_minimum=0.25)
    assert HParams.from_json(hp.to_json()) == hp


@pytest.mark.parametrize(
    "text, message",
    [
        ("hiden_size=3", "Unknown hparam. Received: 'hiden_size'. Did you mean 'hidden_size'"),
        ("num_heads=x", "Expected hparam num_heads to be int. Received: 'x'"),
        ("num_heads=3.5", "Expected hparam num_heads to be int. Received: '3.5'"),
        ("shared_embedding=yes", "Expected hparam shared_embedding to be bool. Received: 'yes'"),
        ("num_heads=2,num_heads=4", "Expected each name once. Received: 'num_heads' twice"),
        ("rubbish", "Expected \"name=value,name=value\". Received: 'rubbish'"),
        ("learning_rate=nan", "Expected hparam learning_rate to be finite. Received: nan"),
        ("batch_size=99999999999", "Expected batch_size <= 10000000. Received: batch_size=9999"),
        ("num_heads=0", "Expected num_heads >= 1. Received: num_heads=0"),
        ("dropout=0.1", "dropout has no effect: model=transformer does not read it, only lstm_seq"),
        ("model=byte_net,filter_size=3", "model=byte_net does not read it, only transformer. Rec"),
        ("model=byte_net,kernel_height=4", "Expected kernel_height to be odd. Received: kernel_h"),
        ("model=lstm_seq2seq", "Expected another initializer of a recurrent model, which has vec"),
        ("model=lstm_seq2seq,freeze=encoder", "Expected a Transformer, whose parts can be frozen"),
        ("norm_type=lr", "one of 'layer', 'group', 'batch', 'noam', 'l2', 'none'. Received: 'lr'"),
        ("norm_type=group,layer_preprocess_sequence=n", "Transformer. Received: group, of which"),
        ("attention_dropout=1.0", "Expected 0 <= attention_dropout < 1"),
        ("layer_preprocess_sequence=x", "Expected layer_preprocess_sequence to be 'none' or"),
        ("layer_preprocess_sequence=an", "without 'a' and 'z': there is no residual"),
        ("num_heads=7", "divisible by num_heads. Received: 64 and num_heads=7"),
        ("attention_value_channels=9", "Expected attention_value_channels"),
        ("self_attention_type=dot_product_relative", "needs max_relative_position > 0"),
        ("attention_score=cosine", "Expected attention_score to be one of 'scaled_dot_product'"),
        (
            "self_attention_type=dot_product_relative,max_relative_position=4,"
            "attention_score=additive",
            "Received: attention_score=additive, attention_chunk_size=0",
        ),
        (
            "attention_chunk_size=8,attention_dropout=0.1",
            "Received: attention_chunk_size=8, attention_dropout=0.1",
        ),
        (
            "self_attention_type=dot_product_relative,max_relative_position=4,"
            "attention_chunk_size=3",
            "Received: attention_score=scaled_dot_product, attention_chunk_size=3",
        ),
        ("attention_chunk_size=9999999999", "Expected attention_chunk_size <= 10000000. Received:"),
        (
            "self_attention_type=local_unmasked,attention_block_length=9999999999",
            "Expected attention_block_length <= 10000000. Received: attention_block_length=9999",
        ),
        ("attention_block_length=8", "only self_attention_type=local_... reads it."),
        ("pos=emb", "pos=emb learns max_length positions: set max_length. Received: 0"),
        ("optimizer=multistep_adam", "belong together. Received: optimizer=multistep_adam"),
        ("optimizer_multistep_accumulate_steps=4", "belong together. Received: optimizer=adam"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(UserError) as caught:
        BASE.override(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "moe_num_experts=16",
        "moe_hidden_sizes=2048",
        "use_pad_remover=true",
        "target_modality=default",
    ],
)
def test_tensor2tensors_default_of_what_we_lack_may_be_said(given):
    assert BASE.override(f"num_heads=4,{given}") == dataclasses.replace(BASE, num_heads=4)


@pytest.mark.parametrize(
    "given, message",
    [
        (
            "moe_num_experts=8",
            "expected moe_num_experts=16 or moe_num_experts=64, its default. Rec",
        ),
        ("sampling_method=random", "of any model: --decode_hparams=sampling_method=random."),
        ("symbol_modality_skip_top=True", "expected symbol_modality_skip_top=False, its default."),
        ("use_pad_remover=yes", "Expected hparam use_pad_remover to be bool. Received: 'yes'"),
        (
            "z_size=4",
            "expected no z_size, its default. Received: z_size=4. Leave it out: there are",
        ),
    ],
)
def test_another_value_of_what_we_lack_says_what_to_do(given, message):
    with pytest.raises(UserError) as caught:
        BASE.override(given)
    assert message in str(caught.value)


def test_a_wrong_type_in_python_is_refused():
    with pytest.raises(UserError, match="num_heads"):
        HParams(num_heads="8")
    with pytest.raises(UserError, match="hidden_size"):
        HParams(hidden_size=True)


@pytest.mark.parametrize(
    "given, dead, reason",
    [
        ("learning_rate_constant=2.0", "learning_rate_constant", "set learning_rate."),
        ("learning_rate_schedule=constant,learning_rate=2.0", "learning_rate", "_constant."),
        (
            "learning_rate_schedule=constant,learning_rate_decay_scheme=noam",
            "learning_rate_decay_scheme",
            "name the decay in learning_rate_schedule",
        ),
        ("learning_rate_decay_steps=7", "learning_rate_decay_steps", "does not read it"),
        ("learning_rate_cosine_cycle_steps=7", "learning_rate_cosine_cycle_steps", "cosine"),
        ("optimizer=adafactor,optimizer_adam_beta1=0.5", "optimizer_adam_beta1", "does not read"),
        ("optimizer_adafactor_beta1=0.5", "optimizer_adafactor_beta1", "is not adafactor"),
        ("optimizer_adafactor_beta2=0.5", "optimizer_adafactor_beta2", "is not adafactor"),
        (
            "optimizer=adafactor,optimizer_adafactor_beta2=0.5",
            "optimizer_adafactor_beta2",
            "only optimizer_adafactor_decay_type=adam reads it",
        ),
        (
            "optimizer=adafactor,optimizer_adafactor_decay_type=adam,"
            "optimizer_adafactor_memory_exponent=0.5",
            "optimizer_adafactor_memory_exponent",
            "only optimizer_adafactor_decay_type=pow reads it",
        ),
        ("max_relative_position=20", "max_relative_position", "dot_product_relative reads it"),
        *(
            (
                f"self_attention_type=dot_product_relative,max_relative_position=4,{name}=True",
                name,
                "dot_product_relative_v2 reads it, which is not here.",
            )
            for name in ("heads_share_relative_embedding", "add_relative_to_values")
        ),
        (
            "learning_rate_schedule=constant,learning_rate_warmup_steps=7",
            "learning_rate_warmup_steps",
            "does not read it",
        ),
        (
            "shared_embedding_and_softmax_weights=True,shared_embedding=True",
            "shared_embedding",
            "shares all tables already",
        ),
        (
            "num_hidden_layers=5,num_encoder_layers=3,num_decoder_layers=2",
            "num_hidden_layers",
            "say it of both sides",
        ),
        ("layer_postprocess_sequence=da,norm_epsilon=1e-3", "norm_epsilon", "nothing normalizes"),
        ("relu_dropout_broadcast_dims=1", "relu_dropout_broadcast_dims", "relu_dropout is 0"),
        ("initializer=xavier,initializer_gain=2.0", "initializer_gain", "does not read it"),
        ("use_fixed_batch_size=True,min_length_bucket=9", "min_length_bucket", "every batch alike"),
    ],
)
def test_an_override_that_nothing_reads_is_refused(given, dead, reason):
    with pytest.raises(UserError) as caught:
        BASE.override(given)
    assert f"hparam {dead} has no effect" in str(caught.value)
    assert reason in str(caught.value)


def test_layer_counts():
    hp = dataclasses.replace(BASE, num_encoder_layers=3)
    assert (hp.encoder_layers, hp.decoder_layers) == (3, 4)


def test_an_unknown_name_in_json_is_refused():
    with pytest.raises(UserError, match="nonsense"):
        HParams.from_json('{"nonsense": 1}', "run/h.json", "Mend it.")
    with pytest.raises(UserError, match="hparams.json"):
        HParams.from_json('{"dropout": -1.0}')
    assert parse_overrides(" a = 1 , b=2,3 ") == {"a": "1", "b": "2,3"}


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("initializer_gain", -1.0, "Expected initializer_gain > 0. Received: initializer_gain=-1"),
        ("norm_epsilon", 0.0, "Expected norm_epsilon > 0"),
        ("optimizer_adam_epsilon", -1e-9, "Expected optimizer_adam_epsilon > 0"),
        ("optimizer_adam_beta1", 2.0, "Expected 0 <= optimizer_adam_beta1 < 1"),
        ("optimizer_adafactor_beta2", -0.1, "Expected 0 <= optimizer_adafactor_beta2 < 1"),
        ("r_drop_alpha", -1.0, "Expected r_drop_alpha >= 0. Received: r_drop_alpha=-1"),
        ("targets_word_dropout", 1.0, "Expected 0 <= targets_word_dropout < 1"),
        ("learning_rate_constant", -1.0, "Expected learning_rate_constant >= 0"),
        ("attention_dropout_broadcast_dims", "a", "axes from -3 to 3 .*Received: 'a'"),
        ("relu_dropout_broadcast_dims", "0,3", "axes from -2 to 2 .*Received: '0,3'"),
    ],
)
def test_a_number_that_cannot_train_is_refused(name, value, message):
    with pytest.raises(UserError, match=message):
        HParams(**{name: value})
    HParams(attention_dropout_broadcast_dims="0, 1", optimizer_adam_beta1=0.0)
