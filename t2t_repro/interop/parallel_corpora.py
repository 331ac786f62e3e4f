"""Raw corpora as tensor2tensor's translation problems name them: archives, URLs, pairs of files."""

import gzip
import os
import pathlib
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.subword import SubwordTextEncoder

_SGM_MARKUP = ("<srcset", "</srcset", "<doc", "</doc", "<p>", "</p>")


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
            raw.download(uri, path)
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

    Args:
        tmp_dir: the folder of the raw files.
        datasets: [URL or name of the archive, (file, file)] or
            [URL, ("tsv", source column, target column, glob pattern)].
        filename: the first part of the names of the two files. They are kept if they are there.
        datatypes_to_clean: must be empty: T2T's cleaner is not here.

    Returns:
        The path without ".lang1" and ".lang2".

    Raises:
        UserError: on a kind of file that is not read here, or one that cannot be found.
    """
    if datatypes_to_clean:
        raise UserError(
            "Expected datatypes_to_clean to be empty: tensor2tensor's cleaner is not here. "
            f"Received: {datatypes_to_clean!r}. Clean the files before, and leave it out."
        )
    base = os.path.join(tmp_dir, filename)
    paths = [f"{base}.lang1", f"{base}.lang2"]
    if not all(map(os.path.exists, paths)):
        with writing(paths[0]) as sources, writing(paths[1]) as targets:
            for url, files in datasets:
                for source, target in _pairs(tmp_dir, url, files):
                    if source and target:
                        sources.write(source + "\n")
                        targets.write(target + "\n")
    return base


def generate_lines_for_vocab(
    tmp_dir: str, sources: Iterable[Any], file_byte_budget: float = 1e6
) -> Iterator[str]:
    """Yields lines from all over each file of `sources`, about so many bytes of each, as T2T."""
    for url, files in sources:
        for name in files:
            path = _unpacked(tmp_dir, url, name)
            budget, skipped = file_byte_budget, 0
            to_skip = int(path.stat().st_size / budget / 2)
            for line in raw.stripped_lines(path):
                if skipped < to_skip:
                    skipped += 1
                    continue
                if budget <= 0:
                    break
                budget -= len(line)
                skipped = 0
                yield line


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


def _pairs(tmp_dir: str, url: str, files: Sequence[Any]) -> Iterator[tuple[str, str]]:
    if files[0] == "tsv":
        _, source, target, pattern = files
        for path in _matching(tmp_dir, url, pattern):
            for line in raw.stripped_lines(path):
                columns = line.split("\t")
                if max(source, target) < len(columns):
                    yield columns[source].strip(), columns[target].strip()
        return
    if files[0] == "tmx":
        raise UserError(
            f"tensor2tensor's reader of TMX files is not here. Received: {files[1]!r}. Turn it "
            'into two text files, and name them: [url, ("file.lang1", "file.lang2")].'
        )
    paths = [_unpacked(tmp_dir, url, name) for name in files]
    if all(path.suffix == ".sgm" for path in paths):
        both = zip(*map(raw.stripped_lines, paths), strict=False)  # their headers may differ
        for source, target in both:
            yield _segment(source), _segment(target)
        return
    for sample in raw.parallel_lines(*paths):
        yield sample["inputs"], sample["targets"]


def _segment(line: str) -> str:
    """The text of a <seg> line; "" for all other lines, as in T2T."""
    if line.startswith(_SGM_MARKUP) or not (line.startswith("<seg") and line.endswith("</seg>")):
        return ""
    return line[line.index(">") + 1 : -len("</seg>")]


def _unpacked(tmp_dir: str, url: str, name: str) -> pathlib.Path:
    """The path of a plain file; its archive is fetched and unpacked only if it is not there."""
    path = pathlib.Path(tmp_dir, name)
    if not path.exists():
        _unpack(tmp_dir, url)
    if not path.exists():
        path = raw.required(tmp_dir, name)
    if path.suffix == ".gz":
        gunzip_file(path, path.with_suffix(""))
        path = path.with_suffix("")
    return path


def _matching(tmp_dir: str, url: str, pattern: str) -> list[pathlib.Path]:
    folder = pathlib.Path(tmp_dir)
    if not any(folder.glob(pattern)):
        _unpack(tmp_dir, url)
    if not any(folder.glob(pattern)):
        raise UserError(
            f"Expected files {pattern!r} in {tmp_dir!r} or in {url}. Received: none. Correct the "
            "pattern of the dataset."
        )
    return sorted(folder.glob(pattern))


def _unpack(tmp_dir: str, url: str) -> None:
    name = os.path.basename(url)
    path = pathlib.Path(tmp_dir, name)
    if "://" in url:
        maybe_download(tmp_dir, name, url)
    if not path.exists():
        return
    if name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_dir)
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            archive.extractall(tmp_dir, filter="data")


def _present(path: str | os.PathLike) -> pathlib.Path:
    path = pathlib.Path(path)
    return path if path.exists() else raw.required(path.parent, path.name)
