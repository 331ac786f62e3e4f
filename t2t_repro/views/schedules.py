"""Learning-rate schedules of several hparam sets, drawn together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from t2t_repro.config import HParams
from t2t_repro.training import learning_rate
from t2t_repro.views import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 500


def steps(sets: Mapping[str, HParams], last: int | None) -> np.ndarray:
    """Returns the steps to draw, evenly on both axes, and the ends of the warm-ups.

    They go from 1 to `last`; None: to five times the longest warm-up, at least to 1,000.
    """
    warmups = [hparams.learning_rate_warmup_steps for hparams in sets.values()]
    last = last or max(5 * max(warmups), 1000)
    evenly = np.linspace(1, last, POINTS), np.geomspace(1, last, POINTS)
    ends = [steps for steps in warmups if 1 <= steps <= last]
    return np.unique(np.concatenate([*evenly, ends]).round().astype(int))


def rates(sets: Mapping[str, HParams], at: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the learning rate of each set at each step: float32, as the optimizer gets it."""
    made = {name: learning_rate.schedule(hparams) for name, hparams in sets.items()}
    return {
        name: np.broadcast_to(np.asarray(schedule(at.astype("float32"))), at.shape)
        for name, schedule in made.items()
    }


def picture(at: np.ndarray, of: Mapping[str, np.ndarray]) -> "Figure":
    """Draws the rates against the steps, on plain and on logarithmic axes."""
    figure, (plain, logarithmic) = pictures.figure(2, title="Learning rate")
    for axes in (plain, logarithmic):
        for number, (name, values) in enumerate(of.items()):
            style = ("-", "--", ":", "-.")[number // len(pictures.COLORS) % 4]
            axes.plot(at, values, style, label=name)
        axes.set_xlabel("step")
    plain.set_ylabel("learning rate")
    plain.ticklabel_format(axis="y", scilimits=(-2, 2))
    logarithmic.set(xscale="log", yscale="log")
    logarithmic.legend(fontsize=7)
    return figure


def rows(at: np.ndarray, of: Mapping[str, np.ndarray]) -> list[list]:
    """Returns the rows of a table of names, steps and the rate of each set."""
    columns = (at.tolist(), *(values.tolist() for values in of.values()))
    return [["step", *of], *map(list, zip(*columns, strict=True))]
