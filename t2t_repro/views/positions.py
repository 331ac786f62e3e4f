"""Position signals and learned positions as pictures."""

from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.layers.embedding import SinusoidalPositions
from t2t_repro.models.transformer import Transformer
from t2t_repro.views import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LENGTH = 100  # positions that a picture shows


def of_model(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the positions of a model: {"sinusoids"} or {"inputs", "targets"}, (L, D).

    L is LENGTH, or as many as the model has learned, if they are fewer.

    Raises:
        UserError: if it adds nothing.
    """
    width = model.hparams.hidden_size
    if model.hparams.pos == "timing":
        return {"sinusoids": _added_by(SinusoidalPositions(), LENGTH, width)}
    most = model.learned_positions
    if most is None:
        raise UserError(
            "Expected a model with positional encodings. Received: hparam "
            f"pos={model.hparams.pos}. Omit --positions."
        )
    length = min(LENGTH, most)
    layers = {"inputs": model.inputs_position, "targets": model.targets_position}
    return {name: _added_by(layer, length, width) for name, layer in layers.items()}


def picture(signals: dict[str, np.ndarray]) -> "Figure":
    """Draws each signal (L, D), and below it the cosine of two positions."""
    columns = len(signals)
    figure, axes = pictures.figure(columns, 2, title="Positions", width=5.0, height=3.4, grid=False)
    for i, (name, signal) in enumerate(signals.items()):
        limit = float(np.abs(signal).max()) or 1.0
        norms = np.linalg.norm(signal, axis=-1, keepdims=True)
        unit = signal / np.maximum(norms, 1e-9)
        style: dict[str, Any] = {"cmap": pictures.SIGNED, "aspect": "auto"}
        above, below = axes[i], axes[columns + i]
        drawn = above.imshow(signal, vmin=-limit, vmax=limit, interpolation="nearest", **style)
        figure.colorbar(drawn, ax=above)
        above.set(title=f"{name}: the encodings", xlabel="channel", ylabel="position")
        drawn = below.imshow(unit @ unit.T, vmin=-1, vmax=1, interpolation="nearest", **style)
        figure.colorbar(drawn, ax=below)
        below.set(title=f"{name}: cosine of two encodings", xlabel="position", ylabel="position")
    return figure


def rows(signals: dict[str, np.ndarray]) -> list[list]:
    """Returns the rows of a table of names, and of each signal's positions with every channel."""
    width = next(iter(signals.values())).shape[-1]
    table: list[list] = [["signal", "position", *range(width)]]
    for name, signal in signals.items():
        table += [[name, position, *row] for position, row in enumerate(signal.tolist())]
    return table


def _added_by(layer: Any, length: int, width: int) -> np.ndarray:
    return np.asarray(layer(np.zeros((1, length, width), "float32")), "float32")[0]
