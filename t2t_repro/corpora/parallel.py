"""Pairs of sentences out of raw corpora, as tensor2tensor's translation problems name these."""

import os
import pathlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora.cleaner_en_xx import Pair, clean_en_xx_pairs
from t2t_repro.corpora.sources import corpus_files, files_there, matching_files
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw
from t2t_repro.text.subword import SubwordTextEncoder

_TMX_SEGMENT = re.compile(r" +<seg>(.*)</seg>$")
# In T2T's order: "&amp;quot;" becomes a quote.
_TMX_ENTITIES = {
    "&amp;": "&",
    "& ?amp;": "&",
    "& ?apos;": "'",
    "& ?quot;": '"',
    "& ?lt;": "<",
    "& ?gt;": ">",
}


def txt_line_iterator(path: str | os.PathLike) -> Iterator[str]:
    """Yields the stripped lines of a file, or of the same with .gz behind its name."""
    return raw.stripped_lines(_present(path))


def text2text_txt_iterator(
    inputs_path: str | os.PathLike, targets_path: str | os.PathLike
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line}. Unlike T2T, files of unequal length are refused."""
    return raw.parallel_lines(_present(inputs_path), _present(targets_path))


def text2text_distill_iterator(
    inputs_path: str | os.PathLike,
    targets_path: str | os.PathLike,
    distilled_path: str | os.PathLike,
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line, "dist_targets": line}, of files of equal length."""
    gold = text2text_txt_iterator(inputs_path, targets_path)
    distilled = text2text_txt_iterator(inputs_path, distilled_path)
    for pair, made in zip(gold, distilled, strict=True):
        yield {**pair, "dist_targets": made["targets"]}


def text2text_txt_tab_iterator(path: str | os.PathLike) -> Iterator[dict[str, str]]:
    """Yields a sample of each line "source TAB target"; lines without a tab are skipped."""
    for line in txt_line_iterator(path):
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}


def _present(path: str | os.PathLike) -> pathlib.Path:
    return raw.required(*os.path.split(path))


def compile_data(
    tmp_dir: str, datasets: Iterable[Any], filename: str, datatypes_to_clean: Any = None
) -> str:
    """Writes the pairs of all `datasets` to filename.lang1 and .lang2 in `tmp_dir`, as T2T does.

    Pairs with an empty side are skipped. Both files appear when they are complete.

    Args:
        tmp_dir: the folder of the raw files.
        datasets: [URL or name of the archive, (file, file)], of text or .sgm;
            [URL, ("tsv", source column, target column, glob pattern)]; or [URL, ("tmx", file)].
            Files may be packed (.gz).
        filename: the first part of the names of the two files. Existing ones are kept, unless one
            of their inputs exists and was changed after them.
        datatypes_to_clean: those of "txt" (.sgm as well), "tsv" and "tmx" whose pairs go through
            T2T's cleaner, see cleaner_en_xx.py.

    Returns:
        The path without ".lang1" and ".lang2".

    Raises:
        UserError: on files that cannot be found, got or read, and sides of unequal length.
    """
    base, datasets = os.path.join(tmp_dir, filename), list(datasets)
    made_of = files_there(tmp_dir, datasets)
    write_pairs(base, pairs(tmp_dir, datasets, datatypes_to_clean or ()), made_of)
    return base


def write_pairs(
    base: str, pairs: Iterable[Pair], made_of: Iterable[str | os.PathLike] = ()
) -> None:
    """Writes the pairs without an empty side to `base`.lang1 and .lang2.

    The files appear when they are complete. If both are there already, and none of `made_of` was
    changed after them, nothing is read.
    """
    paths = [f"{base}.lang1", f"{base}.lang2"]
    there = all(map(os.path.exists, paths))
    made = min(map(os.path.getmtime, paths)) if there else 0
    if not there or any(os.path.getmtime(path) > made for path in made_of):
        with writing(paths[0]) as sources, writing(paths[1]) as targets:
            for source, target in pairs:
                if source and target:
                    sources.write(source + "\n")
                    targets.write(target + "\n")


def pairs(tmp_dir: str, datasets: Iterable[Any], clean: Container[str] = ()) -> Iterator[Pair]:
    """Yields the pairs of all `datasets`, with those of the kinds in `clean` cleaned.

    The arguments are those of `compile_data`.
    """
    for url, files in datasets:
        kind, dataset = _pairs(tmp_dir, url, files)
        yield from clean_en_xx_pairs(dataset) if kind in clean else dataset


def count_compiled(base: str) -> int:
    """Returns the number of pairs that `compile_data` wrote.

    Raises:
        UserError: if the two files are not of one whole run, as after a kill of tensor2tensor's.
    """
    counts = [
        sum(line.endswith(b"\n") for line in raw.raw_lines(f"{base}.{side}"))
        for side in ("lang1", "lang2")
    ]
    if counts[0] != counts[1]:
        raise UserError(
            f"Expected equally many lines in {base}.lang1 and {base}.lang2. Received: {counts[0]} "
            f"and {counts[1]}, as after a killed run. Delete both files, and run again."
        )
    return counts[0]


def generate_lines_for_vocab(
    tmp_dir: str, sources: Iterable[Any], file_byte_budget: float = raw.FILE_BYTE_BUDGET
) -> Iterator[str]:
    """Yields lines from all over each file of `sources`, about so many bytes of each, as T2T."""
    for url, files in sources:
        yield from raw.sample_lines(corpus_files(tmp_dir, url, files), file_byte_budget)


def get_or_generate_vocab(
    data_dir: str,
    tmp_dir: str,
    vocab_filename: str,
    vocab_size: int,
    sources: Iterable[Any],
    file_byte_budget: float = 1e6,
    max_subtoken_length: int | None = None,
) -> SubwordTextEncoder:
    """Returns the subwords in `data_dir`; builds them from `sources` if they are not there."""
    lines = generate_lines_for_vocab(tmp_dir, sources, file_byte_budget)
    return get_or_generate_vocab_inner(
        data_dir, vocab_filename, vocab_size, lines, max_subtoken_length
    )


def get_or_generate_vocab_inner(
    data_dir: str,
    vocab_filename: str,
    vocab_size: int,
    generator: Iterable[str],
    max_subtoken_length: int | None = None,
    reserved_tokens: Sequence[str] | None = None,
) -> SubwordTextEncoder:
    """Returns the subwords in `data_dir`; builds them from `generator` if they are not there."""
    path = os.path.join(data_dir, vocab_filename)
    if not os.path.exists(path):
        encoder = SubwordTextEncoder.build_from_generator(
            generator, vocab_size, max_subtoken_length, reserved_tokens or None
        )
        encoder.store_to_file(path)
    return SubwordTextEncoder(path)


def _pairs(tmp_dir: str, url: str, files: Sequence[Any]) -> tuple[str, Iterable[Pair]]:
    """Returns the kind of a dataset, as in datatypes_to_clean, and its pairs."""
    if files[0] == "tsv":
        _, source, target, pattern = files
        paths = matching_files(tmp_dir, url, pattern)
        return "tsv", _watched(paths, _tsv_pairs(paths, source, target))
    if files[0] == "tmx":
        (path,) = corpus_files(tmp_dir, url, files[1:])
        segments = _tmx_segments(path)  # English first
        return "tmx", _watched([path], zip(segments, segments, strict=True))
    paths = corpus_files(tmp_dir, url, files)
    samples = raw.parallel_lines(*paths)
    return "txt", _watched(paths, ((s["inputs"], s["targets"]) for s in samples))


def _watched(paths: Sequence[pathlib.Path], pairs: Iterable[Pair]) -> Iterable[Pair]:
    """Yields the pairs, and shows their number."""
    return progress.track(pairs, f"Reading {' and '.join(map(str, paths))}", unit="pairs")


def _tsv_pairs(paths: Iterable[pathlib.Path], source: int, target: int) -> Iterator[Pair]:
    for path in paths:
        for line in raw.lines(path):  # whose first column may be empty
            columns = line.split("\t")
            if max(source, target) < len(columns):
                yield columns[source].strip(), columns[target].strip()


def _tmx_segments(path: pathlib.Path) -> Iterator[str]:
    """Yields the segments of a ParaCrawl .tmx file, as T2T reads it: a <seg> a line."""
    for line in raw.raw_lines(path):
        if match := _TMX_SEGMENT.match(line.decode().rstrip("\r\n")):
            text = match[1]
            for entity, character in _TMX_ENTITIES.items():
                text = re.sub(entity, character, text)
            yield text
