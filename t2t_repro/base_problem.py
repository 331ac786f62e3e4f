"""What every problem says, be its samples text or not; problem.py is the door."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from t2t_repro.errors import UserError
from t2t_repro.registry import usr_dir_of
from t2t_repro.space_ids import SpaceID
from t2t_repro.text.vocabulary import count_tokens

if TYPE_CHECKING:
    from t2t_repro.corpora.sources import RawFile

Sample = dict[str, Any]
Track = Callable[[Iterable[str], int | None], Iterable[str]]
Count = Callable[[Iterable[str]], dict[str, int]]


class Split:
    """The splits of a dataset; each value is the word in its files' names."""

    TRAIN = "train"
    EVAL = "dev"
    TEST = "test"
    ALL = (TRAIN, EVAL, TEST)


class OutputType:
    """What the targets are, and so what t2t-decoder writes."""

    TEXT = "text"
    TREE = (
        "tree"  # linearised tags (parsing/trees.py); trees over the words of the source are written
    )


class Problem:
    """A task. Subclasses describe it forwards; `Problem(was_reversed=True)` swaps its two sides.

    A reversed problem reads the forward problem's files and vocabulary: inputs and targets, their
    encoders and space ids change places when they are read.
    """

    name = ""  # set by register_problem; a reversed problem keeps the forward name, as in T2T
    was_reversed = False
    random_seed = 429459  # of problems that draw their samples; T2T's default
    pairs_a_file: int | None = None  # so many training pairs fill a file; None: see dataset_splits
    approx_train_samples = 0  # about how many there are, where that is known without files
    # How flags name raw files that nobody can download, and what they are then, for people.
    raw_file_flags: tuple[str, ...] = ()
    raw_file_hint = ""

    def __new__(cls, was_reversed: bool = False):
        reverse = was_reversed and not cls.was_reversed
        return super().__new__(_reversed_class(cls) if reverse else cls)

    def __init__(self, was_reversed: bool = False):
        del was_reversed  # __new__ has chosen the class

    # --- what a subclass says ------------------------------------------------------------------

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        """The splits to generate, and the number of files (shards) of each."""
        return [{"split": Split.TRAIN, "shards": 100}, {"split": Split.EVAL, "shards": 1}]

    @property
    def is_generate_per_split(self) -> bool:
        """False: `generate_samples` runs once, and its samples are dealt to all files in turn."""
        return True

    @property
    def already_shuffled(self) -> bool:
        """Whether the training samples come in random order already."""
        return False

    @property
    def packed_length(self) -> int | None:
        """Packs sentences into examples of at most so many ids a side; None: one an example.

        `data/packing.py` says how. Only the files and training are packed, never decoding.
        """
        return None

    @property
    def packed_spacing(self) -> int:
        """How many zeros go between the sentences of a packed example."""
        return 0

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Sample]:
        """Yields {"inputs": ids, "targets": ids}, each ending with 1."""
        raise NotImplementedError

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the text encoders of "inputs" and "targets"."""
        raise NotImplementedError

    def missing_files(self, tmp_dir: str) -> "list[RawFile]":
        """Returns the raw files that are not in `tmp_dir`, as far as that is known without them."""
        return []

    def prepare_raw_files(self, tmp_dir: str, options: dict[str, Any]) -> None:
        """Makes raw files in `tmp_dir` out of what the user's flags for this problem name.

        Called once, before everything else; whatever it decides must be in the files it writes.

        Args:
            tmp_dir: the folder of raw files.
            options: the flags that were given, by name, such as {"treebank_dir": "/data/ptb"}.

        Raises:
            UserError: on a flag that is not for this problem.
        """
        if options:
            flags = " and ".join(f"--{name}" for name in options)
            raise UserError(
                f"Expected only flags that the problem {self.name} reads. Received: {flags}. "
                "Leave it out, or take a problem that reads it."
            )

    def check_raw_files(self, options: dict[str, Any]) -> None:
        """Refuses flags for `prepare_raw_files` that name what is not there, before any work.

        Raises:
            UserError: as `prepare_raw_files`, as far as that is known without reading much.
        """

    def prepare_vocabulary(
        self,
        data_dir: str,
        tmp_dir: str,
        track: Track = lambda texts, total: texts,
        count: Count = count_tokens,
    ) -> None:
        """Makes the vocabulary files that are not in `data_dir` yet, as T2T does.

        Args:
            data_dir: the folder of the files.
            tmp_dir: the folder of raw files.
            track: called with the texts and their number (or None), returns them: shows progress.
            count: counts the tokens of texts, as `vocabulary.count_tokens` does.
        """

    def ask_vocab_size(self, size: int) -> None:
        """Says how many subwords `prepare_vocabulary` shall build, whatever the problem says.

        Raises:
            UserError: if it builds none.
        """
        raise UserError(
            f"Expected --vocab_size with a problem that builds subwords. Received: {self.name}, "
            "which does not. Leave it out."
        )

    def ask_vocabularies(self, files: Mapping[str, str]) -> None:
        """Says which files of the user's `prepare_vocabulary` shall take.

        Args:
            files: {"inputs": path, "targets": path}; the same path twice: one for both sides.

        Raises:
            UserError: if it takes none, or they are no vocabularies.
        """
        raise UserError(
            "Expected a vocabulary of your own (--vocab, or --source_vocab and --target_vocab) "
            f"with --problem=text2text_tmpdir. Received: {self.name}. Leave it out."
        )

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        """Returns how many samples a split has, where that is cheap to know; raw files are checked.

        `data/generate.py` asks before it starts, so that a broken file costs seconds, not hours.
        """
        return None

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        """Returns the files that a split is made of and nothing else, whose change is refused."""
        return []

    @property
    def vocab_filenames(self) -> list[str]:
        """The files in `data_dir` that the encoders read."""
        return []

    def vocab_files(self, folder: str | os.PathLike) -> list[str]:
        """Returns the names of these files in a folder, a data directory or a run."""
        return self.vocab_filenames

    def has_asked_vocabularies(self, data_dir: str | os.PathLike) -> bool:
        """Returns whether the files of `ask_vocabularies`, if any, are in the folder."""
        return True

    def are_vocabularies_separate(self, data_dir: str | os.PathLike) -> bool:
        """Returns whether an id means one thing in inputs and another in targets, as is known."""
        return False

    @property
    def lexicon_filename(self) -> str:
        """The file in `data_dir` that has a word and its parts of speech on each line; "": none."""
        return ""

    input_space_id = SpaceID.GENERIC
    target_space_id = SpaceID.GENERIC
    batch_size_multiplier = 1  # T2T's: scales the length buckets
    output_type = OutputType.TEXT
    decode_hparams = ""  # what t2t-decoder starts from, such as "beam_size=8"; T2T's are the rest

    def eval_metrics(self) -> list[str]:
        """The names of the metrics that evaluation reports."""
        return ["accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"]

    # --- what follows from it ------------------------------------------------------------------

    def forward(self) -> "Problem":
        """Returns the problem as its files hold it: itself, unless it is reversed."""
        return self

    def stored_feature(self, name: str) -> str:
        """Returns under which name the files hold "inputs", "targets_position" and the like."""
        return name

    def dataset_filename(self) -> str:
        """Returns the first part of the names of this problem's files."""
        return self.name

    def filepaths(self, split: str, data_dir: str | os.PathLike, num_shards: int) -> list[str]:
        """Returns the files of a split, "problem-train-00000-of-00100" and so on."""
        base = f"{self.dataset_filename()}-{split}"
        names = (f"{base}-{shard:05d}-of-{num_shards:05d}" for shard in range(num_shards))
        return [os.path.join(data_dir, name) for name in names]

    def inputs_vocab_size(self, data_dir: str) -> int:
        """Returns the number of ids that inputs may have."""
        return self.feature_encoders(data_dir)["inputs"].vocab_size

    def targets_vocab_size(self, data_dir: str) -> int:
        """Returns the number of ids that targets may have."""
        return self.feature_encoders(data_dir)["targets"].vocab_size

    def datagen_command(self, data_dir: str | os.PathLike) -> str:
        """Returns the command that makes this problem's files."""
        flags = [f"--problem={self.name}", f"--data_dir={os.fspath(data_dir)}"]
        if package := usr_dir_of(type(self)):
            flags.insert(0, f"--t2t_usr_dir={package}")
        return shlex.join(["t2t-datagen", *flags, "--tmp_dir=RAW_FILES"])


_OTHER = {"inputs": "targets", "targets": "inputs"}


class _Reversed(Problem):
    """What `was_reversed` changes: everything that is read changes sides."""

    was_reversed = True
    forward_class: type[Problem]

    def forward(self) -> Problem:
        return self.forward_class()

    def stored_feature(self, name: str) -> str:
        side, *kind = name.split("_")
        return super().stored_feature("_".join([_OTHER[side], *kind]))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        encoders = super().feature_encoders(data_dir)
        return {name: encoders[_OTHER[name]] for name in encoders}


def _reversed_class(cls: type[Problem]) -> type[Problem]:
    body = {
        "__module__": cls.__module__,
        "forward_class": cls,
        "input_space_id": cls.target_space_id,
        "target_space_id": cls.input_space_id,
        "output_type": OutputType.TEXT,
        "decode_hparams": "",
    }
    return type(f"{cls.__name__}Rev", (_Reversed, cls), body)
