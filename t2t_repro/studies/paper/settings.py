"""The paper's settings beside T2T's sets and a run: each with its section and any deviation."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from t2t_repro import registry, schema
from t2t_repro.config import HParams
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.hparam_rules import OPPONENTS
from t2t_repro.run_directory import PLAN, RunDirectory
from t2t_repro.studies.paper import published, run_records
from t2t_repro.studies.paper.recipes import Recipe, table2
from t2t_repro.studies.paper.reproduce import RECIPE_FILE
from t2t_repro.studies.paper.run_scores import RunScore
from t2t_repro.studies.tables import Column, Table, columns
from t2t_repro.training.updates import gathered


class Files(NamedTuple):
    """What says a run's settings; the plan and the recipe are {} where there is none."""

    hparams: HParams
    plan: dict[str, Any]
    recipe: dict[str, Any]


class Setting(NamedTuple):
    """A setting: the paper's section that says it, its value for base and big, and a run's.

    note: what differs, and why; "": nothing does.
    """

    name: str
    section: str
    base: Any
    big: Any
    read: Callable[[Files], Any]
    note: str = ""


def _hparam(name: str) -> Callable[[Files], Any]:
    def read(files: Files) -> Any:
        return None if files.hparams.unread([name]) else getattr(files.hparams, name)

    return read


def _recipe(name: str) -> Callable[[Files], Any]:
    return lambda files: files.recipe.get(name)  # of T2T's sets none


def _decoding(name: str) -> Callable[[Files], Any]:
    def read(files: Files) -> Any:
        if "problem" not in files.recipe:
            return None
        problem = registry.get_problem(files.recipe["problem"])
        return getattr(DecodeHParams.of(problem, ""), name)

    return read


def _tokens(side: str) -> Callable[[Files], Any]:
    """Reads the tokens of an update, to the paper's "approximately"."""

    def read(files: Files) -> Any:
        if "batch" not in files.plan:
            return files.hparams.effective_batch_size or None
        tokens = files.plan["batch"][f"{side}_tokens"]
        near = abs(tokens / published.BATCH_TOKENS - 1) < _APPROXIMATELY
        return published.BATCH_TOKENS if near else tokens

    return read


def _updates(files: Files) -> int:
    return files.hparams.train_steps // gathered(files.hparams)


def _layers(files: Files) -> Any:
    sides = (files.hparams.encoder_layers, files.hparams.decoder_layers)
    return sides[0] if len(set(sides)) == 1 else _pair(sides)


def _of_an_opponent(name: str) -> Callable[[Files], Any]:
    read = _hparam(name)
    return lambda files: read(files) if files.hparams.model in OPPONENTS else None


def _norm(files: Files) -> str | None:
    if files.hparams.unread(["layer_preprocess_sequence"]):
        return None
    sequences = (
        files.hparams.layer_preprocess_sequence,
        files.hparams.layer_postprocess_sequence,
    )
    post, pre = "LayerNorm(x + Sublayer(x))", "x + Sublayer(LayerNorm(x))"
    return {("none", "dan"): post, ("n", "da"): pre}.get(sequences, "/".join(sequences))


_NAMED_NOAM = ["constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"]


def _rate(files: Files) -> str:
    """The rate's formula, which T2T writes as 0.1 of the scheme noam, or as 2 of named factors; of
    another rate the schedule's name and constants."""
    hparams = files.hparams
    schedule, scheme = hparams.learning_rate_schedule, hparams.learning_rate_decay_scheme or "none"
    factors = sorted(name.strip() for name in schedule.split("*"))
    if factors == _NAMED_NOAM:
        factor = hparams.learning_rate_constant
    elif factors == ["legacy"] and scheme == "noam":
        # 5,000 is noam's own; T2T gives 0.002 of it to optimizers whose names have "adam".
        factor = (10 if "adam" in hparams.optimizer else 5000) * hparams.learning_rate
    else:
        fields = ("learning_rate", "learning_rate_constant")
        read = [each for each in fields if each in hparams.read_by_schedule]
        constants = (f"{each} {getattr(hparams, each):g}" for each in read)
        return ", ".join([schedule.replace("legacy", f"legacy ({scheme})"), *constants])
    start = "" if factor == 1 else f"{factor:g} "
    return f"{start}d^-0.5 min(n^-0.5, n w^-1.5)"


_APPROXIMATELY = 0.15
_OF_SOURCE = "each side is near it, both together have twice it"
SETTINGS = (
    Setting("layers", "3.1", 6, 6, _layers),
    Setting("d_model", "3.1", 512, 1024, _hparam("hidden_size")),
    Setting("d_ff", "3.3", 2048, 4096, _hparam("filter_size")),
    Setting("heads", "3.2.2", 8, 16, _hparam("num_heads")),
    Setting(
        *("sublayer", "3.1", "LayerNorm(x + Sublayer(x))", "LayerNorm(x + Sublayer(x))", _norm),
        "T2T's sets without v1 are pre-norm",
    ),
    Setting(
        *("positions", "3.5", "timing", "timing", _hparam("pos")),
        "sines, then cosines, with exponents i / (d / 2 - 1), as T2T; the paper interleaves them, "
        "with 2 i / d",
    ),
    Setting(
        *("one table of embeddings", "3.4", True, True),
        _hparam("shared_embedding_and_softmax_weights"),
    ),
    Setting(
        *("residual dropout", "5.4", 0.1, 0.3, _hparam("layer_prepostprocess_dropout")),
        "big of English-French has 0.1, in the paper (section 6.1) and here",
    ),
    Setting(
        *("attention dropout", "", 0.0, 0.0, _hparam("attention_dropout")),
        "the paper names none; enfr_big_attention_dropout has T2T's 0.1",
    ),
    Setting("ReLU dropout", "", 0.0, 0.0, _hparam("relu_dropout"), "the paper names none"),
    Setting("label smoothing", "5.4", 0.1, 0.1, _hparam("label_smoothing")),
    Setting("Adam beta1", "5.3", 0.9, 0.9, _hparam("optimizer_adam_beta1")),
    Setting("Adam beta2", "5.3", 0.98, 0.98, _hparam("optimizer_adam_beta2")),
    Setting("Adam epsilon", "5.3", 1e-9, 1e-9, _hparam("optimizer_adam_epsilon")),
    Setting(
        *("rate of update n", "5.3", "d^-0.5 min(n^-0.5, n w^-1.5)"),
        *("d^-0.5 min(n^-0.5, n w^-1.5)", _rate),
        "where batches are gathered, n has the parts of an update too, as T2T's multistep_adam",
    ),
    Setting("warm-up updates w", "5.3", 4000, 4000, _hparam("learning_rate_warmup_steps")),
    Setting("updates", "5.2", 100_000, 300_000, _updates),
    Setting(
        *("source tokens an update", "5.1", 25_000, 25_000, _tokens("source")),
        f"{_OF_SOURCE}; gathered batches are means of means, each by its own tokens",
    ),
    Setting(
        *("target tokens an update", "5.1", 25_000, 25_000, _tokens("target")),
        "T2T: batch_size 4,096 (big: 2,048) on each device, padding included",
    ),
    Setting(
        *("updates between checkpoints", "6.1", 1389, 595, _recipe("updates")),
        "the paper's ten minutes on its 8 P100; --save_checkpoints_secs=600 goes by the clock",
    ),
    Setting(
        *("checkpoints averaged", "6.1", 5, 20, _recipe("averaged")),
        "table 3's rows average nothing, in the paper (section 6.2) and here: 1",
    ),
    Setting("beam", "6.1", 4, 4, _decoding("beam_size")),
    Setting("alpha", "6.1", 0.6, 0.6, _decoding("alpha")),
    Setting(
        *("most tokens more than the source", "6.1", 50, 50, _decoding("extra_length")),
        "T2T: 100",
    ),
)
# What models beside the paper's have, and the paper has not: shown of runs alone.
OF_OPPONENTS = (
    Setting("dropout", "", None, None, _of_an_opponent("dropout")),
    Setting("attention", "", None, None, _of_an_opponent("attention_mechanism")),
    Setting("repeats of a block", "", None, None, _of_an_opponent("num_block_repeat")),
    Setting("width of a convolution", "", None, None, _of_an_opponent("kernel_height")),
)
DEVIATIONS = (
    "The word pieces. translate_ende_wmt14: T2T's subwords, about 37,000, of 10 MB of each "
    "language. translate_ende_wmt14_bpe37k: 37,000 merges of byte pairs, which SentencePiece "
    "learns of the same lines, where the paper learnt them of tokenised text; punctuation and "
    "figures are cut from words all the same, rare characters are bytes, and text comes out as it "
    "went in.",
    "The data. Europarl 7, Common Crawl and News Commentary 9 as tensorflow-datasets lists them; "
    "the paper says WMT 2014's, about 4.5 million pairs, and not how they were cleaned. Here they "
    "are not.",
    "Attention's projections have no biases, as T2T 1.15.7's; those of June 2017 had (t2t-paper "
    "--tables=3).",
    "An average is of checkpoints by updates, where the paper's were by minutes: on faster devices "
    "ten minutes would be a large part of the training. Of table 2's rows perplexity and BLEU of "
    "dev are the average's too, where the paper's table 3 averages nothing.",
    "The paper's scores are multi-bleu's of tokenised text with compounds split; t2t-bleu computes "
    "that (compound_split) beside sacreBLEU, cased.",
)


def of_run(run: RunDirectory) -> dict[str, Any]:
    """Returns {setting: value} of a run; None: its files do not say it, or it has none.

    Raises:
        UserError: if they are not as the programs write them.
    """
    paths = [run.path / name for name in (PLAN, RECIPE_FILE)]
    said: list[Any] = [schema.read(path, dict) if path.is_file() else {} for path in paths]
    files = Files(run.config().hparams, *said)
    if averaged := run_records.averaged_in(run):  # a recipe says what was to be
        files.recipe["averaged"] = averaged
    try:
        return {setting.name: setting.read(files) for setting in (*SETTINGS, *OF_OPPONENTS)}
    except (KeyError, TypeError) as error:
        raise UserError(
            f"Expected {PLAN} and {RECIPE_FILE} in {run.path} as the programs write them. "
            f"Received: {error!r}. Remove what is not."
        ) from error


def table(runs: Sequence[RunScore] = ()) -> list[Table]:
    """Returns the settings: the paper's, T2T's sets' and ours, for base and big; and of runs."""
    ours = [_of_recipe(table2(f"ende_{model}")) for model in ("base", "big")]
    where = {"problem": "translate_ende_wmt32k"}
    sets = (registry.get_hparams(f"transformer_{model}") for model in ("base", "big"))
    t2t = [Files(hparams, {}, where) for hparams in sets]
    rows = []
    for setting in SETTINGS:
        theirs, mine = ([setting.read(files) for files in each] for each in (t2t, ours))
        values = map(_pair, ((setting.base, setting.big), theirs, mine))
        rows.append((setting.name, setting.section, *values, setting.note))
    heads = columns("setting | section | paper | T2T | ours | what differs")
    return [
        Table(
            "settings",
            "The paper's settings, T2T's and ours, for English-German: base; big",
            heads,
            rows,
            (
                "paper: arXiv 1706.03762. T2T: transformer_base and transformer_big of 1.15.7; "
                "empty: left to its user. ours: t2t-reproduce --rows=ende_base,ende_big.",
                *DEVIATIONS,
            ),
        ),
        *_of_runs(runs),
    ]


def _of_runs(runs: Sequence[RunScore]) -> list[Table]:
    found = {run.path: of_run(RunDirectory(run.path)) for run in runs}
    if not found:
        return []
    shown = [
        each
        for each in (*SETTINGS, *OF_OPPONENTS)
        if each in SETTINGS or any(of[each.name] is not None for of in found.values())
    ]
    rows = [
        (each.name, _pair((each.base, each.big)), *(_shown(of[each.name]) for of in found.values()))
        for each in shown
    ]
    heads = (*columns("setting | paper"), *map(Column, found))
    note = "Of the runs: as their files say it; empty: they do not, or the model has no such thing."
    return [Table("settings-runs", "The settings of the runs given", heads, rows, (note,))]


def _of_recipe(recipe: Recipe) -> Files:
    values = json.loads(json.dumps(dataclasses.asdict(recipe)))
    return Files(registry.get_hparams(recipe.hparams_set, recipe.hparams), {}, values)


def _pair(values: Sequence[Any]) -> str:
    return "; ".join(dict.fromkeys(map(_shown, values)))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
