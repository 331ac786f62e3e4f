"""The paper's rows of tables 2 and 3 as runs of this project's programs.

Section 5.2: base for 100,000 steps in 12 hours, big for 300,000 in 3.5 days. Section 6.1: the mean
of the last 5 and 20 checkpoints, one every ten minutes, which were as many updates as 8 P100 make
in ten minutes; beam 4, alpha 0.6, at most the input's length and 50 more. Section 6.2: of table 3
the same search, but no averages.

Table 3 is a study at a fraction of the widths, whose report says which conclusions hold.
"""

import dataclasses
import functools
import pathlib
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_repro import registry, stages
from t2t_repro.files import write_text_atomic
from t2t_repro.models import parameters
from t2t_repro.paper import published
from t2t_repro.paper.tables import AVERAGED, BLEU_FILE, DEV_BLEU_FILE, settings
from t2t_repro.problem import Split
from t2t_repro.stages import Stage
from t2t_repro.study import report
from t2t_repro.study.results import RECORD_FILE, Results, compare, mean_and_half
from t2t_repro.study.study import Study, Variant
from t2t_repro.study.tables import Table

STEPS = 2000  # of table 3's base: a seed of all rows in two hours, on two cores
BATCH = 2048  # tokens of each side in an update of table 3
PROBLEM = "translate_ende_multi30k"  # of table 3
EQUAL_WITHIN = 0.5  # BLEU; the paper calls 25.8 and 25.7 nearly identical
CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable"
_MINUTES = 10  # between two checkpoints of the paper
_AVERAGED = {"base": 5, "big": 20}
_OF_WIDTH = ("hidden_size", "filter_size", "attention_key_channels", "attention_value_channels")
_KINDS = ("source", "reference", "translation")
_SCORES = {Split.EVAL: DEV_BLEU_FILE, Split.TEST: BLEU_FILE}
_ENDE, _ENFR = "translate_ende_wmt14", "translate_enfr_wmt14"

# The rows of table 2, and beside them what the paper leaves open: see docs/paper.md.
TABLE2 = {
    "ende_base": (_ENDE, "paper_table3_base"),
    "ende_big": (_ENDE, "paper_table3_big"),
    "enfr_base": (_ENFR, "paper_table2_base_enfr"),
    "enfr_big": (_ENFR, "paper_table2_big_enfr"),
    "ende_base_bpe": (f"{_ENDE}_bpe37k", "paper_table3_base"),
    "ende_big_bpe": (f"{_ENDE}_bpe37k", "paper_table3_big"),
    "enfr_big_separate": (_ENFR, "paper_table2_big_enfr_separate"),
    "enfr_big_attention_dropout": (_ENFR, "paper_table2_big_enfr_attention_dropout"),
}
TABLE3 = {row.name: row for row in published.TABLE3}


class Folders(NamedTuple):
    """Of the runs, of the data, and of the raw files that these are made of."""

    output_dir: str
    data_dir: str
    tmp_dir: str


def table2(
    name: str, folders: Folders, hparams: str = "", train_steps: int | None = None
) -> pathlib.Path:
    """Makes what is not there yet of a row of table 2: its run, an average, and every score.

    Args:
        name: of TABLE2.
        folders: where.
        hparams: changes to the row.
        train_steps: updates, to try it out; None: the paper's.

    Returns:
        The run directory.

    Raises:
        UserError: if a program fails; it has said why. Or if the run was begun with other hparams.
        Interrupted: on a signal.
    """
    problem_name, hparams_set = TABLE2[name]
    problem, model = registry.get_problem(problem_name), "big" if "_big" in hparams_set else "base"
    averaged, changes = _AVERAGED[model], hparams
    steps = registry.get_hparams(hparams_set, changes).train_steps
    updates = round(steps / (published.HOURS[model] * 60 / _MINUTES))
    if train_steps:  # tried out: there are to be checkpoints to average all the same
        changes = ",".join(filter(None, [changes, f"train_steps={train_steps}"]))
        updates = min(updates, max(1, train_steps // (averaged + 1)))
    run = pathlib.Path(folders.output_dir) / name
    mean, data = run / AVERAGED, {"data_dir": folders.data_dir}
    where = {**data, "tmp_dir": folders.tmp_dir}
    files = [[run / f"decoded/{split}.{kind}" for kind in _KINDS] for split in _SCORES]
    with stages.begin(run / RECORD_FILE, {"hparams": changes}, []) as doing:

        def do(name: str, program: str, *switches: str, outputs=(), **flags: Any) -> None:
            command = stages.command(program, *switches, **flags)
            doing.run(Stage(name=name, says=f"{run}: {name}", command=command, outputs=outputs))

        do(
            *("training", "t2t-trainer", "--generate_data"),
            problem=problem_name,
            hparams_set=hparams_set,
            hparams=changes,
            output_dir=run,
            local_eval_frequency=updates,
            keep_checkpoint_max=averaged,
            **where,
        )
        of_mean = {"output_dir": mean, "outputs": [mean / "run.json"]}
        do("average", "t2t-avg-all", "--last_only", model_dir=run, n=averaged, **of_mean)
        do("perplexity", "t2t-eval", output_dir=mean, **data)
        for split, (source, reference, out) in zip(_SCORES, files, strict=True):
            samples = problem.generate_samples(*where.values(), split)
            sides = {"inputs": source, "targets": reference}
            text = Stage(name=f"text {split}", says=f"Text of {split}", outputs=[*sides.values()])
            doing.run(text, functools.partial(_write_texts, samples, sides))
            texts = {"decode_from_file": source, "decode_to_file": out}
            do(f"decoding {split}", "t2t-decoder", output_dir=mean, outputs=[out], **texts)
            score = run / _SCORES[split]
            texts = {"translation": out, "reference": reference, "json_file": score}
            do(f"scoring {split}", "t2t-bleu", outputs=[score], **texts)
    return run


def _write_texts(samples: Iterable[dict[str, str]], files: Mapping[str, pathlib.Path]) -> None:
    """Writes a line for each sample to {side: file}."""
    rows = list(samples)
    for side, file in files.items():
        file.parent.mkdir(exist_ok=True)
        write_text_atomic(file, "".join(f"{row[side]}\n" for row in rows))


def table3(
    names: Sequence[str],
    folders: Folders,
    hparams: str = "",
    *,
    train_steps: int = STEPS,
    scale: int = 8,
    seeds: int = 3,
) -> Study:
    """Returns rows of table 3 made smaller: every width by one factor, and every length by another.

    Args:
        names: of TABLE3.
        folders: where.
        hparams: changes to all rows.
        train_steps: updates of base; big has three times as many, as in the paper.
        scale: divides all widths.
        seeds: how many runs of each row.
    """
    base = registry.get_hparams("paper_table3_base").train_steps
    variants = []
    for name in names:
        hparams_set = TABLE3[name].hparams_set
        full = registry.get_hparams(hparams_set)
        widths = {n: getattr(full, n) // scale for n in _OF_WIDTH if getattr(full, n)}
        small = dataclasses.replace(
            full,
            **widths,
            train_steps=train_steps * full.train_steps // base,
            learning_rate_warmup_steps=max(1, train_steps // 2),
            effective_batch_size=BATCH,
        )
        variants.append(Variant(name, hparams_set, small.override(hparams), name))
    return Study(
        problem=PROBLEM,
        data_dir=folders.data_dir,
        output_dir=pathlib.Path(folders.output_dir),
        variants=tuple(variants),
        seeds=seeds,
        evaluations=5,
        bleu_sentences=sys.maxsize,  # all
        flags=("--generate_data", f"--tmp_dir={folders.tmp_dir}"),
        command=shlex.join(["t2t-paper", *sys.argv[1:]]),
    )


def write_table3(results: Results) -> pathlib.Path:
    """Writes table3.html, .md and .json: rows, and which conclusions hold; returns the first."""
    study, rows = results.study, []
    results = dataclasses.replace(results, cells=[r for r in results.cells if r.ended])
    for variant in study.variants:
        cells, then = results.select(name=variant.name), TABLE3[variant.name]
        own = settings(variant.hparams).values()
        count = parameters.count(variant.hparams, 0).total / 1e6
        scores = *mean_and_half(r.perplexity for r in cells), *mean_and_half(r.bleu for r in cells)
        rows.append((variant.name, *own, count, len(cells), *scores, then.perplexity, then.bleu))
    heads = (
        f"row | {' | '.join(published.BASE)} | parameters :.2f | seeds | PPL :.2f | ± :.2f | "
        "BLEU :.2f | ±  :.2f | PPL then :.2f | BLEU then"
    )
    about = (
        "On dev, by the last checkpoint, as in the paper (section 6.2). PPL: per subword. BLEU: "
        "sacreBLEU. ±: half of the 95 % interval over the finished seeds. parameters: millions, "
        "without embeddings. then: the paper's values, at full width, on newstest2013."
    )
    tables = [Table("3-scaled", "The rows", heads, rows), _conclusions(results)]
    title = "Table 3 at smaller widths"
    return report.write(study.output_dir, "table3", title, tables, about, study.command, {})


def judge(gain: float | None, half: float | None, then: float, equal: bool = False) -> str:
    """Returns what runs say of a conclusion of the paper's.

    Args:
        gain: by how much the better row is better, mean of the seeds; None: rows are missing.
        half: half of its 95 % interval; None: of fewer than two seeds.
        then: the gain in the paper. An interval that holds both zero and this is too wide to tell.
        equal: whether the rows are to be equal.
    """
    if gain is None or half is None:
        return NOT_TESTABLE
    if equal:
        near = abs(gain) + half <= EQUAL_WITHIN
        return CONFIRMED if near else NOT_CONFIRMED if abs(gain) > half else NOT_TESTABLE
    wide = abs(gain) <= half and gain + half >= then
    return CONFIRMED if gain > half else NOT_TESTABLE if wide else NOT_CONFIRMED


def _conclusions(results: Results) -> Table:
    rows = []
    for each in published.CONCLUSIONS:
        if {each.better, each.worse} <= set(results.study.names):
            less = each.by == "perplexity"
            order = (each.worse, each.better) if less else (each.better, each.worse)
            of = compare(results.select(name=order[0]), results.select(name=order[1]), each.by)
            gain, half, seeds = (of.mean, of.half, of.seeds) if of else (None, None, 0)
            word = judge(gain, half, each.gain, each.equal)
            rows.append((each.text, "PPL" if less else "BLEU", each.gain, gain, half, seeds, word))
    note = (
        "then: the better row's lead in the paper. here: its mean lead in these runs. "
        "confirmed: the 95 % interval of this lead (Student's t over the seeds) is above 0; "
        f'for "match", the interval is within {EQUAL_WITHIN} BLEU of 0. not testable: fewer than '
        'two seeds, or the interval includes 0 and the paper\'s lead (for "match": 0 and more than '
        f"{EQUAL_WITHIN}). not confirmed: otherwise."
    )
    heads = "conclusion | by | then :+.2f | here :+.2f | ± :.2f | seeds | verdict"
    return Table("3-conclusions", "The paper's conclusions (section 6.2)", heads, rows, (note,))
