"""Pairs of sentences out of raw corpora, as tensor2tensor's translation problems name these."""

import os
import pathlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora.cleaner_en_xx import Pair, clean_en_xx_pairs
from t2t_repro.corpora.sources import corpus_files, files_there, matching_files, present
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw, vocabulary
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.subword import SubwordTextEncoder

_SEGMENT = re.compile(r"<seg[^>]*>(.*)</seg>$")
_TMX_SEGMENT = re.compile(r" +<seg>(.*)</seg>$")
# In T2T's order: "&amp;quot;" becomes a quote.
_TMX_ENTITIES = [
    (re.compile(entity), character)
    for entity, character in (
        ("&amp;", "&"),
        ("& ?amp;", "&"),
        ("& ?apos;", "'"),
        ("& ?quot;", '"'),
        ("& ?lt;", "<"),
        ("& ?gt;", ">"),
    )
]


def txt_line_iterator(path: str | os.PathLike) -> Iterator[str]:
    """Yields the stripped lines of a file, or of the same with .gz behind its name."""
    return raw.stripped_lines(present(path))


def text2text_txt_iterator(
    inputs_path: str | os.PathLike, targets_path: str | os.PathLike
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line}. Unlike T2T, files of unequal length are refused."""
    return raw.parallel_lines(present(inputs_path), present(targets_path))


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
    """Yields a sample of each line "source TAB target"; lines without a tab are left out."""
    for line in txt_line_iterator(path):
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}


def compile_data(
    tmp_dir: str, datasets: Iterable[Any], filename: str, datatypes_to_clean: Any = None
) -> str:
    """Writes the pairs of all `datasets` to filename.lang1 and .lang2 in `tmp_dir`, as T2T does.

    Pairs with an empty side are left out. Both files appear when they are complete.

    Args:
        tmp_dir: the folder of the raw files.
        datasets: [URL or name of the archive, (file, file)], of text or .sgm;
            [URL, ("tsv", source column, target column, glob pattern)]; or [URL, ("tmx", file)].
            Files may be packed (.gz).
        filename: the first part of the names of the two files. They are kept if they are there,
            unless one that they are made of is there too and was changed after them.
        datatypes_to_clean: those of "txt" (.sgm as well), "tsv" and "tmx" whose pairs go through
            T2T's cleaner, see cleaner_en_xx.py.

    Returns:
        The path without ".lang1" and ".lang2".

    Raises:
        UserError: on files that cannot be found, got or read, and sides of unequal length.
    """
    clean = set(datatypes_to_clean or ())
    if unknown := clean - {"txt", "tsv", "tmx"}:
        raise UserError(
            f"Expected datatypes_to_clean of txt, tsv and tmx. Received: {sorted(unknown)}."
        )
    base, datasets = os.path.join(tmp_dir, filename), list(datasets)
    made_of = files_there(tmp_dir, datasets)
    write_pairs(base, pairs(tmp_dir, datasets, clean), made_of)
    return base


def write_pairs(
    base: str, pairs: Iterable[Pair], made_of: Iterable[str | os.PathLike] = ()
) -> None:
    """Writes those of the pairs that have no empty side to `base`.lang1 and .lang2.

    The files appear when they are complete. If both are there already, and none of `made_of` was
    changed after them, nothing is read.

    Raises:
        UserError: if there is no pair to write; no file appears then.
    """
    paths = [f"{base}.lang1", f"{base}.lang2"]
    there = all(map(os.path.exists, paths))
    made = min(map(os.path.getmtime, paths)) if there else 0
    if not there or any(os.path.getmtime(path) > made for path in made_of):
        count = 0
        with writing(paths[0]) as sources, writing(paths[1]) as targets:
            for source, target in pairs:
                if source and target:
                    sources.write(source + "\n")
                    targets.write(target + "\n")
                    count += 1
            if not count:
                raise UserError(
                    f"Expected pairs for {paths[0]} and .lang2. Received: none in the raw files "
                    "that has text on both sides, and that the cleaner keeps where there is one. "
                    "Get other raw files, or take a problem without a cleaner."
                )


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
    lines = []
    for path in (f"{base}.lang1", f"{base}.lang2"):
        count, last = 0, b"\n"
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                count, last = count + block.count(b"\n"), block[-1:]
        if last != b"\n":
            raise UserError(
                f"Expected {path} to end with a whole line. Received: half of line {count + 1}. "
                f"An earlier run was killed: delete {base}.lang1 and .lang2, and try again."
            )
        lines.append(count)
    if lines[0] != lines[1]:
        raise UserError(
            f"Expected as many lines in {base}.lang1 as in {base}.lang2. Received: {lines[0]} and "
            f"{lines[1]}. Delete both, and try again."
        )
    return lines[0]


def tmx_pairs(path: str | os.PathLike) -> Iterator[Pair]:
    """Yields the pairs of a ParaCrawl .tmx file, as T2T reads it: a <seg> a line, English first.

    Pairs with an empty side are left out.

    Raises:
        UserError: if the last segment has no partner.
    """
    segments = _tmx_segments(path)
    for english in segments:
        other = next(segments, None)
        if other is None:
            raise UserError(
                f"Expected each <seg> of {os.fspath(path)} to have a partner. Received: "
                f"{english[:60]!r} at the end without one. Get the file again."
            )
        if english and other:
            yield english, other


def generate_lines_for_vocab(
    tmp_dir: str, sources: Iterable[Any], file_byte_budget: float = vocabulary.FILE_BYTE_BUDGET
) -> Iterator[str]:
    """Yields lines from all over each file of `sources`, about so many bytes of each, as T2T."""
    for url, files in sources:
        if files[0] in ("tsv", "tmx"):
            raise UserError(
                f"Expected a vocabulary's sources to be text files. Received: {files!r}. Name "
                "text files in vocab_data_files, or share the vocabulary of another problem."
            )
        yield from vocabulary.sample_lines(corpus_files(tmp_dir, url, files), file_byte_budget)


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
            generator,
            vocab_size,
            max_subtoken_length=max_subtoken_length,
            reserved_tokens=list(reserved_tokens or RESERVED_TOKENS),
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
        return "tmx", _watched([path], tmx_pairs(path))
    paths = corpus_files(tmp_dir, url, files)
    names = [path.name.removesuffix(".gz") for path in paths]
    if all(name.endswith(".sgm") for name in names):
        return "txt", _sgm_pairs(*paths)
    samples = raw.parallel_lines(*paths)
    return "txt", _watched(paths, ((s["inputs"], s["targets"]) for s in samples))


def _watched(paths: Sequence[pathlib.Path], pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yields the pairs under a progress bar, in which a character counts for a byte."""
    packed = any(path.suffix == ".gz" for path in paths)
    total = None if packed else sum(path.stat().st_size for path in paths)
    with progress.report(f"Reading {' and '.join(map(str, paths))}", total) as advance:
        for pair in pairs:
            advance(len(pair[0]) + len(pair[1]) + 2)
            yield pair


def _tsv_pairs(paths: Iterable[pathlib.Path], source: int, target: int) -> Iterator[Pair]:
    for path in paths:
        for line in raw.lines(path):  # whose first column may be empty
            columns = line.split("\t")
            if max(source, target) < len(columns):
                yield columns[source].strip(), columns[target].strip()


def _sgm_pairs(sources_path: pathlib.Path, targets_path: pathlib.Path) -> Iterator[Pair]:
    """Returns the pairs of <seg> lines; T2T leaves out all others too, but pairs by number."""
    sources, targets = _sgm_segments(sources_path), _sgm_segments(targets_path)
    if len(sources) != len(targets):
        raise UserError(
            f"Expected as many <seg> lines in {sources_path} as in {targets_path}. Received: "
            f"{len(sources)} and {len(targets)}. Get them again."
        )
    return zip(sources, targets, strict=True)


def _sgm_segments(path: pathlib.Path) -> list[str]:
    return [match[1] for line in raw.stripped_lines(path) if (match := _SEGMENT.match(line))]


def _tmx_segments(path: str | os.PathLike) -> Iterator[str]:
    for line in raw.lines(path):
        if match := _TMX_SEGMENT.match(line):
            text = match[1]
            for entity, character in _TMX_ENTITIES:
                text = entity.sub(character, text)
            yield text
