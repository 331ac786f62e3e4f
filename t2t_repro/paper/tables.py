"""The paper's tables 2 to 4, with ours beside them."""

import math
from collections.abc import Sequence

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.models import parameters
from t2t_repro.paper import published
from t2t_repro.paper.runs import RunRecord
from t2t_repro.study.tables import Table, columns

# T2T declared this size for the paper's En-De BPE vocabulary (1.0.1, problem_hparams.py,
# wmt_ende_bpe32k): the table has rows that no token uses.
DECLARED_VOCABULARY = 40_960
_RUN = "run | problem | hparams_set | step :, | "


def _run(run: RunRecord) -> tuple:
    return run.path, run.problem, run.hparams_set, run.step


def flop_by_time(hours: float, devices: int, tflops: float) -> float:
    """Returns what training cost as the paper has it: time by devices by their sustained rate."""
    return hours * 3600 * devices * tflops * 1e12


def table2(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns the paper's systems, what training cost, and the runs that have a BLEU."""
    systems = Table(
        "2",
        "Table 2: BLEU on newstest2014 and training FLOPs, as the paper prints them",
        columns(
            "system | BLEU En-De | BLEU En-Fr | FLOP En-De :.1e | FLOP En-Fr :.1e | "
            "sacreBLEU En-De, about :.1f"
        ),
        [
            (*system, system.bleu_ende and published.sacrebleu_of(system.bleu_ende))
            for system in published.TABLE2
        ],
        (
            "sacreBLEU: 0.978 BLEU - 0.05, NVIDIA's line over 2,000 checkpoints of one model, "
            "tokenised and with compounds split against sacreBLEU; of the others an estimate.",
        ),
    )
    rate = published.SUSTAINED_TFLOPS
    cost = Table(
        "2-cost",
        "Table 2: the training cost of the Transformer",
        columns("model | hours | FLOP by time :.2e | paper :.1e"),
        [
            (each.model, each.hours, flop_by_time(each.hours, published.GPUS, rate), each.flop)
            for each in published.TRAINING
        ],
        (f"By time: hours x {published.GPUS} P100 x {rate} TFLOP/s sustained (footnote 5).",),
    )
    others = Table(
        "2-others",
        "Table 2: what others have reached, English-German",
        columns("who | devices | tokens a batch :, | steps | BLEU :.2f | kind | source"),
        published.REPRODUCTIONS,
        ("tokens: on each side, padding included; the paper's 25,000 are without.",),
    )
    scored = [(run, run.bleu) for run in runs if run.bleu is not None]
    names = ("sacrebleu", "compound_split")
    scores = Table(
        "2-runs",
        "Table 2: the runs given",
        columns(_RUN + "sacreBLEU :.2f | compounds split :.2f"),
        [(*_run(run), *(bleu[name]["score"] for name in names)) for run, bleu in scored],
        (
            *(f"{run.path}: {bleu['sacrebleu']['signature']}" for run, bleu in scored),
            "The paper's En-De is the tokenised BLEU with compounds split, on newstest2014: only "
            "that column on that test set compares with it.",
        ),
    )
    costs = Table(
        "2-runs-cost",
        "Table 2: what the runs given cost",
        columns("run | hours :,.2f | devices | TFLOP/s of each :.3g | FLOP by time :.2e"),
        [(run.path, *run.cost, flop_by_time(*run.cost)) for run, _ in scored if run.cost],
        (
            "hours: of the steps. TFLOP/s: of matrix products, measured on each device before "
            "training. By time, the paper's way: hours x devices x that rate.",
        ),
    )
    return [systems, cost, others, *(table for table in (scores, costs) if table.rows)]


def table3(runs: Sequence[RunRecord] = ()) -> list[Table]:
    """Returns the variations with the sets that are they, the parameters one by one, and runs."""
    size, printed = published.VOCABULARY, {row.hparams_set: row for row in published.TABLE3}
    rows, parts = [], []
    for row in published.TABLE3:
        hparams = registry.get_hparams(row.hparams_set)
        ours = parameters.count(hparams, size)
        base = row is published.TABLE3[0]
        settings = published.BASE if base else dict.fromkeys(published.BASE) | row.changes
        count = row.million_parameters
        rows.append(
            (row.name, *settings.values(), row.perplexity, row.bleu, count, ours.total / 1e6)
        )
        if count is not None:
            unused = parameters.count(hparams, DECLARED_VOCABULARY).total - ours.total
            biases = attention_biases(hparams)
            groups = (ours.embeddings, ours.attention, ours.feed_forward, ours.norms, ours.others)
            then = parameters_in_2017(hparams)
            numbers = (*groups, ours.total, unused, biases, then)
            parts.append((row.name, *(number / 1e6 for number in numbers), count))
    variations = Table(
        "3",
        "Table 3: the variations, on newstest2013, and their parameters in millions",
        columns(f"set | {' | '.join(published.BASE)} | PPL :.2f | BLEU | paper | ours :.1f"),
        rows,
        (
            "set: paper_table3_NAME; its first letter is the paper's row. Empty: as in base. d: "
            "d_model; drop: P_drop; eps: label smoothing. Parameters: the paper's, and ours, those "
            f"of the model that the set builds with a shared vocabulary of {size:,}. The next "
            "table says why they differ.",
        ),
    )
    *others, big = [vocabularies_of(row) for row in published.TABLE3 if row.million_parameters]
    low, high = max(low for low, _ in others), min(high for _, high in others)
    breakdown = Table(
        "3-parameters",
        "Table 3: the parameters, variable by variable, in millions",
        columns(
            "set | (V, D) :.2f | attn :.2f | ffn :.2f | norms :.2f | other :.2f | ours :.2f | "
            "+ unused ids :.2f | + biases :.2f | 2017 :.2f | paper"
        ),
        parts,
        (
            f"A vocabulary of {size:,} does not give the paper's column. T2T of June 2017 declared "
            f"{DECLARED_VOCABULARY:,} for it (1.0.1, problem wmt_ende_bpe32k): "
            f"{DECLARED_VOCABULARY - size:,} ids that no token has, D parameters each. Its "
            "attention projections had biases, which T2T 1.15.7 and ours have not. With both, "
            "every row but big is the paper's to the million: together those rows allow "
            f"vocabularies of {low:,} to {high:,}.",
            f"big has 218 then. The paper's 213 would take a vocabulary of {big[0]:,} to "
            f"{big[1]:,}, which no other row allows: it is not accounted for.",
        ),
    )
    none = (None, None, None)
    of_runs = [
        (
            *(*_run(run), run.perplexity, run.dev_bleu, run.parameters and run.parameters / 1e6),
            *(printed[run.hparams_set][2:] if run.hparams_set in printed else none),
        )
        for run in runs
        if run.perplexity is not None or run.dev_bleu is not None
    ]
    beside = Table(
        "3-runs",
        "Table 3: the runs given",
        columns(
            _RUN + "PPL :.2f | BLEU :.2f | parameters :.1f | PPL then :.2f | BLEU then | "
            "parameters then"
        ),
        of_runs,
        (
            "On dev. PPL: of a word piece, without label smoothing, of the averaged weights where "
            "there are some. BLEU: sacreBLEU. parameters: in millions. The paper's rows average "
            "nothing (section 6.2).",
        ),
    )
    return [variations, breakdown, *([beside] if of_runs else [])]


def parameters_in_2017(hparams: HParams) -> int:
    """Returns the parameters that T2T 1.0.1 gave the model of `hparams` on the paper's data."""
    now = parameters.count(hparams, DECLARED_VOCABULARY).total
    return now + attention_biases(hparams)


def attention_biases(hparams: HParams) -> int:
    """Returns the biases of the attention's projections, which T2T had in 2017 and then dropped."""
    depth = hparams.hidden_size
    keys = hparams.attention_key_channels or depth
    values = hparams.attention_value_channels or depth
    attentions = hparams.encoder_layers + 2 * hparams.decoder_layers
    return attentions * (2 * keys + values + depth)


def vocabularies_of(row: published.Variation) -> tuple[int, int]:
    """Returns between which vocabulary sizes the row's model rounds to the paper's millions."""
    assert row.million_parameters is not None
    hparams = registry.get_hparams(row.hparams_set)
    without = parameters.count(hparams, 2).without_tables + attention_biases(hparams)
    millions = (row.million_parameters - 0.5, row.million_parameters + 0.5)
    low, high = ((million * 1e6 - without) / hparams.hidden_size for million in millions)
    return math.ceil(low), math.floor(high)


def table4(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns the paper's parsers, and the runs that have an F1."""
    parsers = Table(
        "4",
        "Table 4: F1 on section 23 of the WSJ, as the paper prints it",
        columns("parser | training | F1 :.1f"),
        published.TABLE4,
    )
    names = ("f1", "precision", "recall", "valid_sentences")
    rows = [(*_run(run), *map(run.f1["all"].get, names)) for run in runs if run.f1 is not None]
    heads = columns(_RUN + "F1 :.2f | precision :.2f | recall :.2f | sentences :,")
    note = "EVALB with COLLINS.prm, all sentences. Only section 23 compares with the paper."
    scores = Table("4-runs", "Table 4: the runs given", heads, rows, (note,))
    return [parsers, *([scores] if rows else [])]
