"""Constituency parsing: sentences in, linearised trees out (T2T models/transformer.py)."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import transformer_base, transformer_base_single_gpu
from .big import transformer_big


@register_hparams(problem="parsing_wsj16k")
def transformer_parsing_base() -> HParams:
    """T2T's model for parsing, trained on the WSJ alone.

    T2T sets learning_rate 0.05 here, which its inherited schedule does not read: the rate is
    2.0 * warmup and decay * hidden_size**-0.5. The paper's settings are `paper_parsing_wsj`.
    """
    return replace(
        transformer_base(),
        attention_dropout=0.2,
        layer_prepostprocess_dropout=0.2,
        max_length=512,
        learning_rate_warmup_steps=16000,
        hidden_size=1024,
        learning_rate=0.05,
        shared_embedding_and_softmax_weights=False,
    )


@register_hparams(problem="wsj_parsing")
def transformer_parsing_big() -> HParams:
    """T2T's model for semi-supervised parsing.

    As in `transformer_parsing_base` nothing reads learning_rate. T2T also sets
    shared_source_target_embedding=False, which nothing reads either: all embeddings are shared.
    """
    return replace(
        transformer_big(),
        max_length=512,
        learning_rate_warmup_steps=4000,
        layer_prepostprocess_dropout=0.1,
        batch_size=2048,
        learning_rate=0.05,
    )


@register_hparams
def transformer_parsing_ice() -> HParams:
    """T2T's model for parsing and tagging Icelandic, on one GPU."""
    return replace(
        transformer_base_single_gpu(),
        batch_size=4096,
        shared_embedding_and_softmax_weights=False,
    )


@register_hparams(problem="parsing_wsj4k")
def transformer_parsing_small() -> HParams:
    """Ours, for some thousand trees and two cores, such as the public sample of the treebank."""
    return replace(
        transformer_parsing_base(),
        num_hidden_layers=4,
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        attention_dropout=0.1,
        learning_rate_warmup_steps=2000,
        batch_size=2048,
        max_length=256,
    )


@register_hparams(problem="parsing_wsj4k")
def transformer_parsing_regularized() -> HParams:
    """Ours, small with subword, word and more dropout; for problems of whole tags.

    On the public sample of the treebank it parses better than a grammar of the same trees
    (docs/extras.md).
    """
    return replace(
        transformer_parsing_small(),
        layer_prepostprocess_dropout=0.3,
        subword_dropout=0.1,
        inputs_word_dropout=0.1,
        train_steps=8_000,
    )
