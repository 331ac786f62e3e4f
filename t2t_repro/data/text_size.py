"""How much text there is to train on, in pairs and bytes; what is repeated counts once."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro import schema
from t2t_repro.corpora import raw_record
from t2t_repro.data import tfrecord
from t2t_repro.data.job import summary_path
from t2t_repro.problem import Problem, Split
from t2t_repro.text import raw

_OF_A_CAPTION = 135  # bytes of both sides, in Multi30k


class TextSize(NamedTuple):
    """How much text there is.

    Attributes:
        pairs: of training.
        size: their bytes in UTF-8, of both sides together.
    """

    pairs: int
    size: int

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "TextSize":
        """Returns what a summary of t2t-datagen says.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: if it does not say so.
        """
        made = summary["splits"][Split.TRAIN]
        text = cls(int(made["examples"]), sum(made["bytes"].values()) if "bytes" in made else 0)
        text = text.once(float(made.get(raw_record.REPEATED, 1)))
        return text if text.size else cls.like_captions(text.pairs)

    def once(self, times: float) -> "TextSize":
        """Returns the size of a text that is repeated so many times."""
        return TextSize(round(self.pairs / max(times, 1)), round(self.size / max(times, 1)))

    @classmethod
    def like_captions(cls, pairs: int) -> "TextSize":
        """Returns the size of pairs of which nothing else is known: as long as captions are."""
        return cls(pairs, pairs * _OF_A_CAPTION)


def of_training(problem: Problem, data_dir: str, tmp_dir: str | None) -> TextSize | None:
    """Returns how much there is to train on; None: that is not known.

    Args:
        problem: whose.
        data_dir: the folder of its files.
        tmp_dir: the folder of the raw files out of which they will be made; None: they are there.

    Raises:
        UserError: if there is neither, or the raw files cannot be read.
    """
    problem = problem.forward()
    if tmp_dir is None:
        tfrecord.find_shards(problem, Split.TRAIN, data_dir)
    if tfrecord.are_there(problem, data_dir):
        return _recorded(summary_path(problem, data_dir))
    samples = problem.num_samples(tmp_dir or "", Split.TRAIN)
    if samples is None:
        return None
    paths = problem.raw_text_files(tmp_dir or "", Split.TRAIN)
    files = [sum(len(line.strip()) for line in raw.raw_lines(path)) for path in paths]
    if not files:
        return TextSize.like_captions(samples)
    # Of distillation there are three files, for two sides.
    size = TextSize(samples, 2 * sum(files) // len(files))
    return size.once(raw_record.repeated(paths))


def _recorded(summary: pathlib.Path) -> TextSize | None:
    """Returns what the summary of t2t-datagen says; tensor2tensor's data have none."""
    try:
        return TextSize.of(schema.read(summary, dict[str, Any]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
