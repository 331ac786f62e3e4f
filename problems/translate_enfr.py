"""WMT English-French, as T2T's data_generators/translate_enfr.py: its names and files.

The large data are those of WMT14: Common Crawl, Europarl 7, News Commentary 9, the 10^9 corpus and
the UN's, some 41 million pairs; the small ones a million pairs that OpenNMT chose.
"""

from t2t_repro.problem import Split, TranslateProblem, VocabType
from t2t_repro.registry import register_problem

_SMALL = "https://s3.amazonaws.com/opennmt-trainingdata/baseline-1M-enfr.tgz"
_TRAIN_SMALL = [
    [_SMALL, ("baseline-1M-enfr/baseline-1M_train.en", "baseline-1M-enfr/baseline-1M_train.fr")],
]
_EVAL_SMALL = [
    [_SMALL, ("baseline-1M-enfr/baseline-1M_valid.en", "baseline-1M-enfr/baseline-1M_valid.fr")],
]
_TRAIN_LARGE = [
    [
        "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        ("commoncrawl.fr-en.en", "commoncrawl.fr-en.fr"),
    ],
    [
        "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
        ("training/europarl-v7.fr-en.en", "training/europarl-v7.fr-en.fr"),
    ],
    [
        "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        ("training/news-commentary-v9.fr-en.en", "training/news-commentary-v9.fr-en.fr"),
    ],
    [
        "http://www.statmt.org/wmt10/training-giga-fren.tar",
        ("giga-fren.release2.fixed.en.gz", "giga-fren.release2.fixed.fr.gz"),
    ],
    [
        "http://www.statmt.org/wmt13/training-parallel-un.tgz",
        ("un/undoc.2000.fr-en.en", "un/undoc.2000.fr-en.fr"),
    ],
]
_EVAL_LARGE = [
    [
        "http://data.statmt.org/wmt17/translation-task/dev.tgz",
        ("dev/newstest2013.en", "dev/newstest2013.fr"),
    ],
]


@register_problem
class TranslateEnfrWmtSmall8k(TranslateProblem):
    """The small data, 8k subwords."""

    approx_vocab_size = 2**13
    use_small_dataset = True

    @property
    def approx_train_samples(self) -> int:
        return 1_000_000 if self.use_small_dataset else 41_000_000

    def source_data_files(self, dataset_split: str) -> list:
        if dataset_split == Split.TRAIN:
            return _TRAIN_SMALL if self.use_small_dataset else _TRAIN_LARGE
        return _EVAL_SMALL if self.use_small_dataset else _EVAL_LARGE


@register_problem
class TranslateEnfrWmtSmall32k(TranslateEnfrWmtSmall8k):
    """The small data, 32k subwords."""

    approx_vocab_size = 2**15


@register_problem
class TranslateEnfrWmt8k(TranslateEnfrWmtSmall8k):
    """The large data, 8k subwords."""

    use_small_dataset = False


@register_problem
class TranslateEnfrWmt32k(TranslateEnfrWmtSmall32k):
    """The large data, 32k subwords."""

    use_small_dataset = False


@register_problem
class TranslateEnfrWmt32kPacked(TranslateEnfrWmt32k):
    """Several sentences in an example of 256 tokens a side."""

    packed_length = 256
    use_vocab_from_other_problem = TranslateEnfrWmt32k()


@register_problem
class TranslateEnfrWmtSmallCharacters(TranslateEnfrWmtSmall8k):
    """The small data as bytes."""

    vocab_type = VocabType.CHARACTER


@register_problem
class TranslateEnfrWmtCharacters(TranslateEnfrWmtSmallCharacters):
    """The large data as bytes."""

    use_small_dataset = False
