"""Sets for a text of one's own, by how much of it there is; `data/preset.py` chooses among them."""

from dataclasses import replace

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import transformer_base_single_gpu
from .small import transformer_multi30k

TEXT2TEXT = "text2text_tmpdir"


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_small() -> HParams:
    """Ours, for up to 1.5 MB of text without subword dropout: multi30k, for longer sentences.

    The other sets for up to a hundred thousand pairs are made of it.
    """
    return replace(transformer_multi30k(), max_length=256, train_steps=10_000)


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_cooldown() -> HParams:
    """Ours, for up to a hundred thousand pairs, of more than 1.5 MB: small, with another rate.

    Its peak, 0.005, is that of Wu et al. (2021, arXiv 2105.14462) for a model of this size, and it
    falls to 0 in the last quarter of the steps, which Hägele et al. (2024, arXiv 2405.18392) call a
    cooldown. docs/own-text.md has what it gives.
    """
    return replace(
        transformer_own_text_small(),
        learning_rate=0.253,
        learning_rate_schedule="legacy*linear_decay",
        learning_rate_decay_steps=2_500,
    )


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_regularized() -> HParams:
    """Ours, for up to 1.5 MB of text with two vocabularies, one of them of subwords.

    It is cooldown with the subword dropout of Provilkov et al. (2020). docs/own-text.md has what
    it gives, and more regularizers.
    """
    return replace(transformer_own_text_cooldown(), subword_dropout=0.1)


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_bidirectional() -> HParams:
    """Ours, for up to 1.5 MB of text with one vocabulary of subwords: regularized, and in its
    first third in both directions, as Ding et al. (2021, arXiv 2109.07780) train."""
    return replace(transformer_own_text_regularized(), bidirectional_steps=3_333)


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_annealed() -> HParams:
    """Ours, for more than 1.5 MB of text and 60 epochs: regularized, with twice the batch.

    In its last steps the rate falls to 0, and words are cut as they will be in decoding: what
    subword dropout has taught stays, and what it blurs goes.
    """
    last = 2_500
    return replace(
        transformer_own_text_regularized(),
        batch_size=4096,
        learning_rate_decay_steps=last,
        subword_dropout_final_steps=last,
        train_steps=15_500,
    )


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_student() -> HParams:
    """Ours, for the text of two teachers, from the weights of one: quick, and learns long.

    A deep encoder and one decoder layer, which decodes greedily. What it cannot hold costs it more
    than what it could learn by heart, so that it has less dropout than its teacher.
    docs/extras.md has what it gives.
    """
    return replace(
        transformer_own_text_annealed(),
        num_encoder_layers=6,
        num_decoder_layers=1,
        layer_prepostprocess_dropout=0.2,
        learning_rate_warmup_steps=2000,
        learning_rate_decay_steps=5000,
        train_steps=16_000,
    )


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_medium() -> HParams:
    """Ours, for up to a million pairs and hours: cooldown's rate, twice the width, less dropout."""
    return replace(
        transformer_own_text_small(),
        learning_rate_schedule="legacy*linear_decay",
        learning_rate_decay_steps=12_500,
        hidden_size=256,
        filter_size=1024,
        layer_prepostprocess_dropout=0.2,
        batch_size=4096,
        learning_rate_warmup_steps=4000,
        train_steps=50_000,
    )


@register_hparams(problem=TEXT2TEXT)
def transformer_own_text_large() -> HParams:
    """Ours, for more than a million pairs on a GPU: base_single_gpu, ending at a rate of 0."""
    base = transformer_base_single_gpu()
    return replace(
        base,
        learning_rate_schedule=f"{base.learning_rate_schedule}*linear_decay",
        learning_rate_decay_steps=62_500,
        train_steps=250_000,
    )
