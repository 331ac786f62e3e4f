"""Small models that tell words of a sentence at its end: what reaches how far, and how surely.

A sentence has n words, of which some have a role, and an end, where the model says which they are:

    words and roles -> embeddings, added -> the layers that are tried, each x + layer(norm(x))
    -> at the end of the sentence x + feed-forward(norm(x)) -> norm -> logits of each role's word

A role is read, as a case ending is: what has to be learned is to bring its word to the end. An
experiment is a `Study`: variants of the layers, and where the words stand. All variants see the
same batches. Only Keras's own training is used: a plain loss, Adam at one rate, no dropout.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_repro import __version__, progress, schema
from t2t_repro.files import write_text_atomic

DISTANCES = (2, 8, 26, 80)  # n: with the end 3^1 to 3^4 positions, what dilated kernels of 3 see
STEPS = 300
SEEDS = 2
RATE = 3e-3
SENTENCES = 32  # to a step
TRIED = 512  # sentences of the accuracy
WORDS = 10  # different ones
WIDTH, FILTERS = 32, 128
GUESSED = 1 / WORDS  # the accuracy of who knows nothing
END = 0  # the id at the end of a sentence

Layers = Callable[[int], Sequence[keras.layers.Layer]]
# From random numbers, sentences and n: the place of each role, a whole number (B, roles).
Places = Callable[[np.random.Generator, int, int], np.ndarray]


class Variant(NamedTuple):
    """What is tried.

    layers: makes those for sentences of n words, each from (B, n + 1, D) to the same.
    path: how many steps a signal goes from the first word to the end.
    """

    layers: Layers
    path: Callable[[int], int]


class Row(NamedTuple):
    """A row of the CSV: one training; `accuracy` is that of words in sentences not trained on."""

    variant: str
    distance: int
    path: int
    seed: int
    accuracy: float


@dataclasses.dataclass(frozen=True)
class Study:
    """An experiment.

    Args:
        name: as its files are called.
        variants: by name.
        roles: how many words are to be told.
        places: where they stand.
    """

    name: str
    variants: Mapping[str, Variant]
    roles: int
    places: Places

    def accuracies(self, rows: Sequence[Row], variant: str) -> dict[int, list[float]]:
        """Returns {n: the accuracy of each seed} of a variant."""
        return {n: [r.accuracy for r in rows if r[:2] == (variant, n)] for n in DISTANCES}


@dataclasses.dataclass(frozen=True)
class _Trainings:
    """Those that have ended, as they lie on the disk."""

    settings: dict[str, Any]
    rows: list[tuple[str, int, int, int, float]]


def run(study: Study, folder: Path) -> list[Row]:
    """Trains each variant at each distance with each seed, and returns their rows.

    Each training that ends is kept in `folder`, so that the next call goes on behind it.

    Raises:
        schema.Malformed: if what is kept there is not as it was written.
    """
    file = folder / f"{study.name}.trainings.json"
    rows = kept(file)
    total = len(DISTANCES) * len(study.variants) * SEEDS * STEPS
    with progress.report(study.name, total, "steps", done=len(rows) * STEPS) as advance:
        for n, name in itertools.product(DISTANCES, study.variants):
            ended = {row.seed for row in rows if row[:2] == (name, n)}
            missing = [seed for seed in range(SEEDS) if seed not in ended]
            if not missing:
                continue
            learner, path = Learner(study, name, n), study.variants[name].path(n)
            for seed in missing:
                advance(0, f"{name}, {n} words, seed {seed}")
                rows.append(Row(name, n, path, seed, learner.train(seed, advance)))
                content = {"settings": settings(), "rows": rows}
                write_text_atomic(file, json.dumps(content, indent=1) + "\n")
    return rows


def settings() -> dict[str, Any]:
    """Returns what all trainings have in common; others are not gone on with."""
    return {
        **{"steps": STEPS, "rate": RATE, "sentences": SENTENCES, "words": WORDS},
        **{"width": WIDTH, "filters": FILTERS},
        **{"backend": keras.backend.backend(), "version": __version__},
    }


def kept(file: Path) -> list[Row]:
    """Returns the trainings that have ended; none where there is no file, or of other settings."""
    if not file.is_file():
        return []
    found = schema.read(file, _Trainings, "Delete it: the trainings begin anew.")
    return [Row(*row) for row in found.rows] if found.settings == settings() else []


class Learner:
    """A model at one distance, compiled once, that begins anew with each seed."""

    def __init__(self, study: Study, variant: str, words: int):
        self._study, self._layers, self._words = study, study.variants[variant].layers, words
        self.model = self._make()
        self._adam = keras.optimizers.Adam(RATE)
        self._adam.build(self.model.trainable_variables)
        self._fresh = [ops.convert_to_numpy(variable) for variable in self._adam.variables]
        self.model.compile(
            self._adam,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=keras.backend.backend() == "jax",
        )

    def train(self, seed: int, advance: Callable[[], object]) -> float:
        """Returns the accuracy after STEPS steps."""
        keras.utils.set_random_seed(seed)
        self.model.set_weights(self._make().get_weights())
        for variable, value in zip(self._adam.variables, self._fresh, strict=True):
            variable.assign(value)
        inputs, labels = self._draw(np.random.default_rng(seed), STEPS * SENTENCES)
        moved = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: advance())
        how: dict[str, Any] = {"batch_size": SENTENCES, "shuffle": False, "verbose": 0}
        self.model.fit(inputs, labels, callbacks=[moved], **how)
        inputs, labels = self._draw(np.random.default_rng(2**32), TRIED)
        logits = self.model.predict_on_batch(inputs)
        return float(np.mean(np.argmax(logits, axis=-1) == labels))

    def _make(self) -> keras.Model:
        return make(self._layers(self._words), self._words, self._study.roles)

    def _draw(self, draw: np.random.Generator, sentences: int):
        places = self._study.places(draw, sentences, self._words)
        return draw_sentences(draw, self._words, places)


def make(layers: Sequence[keras.layers.Layer], words: int, roles: int) -> keras.Model:
    """Returns the model above: int32 (B, n + 1) twice -> logits (B, roles, WORDS)."""
    ids, cases = (keras.Input((words + 1,), dtype="int32") for _ in range(2))
    x = keras.layers.Embedding(WORDS + 1, WIDTH)(ids)
    x = x + keras.layers.Embedding(roles + 1, WIDTH)(cases)
    for layer in layers:
        x = x + layer(keras.layers.LayerNormalization()(x))
    x = x[:, -1]
    hidden = keras.layers.Dense(FILTERS, "relu")(keras.layers.LayerNormalization()(x))
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH)(hidden))
    logits = keras.layers.Reshape((roles, WORDS))(keras.layers.Dense(roles * WORDS)(x))
    return keras.Model([ids, cases], logits)


def draw_sentences(
    draw: np.random.Generator, words: int, places: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns sentences and which words have the roles.

    Args:
        draw: decides the words, which are all as likely.
        words: n.
        places: of each role (B, roles).

    Returns:
        [the words from 1 and END, the roles from 1 or 0], int32 (B, n + 1) each; and the words of
        the roles (B, roles), from 0.
    """
    ids = draw.integers(1, WORDS + 1, (len(places), words + 1), "int32")
    ids[:, -1] = END
    cases = np.zeros_like(ids)
    np.put_along_axis(cases, places, np.arange(1, places.shape[1] + 1, dtype="int32"), axis=1)
    return [ids, cases], np.take_along_axis(ids, places, axis=1) - 1
