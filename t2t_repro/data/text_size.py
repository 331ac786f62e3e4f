"""How much text there is to train on, in pairs and bytes; what is repeated counts once."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro import progress, schema
from t2t_repro.corpora import raw_record, splits
from t2t_repro.corpora.request import RawText
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


def of_training(
    problem: Problem, data_dir: str, tmp_dir: str | None, options: Mapping[str, Any]
) -> TextSize | None:
    """Returns how much there is to train on; None: that is not known.

    Args:
        problem: whose.
        data_dir: the folder of its files.
        tmp_dir: the folder of the raw files out of which they will be made; None: they are there.
        options: the flags of the raw files, which are counted.

    Raises:
        UserError: if there is neither, or the raw files cannot be read.
    """
    problem = problem.forward()
    if tmp_dir is None:
        tfrecord.find_shards(problem, Split.TRAIN, data_dir)
    if tfrecord.are_there(problem, data_dir):
        return _recorded(summary_path(problem, data_dir))
    given, _ = RawText.of(options)
    if given:
        return _given(given)
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


def _given(given: RawText) -> TextSize:
    """Returns what training has of files: without what is drawn or left out by a weight below 1."""
    corpora = [corpus for corpus in given.corpora() if corpus.split == Split.TRAIN]
    sizes = []
    for corpus in corpora:
        pairs = size = 0
        read = given.pairs_of(corpus)
        for source, target in progress.track(read, f"Counting {corpus.source}", unit="pairs"):
            pairs += 1
            size += len((source + target).encode("utf-8", "surrogatepass"))
        sizes.append((pairs, size))
    weights = [min(1.0, corpus.weight) for corpus in corpora]
    total = sum(pairs for pairs, _ in sizes)
    dev = 0 if given.dev_source else given.dev_size or splits.default_dev_size(total)
    share = max(0, total - dev - (given.test_size or 0)) / max(1, total)
    pairs, size = (
        sum(weight * each for weight, each in zip(weights, of, strict=True))
        for of in zip(*sizes, strict=True)
    )
    return TextSize(round(share * pairs), round(share * size))


def _recorded(summary: pathlib.Path) -> TextSize | None:
    """Returns what the summary of t2t-datagen says; tensor2tensor's data have none."""
    try:
        return TextSize.of(schema.read(summary, dict[str, Any]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
