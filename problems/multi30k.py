"""Multi30k: 29,000 English image captions and their German translations (Elliott et al., 2016)."""

import itertools
import pathlib
from collections.abc import Iterable

from t2t_repro.corpora import downloads
from t2t_repro.corpora.sources import RawFile
from t2t_repro.problem import Sample, Split, Text2TextProblem
from t2t_repro.registry import register_problem
from t2t_repro.text import raw

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
FILES = {
    Split.TRAIN: ["train"],
    Split.EVAL: ["val"],
    Split.TEST: ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"],
}
SHA256 = {
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2017_flickr.en": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.de": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_mscoco.en": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "test_2017_mscoco.de": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
}
SIZES = {
    **{"train.en.gz": 562_688, "train.de.gz": 626_192, "val.en.gz": 21_514, "val.de.gz": 24_435},
    **{"test_2016_flickr.en.gz": 20_933, "test_2016_flickr.de.gz": 22_645},
    **{"test_2017_flickr.en.gz": 19_002, "test_2017_flickr.de.gz": 21_269},
    **{"test_2017_mscoco.en.gz": 8_813, "test_2017_mscoco.de.gz": 10_152},
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
        return [RawFile(name, URL + name, SIZES[name]) for name in missing]

    def _pair(self, tmp_dir: str, name: str) -> list[pathlib.Path]:
        return [self._file(tmp_dir, f"{name}.{language}") for language in ("en", "de")]

    def _file(self, tmp_dir: str, name: str) -> pathlib.Path:
        if raw.find(tmp_dir, name) is None:
            path = pathlib.Path(tmp_dir).expanduser() / f"{name}.gz"
            downloads.download(URL + path.name, path, SHA256[name])
        return raw.required(tmp_dir, name)
