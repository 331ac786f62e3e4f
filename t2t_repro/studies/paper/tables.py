"""The paper's tables, with ours beside them."""

import math
from collections.abc import Sequence

from t2t_repro import registry
from t2t_repro.config import HParams
from t2t_repro.models import parameters
from t2t_repro.studies.paper import published
from t2t_repro.studies.paper.run_scores import RunScore
from t2t_repro.studies.tables import Table, columns

# T2T declared this size for the paper's En-De BPE vocabulary (1.0.1, problem_hparams.py,
# wmt_ende_bpe32k): the table has rows that no token uses.
DECLARED_VOCABULARY = 40_960
_RUN = "run | problem | hparams_set | step :, | "  # the columns of RunScore


def table2(runs: Sequence[RunScore]) -> list[Table]:
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
    others = Table(
        "2-others",
        "Table 2: what others have reached, English-German",
        columns("who | devices | tokens a batch :, | steps | BLEU :.2f | kind | source"),
        published.REPRODUCTIONS,
        (
            "tokens: on each side, padding included; the paper's 25,000 are without. Of "
            "English-French, by approx_bleu, base on 4 GPUs x 4,096 equals the paper, and on 3 "
            "stays a BLEU below however long it trains (tensor2tensor#444).",
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
    return [systems, cost, others, *_bleu_of(runs), *_costs_of(runs)]


def flop_by_time(hours: float, devices: int, tflops: float) -> float:
    """Returns what training cost as the paper has it: time by devices by their sustained rate."""
    return hours * 3600 * devices * tflops * 1e12


def _bleu_of(runs: Sequence[RunScore]) -> list[Table]:
    rows = []
    for run in runs:
        if run.bleu is not None:
            signature = run.bleu["sacrebleu"]["signature"]
            scores = (run.bleu[name]["score"] for name in ("sacrebleu", "compound_split"))
            rows.append((run.path, run.problem, run.hparams_set, run.step, *scores, signature))
    if not rows:
        return []
    heads = columns(_RUN + "sacreBLEU :.2f | compounds split :.2f | signature", ("signature",))
    note = (
        "sacreBLEU: " + rows[0][-1] + ". The paper's En-De is the tokenised BLEU with compounds "
        "split, on newstest2014: only that column on that test set compares with it."
    )
    return [Table("2-runs", "Table 2: the runs given", heads, rows, (note,))]


def _costs_of(runs: Sequence[RunScore]) -> list[Table]:
    """Returns what training runs cost, where they say it."""
    rows = [
        (run.path, run.hparams_set, run.step, *run.record.cost, flop_by_time(*run.record.cost))
        for run in runs
        if run.bleu is not None and run.record.cost is not None
    ]
    if not rows:
        return []
    heads = columns(
        "run | hparams_set | step :, | hours :,.2f | devices | TFLOP/s of each :.3g | "
        "FLOP by time :.2e"
    )
    note = (
        "hours: of the steps. TFLOP/s: of matrix products, measured on each device before "
        "training. By time, the paper's way: hours x devices x that rate."
    )
    return [Table("2-runs-cost", "Table 2: what the runs given cost", heads, rows, (note,))]


def _variations_of(runs: Sequence[RunScore]) -> list[Table]:
    """Returns perplexity, BLEU and parameters of runs on dev, beside the paper's rows."""
    printed = {row.hparams_set: row for row in published.TABLE3}
    rows = []
    for run in runs:
        record, row = run.record, printed.get(run.hparams_set)
        if record.perplexity is None and record.dev_bleu is None:
            continue
        million = record.parameters and record.parameters / 1e6
        then = (row.perplexity, row.bleu, row.million_parameters) if row else (None, None, None)
        ours = (record.perplexity, record.dev_bleu, million)
        rows.append((run.path, run.problem, run.hparams_set, run.step, *ours, *then))
    if not rows:
        return []
    rows = list(dict.fromkeys(rows))  # a run with several scores is one row
    heads = columns(
        _RUN + "PPL :.2f | BLEU :.2f | parameters :.1f | PPL then :.2f | BLEU then | "
        "parameters then"
    )
    note = (
        "On dev. PPL: exp of the loss on a word piece, without label smoothing, of the averaged "
        "weights where there are some; it compares only where the word pieces are the same. BLEU: "
        "sacreBLEU. parameters: in millions. The paper's rows average nothing (section 6.2): a run "
        "that is an average, as t2t-reproduce's of table 2, has that advantage over them."
    )
    return [Table("3-runs", "Table 3: the runs given", heads, rows, (note,))]


def table3(runs: Sequence[RunScore] = ()) -> list[Table]:
    """Returns the variations with the sets that are they, the parameters one by one, and runs."""
    size = published.VOCABULARY
    rows, parts = [], []
    for row in published.TABLE3:
        hparams = registry.get_hparams(row.hparams_set)
        ours = parameters.count(hparams, size)
        settings = {name: row.changes.get(name) for name in published.BASE}
        if row is published.TABLE3[0]:
            settings = dict(published.BASE)
        name = row.hparams_set.removeprefix("paper_table3_")
        then = parameters_in_2017(hparams)
        rows.append(
            (
                *(name, *settings.values(), row.perplexity, row.bleu),
                *(row.million_parameters, ours.total / 1e6),
            )
        )
        if row.million_parameters is not None:
            unused = parameters.count(hparams, DECLARED_VOCABULARY).total - ours.total
            biases = attention_biases(hparams)
            groups = (ours.embeddings, ours.attention, ours.feed_forward, ours.norms, ours.others)
            millions = (number / 1e6 for number in (*groups, ours.total, unused, biases, then))
            parts.append((name, *millions, row.million_parameters))
    *others, big = [vocabularies_of(row) for row in published.TABLE3 if row.million_parameters]
    low, high = max(low for low, _ in others), min(high for _, high in others)
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
    breakdown = Table(
        "3-parameters",
        "Table 3: the parameters, variable by variable, in millions",
        columns(
            "set | (V, D) :.2f | attn :.2f | ffn :.2f | norms :.2f | other :.2f | ours :.2f | "
            "+ unused ids :.2f | + biases :.2f | 2017 :.2f | paper"
        ),
        parts,
        (
            "ours = one (V, D) table of embeddings and softmax + attn, the kernels of the "
            "attention's projections + ffn, two kernels and two biases a sublayer + norms, a scale "
            "and a bias each + other, T2T's 32 kinds of target.",
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
    return [variations, breakdown, *_variations_of(runs)]


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


def table4(runs: Sequence[RunScore]) -> list[Table]:
    """Returns the paper's parsers, and the runs that have an F1."""
    parsers = Table(
        "4",
        "Table 4: F1 on section 23 of the WSJ, as the paper prints it",
        columns("parser | training | F1 :.1f"),
        published.TABLE4,
    )
    names = ("f1", "precision", "recall", "valid_sentences")
    rows = [
        (run.path, run.problem, run.hparams_set, run.step, *map(run.f1["all"].get, names))
        for run in runs
        if run.f1 is not None
    ]
    if not rows:
        return [parsers]
    heads = columns(_RUN + "F1 :.2f | precision :.2f | recall :.2f | sentences :,")
    note = "EVALB with COLLINS.prm, all sentences. Only section 23 compares with the paper."
    return [parsers, Table("4-runs", "Table 4: the runs given", heads, rows, (note,))]
