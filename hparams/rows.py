"""The rows of the paper's tables 2 and 3 as changes: of its base model, and of T2T's base set.

T2T's rows (its models/transformer.py) change one thing of a set that is pre-norm, with a schedule
of its own and more dropout than the paper's; those called `paper_` have the paper's settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from t2t_repro.config import HParams
from t2t_repro.registry import register_hparams

from .base import WMT14_ENDE, WMT14_ENFR, transformer_base
from .paper import transformer_base_paper

Row = tuple[str, dict[str, Any]]  # what it is, and what it changes

_BIG = {
    **{"hidden_size": 1024, "filter_size": 4096, "num_heads": 16},
    **{"layer_prepostprocess_dropout": 0.3, "train_steps": 300_000},
}
PAPER: dict[str, Row] = {
    "paper_table3_base": (
        "Table 3, base: dropout 0.1, label smoothing 0.1, 4000 warmup steps, 100,000 steps.",
        {},
    ),
    "paper_table3_a_h1": ("Table 3, row (A): 1 head of size 512.", {"num_heads": 1}),
    "paper_table3_a_h4": ("Table 3, row (A): 4 heads of size 128.", {"num_heads": 4}),
    "paper_table3_a_h16": ("Table 3, row (A): 16 heads of size 32.", {"num_heads": 16}),
    "paper_table3_a_h32": ("Table 3, row (A): 32 heads of size 16.", {"num_heads": 32}),
    "paper_table3_b_dk16": (
        "Table 3, row (B): keys of size 16 per head.",
        {"attention_key_channels": 8 * 16},
    ),
    "paper_table3_b_dk32": (
        "Table 3, row (B): keys of size 32 per head.",
        {"attention_key_channels": 8 * 32},
    ),
    "paper_table3_c_n2": ("Table 3, row (C): 2 layers.", {"num_hidden_layers": 2}),
    "paper_table3_c_n4": ("Table 3, row (C): 4 layers.", {"num_hidden_layers": 4}),
    "paper_table3_c_n8": ("Table 3, row (C): 8 layers.", {"num_hidden_layers": 8}),
    "paper_table3_c_dmodel256": (
        "Table 3, row (C): width 256, heads of size 32.",
        {"hidden_size": 256},
    ),
    "paper_table3_c_dmodel1024": (
        "Table 3, row (C): width 1024, heads of size 128.",
        {"hidden_size": 1024},
    ),
    "paper_table3_c_dff1024": ("Table 3, row (C): filter size 1024.", {"filter_size": 1024}),
    "paper_table3_c_dff4096": ("Table 3, row (C): filter size 4096.", {"filter_size": 4096}),
    "paper_table3_d_dropout0": (
        "Table 3, row (D): no dropout.",
        {"layer_prepostprocess_dropout": 0.0},
    ),
    "paper_table3_d_dropout2": (
        "Table 3, row (D): dropout 0.2.",
        {"layer_prepostprocess_dropout": 0.2},
    ),
    "paper_table3_d_smoothing0": (
        "Table 3, row (D): no label smoothing.",
        {"label_smoothing": 0.0},
    ),
    "paper_table3_d_smoothing2": (
        "Table 3, row (D): label smoothing 0.2.",
        {"label_smoothing": 0.2},
    ),
    "paper_table3_e_learned_positions": (
        "Table 3, row (E): learned positions instead of sinusoids.",
        {"pos": "emb"},
    ),
    "paper_table3_big": (
        "Table 3, big: width 1024, filter size 4096, 16 heads, dropout 0.3, 300,000 steps.",
        _BIG,
    ),
}
_BIG_ENFR = {**_BIG, "layer_prepostprocess_dropout": 0.1}
PAPER_ENFR: dict[str, Row] = {
    "paper_table2_base_enfr": ("Table 2, the base model for En-Fr, with En-De's hparams.", {}),
    "paper_table2_big_enfr": (
        "Table 2, the big model for En-Fr, with En-De's hparams but dropout 0.1 (section 6.1).",
        _BIG_ENFR,
    ),
    "paper_table2_big_enfr_separate": (
        "The big En-Fr model with per-language embeddings, as in T2T; the paper shares them.",
        {**_BIG_ENFR, "shared_embedding_and_softmax_weights": False},
    ),
    "paper_table2_big_enfr_attention_dropout": (
        "The big En-Fr model plus attention dropout 0.1, as in T2T's set; not in the paper.",
        {**_BIG_ENFR, "attention_dropout": 0.1},
    ),
}
T2T: dict[str, Row] = {
    "transformer_l2": ("base with 2 layers.", {"num_hidden_layers": 2}),
    "transformer_l4": ("base with 4 layers.", {"num_hidden_layers": 4}),
    "transformer_l8": ("base with 8 layers.", {"num_hidden_layers": 8}),
    "transformer_l10": ("base with 10 layers (not in the paper).", {"num_hidden_layers": 10}),
    "transformer_h1": ("base with 1 head.", {"num_heads": 1}),
    "transformer_h4": ("base with 4 heads.", {"num_heads": 4}),
    "transformer_h16": ("base with 16 heads.", {"num_heads": 16}),
    "transformer_h32": ("base with 32 heads.", {"num_heads": 32}),
    "transformer_k128": ("base with keys of size 16 per head.", {"attention_key_channels": 128}),
    "transformer_k256": ("base with keys of size 32 per head.", {"attention_key_channels": 256}),
    "transformer_ff1024": ("base with filter size 1024.", {"filter_size": 1024}),
    "transformer_ff4096": ("base with filter size 4096.", {"filter_size": 4096}),
    "transformer_dr0": ("base with no residual dropout.", {"layer_prepostprocess_dropout": 0.0}),
    "transformer_dr2": ("base with residual dropout 0.2.", {"layer_prepostprocess_dropout": 0.2}),
    "transformer_ls0": ("base with no label smoothing.", {"label_smoothing": 0.0}),
    "transformer_ls2": ("base with label smoothing 0.2.", {"label_smoothing": 0.2}),
    "transformer_hs256": ("base with width 256.", {"hidden_size": 256}),
    "transformer_hs1024": ("base with width 1024.", {"hidden_size": 1024}),
}


def register(base: Callable[[], HParams], rows: Mapping[str, Row], problem: str) -> None:
    """Registers a set for each row: `base` with the row's changes, made for a problem."""
    for name, (doc, changes) in rows.items():

        def row(changes=changes) -> HParams:
            return replace(base(), **changes)

        row.__name__, row.__doc__ = name, doc
        register_hparams(row, name=name, problem=problem)


register(transformer_base_paper, PAPER, WMT14_ENDE)
register(transformer_base_paper, PAPER_ENFR, WMT14_ENFR)
register(transformer_base, T2T, WMT14_ENDE)
