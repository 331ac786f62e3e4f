"""Translation problems: archives and pairs of files, as in T2T's data_generators/translate.py."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from t2t_repro.corpora import parallel, sources
from t2t_repro.errors import UserError
from t2t_repro.problem import OutputType, Problem, Sample, Split, Text2TextProblem


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

    The joined files are T2T's, NAME-compiled-train.lang1 and .lang2 (dev for the other splits).
    """

    @property
    def datatypes_to_clean(self) -> list[str] | None:
        """The kinds of training files to clean; see `parallel.compile_data`."""
        return None

    def source_data_files(self, dataset_split: str) -> list[Any]:
        """Returns [[URL or archive, (source file, target file)], ...].

        `parallel.compile_data` says what else it may hold.
        """
        raise NotImplementedError(f"{type(self).__name__} must define source_data_files.")

    def vocab_data_files(self) -> list[Any]:
        """Returns the files that the subwords are built from, about 1 MB of each."""
        return self.source_data_files(Split.TRAIN)

    def missing_files(self, tmp_dir: str) -> list[sources.RawFile]:
        if type(self).generate_samples is not TranslateProblem.generate_samples:
            return []  # it has its own files
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

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        return parallel.count_compiled(self.compile(tmp_dir, dataset_split))

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        return parallel.generate_lines_for_vocab(tmp_dir, self.vocab_data_files())

    def num_texts_for_vocab(self, tmp_dir: str) -> int | None:
        return None  # some lines of each file

    def compile(self, tmp_dir: str, dataset_split: str) -> str:
        """Joins the files of a split, unless that is done; returns the path without ".lang1"."""
        train = dataset_split == Split.TRAIN
        return parallel.compile_data(
            tmp_dir,
            self.source_data_files(dataset_split),
            f"{self.name}-compiled-{'train' if train else 'dev'}",
            self.datatypes_to_clean if train else None,
        )
