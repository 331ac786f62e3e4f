"""t2t-bleu: scores translations by sacreBLEU, tensor2tensor's BLEU and the paper's.

One translated file:
    t2t-bleu --translation=my-wmt13.de --reference=wmt13_deen.de
Two translations of the same sentences, compared by sacreBLEU's paired bootstrap:
    t2t-bleu --translation=my.de --baseline=theirs.de --reference=wmt13_deen.de
All files of a directory whose names end in -STEP, and those that appear meanwhile:
    t2t-bleu --translations_dir=my-translations --reference=wmt13_deen.de --event_dir=events

The files are plain text (or .gz), one sentence a line, detokenised. The BLEU variants in the
table are not comparable with each other; report "sacrebleu" with its signature.
"""

import dataclasses

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import check_outputs, write_json
from t2t_repro.scoring.bleu import score
from t2t_repro.scoring.files import lines_of
from t2t_repro.scoring.significance import paired
from t2t_repro.views import scores as view


@dataclasses.dataclass(frozen=True, kw_only=True)
class BleuFlags:
    """The flags of t2t-bleu for one translation."""

    translation: str | None = flag(None, "The translated file.")
    baseline: str | None = flag(
        None, "Compare --translation with this file; print BLEU scores, intervals and the p-value."
    )
    json_file: str | None = flag(None, "A JSON file to write all scores and signatures to.")


def main(args: flags.FlagValues) -> None:
    if (args.translation is None) == (args.translations_dir is None):
        received = "neither" if args.translation is None else "both"
        raise UserError(
            "Expected either --translation=FILE or --translations_dir=DIRECTORY. Received: "
            f"{received}."
        )
    if args.reference is None:
        raise UserError("Expected --reference=FILE, the reference translation. Received: none.")
    cli.warn_unused(args, ["baseline"] if args.translation is None else ["event_dir"])
    files = ("translation", "reference", "baseline")
    check_outputs(
        {"--json_file": args.json_file}, {f"--{name}": args[name].value for name in files}
    )
    report: dict | list
    if args.translation is not None:
        lines, references = lines_of(args.translation, args.reference)
        scores = score(lines, references)
        view.print_t2t_lines(scores, args.bleu_variant)
        view.print_table(scores)
        report = {"translation": args.translation, **scores.as_dict()}
        if args.baseline is not None:
            compared = paired(lines_of(args.baseline, args.reference)[0], lines, references)
            print(compared)
            report["paired"] = {"baseline_file": args.baseline, **dataclasses.asdict(compared)}
    else:
        report = _score_directory(cli.request(args, view.DirectoryRequest))
    if args.json_file is not None:
        write_json(args.json_file, report, ensure_ascii=False)


def _score_directory(request: view.DirectoryRequest) -> list[dict]:
    results = []
    for file, scores in view.score_directory(request):
        view.print_t2t_lines(scores, request.bleu_variant, prefix=f"{file.path}: ")
        results.append((file, scores))
    if not results:
        raise UserError(
            "Expected files whose names end in -STEP, such as translation-1000. Received: none to "
            f"score in {request.translations_dir!r}. Give --min_steps=0 to score "
            f"all steps, whatever EVENT_DIR/{view.LAST_STEP_FILE} says."
        )
    view.print_step_table(results)
    return view.as_rows(results)


console = cli.program(__name__, "t2t-bleu", __doc__, (BleuFlags, view.DirectoryRequest), main)
