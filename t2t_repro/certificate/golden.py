"""Some sentences of dev, and how they are translated: what is repeated to check a model."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t_repro.certificate.record import Golden
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from t2t_repro.runs import TrainedRun
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.translation import check_text

COUNT = 20
_LONGEST = 100  # tokens; longer ones take long
FIELDS = ("beam_size", "alpha", "extra_length", "max_input_size")  # what a translation depends on


def sources(run: TrainedRun) -> list[str]:
    """Returns sentences of a run's dev split, spread over it; [] where there is no such text."""
    from t2t_repro.data.pipeline import read_split
    from t2t_repro.decoding.translate import one_line

    try:
        check_text(run.problem, "")
        examples = list(read_split(run.problem, Split.EVAL, run.data_dir))
    except UserError:
        return []
    encoder = run.encoders["inputs"]
    short = [each["inputs"] for each in examples if 1 < len(each["inputs"]) <= _LONGEST]
    count = min(COUNT, len(short))
    taken = (short[i * len(short) // count] for i in range(count))
    texts = (one_line(encoder.decode([i for i in ids if i != EOS_ID])).strip() for ids in taken)
    return [text for text in dict.fromkeys(texts) if text]


def translations(
    engine: Engine, encoders: dict[str, Any], settings: DecodeHParams, texts: Sequence[str]
) -> list[tuple[str, float]]:
    """Returns the best translation of each text, and its score."""
    from t2t_repro.decoding.translate import Translator

    translator = Translator(engine, encoders, settings, warn=lambda text: None)
    return [(best.text, best.score) for best, *_ in translator.translate_lines(texts)]


def of(texts: Sequence[str], written: Sequence[tuple[str, float]]) -> tuple[Golden, ...]:
    """Returns sentences with their translations."""
    pairs = zip(texts, written, strict=True)
    return tuple(Golden(source, text, round(float(score), 6)) for source, (text, score) in pairs)


def decoding(settings: DecodeHParams) -> dict[str, int | float]:
    """Returns the decode hparams of which a translation depends."""
    values = dataclasses.asdict(settings)
    return {name: values[name] for name in FIELDS}
