"""Multi30k: 29,000 English image captions and their German translations (Elliott et al., 2016)."""

import itertools
import os
import pathlib
from collections.abc import Iterable

from t2t_repro.corpora.sources import RawFile, maybe_download, published
from t2t_repro.problem import Sample, Split, Text2TextProblem
from t2t_repro.registry import register_problem
from t2t_repro.text import raw

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
FILES = {
    Split.TRAIN: ["train"],
    Split.EVAL: ["val"],
    Split.TEST: ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"],
}


@register_problem
class TranslateEndeMulti30k(Text2TextProblem):
    """Reads train, val, test_2016_flickr, test_2017_flickr and test_2017_mscoco (.en and .de, plain
    or .gz) from tmp_dir, and downloads those that are not there.

    The dev split is val; the test split is the three test sets, one after the other.
    """

    approx_train_samples = 29_000

    approx_vocab_size = 2**13

    @property
    def dataset_splits(self) -> list[dict]:
        return [
            {"split": Split.TRAIN, "shards": 2},
            {"split": Split.EVAL, "shards": 1},
            {"split": Split.TEST, "shards": 1},
        ]

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        pairs = [self._pair(tmp_dir, name) for name in FILES[dataset_split]]
        return itertools.chain.from_iterable(itertools.starmap(raw.parallel_lines, pairs))

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int:
        pairs = [self._pair(tmp_dir, name) for name in FILES[dataset_split]]
        return sum(itertools.starmap(raw.count_parallel_lines, pairs))

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        names = (f"{name}.{side}" for name in FILES[dataset_split] for side in ("en", "de"))
        return raw.find_all(tmp_dir, names)

    def missing_files(self, tmp_dir: str) -> list[RawFile]:
        names = [f"{n}.{side}" for split in FILES.values() for n in split for side in ("en", "de")]
        missing = [f"{name}.gz" for name in names if raw.find(tmp_dir, name) is None]
        return [RawFile(name, URL + name, published()[URL + name][0]) for name in missing]

    def _pair(self, tmp_dir: str, name: str) -> list[pathlib.Path]:
        return [self._file(tmp_dir, f"{name}.{language}") for language in ("en", "de")]

    def _file(self, tmp_dir: str, name: str) -> pathlib.Path:
        if raw.find(tmp_dir, name) is None:
            maybe_download(os.path.expanduser(tmp_dir), f"{name}.gz", f"{URL}{name}.gz")
        return raw.required(tmp_dir, name)
