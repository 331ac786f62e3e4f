"""Problems: a task and its data, under tensor2tensor's names.

A subclass defines its samples and its vocabulary; `data/generate.py` writes them,
`data/pipeline.py` reads them. docs/own-text.md has the smallest useful problem, under "A problem of
your own".
"""

import copy
import enum
import itertools
import os
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from t2t_repro.corpora import bad_pairs, parallel, raw_record, sources
from t2t_repro.errors import UserError
from t2t_repro.registry import usr_dir_of
from t2t_repro.text import raw, vocabulary, vocabulary_size
from t2t_repro.text.encoders import EOS_ID, RESERVED_TOKENS
from t2t_repro.text.tokenizer import count_tokens
from t2t_repro.text.vocabulary import VocabType as VocabType
from t2t_repro.text.vocabulary_size import T2T_SIZE

Sample = dict[str, Any]
Count = Callable[[Iterable[str]], dict[str, int]]


# What kind of text a side is, for the target-space embedding: T2T's numbers.
SpaceID = enum.IntEnum(
    "SpaceID",
    "GENERIC IMAGE_LABEL EN_CHR EN_TOK EN_BPE_TOK FR_CHR FR_TOK DE_CHR DE_TOK DE_BPE_TOK DIGIT_0 "
    "DIGIT_1 AUDIO_WAV AUDIO_SPECTRAL PARSE_CHR PARSE_TOK ZH_TOK ICE_CHAR ICE_TOK ICE_PARSE_TOK "
    "MK_TOK CS_TOK CS_CHR DNA REAL IMAGE PEPTIDE PY_TOK CPP_TOK STROKES PICKLED_PYTHON",
    start=0,
)


class Split:
    """The splits of a dataset; each value is the word in its files' names."""

    TRAIN = "train"
    EVAL = "dev"
    TEST = "test"
    ALL = (TRAIN, EVAL, TEST)


class Problem:
    """A task. Subclasses describe it forwards; `Problem(was_reversed=True)` swaps its two sides.

    A reversed problem reads the forward problem's files and vocabulary: inputs and targets, their
    encoders and space ids are swapped when read.
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

    # False: `generate_samples` runs once, and its samples are dealt to all files in turn.
    is_generate_per_split: bool = True
    already_shuffled: bool = False  # whether the training samples come in random order
    # Sentences are packed into examples of at most so many ids a side; None: one an example.
    # `data/packing.py` says how. Only the files and training are packed, never decoding.
    packed_length: int | None = None
    packed_spacing: int = 0  # how many zeros go between the sentences of a packed example
    input_space_id: int = SpaceID.GENERIC
    target_space_id: int = SpaceID.GENERIC
    batch_size_multiplier = 1  # T2T's: scales the length buckets
    # Whether the targets are linearised tags (parsing/trees.py), of which t2t-decoder makes trees.
    writes_trees = False
    decode_hparams = ""  # what t2t-decoder starts from, such as "beam_size=8"; T2T's are the rest

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        """The splits to generate, and the number of files (shards) of each."""
        return [{"split": Split.TRAIN, "shards": 100}, {"split": Split.EVAL, "shards": 1}]

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Sample]:
        """Yields {"inputs": ids, "targets": ids}, each ending with 1."""
        raise NotImplementedError

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the text encoders of "inputs" and "targets"."""
        raise NotImplementedError

    def missing_files(self, tmp_dir: str) -> list[sources.RawFile]:
        """Returns the raw files missing from `tmp_dir`, as far as known without them."""
        return []

    def prepare_raw_files(self, tmp_dir: str, options: dict[str, Any]) -> None:
        """Makes raw files in `tmp_dir` from the user's flags for this problem.

        Called once, first; its decisions must be in the files that it writes.

        Args:
            tmp_dir: the folder of raw files.
            options: the given flags, by name, such as {"treebank_dir": "/data/ptb"}.

        Raises:
            UserError: on a flag that is not for this problem.
        """
        if options:
            raise self._unused(*options)

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        """Makes the missing vocabulary files in `data_dir`, as T2T does.

        Args:
            data_dir: the folder of the files.
            tmp_dir: the folder of raw files.
            count: counts the tokens of texts, as `tokenizer.count_tokens` does.
        """

    def ask_vocab_size(self, size: int) -> None:
        """Sets how many subwords `prepare_vocabulary` builds, overriding the problem.

        Raises:
            UserError: if it builds none.
        """
        raise self._unused("vocab_size")

    def ask_vocabularies(self, files: Mapping[str, str]) -> None:
        """Sets the user's files for `prepare_vocabulary`.

        Args:
            files: {"inputs": path, "targets": path}; the same path twice: one for both sides.

        Raises:
            UserError: if it takes none, or they are no vocabularies.
        """
        raise self._unused("vocab")

    def _unused(self, *flags: str) -> UserError:
        return UserError(
            f"Expected only flags that the problem {self.name} reads. Received: "
            f"--{', --'.join(flags)}. Remove them, or use a problem that reads them."
        )

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        """Returns how many samples a split has, if cheap to know; checks the raw files.

        `data/generate.py` calls it first, so that a broken file costs seconds, not hours.
        """
        return None

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        """Returns the files from which alone a split is made; changing them is refused."""
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
        """Returns whether ids are known to mean different things in inputs and targets."""
        return False

    @property
    def lexicon_filename(self) -> str:
        """The file in `data_dir` with a word and its parts of speech on each line; "": none."""
        return ""

    def eval_metrics(self) -> list[str]:
        """The names of the metrics that evaluation reports."""
        return ["accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"]

    # --- what follows from it ------------------------------------------------------------------

    def forward(self) -> "Problem":
        """Returns the problem of the files: itself, unless it is reversed."""
        return self

    def stored_feature(self, name: str) -> str:
        """Returns the files' name for "inputs", "targets_position" and the like."""
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
    """A reversed problem: everything is read with sides swapped."""

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
        "writes_trees": False,
        "decode_hparams": "",
    }
    return type(f"{cls.__name__}Rev", (_Reversed, cls), body)


class Text2TextProblem(Problem):
    """A problem of text pairs. Subclasses override `generate_samples`, and other members as
    needed."""

    _asked_vocab_size = 0  # by `ask_vocab_size`; 0: it was not

    # --- what a subclass says ------------------------------------------------------------------

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields {"inputs": text, "targets": text}."""
        raise NotImplementedError

    vocab_type: str = VocabType.SUBWORD
    # About how many subwords to build. Where no subclass says it, as many are built as the text
    # supports (text/vocabulary_size.py), and the file's name has their number.
    approx_vocab_size: int = T2T_SIZE
    additional_reserved_tokens: list[str] = []  # get the ids from 2 on; only for SUBWORD
    oov_token: str | None = None  # stands for an unknown token; only for TOKEN
    max_samples_for_vocab: int | None = None  # training samples to build subwords from; None: all
    # The longest subword considered; building takes time quadratic in it.
    max_subtoken_length: int | None = 200
    # The problem whose vocabulary this one shares.
    use_vocab_from_other_problem: "Text2TextProblem | None" = None
    # Text put before every input and target in the files, as tensor2tensor has it. What is decoded
    # gets none, give it yourself; nor does what is scored.
    inputs_prefix: str = ""
    targets_prefix: str = ""

    # --- what follows from it ------------------------------------------------------------------

    def text_alone(self, tmp_dir: str) -> list[str]:
        """Returns the splits that stay text, to decode and to score."""
        return []

    @property
    def vocab_filename(self) -> str:
        """The vocabulary's file name, such as "vocab.translate_ende_wmt32k.32768.subwords"."""
        other = self.use_vocab_from_other_problem
        if other:
            return other.vocab_filename
        if self.vocab_type == VocabType.SUBWORD:
            size = f"{self.approx_vocab_size}.{VocabType.SUBWORD}"
            return f"vocab.{self.dataset_filename()}.{size}"
        return f"vocab.{self.dataset_filename()}.{VocabType.TOKEN}"

    @property
    def vocab_filenames(self) -> list[str]:
        return [] if self.vocab_type == VocabType.CHARACTER else [self.vocab_filename]

    def vocab_files(self, folder: str | os.PathLike) -> list[str]:
        """Returns the names; subwords without a set number have their actual number in the name."""
        if self.use_vocab_from_other_problem:
            return self.use_vocab_from_other_problem.vocab_files(folder)
        if self._is_named_by_size:
            made = vocabulary.sized(pathlib.Path(folder, self.vocab_filename))
            return [made[0].name] if made else self.vocab_filenames
        return self.vocab_filenames

    def eval_metrics(self) -> list[str]:
        return super().eval_metrics() + ["approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore"]

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns one shared encoder for both sides.

        Raises:
            UserError: if `data_dir` has no vocabulary file; the message has the command to run.
        """
        return self.stored_encoders(data_dir)

    def stored_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoders of the files' samples, by side."""
        encoder = self._read_vocabulary(data_dir)
        return {"inputs": encoder, "targets": encoder}

    def kept_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Returns the samples of `generate_samples`, except the bad pairs listed in `data_dir`."""
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        path = bad_pairs.path_of(data_dir, self.dataset_filename())
        return bad_pairs.without(samples, bad_pairs.read(path, dataset_split))

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text for the subwords."""
        samples = self.kept_samples(data_dir, tmp_dir, Split.TRAIN)
        for sample in itertools.islice(samples, self.max_samples_for_vocab):
            yield sample["inputs"]
            yield sample["targets"]

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        """Builds the subwords, unless their file is in `data_dir` already, as T2T does."""
        other = self.use_vocab_from_other_problem
        if other:
            other = copy.copy(other)
            other._asked_vocab_size = self._asked_vocab_size
            other.prepare_vocabulary(data_dir, tmp_dir, count)
            return
        if self.vocab_type != VocabType.SUBWORD:
            return
        path = pathlib.Path(data_dir, *Text2TextProblem.vocab_files(self, data_dir)[:1])
        if path.exists():
            return
        texts = self.generate_text_for_vocab(data_dir, tmp_dir)
        own = self.approx_vocab_size if self.says_vocab_size else None
        vocabulary_size.build(
            path,
            self._asked_vocab_size or own,
            count(texts),
            repeated=raw_record.repeated(self.raw_text_files(tmp_dir, Split.TRAIN)),
            is_t2t=self._asked_vocab_size in (0, self.approx_vocab_size),
            named=not self._is_named_by_size or self._asked_vocab_size == self.approx_vocab_size,
            max_subtoken_length=self.max_subtoken_length,
            reserved_tokens=[*RESERVED_TOKENS, *self.additional_reserved_tokens],
        )

    @property
    def says_vocab_size(self) -> bool:
        """Returns whether a subclass, or the problem of the vocabulary, sets approx_vocab_size."""
        if self.use_vocab_from_other_problem:
            return self.use_vocab_from_other_problem.says_vocab_size
        return self._is_said("approx_vocab_size")

    @property
    def _is_named_by_size(self) -> bool:
        """Returns whether the subword file has their number in its name: no subclass sets
        either."""
        said = self._is_said("vocab_filename") or self.says_vocab_size
        return self.vocab_type == VocabType.SUBWORD and not said

    def _is_said(self, name: str) -> bool:
        """Returns whether a subclass or this instance overrides the base class."""
        subclasses = itertools.takewhile(
            lambda cls: cls is not Text2TextProblem, type(self).__mro__
        )
        return name in vars(self) or any(name in vars(cls) for cls in subclasses)

    def ask_vocab_size(self, size: int) -> None:
        if self.vocab_type != VocabType.SUBWORD:
            super().ask_vocab_size(size)
        self._asked_vocab_size = size

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[Sample]:
        samples = self.kept_samples(data_dir, tmp_dir, dataset_split)
        return map(self.sample_encoder(data_dir), samples)

    def sample_encoder(self, data_dir: str) -> Callable[[Sample], Sample]:
        """Returns the function that `generate_encoded_samples` maps over the samples.

        A sample must not depend on others: t2t-datagen encodes on all cores.
        """
        encoders = self.stored_encoders(data_dir)

        def encoded(sample: Sample) -> Sample:
            inputs = encoders["inputs"].encode(self.inputs_prefix + sample["inputs"])
            targets = encoders["targets"].encode(self.targets_prefix + sample["targets"])
            return {**sample, "inputs": [*inputs, EOS_ID], "targets": [*targets, EOS_ID]}

        return encoded

    def _read_vocabulary(self, data_dir: str):
        command = self.datagen_command(data_dir)
        name = "".join(Text2TextProblem.vocab_files(self, data_dir)[:1])
        path = os.path.join(data_dir, name)
        return vocabulary.read(self.vocab_type, path, self.oov_token, command)


def check_text(problem: Problem, what: str) -> None:
    """Refuses a problem whose targets are no text, because only text has a BLEU.

    Args:
        problem: the problem.
        what: the flag or program that scores it.

    Raises:
        UserError: naming both.
    """
    if not isinstance(problem, Text2TextProblem) or problem.writes_trees:
        raise UserError(f"Expected a text-to-text problem for {what}. Received: {problem.name}.")


class TranslateProblem(Text2TextProblem):
    """Two languages. Subclasses name the files; those of a split are joined in `tmp_dir` first.

    The joined files are NAME-compiled-SPLIT.lang1 and .lang2: T2T's of train and dev, and where
    there is a test split its own, for which T2T takes dev's.
    """

    datatypes_to_clean: list[str] | None = None  # of training files; see `parallel.compile_data`

    def source_data_files(self, dataset_split: str) -> Any:
        """Returns [[URL or archive, (source file, target file)], ...].

        `parallel.compile_data` describes the other forms.
        """
        raise NotImplementedError

    def vocab_data_files(self) -> list[Any]:
        """Returns the files for the subwords, about 1 MB of each."""
        return self.source_data_files(Split.TRAIN)

    def missing_files(self, tmp_dir: str) -> list[sources.RawFile]:
        says_none = type(self).source_data_files is TranslateProblem.source_data_files
        if self._has_own_samples or says_none:
            return []  # it has its own files, or none: who encodes the samples may need no others
        splits = [entry["split"] for entry in self.dataset_splits]
        datasets = [each for split in splits for each in self.source_data_files(split)]
        return sources.missing_archives(tmp_dir, datasets)

    def generate_samples(
        self,
        data_dir: str,
        tmp_dir: str,
        dataset_split: str,
        custom_iterator: Callable[..., Iterator[Sample]] = parallel.text2text_txt_iterator,
    ) -> Iterable[Sample]:
        path = self.compile(tmp_dir, dataset_split)
        return custom_iterator(f"{path}.lang1", f"{path}.lang2")

    @property
    def _has_own_samples(self) -> bool:
        return type(self).generate_samples is not TranslateProblem.generate_samples

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        if self._has_own_samples:
            return None  # they may be of anything
        return parallel.count_compiled(self.compile(tmp_dir, dataset_split))

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        return parallel.generate_lines_for_vocab(tmp_dir, self.vocab_data_files())

    def compile(self, tmp_dir: str, dataset_split: str) -> str:
        """Joins the files of a split, unless that is done; returns the path without ".lang1"."""
        return parallel.compile_data(
            tmp_dir,
            self.source_data_files(dataset_split),
            f"{self.name}-compiled-{dataset_split}",
            self.datatypes_to_clean if dataset_split == Split.TRAIN else None,
        )


class TranslateDistillProblem(TranslateProblem):
    """A teacher's translations, to train a student (Kim and Rush 2016).

    As T2T's: the files hold `inputs`, `targets` and `dist_targets`, and the last are read as the
    targets, of every split. `source_data_files` returns the prefix of three files, such as
    "distilled/train/": `inputs`, `gold` (the references) and `prediction` (what the teacher wrote).
    The vocabulary must lie in `data_dir`: it is the teacher's.
    """

    FILES = ("inputs", "gold", "prediction")

    def generate_samples(  # type: ignore[override]
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[Sample]:
        return parallel.text2text_distill_iterator(*self._three(tmp_dir, dataset_split))

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int:
        inputs, gold, prediction = self._three(tmp_dir, dataset_split)
        raw.count_parallel_lines(inputs, gold)
        return raw.count_parallel_lines(inputs, prediction)

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        return [os.fspath(path) for path in self._three(tmp_dir, dataset_split)]

    def stored_feature(self, name: str) -> str:
        return super().stored_feature(f"dist_{name}" if name.startswith("targets") else name)

    def ask_vocab_size(self, size: int) -> None:
        Problem.ask_vocab_size(self, size)

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        """Makes none: it is the teacher's, and must exist."""

    def sample_encoder(self, data_dir: str) -> Callable[[Sample], Sample]:
        encode = super().sample_encoder(data_dir)
        targets = self.stored_encoders(data_dir)["targets"]

        def encoded(sample: Sample) -> Sample:
            ids = targets.encode(self.targets_prefix + sample["dist_targets"])
            return {**encode(sample), "dist_targets": [*ids, EOS_ID]}

        return encoded

    def distilled_path(self, tmp_dir: str, dataset_split: str) -> str:
        """Returns the prefix of the three files."""
        return self.source_data_files(dataset_split)

    def _three(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        before = self.distilled_path(tmp_dir, dataset_split)
        places = (os.path.split(before + name) for name in self.FILES)
        return [raw.required(folder or ".", name) for folder, name in places]
