"""Translation problems: archives and pairs of files, as in T2T's data_generators/translate.py."""

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from t2t_repro.corpora import parallel, sources
from t2t_repro.errors import UserError
from t2t_repro.problem import (
    Count,
    OutputType,
    Problem,
    Sample,
    Split,
    Text2TextProblem,
    Track,
)
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID
from t2t_repro.text.vocabulary import count_tokens


def check_text(problem: Problem, what: str) -> None:
    """Refuses a problem whose targets are no text, which alone has a BLEU.

    Args:
        problem: the problem.
        what: what scores it, such as a flag.

    Raises:
        UserError: naming both.
    """
    if not isinstance(problem, Text2TextProblem) or problem.output_type != OutputType.TEXT:
        raise UserError(
            f"{what} scores text, which {problem.name} does not have. Received: {problem.name}. "
            "Leave it out, or take a problem of text."
        )


class TranslateProblem(Text2TextProblem):
    """Two languages. Subclasses say which files; those of a split are joined in `tmp_dir` first.

    The joined files are NAME-compiled-SPLIT.lang1 and .lang2: T2T's of train and dev, and where
    there is a test split its own, for which T2T takes dev's.
    """

    @property
    def datatypes_to_clean(self) -> list[str] | None:
        """The kinds of training files to clean; see `parallel.compile_data`."""
        return None

    def source_data_files(self, dataset_split: str) -> list[Any]:
        """Returns [[URL or archive, (source file, target file)], ...].

        `parallel.compile_data` says what else it may hold.
        """
        raise NotImplementedError

    def vocab_data_files(self) -> list[Any]:
        """Returns the files that the subwords are built from, about 1 MB of each."""
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

    def num_texts_for_vocab(self, tmp_dir: str) -> int | None:
        return None  # some lines of each file

    def compile(self, tmp_dir: str, dataset_split: str) -> str:
        """Joins the files of a split, unless that is done; returns the path without ".lang1"."""
        return parallel.compile_data(
            tmp_dir,
            self.source_data_files(dataset_split),
            f"{self.name}-compiled-{dataset_split}",
            self.datatypes_to_clean if dataset_split == Split.TRAIN else None,
        )


class TranslateDistillProblem(TranslateProblem):
    """What a teacher makes of sentences, for a student to be trained on (Kim and Rush 2016).

    As T2T's: the files hold `inputs`, `targets` and `dist_targets`, and the last are read as the
    targets, of every split. `source_data_files` returns what stands before the names of three
    files, such as "distilled/train/": `inputs`, `gold` (the references) and `prediction` (what the
    teacher wrote). The vocabulary must lie in `data_dir`: it is the teacher's.
    """

    FILES = ("inputs", "gold", "prediction")

    def source_data_files(self, dataset_split: str) -> str:  # type: ignore[override]
        raise NotImplementedError

    def missing_files(self, tmp_dir: str) -> list[sources.RawFile]:
        return []

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

    def prepare_vocabulary(
        self,
        data_dir: str,
        tmp_dir: str,
        track: Track = lambda texts, total: texts,
        count: Count = count_tokens,
    ) -> None:
        for name in self.vocab_files(data_dir):
            if not os.path.isfile(os.path.join(data_dir, name)):
                raise UserError(
                    f"Expected the teacher's vocabulary in {data_dir!r}, as {name}: {self.name} "
                    "builds none. Received: no such file. Copy it there."
                )

    def sample_encoder(self, data_dir: str) -> Callable[[Sample], Sample]:
        encode, targets = (
            super().sample_encoder(data_dir),
            self.stored_encoders(data_dir)["targets"],
        )

        def encoded(sample: Sample) -> Sample:
            ids = targets.encode(self.targets_prefix + sample["dist_targets"])
            return {**encode(sample), "dist_targets": [*ids, EOS_ID]}

        return encoded

    def distilled_path(self, tmp_dir: str, dataset_split: str) -> str:
        """Returns what stands before the names of the three files."""
        return self.source_data_files(dataset_split)

    def _three(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        before = self.distilled_path(tmp_dir, dataset_split)
        places = (os.path.split(before + name) for name in self.FILES)
        return [raw.required(folder or ".", name) for folder, name in places]
