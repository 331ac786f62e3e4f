"""Raw corpora as tensor2tensor's translation problems name them: archives, URLs, pairs of files."""

import fnmatch
import gzip
import os
import pathlib
import re
import shutil
import tarfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora import archives, downloads
from t2t_repro.corpora.cleaner_en_xx import Pair, clean_en_xx_pairs
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw, vocabulary
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.subword import SubwordTextEncoder

# The published checksums, by URL: those that tensorflow-datasets 4.9 has (url_checksums/).
SHA256 = {
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": (
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5"
    ),
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": (
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7"
    ),
    "http://www.statmt.org/wmt13/training-parallel-un.tgz": (
        "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47"
    ),
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz": (
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485"
    ),
    "http://www.statmt.org/wmt10/training-giga-fren.tar": (
        "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a"
    ),
    "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz": (
        "17992b7e919cfb754c60f4e754148bc23b80706ad0ed7b34150831a554b40c91"
    ),
    "http://data.statmt.org/wmt19/translation-task/dev.tgz": (
        "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7"
    ),
}
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
    return raw.stripped_lines(_present(path))


def text2text_txt_iterator(
    inputs_path: str | os.PathLike, targets_path: str | os.PathLike
) -> Iterator[dict[str, str]]:
    """Yields {"inputs": line, "targets": line}. Unlike T2T, files of unequal length are refused."""
    return raw.parallel_lines(_present(inputs_path), _present(targets_path))


def text2text_txt_tab_iterator(path: str | os.PathLike) -> Iterator[dict[str, str]]:
    """Yields a sample of each line "source TAB target"; lines without a tab are left out."""
    for line in txt_line_iterator(path):
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}


def maybe_download(directory: str | os.PathLike, filename: str, uri: str) -> str:
    """Returns the path of `filename` in `directory`; gets it from `uri` if it is not there."""
    path = pathlib.Path(directory, filename)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if uri.startswith(("http://", "https://", "ftp://")):
            downloads.download(uri, path, SHA256.get(uri))
        else:
            with open(uri, "rb") as source, writing(path, "wb") as target:
                shutil.copyfileobj(source, target)
    return os.fspath(path)


def gunzip_file(gz_path: str | os.PathLike, new_path: str | os.PathLike) -> None:
    """Unpacks a .gz file, unless that is done already."""
    if not os.path.exists(new_path):
        with gzip.open(gz_path, "rb") as source, writing(new_path, "wb") as target:
            shutil.copyfileobj(source, target)


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
        filename: the first part of the names of the two files. They are kept if they are there.
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
    base = os.path.join(tmp_dir, filename)
    write_pairs(base, pairs(tmp_dir, datasets, clean))
    return base


def write_pairs(base: str, pairs: Iterable[Pair]) -> None:
    """Writes those of the pairs that have no empty side to `base`.lang1 and .lang2.

    The files appear when they are complete. If both are there already, nothing is read.

    Raises:
        UserError: if there is no pair to write; no file appears then.
    """
    paths = [f"{base}.lang1", f"{base}.lang2"]
    if not all(map(os.path.exists, paths)):
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


def corpus_files(
    tmp_dir: str, url: str, names: Sequence[str], archive: str = ""
) -> list[pathlib.Path]:
    """Returns the paths of files, plain or packed (.gz).

    The archive is looked for in `tmp_dir`, or else downloaded into it, only if one of the files is
    not there; only these are taken out of it.

    Args:
        tmp_dir: the folder of the raw files.
        url: of the archive, or of the one file; or a file's name, for what lies there.
        names: below `tmp_dir`, as in the archive.
        archive: its name, where the URL does not end with it.

    Raises:
        UserError: if they cannot be found, or the archive is broken.
    """
    missing = {name for name in names if _find(tmp_dir, name) is None}
    if missing:
        _unpack(tmp_dir, url, archive or os.path.basename(url), missing.__contains__)
    paths = [_find(tmp_dir, name) for name in names]
    return [path or raw.required(tmp_dir, name) for path, name in zip(paths, names, strict=True)]


def _pairs(tmp_dir: str, url: str, files: Sequence[Any]) -> tuple[str, Iterable[Pair]]:
    """Returns the kind of a dataset, as in datatypes_to_clean, and its pairs."""
    if files[0] == "tsv":
        _, source, target, pattern = files
        paths = _matching(tmp_dir, url, pattern)
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
        for line in raw.stripped_lines(path):
            columns = line.split("\t")
            if max(source, target) < len(columns):
                yield columns[source].strip(), columns[target].strip()


def _sgm_pairs(sources_path: pathlib.Path, targets_path: pathlib.Path) -> Iterator[Pair]:
    """The pairs of <seg> lines; T2T, too, leaves out all others, but pairs lines by number."""
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


def _find(tmp_dir: str, name: str) -> pathlib.Path | None:
    """The file NAME; or NAME.gz, from which T2T makes NAME."""
    return raw.find(tmp_dir, name.removesuffix(".gz"))


def _matching(tmp_dir: str, url: str, pattern: str) -> list[pathlib.Path]:
    folder = pathlib.Path(tmp_dir)
    if not any(folder.glob(pattern)):
        name = os.path.basename(url)
        _unpack(tmp_dir, url, name, lambda member: fnmatch.fnmatchcase(member, pattern))
    if not any(folder.glob(pattern)):
        raise UserError(
            f"Expected files {pattern!r} in {tmp_dir!r} or in {url}. Received: none. Correct the "
            "pattern of the dataset."
        )
    return sorted(folder.glob(pattern))


def _unpack(tmp_dir: str, url: str, name: str, wanted: Callable[[str], bool]) -> None:
    path = pathlib.Path(tmp_dir, name)
    if "://" in url:
        maybe_download(tmp_dir, name, url)
    if not path.exists() or wanted(name):
        return
    if archives.is_archive(path) or tarfile.is_tarfile(path):
        downloads.verify(path, SHA256.get(url))
        archives.extract(path, tmp_dir, wanted)


def _present(path: str | os.PathLike) -> pathlib.Path:
    path = pathlib.Path(path)
    return path if path.exists() else raw.required(path.parent, path.name)
