"""What t2t-decoder is asked for, and which of it is refused."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from t2t_repro.decoding.ability import Ability
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError, unset
from t2t_repro.files import check_file, is_stream
from t2t_repro.problem import OutputType, Problem, Split
from t2t_repro.requests import flag

# What --engine names, and what each can do besides search.
ENGINES: dict[str, frozenset[Ability]] = {
    "tensorflow": frozenset(Ability),
    "ctranslate2": frozenset(),
}
_READ = ("decode_from_file", "score_file", "decode_reference", "partial_targets_file")
_READ_BY_SCORING = ("batch_size", "shards", "shard_id")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """The flags of t2t-decoder, by their names; `given` holds those that the user named.

    The files of a shard have its number behind their names: see `of_shard`.
    """

    decode_from_file: str | None = flag(
        None, "The sentences to translate, one a line; UTF-8, plain or .gz."
    )
    decode_to_file: str | None = flag(
        None, "Where they go; default: a name made of source, model and beams."
    )
    score_file: str | None = flag(
        None, "Pairs to score, one a line, with a tab between source and target."
    )
    decode_json_file: str | None = flag(
        None, "With one of these two files: JSON lines with the exact scores."
    )
    output_format: str = flag(
        "text",
        "What --decode_to_file gets of --decode_from_file: text, or JSON lines.",
        choices=("text", "jsonl"),
    )
    partial_targets_file: str | None = flag(
        None, "What each translation of a file begins with, a line for each."
    )
    ensemble: str | None = flag(
        None, "RUN2,RUN3: runs that decode together with that of --output_dir."
    )
    decode_reference: str | None = flag(None, "The right translations: print BLEU.")
    decode_hparams: str | None = flag(None, 'How to decode: "name=value,name=value".')
    checkpoint_path: str | None = flag(
        None, "The checkpoint; default: the newest of --output_dir, of RUN/best the best."
    )
    decode_interactive: bool = flag(False, "Translate what is typed.")
    eval_use_test_set: bool = flag(False, "Of the problem's data: the test split, not dev.")
    t2t_exact: bool = flag(
        False, "Batches, length limits and score files exactly as tensor2tensor's."
    )
    engine: str = flag(
        "tensorflow",
        "What computes; tensorflow stands for Keras's backend, whichever that is.",
        choices=tuple(ENGINES),
    )
    compute_type: str = flag(
        "default",
        "With --engine=ctranslate2: float32, int8, ... as it names them; default: as stored.",
    )
    worker_gpu: int | None = flag(
        None, "On how many GPUs to decode; default: all, or one CPU.", least=1
    )
    engine_dir: str | None = flag(
        None, "What t2t-exporter --format=ctranslate2 wrote; default: made when needed."
    )
    decode_shards: int = flag(
        1, "As the decode hparam shards: of so many files, decode one:", least=1
    )
    worker_id: int = flag(
        0, "that of this number (the decode hparam shard_id), from 0 on.", least=0
    )
    given: frozenset[str] = frozenset()

    def settings(self, run: Any, say: Callable[[str], None] = lambda text: None) -> DecodeHParams:
        """Returns the decode hparams: those of a `TrainedRun`, less what was asked for instead.

        What was tuned does not count where tensor2tensor's way is asked for, nor where nothing is
        searched; where it does, `say` is told.
        """
        if self.t2t_exact or self.score_file:
            settings = DecodeHParams.of(run.problem, self.decode_hparams)
        else:
            settings = run.decode_settings(self.decode_hparams, say=say)
        named = {"shards": "decode_shards", "shard_id": "worker_id"}
        given = {name: getattr(self, flag) for name, flag in named.items() if flag in self.given}
        return dataclasses.replace(settings, **given)

    @property
    def split(self) -> str:
        """The split that is decoded where no file is."""
        return Split.TEST if self.eval_use_test_set else Split.EVAL

    @property
    def inputs(self) -> dict[str, str | None]:
        """What is read: {flag: path}."""
        names = (*_READ, "engine_dir")
        return {f"--{name}": getattr(self, name) for name in names}

    def of_shard(self, suffix: str) -> "DecodeRequest":
        """Returns the request with `suffix` behind the names of all files.

        Raises:
            FileNotFoundError: if one that is to be read is not there.
            UserError: if one is no file.
        """
        paths = {
            name: path if is_stream(path) and name not in _READ else path + suffix
            for name in (*_READ, "decode_to_file", "decode_json_file")
            if (path := getattr(self, name))
        }
        for name in _READ:
            if name in paths:
                check_file(f"--{name}", paths[name])
        return dataclasses.replace(self, **paths)

    def asks_for(self, settings: DecodeHParams) -> list[Ability]:
        """Returns what an engine must be able to do besides search."""
        flags = {a for a in Ability if a.startswith("--") and getattr(self, a[2:])}
        return sorted(flags | Ability.asked_by(settings), key=list(Ability).index)

    def check(self, settings: DecodeHParams, problem: Problem) -> None:
        """Refuses flags and decode hparams that contradict each other or do nothing.

        Args:
            settings: the decode hparams.
            problem: what is decoded.

        Raises:
            UserError: on the first thing that is refused.
        """
        refusals = (
            *_of_values(self),
            *_of_sources(self, settings),
            *_of_json(self, settings),
            *_of_engine(self, settings),
            *_of_output(self, settings, problem),
            *_of_scoring(self, settings, problem),
        )
        _check(refusals)


Refusals = Iterable[tuple[object, str]]  # whether something is refused, and why


def check_output(settings: DecodeHParams, problem: Problem) -> None:
    """Refuses decode hparams that have no effect on what is written of a problem.

    Raises:
        UserError: on the first thing that is refused.
    """
    _check(_of_output(DecodeRequest(), settings, problem))


def _check(refusals: Refusals) -> None:
    for refused, message in refusals:
        if refused:
            raise UserError(message)


_NAMING = (*_READ, "decode_to_file", "decode_json_file", "checkpoint_path", "engine_dir")


def _of_values(r: DecodeRequest) -> Refusals:
    for name in _NAMING:
        yield getattr(r, name) == "", str(unset(f"--{name}"))
    yield (
        r.ensemble is not None and not any(name.strip() for name in r.ensemble.split(",")),
        "Expected --ensemble to name runs, with commas between. Received: "
        f"{r.ensemble!r}. Name at least one, or leave the flag out.",
    )


def _of_sources(r: DecodeRequest, s: DecodeHParams) -> Refusals:
    names = ("decode_from_file", "score_file", "decode_interactive")
    wanted = [f"--{name}" for name in names if getattr(r, name)]
    yield (
        len(wanted) > 1,
        f"Expected one thing to decode. Received: {' and '.join(wanted)}. Leave one out.",
    )
    yield (
        r.decode_reference and r.decode_to_file and is_stream(r.decode_to_file),
        "--decode_reference scores what stands in --decode_to_file. Received: "
        f"{r.decode_to_file}, which keeps nothing. Name a file, or leave one of the two out.",
    )
    yield (
        r.decode_reference and r.decode_interactive,
        "--decode_reference has no effect on --decode_interactive, which keeps nothing to score. "
        "Received: both. Leave one of the two out.",
    )
    yield (
        r.decode_interactive and r.decode_to_file,
        "--decode_to_file has no effect on --decode_interactive, which prints. Received: both. "
        "Leave one of the two out.",
    )
    # Not batch_size, which changes no translation: it may stand in a command for files as well.
    for name in ("num_samples", "shards"):
        yield (
            r.decode_interactive and name in s.changed(),
            f"Decode hparam {name} has no effect on --decode_interactive. Received: "
            f"{name}={getattr(s, name)}. Leave it out.",
        )
    yield (
        r.eval_use_test_set and wanted,
        f"--eval_use_test_set names a split, and has no effect on {' and '.join(wanted)}. "
        "Received: both. Leave one of the two out.",
    )
    yield (
        r.partial_targets_file and not r.decode_from_file,
        "--partial_targets_file has a line for each one of --decode_from_file. Received: it "
        "without that. Leave it out.",
    )


def _of_json(r: DecodeRequest, s: DecodeHParams) -> Refusals:
    """Of --output_format, --decode_json_file and what only JSON can hold."""
    jsonl = r.output_format == "jsonl"
    yield (
        r.decode_json_file and not (r.decode_from_file or r.score_file),
        "--decode_json_file works with --decode_from_file and --score_file. Received: neither. "
        "Leave it out.",
    )
    yield (
        jsonl and not r.decode_from_file,
        "--output_format=jsonl works with --decode_from_file. Received: no such file. Leave it "
        "out.",
    )
    for name in ("decode_json_file", "decode_reference"):
        yield (
            jsonl and getattr(r, name),
            f"Expected --{name} with a file of translations as text. Received: it with "
            "--output_format=jsonl. Leave one of the two out.",
        )
    yield (
        jsonl and s.write_beam_scores,
        "Decode hparam write_beam_scores has no effect on JSON lines, which hold the exact "
        "scores. Received: it with --output_format=jsonl. Leave it out.",
    )
    for name in ("return_token_scores", "return_alignments"):
        yield (
            getattr(s, name) and not (r.decode_from_file or r.decode_interactive),
            f"Decode hparam {name} works with --decode_from_file and --decode_interactive. "
            "Received: neither. Leave it out.",
        )
    yield (
        s.return_token_scores and not (jsonl or r.decode_json_file or r.decode_interactive),
        "Decode hparam return_token_scores has no effect on a file of text. Received: "
        "--output_format=text. Add --output_format=jsonl, or --decode_json_file=FILE.",
    )


def _of_engine(r: DecodeRequest, s: DecodeHParams) -> Refusals:
    beyond = [ability for ability in r.asks_for(s) if ability not in ENGINES[r.engine]]
    yield (
        beyond,
        f"Expected what --engine={r.engine} can do. Received: {', '.join(beyond)} with "
        f"--engine={r.engine}. Leave one of them out.",
    )
    its_own = [f"--{name}" for name in ("compute_type", "engine_dir") if name in r.given]
    yield (
        its_own and r.engine != "ctranslate2",
        f"Expected {' and '.join(its_own)} with --engine=ctranslate2. Received: "
        f"--engine={r.engine}. Leave it out, or choose that engine.",
    )
    yield (
        r.worker_gpu and r.engine == "ctranslate2",
        "--worker_gpu has no effect on --engine=ctranslate2, which computes on the CPU here. "
        "Received: both. Leave one of the two out.",
    )
    yield (
        r.engine_dir and r.checkpoint_path,
        "Expected --engine_dir, a model that is written already, or --checkpoint_path, of which "
        f"one is made. Received: {r.engine_dir} and {r.checkpoint_path}. Leave one of the two out.",
    )
    unread = [name for name in ("min_length_ratio", "max_length_ratio") if getattr(s, name)]
    unread += ["--partial_targets_file"] * bool(r.partial_targets_file)
    yield (
        r.t2t_exact and unread,
        "Expected what tensor2tensor's decoder does with --t2t_exact. Received: "
        f"{', '.join(unread)}, which it does not read. Leave one of them out.",
    )


def _of_output(r: DecodeRequest, s: DecodeHParams, problem: Problem) -> Refusals:
    """What has no effect on the output of this problem."""
    trees = problem.output_type == OutputType.TREE
    for name in ("raw_output", "well_formed"):
        yield (
            getattr(s, name) and not trees,
            f"Decode hparam {name} has no effect on {problem.name}, which writes text. "
            f"Received: {name}=True. Leave it out.",
        )
    yield (
        r.decode_reference and trees,
        f"--decode_reference prints the BLEU of translations. Received: it with {problem.name}, "
        "which writes trees. Leave it out, and score them: python -m t2t_repro.parsing.score.",
    )
    yield (
        r.decode_reference and s.identity_output,
        "--decode_reference scores text. Received: it with the decode hparam identity_output, "
        "which writes ids. Leave one of the two out.",
    )
    yield (
        r.partial_targets_file and s.well_formed,
        "Expected no beginnings where the search writes whole trees by itself. Received: "
        "--partial_targets_file with the decode hparam well_formed. Leave one of them out.",
    )
    yield (
        s.return_alignments and trees and not s.raw_output,
        f"Decode hparam return_alignments aligns words, and {problem.name} writes trees. "
        "Received: return_alignments=True. Add raw_output=True, or leave it out.",
    )


def _of_scoring(r: DecodeRequest, s: DecodeHParams, problem: Problem) -> Refusals:
    if not r.score_file:
        return
    yield (
        not r.decode_to_file,
        "--score_file needs --decode_to_file, for the scores. Received: none.",
    )
    yield r.decode_reference, "--score_file does not read --decode_reference. Leave it out."
    read = {name: getattr(s, name) for name in _READ_BY_SCORING}
    plain = type(s).parse("", problem.decode_hparams)
    yield (
        dataclasses.replace(plain, **read) != s,
        f"--score_file reads the decode hparams {', '.join(_READ_BY_SCORING)} only. Received: "
        f"{r.decode_hparams!r}. Leave the others out.",
    )
