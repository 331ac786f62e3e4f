"""What t2t-decoder is asked for, and which of it is refused."""

import dataclasses
from collections.abc import Callable
from typing import Any

from t2t_repro import fields
from t2t_repro.decoding.settings import BEYOND_SEARCH, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.files import check_file, is_stream
from t2t_repro.problem import Split

ENGINES = ("tensorflow", "ctranslate2")
_READ = ("decode_from_file", "score_file", "decode_reference", "partial_targets_file")


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
        choices=ENGINES,
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
        return {f"--{name}": getattr(self, name) for name in (*_READ, "engine_dir")}

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

    @property
    def what(self) -> str:
        """The flag that says what is decoded; "": the problem's data.

        Raises:
            UserError: if several do.
        """
        wanted = [f"--{name}" for name in _WANTED if getattr(self, name)]
        if len(wanted) > 1:
            raise UserError(
                f"Expected one thing to decode. Received: {' and '.join(wanted)}. Leave one out."
            )
        return "".join(wanted)

    @property
    def is_scored(self) -> bool:
        """Whether --decode_reference is compared with the translations."""
        keeps = not (self.decode_to_file and is_stream(self.decode_to_file))
        translates = self.what in ("", "--decode_from_file") and self.output_format == "text"
        return bool(self.decode_reference) and keeps and translates

    def check(self, settings: DecodeHParams) -> None:
        """Refuses what would be done in another way than it is asked for.

        Raises:
            UserError: on the first thing that is refused.
        """
        if self.what == "--score_file" and not self.decode_to_file:
            raise UserError("--score_file needs --decode_to_file, for the scores. Received: none.")
        beyond = [f"--{name}" for name in _OF_THE_MODEL if getattr(self, name)]
        beyond += [name for name in settings.changed() if name in BEYOND_SEARCH]
        if self.engine == "ctranslate2" and beyond:
            raise UserError(
                f"Expected what --engine={self.engine} can do. Received: {', '.join(beyond)} with "
                f"--engine={self.engine}. Leave one of them out."
            )

    def unread(self, settings: DecodeHParams) -> list[str]:
        """Returns the flags and decode hparams that were given and have no effect."""
        flags = {name for name, of in _OF_SOME.items() if self.what not in of}
        if self.engine == "ctranslate2":
            flags |= {"worker_gpu", *(["checkpoint_path"] * bool(self.engine_dir))}
        else:
            flags |= {"compute_type", "engine_dir"}
        if not self.is_scored:
            flags.add("decode_reference")
        given = fields.parse_overrides(self.decode_hparams or "").keys()
        names = set(fields.unread(settings, given & set(settings.changed())))
        if self.what == "--score_file":
            names |= given - {"batch_size", "shards", "shard_id"}
        return [*(f"--{n}" for n in sorted(flags & self.given)), *sorted(names)]


_WANTED = ("decode_from_file", "score_file", "decode_interactive")
_OF_THE_MODEL = ("score_file", "t2t_exact", "partial_targets_file", "ensemble")
# Flags that are for some of what may be decoded: for which.
_OF_SOME = {
    "decode_to_file": ("", "--decode_from_file", "--score_file"),
    "decode_json_file": ("--decode_from_file", "--score_file"),
    "output_format": ("--decode_from_file",),
    "partial_targets_file": ("--decode_from_file",),
    "eval_use_test_set": ("",),
}
