"""Translations of a few dev sentences during training, for TensorBoard."""

import itertools
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from t2t_repro.decoding.engine import engine_of
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.problem import Problem
from t2t_repro.run_directory import RunConfig
from t2t_repro.text.encoders import TextEncoder
from t2t_repro.training.evaluation import evaluation_data
from t2t_repro.training.log import EventWriter, Samples
from t2t_repro.views import attention, attention_pictures, pictures

COUNT = 4
KIND = "samples"
_LONGEST = 60  # tokens of the sentence whose attention is drawn
_EXTRA_LENGTH = 20  # of a model that knows nothing yet, and would write on to the limit


def make(model: keras.Model, problem: Problem, config: RunConfig, split: str) -> Samples:
    """Returns a function that writes samples of a step: translations, and the attention of one.

    Args:
        model: with its weights at the time of the call.
        problem, config: those of its run.
        split: where the sentences are from: the first of it.
    """
    sides: dict[str, list[list[int]]] = {"inputs": [], "targets": []}
    for batch in itertools.islice(evaluation_data(problem, split, config), COUNT):
        for side, ids in sides.items():
            ids += [_real(row) for row in batch[side]]
    encoders = problem.feature_encoders(config.data_dir)
    references = [_text(encoders["targets"], ids) for ids in sides["targets"][:COUNT]]
    return of_sentences(model, encoders, sides["inputs"][:COUNT], references)


def of_sentences(
    model: keras.Model,
    encoders: Mapping[str, TextEncoder],
    sources: list[list[int]],
    references: Sequence[str],
) -> Samples:
    """Returns the function of `make` for given sentences.

    Args:
        model: as in `make`.
        encoders: of "inputs" and "targets".
        sources: the ids of each sentence.
        references: the text of each.
    """
    settings = DecodeHParams(beam_size=1, extra_length=_EXTRA_LENGTH)
    translator = Translator(engine_of(model), dict(encoders), settings, warn=lambda text: None)

    def write(step: int, writer: EventWriter) -> None:
        written = [best for best, *_ in translator.translate_ids(sources)]
        rows = [
            (_text(encoders["inputs"], source), reference, best.text)
            for source, reference, best in zip(sources, references, written, strict=True)
        ]
        writer.text(KIND, step, "translations", _table(rows))
        if model.hparams.attention_chunk_size or not hasattr(model, "attention_weights"):
            return  # there are no weights to draw
        for source, best in zip(sources, written, strict=True):
            if 1 < len(source) <= _LONGEST and len(best.ids) < _LONGEST:
                for each in attention.maps(model, encoders, source, [*best.ids, 1]):
                    png = pictures.png(attention_pictures.layers(each))
                    writer.picture(KIND, step, f"attention/{each.kind}", png)
                break

    return write


def _real(row: np.ndarray) -> list[int]:
    return row[row != 0].tolist()


def _text(encoder, ids: Sequence[int]) -> str:
    return encoder.decode([i for i in ids if i > 1])


def _table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Returns a table in Markdown: each sentence, its reference and the translation."""
    lines = [("source", "reference", "translation"), ("---",) * 3, *rows]
    cells = ([one_line(cell).replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
