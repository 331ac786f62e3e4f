"""Files and datasets through a `Translator`: N lines in, N lines out; their names, how they grow.

While a file grows its name ends in ".incomplete". Beside the first lies a small JSON file: what
decoding they belong to, how many lines are done, and how many bytes each file had then. A killed
decoding goes on behind these.

It loads nothing heavy, so that what is refused is refused at once.
"""

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, BinaryIO

from t2t_repro import __version__, progress
from t2t_repro.decoding.settings import FILLER, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, is_stream, naming, resolve_links, write_text_atomic, writing
from t2t_repro.run_directory import RunConfig
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID

if TYPE_CHECKING:
    from t2t_repro.decoding.translate import Hypothesis, Translator

Report = Callable[[str], None]


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


def count_and_digest(path: str | os.PathLike, most: int = -1) -> tuple[int, str]:
    """Returns how many lines a file has, and their SHA-256; reads it once while it stays as it is.

    Args:
        path: UTF-8 text, plain or `.gz`.
        most: look at so many lines; -1: at all.

    Raises:
        UserError: if there is no line, or one is not UTF-8.
    """
    status = os.stat(path)
    unchanged = status.st_ino, status.st_size, status.st_mtime_ns
    return _count_and_digest(os.fspath(path), most, unchanged)


@functools.lru_cache(maxsize=8)
def _count_and_digest(path: str, most: int, unchanged: tuple[int, ...]) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    for line in islice(raw.lines(path), most if most >= 0 else None):
        digest.update(line.encode() + b"\n")
        count += 1
    if not count and most:
        raise UserError(f"Expected sentences in {path}. Received: an empty file.")
    return count, digest.hexdigest()


class Growing:
    """What `growing` yields: `lines` are done, and `state` was given with the last of them."""

    def __init__(self, files: dict[pathlib.Path, BinaryIO], record: pathlib.Path | None, told: Any):
        self.lines, self.state = told["lines"], told["state"]
        self._files, self._record, self._job = files, record, told["job"]

    def add(self, texts: Sequence[str], lines: int, state: Any = None) -> None:
        """Appends its text to each file; from then on a kill loses none of it.

        Args:
            texts: one for each file.
            lines: how many lines of the source were done for them.
            state: what the decoding must know to go on, as JSON can say it.
        """
        for (path, file), text in zip(self._files.items(), texts, strict=True):
            with naming(path):
                file.write(text.encode())
                file.flush()
                if self._record:
                    os.fsync(file.fileno())
        self.lines, self.state = self.lines + lines, state
        if self._record:
            sizes = [file.tell() for file in self._files.values()]
            told = {"job": self._job, "lines": self.lines, "bytes": sizes, "state": state}
            write_text_atomic(self._record, json.dumps(told, indent=1))


@contextlib.contextmanager
def growing(
    paths: Sequence[str | os.PathLike], job: dict[str, Any], report: Callable[[str], None]
) -> Iterator[Growing]:
    """Files that get their names when the block ends; if it fails, the next call goes on.

    Where one of them is a pipe or a device, nothing tells what has passed through it, and the next
    call begins anew.

    Args:
        paths: the files. Their folders are made where there are none.
        job: all that decides what the files will hold, as JSON has it. What an earlier call has
            left counts only if it did the same job.
        report: is told if it does not count.
    """
    told: dict[str, Any] = {"job": job, "lines": 0, "bytes": [0] * len(paths), "state": None}
    with contextlib.ExitStack() as stack:
        if any(map(is_stream, paths)):
            files = {pathlib.Path(p): stack.enter_context(writing(p, "wb")) for p in paths}
            yield Growing(files, None, told)
            return
        whole = [resolve_links(path) for path in paths]
        for path in filter(pathlib.Path.is_dir, whole):  # found before the work is done
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        unfinished = [path.with_name(path.name + INCOMPLETE) for path in whole]
        record = unfinished[0].with_name(unfinished[0].name + ".json")
        if record.exists():
            told = _begun(record, job, unfinished) or told
            if not told["lines"]:
                report(f"{unfinished[0]} is not of this decoding. Beginning anew.")
        files = {}
        for path, size in zip(unfinished, told["bytes"], strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(naming(path))  # on a full disk closing fails, too
            files[path] = stack.enter_context(open(path, "ab"))
            files[path].truncate(size)
        found = Growing(files, record, told)
        try:
            yield found
        except BaseException:
            for path in () if found.lines else (*unfinished, record):
                path.unlink(missing_ok=True)
            raise
    for path, name in zip(unfinished, whole, strict=True):
        os.replace(path, name)
    record.unlink(missing_ok=True)


def _begun(record: pathlib.Path, job: dict, unfinished: list[pathlib.Path]) -> dict | None:
    """Returns what an earlier call of the same job has recorded, if its files are there."""
    try:
        told = json.loads(record.read_text())
        sizes = zip(unfinished, told["bytes"], strict=True)
        there = all(path.stat().st_size >= size for path, size in sizes)
        return told if there and told["job"] == job else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def translate_file(
    translator: "Translator",
    source: str | os.PathLike,
    target: str | os.PathLike,
    json_file: str | os.PathLike | None = None,
    report: Report = print,
    *,
    prefixes: str | os.PathLike | None = None,
    as_json: bool = False,
) -> int:
    """Translates a file line by line.

    Killed and called again, it goes on behind the last window that was finished and ends with the
    same files; under `t2t_exact`, where all lines are one window, it begins anew.

    Args:
        translator: does the work.
        source: UTF-8 text, plain or `.gz`, a sentence a line.
        target: gets one line for each line of `source`; it appears when all is done.
        json_file: gets, for each line, an object with every hypothesis and its exact scores.
        report: receives messages, and at the end how many sentences in what time.
        prefixes: a file with what each translation begins with; an empty line leaves it open.
        as_json: `target` gets what `json_file` would get.

    Returns:
        The number of lines of the file.

    Raises:
        UserError: if the file is empty, a line cannot be encoded, or `prefixes` has more or fewer
            lines.
    """
    import keras

    most, reader = translator.settings.num_samples, translator.reader
    total, digest = count_and_digest(source, most)
    # All that decides what becomes of the lines.
    job = {
        "source": digest,
        "prefixes": None,
        "json_file": json_file is not None,
        "as_json": as_json,
        "weights": translator.engine.fingerprint,
        "version": __version__,
        "backend": keras.backend.backend(),
        "t2t_exact": translator.t2t_exact,
        **dataclasses.asdict(translator.settings),
    }
    if prefixes is not None:
        count, job["prefixes"] = count_and_digest(prefixes, most)
        if count != total:
            raise UserError(
                f"Expected a beginning for each of the {total:,} lines of {source} in {prefixes}. "
                f"Received: {count:,} lines. Leave a line empty where nothing is given."
            )
    with growing([target, json_file] if json_file else [target], job, report) as files:
        if files.lines:
            report(f"Going on behind line {files.lines:,} of {total:,}")
            if reader:
                reader.restore(files.state)
        lines = islice(raw.lines(source), files.lines, total)
        begun: Iterator[str] = repeat("", total - files.lines)
        if prefixes is not None:
            begun = islice(raw.lines(prefixes), files.lines, total)
        with progress.report("", total, "sentences", done=files.lines, say=report) as advance:
            pairs = zip(lines, begun, strict=True)
            for window, results in translator.translate_windows(
                pairs, advance, files.lines, prefixes is not None
            ):
                text = "".join(translator.format(beams) + "\n" for beams in results)
                of_each = zip(window, results, strict=True)
                details = "".join(_as_json(*pair) + "\n" for pair in of_each)
                texts = [details if as_json else text] + [details] * (json_file is not None)
                files.add(texts, len(window), reader and reader.counts())
    return total


def translate_examples(
    translator: "Translator",
    examples: Iterable[dict[str, list[int]]],
    target: str | os.PathLike,
    report: Report = print,
) -> int:
    """Decodes the examples of a dataset; writes outputs, inputs and targets side by side.

    As tensor2tensor, the inputs and targets take the name of `target` with its last part replaced;
    with return_beams each hypothesis is a line of its own.

    Args:
        translator: does the work.
        examples: {"inputs": ids, "targets": ids}, each ending with 1.
        target: the file of the outputs.
        report: receives messages, and at the end how many sentences in what time.

    Returns:
        The number of examples.
    """
    from t2t_repro.decoding.translate import one_line

    most = translator.settings.num_samples
    examples = list(islice(examples, most if most >= 0 else None))
    sentences = [
        translator.cut(list(example["inputs"]), f"Example {number}")
        for number, example in enumerate(examples, start=1)
    ]
    with progress.report("", len(examples), "sentences", say=report) as advance:
        results = translator.translate_ids(sentences, advance)
    with contextlib.ExitStack() as stack:
        outputs = stack.enter_context(writing(target))
        beside = {name: stack.enter_context(writing(path)) for name, path in sides(target).items()}
        for example, hypotheses in zip(examples, results, strict=True):
            # An empty example has a single hypothesis; its lines are there all the same.
            missing = translator.settings.top_beams - len(hypotheses)
            for hypothesis in hypotheses + hypotheses[:1] * missing:
                score = ""
                if translator.settings.shows_scores:
                    score = f"\t{hypothesis.score:.2f}"
                outputs.write(one_line(hypothesis.text) + score + "\n")
                for name, file in beside.items():
                    ids = [i for i in example[name] if i != EOS_ID]
                    file.write(one_line(translator.encoders[name].decode(ids)) + "\n")
    return len(examples)


def _as_json(line: str, hypotheses: "list[Hypothesis]") -> str:
    real = [h.as_dict() for h in hypotheses if h.score > FILLER]
    return json.dumps({"source": line, "hypotheses": real}, ensure_ascii=False)
