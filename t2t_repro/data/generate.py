"""Writes a problem's vocabulary and TFRecord files, and their summary datagen.PROBLEM.json.

A split's samples are numbered as its source yields them, and file n % N gets sample n. Processes
encode them in blocks into unshuffled files; then each file is shuffled and gets its name. So memory
holds some blocks and one file a process, and the bytes do not depend on the machine. A split is
whole or made again: after a kill the same command ends with the same files.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_repro import imports, process, progress, registry, schema
from t2t_repro.corpora import raw_record
from t2t_repro.data import corpus_check, packing, tfrecord
from t2t_repro.data.job import Files, Job, is_encoded_by_sample, summary_path
from t2t_repro.data.packing import SIDES
from t2t_repro.errors import UserError
from t2t_repro.files import INCOMPLETE, write_json, writing
from t2t_repro.problem import Problem, Sample, Split
from t2t_repro.text import raw, tokenizer
from t2t_repro.text.vocabulary_size import VocabularySize

SAMPLES, TEXTS = 1000, 4000  # in a block
UNSHUFFLED = ".unshuffled" + INCOMPLETE  # behind a file's name, until all samples are in the files
_TEXT = "raw_text"  # of a split's entry in the summary: {name: SHA-256 of the text}
_AHEAD = 2  # blocks given to each process before the first result is needed
LoadProblem = Callable[[], Problem]
Report = Callable[[str], None]


def generate_data(job: Job, machine: Any = None, *, report: Report = lambda line: None) -> dict:
    """Writes the files of every missing split, and returns the summary of all.

    An existing vocabulary file is used unchanged: models depend on it. `overwrite` makes it again
    if it was built here, for these files alone. Training files are shuffled by the seed; the others
    keep the order of their source.

    Args:
        job: what to make.
        machine: `Local` or `beam.Beam`; None: this process.
        report: receives a line for each decision.

    Raises:
        UserError: if raw files are missing or broken, a split has no sample, the text has errors at
            which `job.check` says to stop, or existing files were made from other text.
    """
    machine = machine or Local()
    job.problem.prepare_raw_files(job.tmp_dir, dict(job.options))
    for folder in (job.data_dir, job.tmp_dir):
        os.makedirs(folder, exist_ok=True)
    job = _sized(job)
    try:
        summary = schema.read(summary_path(job.problem, job.data_dir), dict[str, Any])
    except (OSError, ValueError):  # tensor2tensor leaves none; a broken one is replaced
        summary = {"problem": job.problem.name, "splits": {}}
    others = _other_sets(job)
    kept, todo = list[Files](), list[Files]()
    for files in job.files():
        keep = not job.overwrite and _is_there(files, summary, report)
        # Counting finds a broken text in seconds, before any file is touched.
        (kept if keep else todo).append(files if keep else _counted(job, files))
    if todo:
        corpus_check.check_corpus(job, report)
    for files in kept:
        _check_same(job, files, summary)
    anew = _check_vocabulary(job, bool(kept), report)
    if todo:
        old = [*others, *(path for files in todo for path in files.paths)]
        names = job.problem.vocab_files(job.data_dir) if anew else []
        old += [os.path.join(job.data_dir, name + more) for name in names for more in ("", ".json")]
        for path in old:
            pathlib.Path(path).unlink(missing_ok=True)
        # So unfinished splits are known after a kill.
        summary["unfinished"] = [files.name for files in todo]
        for name in summary["unfinished"]:
            summary["splits"].pop(name, None)
        write_json(summary_path(job.problem, job.data_dir), summary)
        try:
            _make(job, todo, summary, machine)
        finally:
            machine.close()
            name = f"{job.problem.dataset_filename()}-*{INCOMPLETE}"
            for left in pathlib.Path(job.data_dir).glob(name):
                left.unlink()
    encoders = job.problem.feature_encoders(job.data_dir)
    summary["vocab_size"] = {name: encoder.vocab_size for name, encoder in encoders.items()}
    summary["vocab_files"] = job.problem.vocab_files(job.data_dir)
    name, made = _built_vocabulary(job)
    summary["vocabulary"] = {"file": name, **dataclasses.asdict(made)} if made else None
    if summary.pop("unfinished", None) is not None:
        if made:
            report(f"{name}: {made.made:,} subwords. {made.reason}.")
        summary |= {"random_seed": job.seed, **_origin(job, summary)}
        write_json(summary_path(job.problem, job.data_dir), summary)
    return summary


def _make(job: Job, todo: Iterable[Files], summary: dict, machine: Any) -> None:
    """Makes the vocabulary if there is none, and the files; records each whole split in the
    summary."""

    def count(texts: Iterable[str]) -> dict[str, int]:
        return machine.count_tokens(progress.track(texts, "vocabulary", unit="texts"))

    job.problem.prepare_vocabulary(job.data_dir, job.tmp_dir, count)
    for files in todo:
        made_of = _made_of(job, files)
        statistics = machine.make(job, files)
        if not statistics["examples"]:
            for path in files.paths:
                pathlib.Path(path).unlink(missing_ok=True)
            raise UserError(
                f"Expected examples for the {' and '.join(files.splits)} split of "
                f"{job.problem.name}. Received: none. Check the raw files in {job.tmp_dir!r}."
            )
        of_files = {"files": len(files.paths)}
        summary["splits"][files.name] = statistics | of_files | made_of
        summary["unfinished"].remove(files.name)
        write_json(summary_path(job.problem, job.data_dir), summary)


class Local:
    """This machine.

    Args:
        processes: how many encode and count; 1: this one alone. They start when needed.
        load: gives the problem of a name to another process; pickled.
    """

    def __init__(self, processes: int = 1, load: Callable[[str], Problem] = registry.get_problem):
        self._processes, self._load = processes, load
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._maps = itertools.count()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def count_tokens(self, texts: Iterable[str]) -> dict[str, int]:
        """Returns `tokenizer.count_tokens`, in the same order."""
        counts: collections.Counter[str] = collections.Counter()
        for part in self.map(tokenizer.count_tokens, batched(texts, TEXTS)):
            counts.update(part)
        return counts

    def make(self, job: Job, files: Files) -> dict[str, Any]:
        """Makes files, unless there is no sample; returns `statistics_of` them."""
        problem: Problem = job.problem
        apart = self._processes > 1
        load = functools.partial(self._load, problem.name) if apart else lambda: problem
        frames = MakeFrames(len(files.paths), job.data_dir, load)
        samples = samples_of(problem, job.data_dir, job.tmp_dir, files.source, job.max_cases)
        samples = progress.track(samples, files.name, files.total)
        parts = []
        with contextlib.ExitStack() as stack:
            dealt = [stack.enter_context(open(path + UNSHUFFLED, "wb")) for path in files.paths]
            for made in self.map(frames, numbered(samples)):
                for number, content in made.frames.items():
                    dealt[number].write(content)
                parts.append(made.statistics)
        statistics = add_statistics(parts)
        if statistics["examples"]:
            done = self.map(functools.partial(finish_file, files), files.paths)
            if files.seed is not None:
                done = iter(progress.track(done, f"{files.name} files", len(files.paths), "files"))
            collections.deque(done, maxlen=0)
        return statistics

    def map(self, function: Callable[[Any], Any], blocks: Iterable) -> Iterator[Any]:
        """Yields function(block) for each block, in order; only a few blocks are in memory.

        A single block is worked on in this process. A process keeps the function, with all its
        state, to the end.
        """
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        blocks = itertools.chain(first, blocks)
        if self._processes == 1 or len(first) < 2:
            yield from map(function, blocks)
            return
        waiting: collections.deque[concurrent.futures.Future] = collections.deque()
        number = next(self._maps)
        for block in blocks:
            if len(waiting) == _AHEAD * self._processes:
                yield waiting.popleft().result()
            with process.defer_signals():  # it may start a process
                self._pool = self._pool or concurrent.futures.ProcessPoolExecutor(
                    self._processes, process.SPAWN, _begin
                )
                waiting.append(self._pool.submit(_work, number, function, block))
        while waiting:
            yield waiting.popleft().result()


_FUNCTIONS: dict[int, Callable] = {}  # in a process: {number of the map: its function}


def _begin() -> None:
    """Runs first in each process: the parent handles Ctrl-C, and the process ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.end_with_parent()
    imports.quiet_tensorflow()


def _work(number: int, function: Callable, block: Any) -> Any:
    return _FUNCTIONS.setdefault(number, function)(block)


# --- what is done with a block or a file, here or in another process; without TensorFlow ----------


def samples_of(
    problem: Problem, data_dir: str, tmp_dir: str, split: str, most: int
) -> Iterable[Sample]:
    """Returns the samples of a split, texts or ids, without dropped ones; at most `most`, 0:
    all."""
    if is_encoded_by_sample(problem):
        samples = problem.kept_samples(data_dir, tmp_dir, split)
    else:
        samples = problem.generate_encoded_samples(data_dir, tmp_dir, split)
    return itertools.islice(samples, most or None)


def batched(items: Iterable, size: int) -> Iterator[list]:
    """Yields the items in lists of `size`; the last may be shorter."""
    items = iter(items)
    while block := list(itertools.islice(items, size)):
        yield block


def numbered(samples: Iterable[Sample]) -> Iterator[tuple[int, list[Sample]]]:
    """Yields (number of the first, samples): blocks of SAMPLES."""
    return zip(itertools.count(0, SAMPLES), batched(samples, SAMPLES), strict=False)


class Made(NamedTuple):
    """The result of a block: the number of its first sample, and {file: concatenated frames}."""

    number: int
    frames: dict[int, bytes]
    statistics: dict[str, Any]


@dataclasses.dataclass
class MakeFrames:
    """Maps a numbered block of samples to its bytes for each file.

    Attributes:
        num_files: sample number n goes to file n % num_files, as T2T deals them.
        data_dir: the folder of the vocabulary.
        load: gives the problem, once in a process.
    """

    num_files: int
    data_dir: str
    load: LoadProblem

    @functools.cached_property
    def _encode(self) -> Callable[[Sample], Sample] | None:
        problem = self.load().forward()
        return problem.sample_encoder(self.data_dir) if is_encoded_by_sample(problem) else None

    def __call__(self, block: tuple[int, list[Sample]]) -> Made:
        (number, samples), texts = block, []
        if self._encode:
            texts, samples = samples, list(map(self._encode, samples))
        frames = [tfrecord.frame(tfrecord.serialize(sample)) for sample in samples]
        count = self.num_files
        firsts = range(min(count, len(frames)))
        of_files = {(number + i) % count: b"".join(frames[i::count]) for i in firsts}
        return Made(number, of_files, statistics_of(samples, texts))


def statistics_of(samples: Sequence[Sample], texts: Sequence[Sample] = ()) -> dict[str, Any]:
    """Returns counts of examples, by side.

    Tokens include the end of sentence; bytes are of the texts in UTF-8, 0 if samples are ids.
    """
    found: dict[str, Any] = {"examples": len(samples)}
    found |= {name: {} for name in ("tokens", "longest", "empty", "bytes")}
    for side in SIDES:
        lengths = [len(sample[side]) for sample in samples]
        in_bytes = (len(text[side].encode("utf-8", "surrogatepass")) for text in texts)
        found["tokens"][side], found["bytes"][side] = sum(lengths), sum(in_bytes)
        found["longest"][side] = max(lengths, default=0)
        found["empty"][side] = lengths.count(1)  # the end of sentence alone
    return found


def add_statistics(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the sum of the `statistics_of` parts."""
    whole = statistics_of([])
    for part in parts:
        whole["examples"] += part["examples"]
        for name, side in itertools.product(("tokens", "longest", "empty", "bytes"), SIDES):
            both = whole[name][side], part[name][side]
            whole[name][side] = max(both) if name == "longest" else sum(both)
    return whole


def finish_file(files: Files, path: str) -> None:
    """Writes one of the files from its samples, as `write_file`."""
    write_file(files, path, pathlib.Path(path + UNSHUFFLED).read_bytes())
    os.unlink(path + UNSHUFFLED)


def write_file(files: Files, path: str, frames: bytes) -> None:
    """Writes one of the files from frames in the order of their samples' numbers.

    Seed and name determine the order in the file, which must fit into memory. Each file is packed
    by itself, after the shuffle, as in T2T (generate_data's extra_fn).
    """
    records = tfrecord.split(frames, path)
    if files.seed is not None:
        random.Random(f"{files.seed} {os.path.basename(path)}").shuffle(records)
    length, spacing = files.packing
    if length:
        packed = packing.pack(map(tfrecord.lists, records), length, spacing)
        records = list(map(tfrecord.serialize, packed))
    with writing(path, "wb") as file:
        file.writelines(map(tfrecord.frame, records))


# --- which files there are, and of what -----------------------------------------------------------


def _sized(job: Job) -> Job:
    """Returns the job with as many training files as its text fills, or as exist.

    At most as many as the problem says; exactly as many if it sets no pairs a file.
    """
    problem = job.problem
    if job.num_shards or problem.pairs_a_file is None:
        return job
    there = tfrecord.shard_sets(problem, Split.TRAIN, job.data_dir)
    if len(there) == 1 and not job.overwrite:
        return dataclasses.replace(job, num_shards=next(iter(there)))
    pairs = problem.num_samples(job.tmp_dir, Split.TRAIN)
    if pairs is None:
        return job
    most = next(e["shards"] for e in problem.dataset_splits if e["split"] == Split.TRAIN)
    files = -(-min(pairs, job.max_cases or pairs) // problem.pairs_a_file)
    return dataclasses.replace(job, num_shards=max(1, min(files, most)))


def _other_sets(job: Job) -> list[str]:
    """Returns the files of sets of another size beside the new ones.

    Raises:
        UserError: if there is one, and not `overwrite`.
    """
    wanted = {split: len(paths) for files in job.files() for split, paths in files.splits.items()}
    others = [
        path
        for split, count in wanted.items()
        for total, there in tfrecord.shard_sets(job.problem, split, job.data_dir).items()
        for path in there
        if total != count
    ]
    if others and not job.overwrite:
        raise UserError(
            f"Expected only one set of {job.problem.name} files in {job.data_dir!r}. Received: a "
            f"second set with another number of files, such as {os.path.basename(others[0])}. "
            "Delete the second set, or give --overwrite to replace both."
        )
    return others


def _counted(job: Job, files: Files) -> Files:
    total = job.problem.num_samples(job.tmp_dir, files.source)
    return dataclasses.replace(files, total=total and min(total, job.max_cases or total))


def _is_there(files: Files, summary: Mapping[str, Any], report: Report) -> bool:
    """Returns whether files are whole."""
    count, there = len(files.paths), sum(map(os.path.exists, files.paths))
    name = " and ".join(files.splits)
    if there == count and files.name not in summary.get("unfinished", ()):
        report(f"Keeping the {count} existing {name} files; --overwrite replaces them.")
        return True
    if there:
        report(f"The {name} files are incomplete ({there} of {count} exist); making all again.")
    return False


def _made_of(job: Job, files: Files) -> dict[str, Any]:
    """Returns the summary's record of the text of some files.

    Names are without .gz; digests are of the unpacked text.
    """
    paths = job.problem.raw_text_files(job.tmp_dir, files.source)
    said: dict[str, Any] = {}
    if digests := {os.path.basename(path).removesuffix(".gz"): _sha256(path) for path in paths}:
        said[_TEXT] = digests
    if files.source == Split.TRAIN and (times := raw_record.repeated(paths)) != 1:
        said[raw_record.REPEATED] = times
    return said


def _sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a text, plain or .gz."""
    with raw.opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def _check_same(job: Job, files: Files, summary: Mapping[str, Any]) -> None:
    """Refuses to keep files of other text.

    Files of tensor2tensor and of earlier versions have no such record.
    """
    digests = summary["splits"].get(files.name, {}).get(_TEXT, {})
    for name, digest in _made_of(job, files).get(_TEXT, {}).items():
        if digests.get(name, digest) != digest:
            raise UserError(
                f"Expected {name} in {job.tmp_dir!r} to be the text that the files in "
                f"{job.data_dir!r} were made from. Received: another text. Restore the old text, "
                "give --overwrite, or use another --data_dir. To train a run further on new text: "
                "t2t-datagen --vocab_from=RUN, then t2t-trainer --warm_start_from=RUN."
            )


def _origin(job: Job, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the summary's record of the origin of the text.

    That is the folder, and the user's files from which its text was made, if known and unchanged.
    """
    folder = os.path.abspath(job.tmp_dir)
    said: dict[str, Any] = {"tmp_dir": raw_record.shown(folder)}
    if record := raw_record.read(pathlib.Path(folder)):
        made = {name: made.sha256 for name, made in record.files.items()}
        texts = [each.get(_TEXT, {}).items() for each in summary["splits"].values()]
        if all(made.get(name, digest) == digest for text in texts for name, digest in text):
            said["raw_files"] = [dataclasses.asdict(file) for file in record.raw_files]
    return said


# --- the vocabulary: may it be used, or made again? -----------------------------------------------


def _check_vocabulary(job: Job, kept: bool, report: Report) -> bool:
    """Checks an existing vocabulary; returns whether to remove it and make it again.

    Args:
        job: what is to be made.
        kept: whether existing files stay.
        report: receives a line about the used vocabulary.

    Raises:
        UserError: if it has another size than requested, or is missing or differs from that of kept
            files.
    """
    names, folder = job.problem.vocab_files(job.data_dir), pathlib.Path(job.data_dir)
    there = [name for name in names if (folder / name).exists()]
    asked = job.problem.has_asked_vocabularies(folder)
    if kept and not (asked and there == names):
        raise UserError(
            f"Expected the vocabulary that the files in {job.data_dir!r} were made with: "
            f"{' and '.join(names)}. Received: none, or another vocabulary. Restore the "
            "old vocabulary, use another --data_dir, or remake everything with --overwrite."
        )
    made = _built_vocabulary(job)[1]
    given = job.vocabularies and not job.vocab_size  # else they are extended
    if not asked or job.overwrite and made and not given and not _is_shared(job):
        return True
    if there and job.vocab_size and not (made and made.asked == job.vocab_size):
        size = job.problem.feature_encoders(job.data_dir)["inputs"].vocab_size
        if made or abs(size - job.vocab_size) > 0.02 * job.vocab_size:
            raise UserError(
                f"Expected a vocabulary of about {job.vocab_size:,} subwords in {job.data_dir!r}, "
                f"as given by --vocab_size. Received: {size:,}. Omit --vocab_size, give another "
                "--data_dir, or add --overwrite to remake the vocabulary and the records."
            )
    for name in there:
        kept_one = job.overwrite and not job.vocabularies
        why = " (kept: other problems use it, or t2t-datagen did not make it)" if kept_one else ""
        report(f"Using the existing vocabulary {name} in {job.data_dir}{why}.")
    return False


def _built_vocabulary(job: Job) -> tuple[str, VocabularySize | None]:
    """Returns the name of a vocabulary that was built here and its record; None: none."""
    for name in job.problem.vocab_files(job.data_dir):
        if size := VocabularySize.read(pathlib.Path(job.data_dir, name)):
            return name, size
    return "", None


def _is_shared(job: Job) -> bool:
    """Returns whether files of other problems in the data directory use this vocabulary."""
    names, own = set(job.problem.vocab_files(job.data_dir)), summary_path(job.problem, job.data_dir)
    for path in pathlib.Path(job.data_dir).glob("datagen.*.json"):
        with contextlib.suppress(OSError, ValueError, LookupError):  # a summary is only information
            if path != own and names & set(schema.read(path, dict[str, Any])["vocab_files"]):
                return True
    return False
