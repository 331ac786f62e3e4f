"""The results, as one HTML file without scripts, and as lines."""

import importlib.resources
import itertools
import json
import shlex
from typing import Any

import jinja2

from t2t_repro import schema
from t2t_repro.corpora.checks.examine import path_of
from t2t_repro.decoding import tune
from t2t_repro.files import write_text_atomic
from t2t_repro.own_text.plan import NO_TRANSLATOR, Plan
from t2t_repro.own_text.request import PROBLEM, Folder
from t2t_repro.page_policy import page_policy
from t2t_repro.progress import took
from t2t_repro.provenance import read
from t2t_repro.run_directory import RunDirectory
from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.stages import Record
from t2t_repro.text import raw
from t2t_repro.views import pictures
from t2t_repro.views.run_view import RunView, view

_SAMPLES = 20
_LABELS = {
    "sacrebleu": "sacreBLEU, cased: the score to report",
    "sacrebleu_lowercase": "sacreBLEU, lower-cased",
    "chrf2": "chrF2",
}


def write(folder: Folder, record: Record, plan: Plan) -> None:
    """Writes the page.

    Args:
        folder: that of the job.
        record: the finished stages.
        plan: that of the training.
    """
    template = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    sources, references = (list(raw.lines(path)) for path in folder.sides("test"))
    samples = zip(sources, references, raw.lines(folder.translations), strict=False)
    page = environment.from_string(template).render(
        policy=page_policy(template, "img-src data:"),
        folder=folder,
        record=record,
        plan=plan,
        took=took,
        summary=summary(folder, record, plan),
        labels=_LABELS,
        scores=record.stages["test"].found,
        copied=SacreBleu(references).score(sources),
        samples=itertools.islice(samples, _SAMPLES),
        made=json.loads(folder.summary.read_bytes()),
        check=_check(folder),
        report=path_of(folder.data, PROBLEM).relative_to(folder.path),
        curves=_curves(view(RunDirectory(folder.run))),
        tuned=tune.read(folder.model),
        next="\n".join(next_steps(folder, plan)),
    )
    write_text_atomic(folder.page, page)


def summary(folder: Folder, record: Record, plan: Plan) -> list[str]:
    """Returns the results, in lines."""
    lines = [f"All {len(record.stages)} stages are done."]
    found = tune.read(folder.model)
    if found and found.search.bleu < NO_TRANSLATOR:
        lines.append(
            f"No usable translator yet: {found.search.bleu:.1f} BLEU on dev is below "
            f"{NO_TRANSLATOR:.0f}. More text or training helps. The plan said: {plan.expects}"
        )
    for name, label in _LABELS.items():
        score = record.stages["test"].found[name]
        lines.append(f"test: {score['score']:.2f} {label} ({score['signature']})")
    return lines


def next_steps(folder: Folder, plan: Plan) -> list[str]:
    """Returns the commands that use the model."""
    model, export = shlex.quote(str(folder.model)), folder.export / "saved_model"
    languages = _check(folder).get("languages", ())
    pair = "-".join(languages) + "=" if all(languages) and len(set(languages)) == 2 else ""
    of_export = read(export)
    steps = [f"t2t-server --model={pair}{shlex.quote(str(export))}"]
    if of_export and of_export.example:
        body = json.dumps({"inputs": of_export.example.source}, ensure_ascii=False)
        steps.append(f"curl http://127.0.0.1:8000/translate -d {shlex.quote(body)}")
    steps += [
        f"t2t-decoder --output_dir={model} --decode_interactive",
        f"t2t-decoder --output_dir={model} --decode_from_file=FILE --decode_to_file=OUT",
        f"t2t-show {model} --verify",
    ]
    if plan.train_steps < plan.wanted_steps:
        steps.append(f"to train {plan.wanted_steps:,} steps: rerun t2t-own-text {plan.to_the_end}")
    return steps


def _check(folder: Folder) -> dict[str, Any]:
    """Returns the report of the check of the text; {}: there is none."""
    path = path_of(folder.data, PROBLEM)
    return schema.read(path, dict[str, Any]) if path.exists() else {}


def _curves(of: RunView) -> str:
    """Returns the curves of loss and BLEU as a picture, "" where there are none."""
    if "dev loss" not in of.curves:
        return ""
    figure, (left, right) = pictures.figure(2)
    for name in ("train loss", "dev loss"):
        left.plot(*zip(*of.curves.get(name, [(0, 0.0)]), strict=True), label=name)
    left.legend(fontsize=8)
    right.plot(*zip(*of.curves.get("dev bleu", [(0, 0.0)]), strict=True), marker=".")
    right.set_title("Dev BLEU, greedy decoding")
    for axes in (left, right):
        axes.set_xlabel("step")
    return pictures.data_uri(pictures.png(figure))
