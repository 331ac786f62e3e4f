"""The files that a decoding writes: their names, and the translations in them."""

import os
from collections.abc import Iterator
from itertools import islice

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.files import is_stream
from t2t_repro.run_directory import RunConfig
from t2t_repro.text import raw


def output_name(base: str, config: RunConfig, settings: DecodeHParams) -> str:
    """Returns the name that tensor2tensor gives to a run's translations of `base`."""
    ending = f"beam{settings.beam_size}.alpha{settings.alpha}.decodes"
    of_run = f"{config.hparams.model}.{config.hparams_set}.{config.problem}"
    return base if ending in base else f"{base}.{of_run}.{ending}"


def sides(target: str | os.PathLike) -> dict[str, str]:
    """Returns {"inputs": path, "targets": path}: what `translate_examples` writes beside a file."""
    if is_stream(target):
        return {}
    base = os.fspath(target).rpartition(".")[0] or os.fspath(target)
    return {name: f"{base}.{name}" for name in ("inputs", "targets")}


def best_translations(
    target: str | os.PathLike, settings: DecodeHParams, *, of_examples: bool = False
) -> Iterator[str]:
    """Yields the best translation of each sentence: no other beams, no scores, no alignments.

    Args:
        target: what `translate_file` has written as text.
        settings: how.
        of_examples: `translate_examples` has written it.
    """
    if of_examples:
        for line in islice(raw.lines(target), 0, None, settings.top_beams):
            yield line.rpartition("\t")[0] if settings.shows_scores else line
        return
    columns = settings.top_beams > 1 or settings.shows_scores or settings.return_alignments
    for line in raw.lines(target):
        yield line.partition("\t")[0] if columns else line
