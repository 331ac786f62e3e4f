"""A problem: what a task must say about its data, under tensor2tensor's names.

A subclass says where its samples come from and what vocabulary they need; `data/generate.py` writes
them, `data/pipeline.py` reads them. README.md has the smallest useful problem, under "I have my own
text".
"""

import copy
import inspect
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from t2t_repro.base_problem import Count as Count
from t2t_repro.base_problem import OutputType as OutputType
from t2t_repro.base_problem import Problem as Problem
from t2t_repro.base_problem import Sample as Sample
from t2t_repro.base_problem import Split as Split
from t2t_repro.base_problem import Track as Track
from t2t_repro.corpora import bad_pairs, raw_record
from t2t_repro.space_ids import SpaceID as SpaceID
from t2t_repro.text import vocabulary_file, vocabulary_size
from t2t_repro.text.encoders import EOS_ID, RESERVED_TOKENS
from t2t_repro.text.vocabulary import count_tokens
from t2t_repro.text.vocabulary_file import VocabType as VocabType
from t2t_repro.text.vocabulary_size import T2T_SIZE


class Text2TextProblem(Problem):
    """A problem of text pairs. Subclasses override `generate_samples`, and what else differs."""

    _asked_vocab_size = 0  # by `ask_vocab_size`; 0: it was not

    # --- what a subclass says ------------------------------------------------------------------

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields {"inputs": text, "targets": text}."""
        raise NotImplementedError

    @property
    def vocab_type(self) -> str:
        """SUBWORD: built from the training text. CHARACTER: bytes. TOKEN: a file of yours."""
        return VocabType.SUBWORD

    @property
    def approx_vocab_size(self) -> int:
        """About how many subwords to build. Where no subclass says it, this is in the file's name
        alone, as in T2T: as many are built as the text supports (text/vocabulary_size.py)."""
        return T2T_SIZE

    @property
    def additional_reserved_tokens(self) -> list[str]:
        """Tokens that get the ids from 2 on. Only for SUBWORD."""
        return []

    @property
    def oov_token(self) -> str | None:
        """What stands for an unknown token. Only for TOKEN."""
        return None

    @property
    def max_samples_for_vocab(self) -> int | None:
        """How many training samples to build the subwords from; None: all."""
        return None

    @property
    def max_subtoken_length(self) -> int | None:
        """The longest subword considered; building takes time quadratic in it."""
        return 200

    @property
    def use_vocab_from_other_problem(self) -> "Text2TextProblem | None":
        """The problem whose vocabulary this one shares."""
        return None

    @property
    def inputs_prefix(self) -> str:
        """Text put before every input in the files, as tensor2tensor has it.

        What is decoded gets none: give it yourself.
        """
        return ""

    @property
    def targets_prefix(self) -> str:
        """Text put before every target in the files; what is scored gets none."""
        return ""

    # --- what follows from it ------------------------------------------------------------------

    def text_alone(self, tmp_dir: str) -> list[str]:
        """Returns the splits that are text to decode and to score, and are made into no files."""
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

    def eval_metrics(self) -> list[str]:
        return super().eval_metrics() + ["approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore"]

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns one shared encoder for both sides.

        Raises:
            UserError: if `data_dir` has no vocabulary file; the message has the command to run.
        """
        return self.stored_encoders(data_dir)

    def stored_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoders that the samples of the files are made with, by side."""
        encoder = self._read_vocabulary(data_dir)
        return {"inputs": encoder, "targets": encoder}

    def kept_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Returns what `generate_samples` yields, but for the bad pairs that `data_dir` names."""
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        path = bad_pairs.path_of(data_dir, self.dataset_filename())
        return bad_pairs.without(samples, bad_pairs.read(path, dataset_split))

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text that the subwords are built from."""
        samples = self.kept_samples(data_dir, tmp_dir, Split.TRAIN)
        for sample in itertools.islice(samples, self.max_samples_for_vocab):
            yield sample["inputs"]
            yield sample["targets"]

    def num_texts_for_vocab(self, tmp_dir: str) -> int | None:
        """Returns how many texts `generate_text_for_vocab` yields, where that is cheap to know."""
        count = self.num_samples(tmp_dir, Split.TRAIN)
        if count and self.max_samples_for_vocab:
            count = min(count, self.max_samples_for_vocab)
        return 2 * count if count else None

    def prepare_vocabulary(
        self,
        data_dir: str,
        tmp_dir: str,
        track: Track = lambda texts, total: texts,
        count: Count = count_tokens,
    ) -> None:
        """Builds the subwords, unless their file is in `data_dir` already, as T2T does."""
        other = self.use_vocab_from_other_problem
        if other:
            other = copy.copy(other)
            other._asked_vocab_size = self._asked_vocab_size
            other.prepare_vocabulary(data_dir, tmp_dir, track, count)
            return
        path = pathlib.Path(data_dir, self.vocab_filename)
        if self.vocab_type != VocabType.SUBWORD or path.exists():
            return
        texts = self.generate_text_for_vocab(data_dir, tmp_dir)
        own = self.approx_vocab_size if self.says_vocab_size else None
        vocabulary_size.build(
            path,
            self._asked_vocab_size or own,
            "the command" if self._asked_vocab_size else f"{self.name} (approx_vocab_size)",
            count(track(texts, self.num_texts_for_vocab(tmp_dir))),
            repeated=raw_record.repeated(self.raw_text_files(tmp_dir, Split.TRAIN)),
            is_t2t=self._asked_vocab_size in (0, self.approx_vocab_size),
            max_subtoken_length=self.max_subtoken_length,
            reserved_tokens=[*RESERVED_TOKENS, *self.additional_reserved_tokens],
        )

    @property
    def says_vocab_size(self) -> bool:
        """Whether a subclass, or the problem whose vocabulary this is, says approx_vocab_size."""
        if self.use_vocab_from_other_problem:
            return self.use_vocab_from_other_problem.says_vocab_size
        said = inspect.getattr_static(self, "approx_vocab_size")
        return said is not inspect.getattr_static(Text2TextProblem, "approx_vocab_size")

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
        names = self.vocab_filename, self.oov_token, self.name
        return vocabulary_file.read(self.vocab_type, data_dir, *names, command)
