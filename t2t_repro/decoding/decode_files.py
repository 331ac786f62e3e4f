"""What t2t-decoder does for a run: translates a file, a dataset or what is typed, scores pairs.

N lines in, N lines out. While a file grows its name ends in ".DIGEST.incomplete", the digest of all
that determines its content. A killed decoding resumes after its last whole window of lines.

It loads nothing heavy, so that refusals come at once.
"""

import contextlib
import dataclasses
import errno
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from t2t_repro import __version__, fields, progress
from t2t_repro.decoding.settings import FILLER, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import INCOMPLETE, check_outputs, is_stream, write_text_atomic, writing
from t2t_repro.problem import Split
from t2t_repro.run_directory import RunConfig
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID

if TYPE_CHECKING:  # they load NumPy, and refusals must not wait for that
    from t2t_repro.decoding.search import Engine
    from t2t_repro.decoding.translate import Hypothesis, Translator

Report = Callable[[str], None]
ENGINES = ("tensorflow", "ctranslate2")
_READ = ("decode_from_file", "score_file", "decode_reference", "partial_targets_file")
_WANTED = ("decode_from_file", "score_file", "decode_interactive")
_OF_THE_MODEL = ("score_file", "t2t_exact", "partial_targets_file", "ensemble")
# Flags for some inputs only, and for which.
_OF_SOME = {
    "decode_to_file": ("", "--decode_from_file", "--score_file"),
    "decode_json_file": ("--decode_from_file", "--score_file"),
    "output_format": ("--decode_from_file",),
    "partial_targets_file": ("--decode_from_file",),
    "eval_use_test_set": ("",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """The flags of t2t-decoder, by their names; `given` holds those that the user named.

    The names of a shard's files end in its number: see `of_shard`.
    """

    decode_from_file: str | None = flag(None, "File to translate, one sentence per line (or .gz).")
    decode_to_file: str | None = flag(None, "Output file; default name from input, model, beams.")
    score_file: str | None = flag(None, "A file of pairs to score; each line: source, tab, target.")
    decode_json_file: str | None = flag(None, "Also write JSON with unrounded scores to this file.")
    output_format: str = flag(
        "text", "The format of --decode_to_file: text, or JSON lines.", choices=("text", "jsonl")
    )
    partial_targets_file: str | None = flag(None, "File with one forced prefix per source line.")
    ensemble: str | None = flag(None, "RUN2,RUN3: runs that form an ensemble with --output_dir.")
    decode_reference: str | None = flag(None, "A file of reference translations, for BLEU.")
    decode_hparams: str | None = flag(None, 'Decode hparams: "name=value,name=value".')
    checkpoint_path: str | None = flag(
        None, "A ckpt-STEP folder; default: the newest, or the best for --output_dir=RUN/best."
    )
    decode_interactive: bool = flag(False, "Translate sentences that you type.")
    eval_use_test_set: bool = flag(False, "Decode the problem's test split instead of dev.")
    t2t_exact: bool = flag(False, "Use exactly the batches, limits and scores of tensor2tensor.")
    engine: str = flag(
        "tensorflow", "What decodes: Keras (also on JAX), or CTranslate2 on CPU.", choices=ENGINES
    )
    compute_type: str = flag("default", "CTranslate2 compute type: int8, ...; default: as stored.")
    worker_gpu: int | None = flag(None, "Number of GPUs; default: all, or CPU if none.", least=1)
    engine_dir: str | None = flag(None, "CTranslate2 model folder; default: in OUTPUT_DIR/export.")
    decode_shards: int = flag(1, "How many files the source has (decode hparam shards).", least=1)
    worker_id: int = flag(0, "The shard to decode (the decode hparam shard_id).", least=0)
    given: frozenset[str] = frozenset()

    def settings(self, run: Any, say: Callable[[str], None] = lambda text: None) -> DecodeHParams:
        """Returns the decode hparams: those of a `TrainedRun`, with the request's changes.

        Tuned settings do not apply under --t2t_exact, nor where nothing is searched; if they do,
        `say` gets a line.
        """
        if self.t2t_exact or self.score_file:
            settings = DecodeHParams.parse(self.decode_hparams, run.problem.decode_hparams)
        else:
            settings = run.decode_settings(self.decode_hparams, say=say)
        named = {"shards": "decode_shards", "shard_id": "worker_id"}
        given = {name: getattr(self, flag) for name, flag in named.items() if flag in self.given}
        return dataclasses.replace(settings, **given)

    @property
    def split(self) -> str:
        """The split to decode if no file is given."""
        return Split.TEST if self.eval_use_test_set else Split.EVAL

    def of_shard(self, suffix: str) -> "DecodeRequest":
        """Returns the request with `suffix` at the end of all file names."""
        paths = {
            name: path if is_stream(path) and name not in _READ else path + suffix
            for name in (*_READ, "decode_to_file", "decode_json_file")
            if (path := getattr(self, name))
        }
        return dataclasses.replace(self, **paths)

    @property
    def what(self) -> str:
        """The flag that names what to decode; "": the problem's data.

        Raises:
            UserError: if several do.
        """
        wanted = [f"--{name}" for name in _WANTED if getattr(self, name)]
        if len(wanted) > 1:
            raise UserError(
                f"Expected one thing to decode. Received: {' and '.join(wanted)}. Keep one flag."
            )
        return "".join(wanted)

    @property
    def is_scored(self) -> bool:
        """Whether --decode_reference is compared with the translations."""
        keeps = not (self.decode_to_file and is_stream(self.decode_to_file))
        translates = self.what in ("", "--decode_from_file") and self.output_format == "text"
        return bool(self.decode_reference) and keeps and translates

    def check(self) -> None:
        """Refuses requests that would not be carried out as given.

        Raises:
            UserError: on the first thing that is refused.
        """
        if self.what == "--score_file" and not self.decode_to_file:
            raise UserError("Expected --decode_to_file for --score_file. Received: no output file.")
        beyond = [f"--{name}" for name in _OF_THE_MODEL if getattr(self, name)]
        if self.engine == "ctranslate2" and beyond:
            raise UserError(
                "Expected only flags that --engine=ctranslate2 supports. Received: "
                f"{', '.join(beyond)}. Remove these flags, or remove --engine."
            )

    def unused(self, settings: DecodeHParams) -> list[str]:
        """Returns the flags and decode hparams that were given and have no effect."""
        flags = {name for name, of in _OF_SOME.items() if self.what not in of}
        if self.engine == "ctranslate2":
            flags |= {"worker_gpu", *(["checkpoint_path"] * bool(self.engine_dir))}
        else:
            flags |= {"compute_type", "engine_dir"}
        if not self.is_scored:
            flags.add("decode_reference")
        given = fields.parse_overrides(self.decode_hparams or "").keys()
        names = set(fields.unused(settings, given & set(settings.changed())))
        if self.what == "--score_file":
            names |= given - {"batch_size", "shards", "shard_id"}
        elif not self.what:
            names |= given & {"return_alignments", "return_token_scores"}
        return [*(f"--{n}" for n in sorted(flags & self.given)), *sorted(names)]


@dataclasses.dataclass(frozen=True)
class DecodeJob:
    """A request that was checked for a run; `DecodeJob.from_request` makes one.

    request: its files are those of the shard that is asked for.
    settings: how to decode.
    run: whose model decodes, a `runs.TrainedRun`.
    """

    request: DecodeRequest
    settings: DecodeHParams
    run: Any

    @classmethod
    def from_request(cls, request: DecodeRequest, run: Any, say: Report) -> "DecodeJob":
        """Returns the job of a request; `say` gets lines on tuned settings and flags without
        effect.

        Raises:
            UserError: if it contradicts itself, or an input file is missing or malformed.
        """
        settings = request.settings(run, say)
        request = request.of_shard(settings.shard_suffix)
        request.check()
        if unused := request.unused(settings):
            say(f"Warning: with these flags, {', '.join(unused)} will have no effect.")
        job = cls(request, settings, run)
        inputs = {f"--{name}": getattr(request, name) for name in (*_READ, "engine_dir")}
        check_outputs(job._outputs(), inputs)
        job.check_files()
        return job

    def check_files(self) -> None:
        """Checks the source, and the files that need a line for each of its lines.

        Raises:
            UserError: if there is no line, one is not UTF-8, or there are more or fewer.
        """
        request, most = self.request, self.settings.num_samples
        if not (source := request.decode_from_file):
            return
        lines, _ = count_and_digest(source, most)
        beside = {request.partial_targets_file: most}
        if request.is_scored:
            beside[request.decode_reference] = -1
        for path, of in beside.items():
            if path and (there := count_and_digest(path, of)[0]) != lines:
                raise UserError(
                    f"Expected {lines:,} lines in {path}, one for each line of {source} to decode. "
                    f"Received: {there:,}."
                )

    def searches(self) -> int:
        """Returns how many searches share a batch: one where what else is computed needs all cores.

        To be called before TensorFlow has computed anything: see `share_cores`.
        """
        from t2t_repro.decoding.program import share_cores
        from t2t_repro.decoding.translate import BATCH_SENTENCES

        r, s = self.request, self.settings
        whole = r.decode_interactive or r.t2t_exact or r.score_file
        if whole or s.return_token_scores or s.return_alignments:
            return 1
        return share_cores((s.batch_size or BATCH_SENTENCES) * s.beam_size)

    def decode(self, engine: "Engine", say: Report) -> None:
        """Decodes; `say` receives warnings, the progress and what was written."""
        from t2t_repro.decoding.score import score_file
        from t2t_repro.decoding.translate import interact

        request, run, settings = self.request, self.run, self.settings
        translator = run.translator(engine, settings, t2t_exact=request.t2t_exact, warn=say)
        if request.decode_interactive:
            interact(translator)
            return
        if request.score_file:
            lines = request.decode_json_file
            score_file(translator, request.score_file, self.target, json_file=lines, report=say)
            return
        if request.decode_from_file:
            translate_file(
                translator,
                request.decode_from_file,
                self.target,
                request.decode_json_file,
                report=say,
                prefixes=request.partial_targets_file,
                as_json=request.output_format == "jsonl",
            )
        else:
            from t2t_repro.data import pipeline

            examples = pipeline.read_split(
                run.problem, request.split, run.data_dir, settings.shard_id, settings.shards
            )
            translate_examples(translator, examples, self.target, report=say)
        say(f"Wrote {self.target}")
        if reader := translator.reader:
            say(str(reader))
            if repairs := self._outputs().get("the file of tree-repair counts"):
                write_text_atomic(repairs, reader.as_json())

    def _outputs(self) -> dict[str, str | None]:
        """Returns the files to write: {flag or description: path}."""
        request, settings = self.request, self.settings
        if request.decode_interactive:
            return {}
        found = {"--decode_to_file": self.target, "--decode_json_file": request.decode_json_file}
        if request.score_file or is_stream(self.target):
            return found
        if not request.decode_from_file:
            found |= {f"the file of the {name}": path for name, path in sides(self.target).items()}
        as_written = settings.raw_output or settings.identity_output
        if self.run.problem.writes_trees and not as_written:
            found["the file of tree-repair counts"] = f"{self.target}.repairs.json"
        return found

    @property
    def target(self) -> str:
        """The output file: the given one, or a name made of source, model and beams."""
        source, named = self.request.decode_from_file, self.request.decode_to_file
        if named and (source or self.request.score_file or is_stream(named)):
            return named
        config, settings = self.run.config, self.settings
        if not source:
            split = self.run.path / "decode" / f"{config.problem}.{self.request.split}"
            source = named or f"{split}{settings.shard_suffix}"
        return output_name(source, config, settings)

    def translations(self, path: str | os.PathLike) -> Iterator[str]:
        """Yields the best translation of each sentence in a file that this job has written."""
        return best_translations(path, self.settings, of_examples=not self.request.decode_from_file)


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
    """Returns how many lines a file has, and their SHA-256.

    Args:
        path: UTF-8 text, plain or `.gz`.
        most: look at so many lines; -1: at all.

    Raises:
        UserError: if there is no line, or one is not UTF-8.
    """
    digest, count = hashlib.sha256(), 0
    for line in islice(raw.lines(path), most if most >= 0 else None):
        digest.update(line.encode() + b"\n")
        count += 1
    if not count and most:
        raise UserError(f"Expected sentences in {path}. Received: an empty file.")
    return count, digest.hexdigest()


@contextlib.contextmanager
def growing(
    paths: Sequence[str | os.PathLike], job: dict[str, Any], window: int, report: Report
) -> Iterator[tuple[int, Callable[[Sequence[str]], None]]]:
    """Opens files that get their names when the block ends; if it is killed, the next call resumes.

    Until then they have the names NAME.DIGEST.incomplete: only the same job finds them again, and
    counts their lines. If one of them is a pipe or a device, it starts over.

    Args:
        paths: the files. Their folders are made where there are none.
        job: all that determines the files' content, as JSON.
        window: lines that are made together; an incomplete window is made again.
        report: gets a line if another job's files are removed.

    Yields:
        How many lines are done, whole windows, in each file; and what appends a text to each.
    """
    digest = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:8]
    whole = [Path(os.path.realpath(path)) for path in paths]
    unfinished = [Path(f"{path}.{digest}{INCOMPLETE}") for path in whole]
    with contextlib.ExitStack() as stack:
        files: list[BinaryIO] = []

        def append(texts: Sequence[str]) -> None:
            for file, text in zip(files, texts, strict=True):
                file.write(text.encode())
                file.flush()

        if any(map(is_stream, paths)):
            files += [stack.enter_context(writing(path, "wb")) for path in paths]
            yield 0, append
            return
        for named, path, own in zip(paths, whole, unfinished, strict=True):
            if path.is_dir():  # found before the work is done
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(named))
            path.parent.mkdir(parents=True, exist_ok=True)
            others = f"{glob.escape(path.name)}.{'[0-9a-f]' * len(digest)}{INCOMPLETE}"
            for other in set(path.parent.glob(others)) - {own}:
                report(f"Deleting {other}, left by a different decode. Starting over.")
                other.unlink()
        done = min(map(_lines_in, unfinished)) // window * window
        for path in unfinished:
            files.append(stack.enter_context(open(path, "ab+")))
            files[-1].seek(0)
            files[-1].truncate(sum(map(len, islice(files[-1], done))))
        try:
            yield done, append
        except BaseException:
            for path in filter(lambda path: not path.stat().st_size, unfinished):
                path.unlink()
            raise
    for path, name in zip(unfinished, whole, strict=True):
        os.replace(path, name)


def _lines_in(path: Path) -> int:
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        return sum(line.endswith(b"\n") for line in file)


def translate_file(
    translator: "Translator",
    source: str | os.PathLike,
    target: str | os.PathLike,
    json_file: str | os.PathLike | None = None,
    report: Report = print,
    *,
    prefixes: str | os.PathLike | None = None,
    as_json: bool = False,
) -> None:
    """Translates a file line by line.

    Killed and called again, it resumes after the last finished window and ends with the same files.
    It starts over under `t2t_exact`, where all lines are one window, and for trees, whose repairs
    are counted.

    Args:
        translator: does the work.
        source: UTF-8 text, plain or `.gz`, a sentence a line.
        target: gets one line for each line of `source`; it appears when all is done.
        json_file: gets, for each line, an object with every hypothesis and its exact scores.
        report: receives messages, and at the end how many sentences in what time.
        prefixes: a file with the beginning of each translation, as many lines; an empty line forces
            nothing.
        as_json: `target` gets what `json_file` would get.

    Raises:
        UserError: if the file is empty, or a line cannot be encoded.
    """
    import keras

    from t2t_repro.decoding import translate

    most = translator.settings.num_samples
    total, digest = count_and_digest(source, most)
    # All that determines the output.
    job = {
        "source": digest,
        "prefixes": prefixes and count_and_digest(prefixes, most)[1],
        "json_file": json_file is not None,
        "as_json": as_json,
        "weights": translator.engine.fingerprint,
        "version": __version__,
        "backend": keras.backend.backend(),
        # What is in no other job: it is made in one go.
        "only": os.urandom(8).hex() if translator.t2t_exact or translator.reader else "",
        **dataclasses.asdict(translator.settings),
    }
    paths = [target, json_file] if json_file else [target]
    with growing(paths, job, translate.WINDOW, report) as (done, append):
        if done:
            report(f"Resuming after line {done:,} of {total:,}")
        lines = islice(raw.lines(source), done, total)
        begun: Iterable[str | None] = repeat(None, total - done)
        if prefixes is not None:
            begun = islice(raw.lines(prefixes), done, total)
        with progress.report("", total, "sentences", done=done, say=report) as advance:
            pairs = zip(lines, begun, strict=True)
            for window, results in translator.translate_windows(pairs, advance, done):
                text = "".join(translator.format(beams) + "\n" for beams in results)
                details = "".join(map(_as_json, window, results))
                append([details if as_json else text] + [details] * (json_file is not None))


def translate_examples(
    translator: "Translator",
    examples: Iterable[dict[str, list[int]]],
    target: str | os.PathLike,
    report: Report = print,
) -> None:
    """Decodes the examples of a dataset; writes outputs, inputs and targets side by side.

    As tensor2tensor, the inputs and targets take the name of `target` with its last part replaced;
    with return_beams each hypothesis is a line of its own.

    Args:
        translator: does the work.
        examples: {"inputs": ids, "targets": ids}, each ending with 1.
        target: the file of the outputs.
        report: receives messages, and at the end how many sentences in what time.
    """
    from t2t_repro.decoding.translate import one_line

    most, shows_scores = translator.settings.num_samples, translator.settings.shows_scores
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
            for hypothesis in translator.n_best(hypotheses):
                score = f"\t{hypothesis.score:.2f}" if shows_scores else ""
                outputs.write(one_line(hypothesis.text) + score + "\n")
                for name, file in beside.items():
                    ids = [i for i in example[name] if i != EOS_ID]
                    file.write(one_line(translator.encoders[name].decode(ids)) + "\n")


def _as_json(line: str, hypotheses: "list[Hypothesis]") -> str:
    real = (h._asdict().items() for h in hypotheses if h.score > FILLER)
    asked_for = [{name: value for name, value in h if value is not None} for h in real]
    return json.dumps({"source": line, "hypotheses": asked_for}, ensure_ascii=False) + "\n"
