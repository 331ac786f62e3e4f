"""t2t-visualize: pictures of a trained model: its attention and its positions.

  t2t-visualize --output_dir=RUN --source="A dog runs on the beach."
  t2t-visualize --output_dir=RUN --source="A dog runs." --target="Ein Hund rennt."
  t2t-visualize --output_dir=RUN --explain=page.html
  t2t-visualize --output_dir=RUN --positions

--source draws the attention of every head while the model writes its own translation, or --target.
attention.html shows it in a browser (pick layer and head, point at a word), beside the PNGs of all
heads. heads.csv and heads.json list which heads attend to the next, the previous or the same word,
or to the end mark. attention.npz holds the weights.

--explain writes one page with the run's weights, the forward pass and the beam search. It works in
a browser offline. It shows subwords, attention and the beam of any sentence, also with
a head, a layer, the positions, the mask or the scaling switched off.
"""

import dataclasses
from pathlib import Path

from absl import flags

from t2t_repro import cli, progress
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import write_csv, write_json, write_text_atomic, writing
from t2t_repro.runs import TrainedRun, trained_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class VisualizeRequest:
    """The flags of t2t-visualize, except those that name the run."""

    source: str | None = flag(None, "A sentence whose attention to draw.")
    target: str | None = flag(None, "The translation of --source; default: the model's own.")
    decode_hparams: str | None = flag(None, 'Decode hparams: "beam_size=4,alpha=0.6".')
    checkpoint_path: str | None = flag(
        None, "A ckpt-STEP folder; default: the newest in --output_dir (in RUN/best, the best)."
    )
    explain: str | None = flag(None, "The file for a page that runs the model in a browser.")
    positions: bool = flag(False, "Draw the model's positional encodings.")
    visualization_dir: str | None = flag(None, "Where to write; default: RUN/visualization.")


def main(args: flags.FlagValues) -> None:
    """Draws what the flags name."""
    request = cli.request(args, VisualizeRequest)
    if not (request.source or request.positions or request.explain):
        raise UserError(
            'Expected something to draw: --source="a sentence", --explain=FILE or --positions. '
            "Received: none of them."
        )
    run = trained_run(**cli.run_flags(args))
    run.check_transformer("--source, --explain or --positions")
    run.check_checkpoint(request.checkpoint_path)
    folder = Path(request.visualization_dir or run.path / "visualization").expanduser()
    written: list[Path] = []
    if request.explain:
        written.append(explain(run, request, Path(request.explain).expanduser()))
    elif request.source:
        written += attention(run, request, request.source, folder)
    if request.positions:
        written += positions(run, request, folder)
    for path in written:
        print(f"Written to {path}.")


def explain(run: TrainedRun, request: VisualizeRequest, path: Path) -> Path:
    """Writes the page that computes; returns its file."""
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
        settings,
    )
    write_text_atomic(path, page)
    return path


def attention(run: TrainedRun, request: VisualizeRequest, source: str, folder: Path) -> list[Path]:
    """Draws the attention of a sentence and its translation; returns the files."""
    settings = run.decode_settings(request.decode_hparams, say=progress.on_stderr)

    import numpy as np

    from t2t_repro.decoding.engine import ModelEngine
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
    write_json(folder / "heads.json", content, ensure_ascii=False)
    write_csv(folder / "heads.csv", content["heads"], ".6f")
    page = attention_page.page(maps, heads, f"Attention of {run.path.name}")
    write_text_atomic(folder / "attention.html", page)
    print(f"{source}\n{written}")
    for each in maps:
        print(f"{each.title}: {attention.summary(each.kind, heads)}")
    names = (*figures, "attention.npz", "heads.json", "heads.csv", "attention.html")
    return [folder / name for name in names]


def positions(run: TrainedRun, request: VisualizeRequest, folder: Path) -> list[Path]:
    """Draws the positions of a run's model; returns the files."""
    from t2t_repro.views import pictures, positions

    signals = positions.of_model(run.model(request.checkpoint_path, say=progress.on_stderr))
    paths = [folder / "positions.png", folder / "positions.csv"]
    pictures.save(positions.picture(signals), paths[0])
    write_csv(paths[1], positions.rows(signals), ".6f")
    return paths


console = cli.program(__name__, "t2t-visualize", __doc__, (cli.RunFlags, VisualizeRequest), main)
