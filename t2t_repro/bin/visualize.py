"""t2t-visualize: pictures of a model: its attention, its positions, its learning rate.

  t2t-visualize --output_dir=RUN --source="A dog runs on the beach."
  t2t-visualize --output_dir=RUN --source="A dog runs." --target="Ein Hund rennt."
  t2t-visualize --output_dir=RUN --explain=page.html
  t2t-visualize --output_dir=RUN --positions
  t2t-visualize --hparams_set=transformer_base --positions
  t2t-visualize --schedules=transformer_base_v1,transformer_base,transformer_big
  t2t-visualize --schedules=transformer_base --hparams=learning_rate_warmup_steps=4000

The first draws what every head of every layer looks at while the model writes its own translation,
or that of --target: attention.html is a page to explore in a browser (pick layer and head, point at
a word), with the PNGs of all heads, and heads.csv and heads.json say which heads look at the next,
the previous or the same word, or at the end mark. attention.npz holds the weights.

--explain writes one page that computes: the run's weights, the forward pass and the beam search in
a browser, without a network. It shows subwords, attention and the beam of any sentence, and what
becomes of it where a head, a layer, the positions, the mask or the scaling is switched off.
"""

import dataclasses
import functools
import json
import os
from pathlib import Path

from absl import flags

from t2t_repro import cli, progress, registry
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import write_csv, write_text_atomic, writing
from t2t_repro.runs import TrainedRun, trained_run


@dataclasses.dataclass(frozen=True)
class Request:
    """What t2t-visualize is asked for: its flags, by their names.

    Raises:
        UserError: if nothing is asked for, or flags contradict each other.
    """

    output_dir: str | None
    data_dir: str | None
    problem: str | None
    hparams_set: str | None
    hparams: str
    source: str | None = flag(None, "A sentence, to draw the attention of.")
    target: str | None = flag(None, "Its translation; default: the model's own.")
    decode_hparams: str | None = flag(None, 'How to translate: "beam_size=4,alpha=0.6".')
    checkpoint_path: str | None = flag(
        None, "The checkpoint; default: the newest of --output_dir, of RUN/best the best."
    )
    explain: str | None = flag(
        None, "Write a page here that computes translations in a browser, step by step."
    )
    positions: bool = flag(False, "Draw what tells words' positions.")
    length: int | None = flag(
        None,
        "How many positions; default: 100, or all that the model has learned.",
        least=2,
        most=10_000,
    )
    schedules: str | None = flag(
        None, "Draw the learning rate of these hparam sets, with commas between."
    )
    last_step: int | None = flag(
        None,
        "The last step of --schedules; default: five times the longest warm-up, at least 1,000.",
        least=2,
        most=10**9,
    )
    visualization_dir: str | None = flag(
        None, "Where the files go; default: RUN/visualization, or visualization without a run."
    )

    def __post_init__(self):
        if not (self.source or self.schedules or self.positions or self.explain):
            raise UserError(
                'Expected something to draw: --source="a sentence", --explain=FILE, --positions or '
                "--schedules=SET,SET. Received: none of them."
            )
        if self.positions and not (self.output_dir or self.hparams_set):
            raise UserError(
                "Expected --output_dir of a run, or --hparams_set, with --positions. Received: "
                "neither."
            )

    @property
    def folder(self) -> Path:
        """The folder for the files."""
        default = os.path.join(self.output_dir or "", "visualization")
        return Path(self.visualization_dir or default).expanduser()

    @functools.cached_property
    def run(self) -> TrainedRun:
        """The run in output_dir.

        Raises:
            UserError: as `trained_run`.
        """
        run = trained_run(
            self.output_dir,
            self.data_dir,
            problem=self.problem,
            hparams_set=self.hparams_set,
            hparams=self.hparams,
        )
        run.check_transformer("pictures of its layers")
        run.check_checkpoint(self.checkpoint_path)
        return run


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-visualize's flags."""
    cli.define_run_flags(f)
    cli.define_request_flags(f, Request)


def main(args: flags.FlagValues) -> None:
    """Draws what the flags name."""
    request = cli.request(args, Request)
    written: list[Path] = []
    if request.explain:
        written.append(explain(request, Path(request.explain).expanduser()))
    elif request.source is not None:
        written += attention(request, request.source)
    if request.positions:
        written += positions(request)
    if request.schedules is not None:
        written += schedules(request, request.schedules)
    for path in written:
        print(f"Written to {path}.")


def explain(request: Request, path: Path) -> Path:
    """Writes the page that computes; returns its file."""
    run = request.run
    settings = run.decode_settings(request.decode_hparams, say=progress.on_stderr)

    from t2t_repro import provenance
    from t2t_repro.views import explainer

    model = run.model(request.checkpoint_path, with_weights=True, say=progress.on_stderr)
    found = provenance.read(run.path)
    example = found.example.source if found and found.example else ""
    page = explainer.page(
        model,
        run.encoders,
        f"{run.path.name}: {run.problem.name}",
        request.source or example,
        *(settings.beam_size, settings.alpha, settings.extra_length),
    )
    write_text_atomic(path, page)
    return path


def attention(request: Request, source: str) -> list[Path]:
    """Draws the attention of a sentence and its translation; returns the files."""
    run, folder = request.run, request.folder
    settings = run.decode_settings(request.decode_hparams, say=progress.on_stderr)
    settings = settings.searching

    import numpy as np

    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.views import attention, attention_page, attention_pictures, pictures

    model = run.model(request.checkpoint_path, with_weights=True, say=progress.on_stderr)
    encoders = run.encoders
    translator = run.translator(ModelEngine(model), settings, warn=lambda text: None)
    ids = attention.sentence_ids(model, encoders, source, request.target, translator)
    maps = attention.maps(model, encoders, *ids)
    heads = [head for each in maps for head in attention.heads(each)]
    written = encoders["targets"].decode([i for i in ids[1] if i > 1])
    figures = {f"{each.kind}.png": attention_pictures.weights(each) for each in maps}
    figures["heads.png"] = attention_pictures.overview(heads)
    for name, figure in figures.items():
        pictures.save(figure, folder / name)
    with writing(folder / "attention.npz", "wb") as file:
        weights = {each.kind: each.weights for each in maps}
        np.savez_compressed(file, **weights)  # type: ignore[arg-type]
    content = {
        "source": source,
        "target": written,
        "target_is_the_models_own": request.target is None,
        "source_tokens": attention.tokens(encoders["inputs"], ids[0]),
        "target_tokens": attention.tokens(encoders["targets"], ids[1]),
        "heads": [dataclasses.asdict(head) for head in heads],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_text_atomic(folder / "heads.json", text)
    write_csv(folder / "heads.csv", attention.rows(heads))
    page = attention_page.page(maps, heads, f"What {run.path.name} looks at")
    write_text_atomic(folder / "attention.html", page)
    print(f"{source}\n{written}")
    for each in maps:
        print(f"{each.title}: {attention.summary(each.kind, heads)}")
    names = (*figures, "attention.npz", "heads.json", "heads.csv", "attention.html")
    return [folder / name for name in names]


def positions(request: Request) -> list[Path]:
    """Draws the positions of a run's model, or the signal of an hparam set; returns the files."""
    from t2t_repro.views import positions

    if request.output_dir:
        model = request.run.model(request.checkpoint_path, say=progress.on_stderr)
        signals = positions.of_model(model, request.length)
    else:
        assert request.hparams_set  # or it would have been refused
        hparams = registry.get_hparams(request.hparams_set, request.hparams)
        if hparams.pos != "timing":
            raise UserError(
                f"Expected an hparam set with pos=timing. Received: pos={hparams.pos}, whose "
                "positions only a trained model has. Give --output_dir of a run."
            )
        length = request.length or positions.LENGTH
        signals = {"sinusoids": positions.sinusoids(length, hparams.hidden_size)}
    return _draw(
        request.folder / "positions", positions.picture(signals), positions.rows(signals), ".6f"
    )


def schedules(request: Request, names: str) -> list[Path]:
    """Draws the learning rates of hparam sets, with commas between; returns the files."""
    stripped = filter(None, map(str.strip, names.split(",")))
    sets = {name: registry.get_hparams(name, request.hparams) for name in stripped}
    if not sets:
        raise UserError(
            f'Expected --schedules="set,set". Received: {names!r}. t2t-trainer --registry_help '
            "lists the hparam sets."
        )
    from t2t_repro.views import schedules

    at = schedules.steps(sets, request.last_step)
    rates = schedules.rates(sets, at)
    written = _draw(
        request.folder / "schedules", schedules.picture(at, rates), schedules.rows(at, rates), ".8g"
    )
    for name, values in rates.items():
        top = int(values.argmax())
        print(f"{name}: {values[top]:.3e} at step {at[top]}, {values[-1]:.3e} at step {at[-1]}")
    return written


def _draw(path: Path, figure, rows: list[list], floats: str) -> list[Path]:
    """Writes a picture and its numbers under a name; returns both files."""
    from t2t_repro.views import pictures

    pictures.save(figure, path.with_suffix(".png"))
    write_csv(path.with_suffix(".csv"), rows, floats)
    return [path.with_suffix(".png"), path.with_suffix(".csv")]


console = cli.program(__name__, "t2t-visualize", __doc__, define_flags, main)
