"""t2t-visualize: pictures of a model: its attention, its positions, its learning rate.

  t2t-visualize --output_dir=RUN --source="A dog runs on the beach."
  t2t-visualize --output_dir=RUN --source="A dog runs." --target="Ein Hund rennt."
  t2t-visualize --output_dir=RUN --positions
  t2t-visualize --hparams_set=transformer_base --positions
  t2t-visualize --schedules=transformer_base_v1,transformer_base,transformer_big

The first draws what every head of every layer looks at while the model writes its own translation,
or that of --target: attention.html is a page to explore in a browser (pick layer and head, point at
a word), with the PNGs of all heads, and heads.csv and heads.json say which heads look at the next,
the previous or the same word, or at the end mark. attention.npz holds the weights.
"""

import dataclasses
import json
import os
from pathlib import Path

from absl import flags

from t2t_repro import cli, progress, registry
from t2t_repro.errors import UserError
from t2t_repro.files import write_csv, write_text_atomic, writing
from t2t_repro.runs import trained_run

_READ_BY = {  # what is drawn, and the flags that only it reads
    "source": ("target", "decode_hparams"),
    "positions": ("length",),
    "schedules": ("last_step",),
}


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-visualize's flags."""
    cli.define_run_flags(f)

    def string(name: str, text: str) -> None:
        flags.DEFINE_string(name, None, text, flag_values=f)

    def whole(name: str, most: int, text: str) -> None:
        flags.DEFINE_integer(name, None, text, lower_bound=2, upper_bound=most, flag_values=f)

    string("source", "A sentence, to draw the attention of.")
    string("target", "Its translation; default: the model's own.")
    string("decode_hparams", 'How to translate: "beam_size=4,alpha=0.6".')
    string("checkpoint_path", "The checkpoint; default: the newest of --output_dir.")
    flags.DEFINE_bool("positions", False, "Draw what tells words' positions.", flag_values=f)
    whole("length", 10_000, "How many positions; default: 100, or all that the model has learned.")
    string("schedules", "Draw the learning rate of these hparam sets, with commas between.")
    text = "The last step of --schedules; default: five times the longest warm-up."
    whole("last_step", 10**9, text)
    text = "Where the files go; default: RUN/visualization, or visualization without a run."
    string("visualization_dir", text)


def main(args: flags.FlagValues) -> None:
    """Draws what the flags name."""
    _check(args)
    default = os.path.join(args.output_dir or "", "visualization")
    folder = Path(args.visualization_dir or default).expanduser()
    written: list[Path] = []
    if args.source is not None:
        written += attention(args, folder)
    if args.positions:
        written += positions(args, folder)
    if args.schedules is not None:
        written += schedules(args.schedules, args.last_step, folder)
    for path in written:
        print(f"Written to {path}.")


def attention(args: flags.FlagValues, folder: Path) -> list[Path]:
    """Draws the attention of the sentence that the flags name; returns the files."""
    from t2t_repro.decoding.settings import DecodeHParams

    run = trained_run(**cli.run_flags(args))
    settings = DecodeHParams.parse(args.decode_hparams or "", run.problem.decode_hparams)

    import numpy as np

    from t2t_repro.views import attention, attention_page, attention_pictures, pictures

    model = run.model(args.checkpoint_path, with_weights=True, say=progress.on_stderr)
    encoders = run.encoders
    ids = attention.sentence_ids(model, encoders, args.source, args.target, settings)
    maps = attention.maps(model, encoders, *ids)
    heads = [head for each in maps for head in attention.heads(each)]
    written = encoders["targets"].decode([i for i in ids[1] if i > 1])
    files = {f"{each.kind}.png": attention_pictures.weights(each) for each in maps}
    files["heads.png"] = attention_pictures.overview(heads)
    for name, figure in files.items():
        pictures.save(figure, folder / name)
    with writing(folder / "attention.npz", "wb") as file:
        weights = {each.kind: each.weights for each in maps}
        np.savez_compressed(file, **weights)  # type: ignore[arg-type]
    content = {
        "source": args.source,
        "target": written,
        "target_is_the_models_own": args.target is None,
        "source_tokens": attention.tokens(encoders["inputs"], ids[0]),
        "target_tokens": attention.tokens(encoders["targets"], ids[1]),
        "heads": [dataclasses.asdict(head) for head in heads],
    }
    texts = {
        "heads.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n",
        "attention.html": attention_page.page(maps, heads, f"What {run.path.name} looks at"),
    }
    for name, text in texts.items():
        write_text_atomic(folder / name, text)
    write_csv(folder / "heads.csv", attention.rows(heads))
    print(f"{args.source}\n{written}")
    for each in maps:
        print(f"{each.title}: {_summary(each.kind, heads)}")
    names = (*files, "attention.npz", "heads.json", "heads.csv", "attention.html")
    return [folder / name for name in names]


def positions(args: flags.FlagValues, folder: Path) -> list[Path]:
    """Draws the positions of a run's model, or the signal of an hparam set; returns the files."""
    from t2t_repro.views import pictures
    from t2t_repro.views import positions as report

    if args.output_dir:
        run = trained_run(**cli.run_flags(args))
        model = run.model(args.checkpoint_path, say=progress.on_stderr)
        signals = report.of_model(model, args.length)
    else:
        hparams = registry.get_hparams(args.hparams_set, args.hparams)
        if hparams.pos != "timing":
            raise UserError(
                f"Expected an hparam set with pos=timing. Received: pos={hparams.pos}, whose "
                "positions only a trained model has. Give --output_dir of a run."
            )
        signals = {"sinusoids": report.sinusoids(args.length or report.LENGTH, hparams.hidden_size)}
    pictures.save(report.picture(signals), folder / "positions.png")
    write_csv(folder / "positions.csv", report.rows(signals), ".6f")
    return [folder / "positions.png", folder / "positions.csv"]


def schedules(names: str, last_step: int | None, folder: Path) -> list[Path]:
    """Draws the learning rates of hparam sets, with commas between; returns the files."""
    sets = {name: registry.get_hparams(name) for part in names.split(",") if (name := part.strip())}
    if not sets:
        raise UserError(
            f'Expected --schedules="set,set". Received: {names!r}. t2t-trainer --registry_help '
            "lists the hparam sets."
        )
    from t2t_repro.views import pictures
    from t2t_repro.views import schedules as report

    at = report.steps(sets, last_step)
    rates = report.rates(sets, at)
    pictures.save(report.picture(at, rates), folder / "schedules.png")
    write_csv(folder / "schedules.csv", report.rows(at, rates), ".8g")
    for name, values in rates.items():
        top = int(values.argmax())
        print(f"{name}: {values[top]:.3e} at step {at[top]}, {values[-1]:.3e} at step {at[-1]}")
    return [folder / "schedules.png", folder / "schedules.csv"]


def _summary(kind: str, heads) -> str:
    """Returns such as "12 heads; 2 look at next (0.1 1.3), 1 at end (2.0)"."""
    of_kind = [head for head in heads if head.kind == kind]
    named: dict[str, list[str]] = {}
    for head in of_kind:
        if head.looks_at:
            named.setdefault(head.looks_at, []).append(f"{head.layer}.{head.head}")
    what = [f"{len(numbers)} at {name} ({' '.join(numbers)})" for name, numbers in named.items()]
    return f"of {len(of_kind)} heads look {', '.join(what) or 'none mostly at one place'}"


def _check(args: flags.FlagValues) -> None:
    """Refuses what draws nothing, and flags that nothing asked for reads."""
    asked = [name for name in _READ_BY if args[name].present and args[name].value is not False]
    if not asked:
        raise UserError(
            'Expected something to draw: --source="a sentence", --positions or '
            "--schedules=SET,SET. Received: none of them."
        )
    for name, own in _READ_BY.items():
        for flag in own if name not in asked else ():
            if args[flag].present:
                raise UserError(f"--{flag} works with --{name}. Received: it alone. Leave it out.")
    if args.target is not None and args.decode_hparams:
        raise UserError(
            "Expected --target or --decode_hparams. Received: both; a translation that is given "
            "is not searched for. Leave one out."
        )
    if args.positions and not (args.output_dir or args.hparams_set):
        raise UserError(
            "Expected --output_dir of a run, or --hparams_set, with --positions. Received: neither."
        )


console = cli.program(__name__, "t2t-visualize", __doc__, define_flags, main)
