"""WMT English-German, as T2T's data_generators/translate_ende.py: its names, files and cleaning.

The training data are those of WMT18: News Commentary 13, Common Crawl and Europarl 7, some 4.6
million pairs. The paper's own, of WMT14, are in translate_wmt14.py.
"""

from t2t_repro.problem import Split, TranslateProblem, VocabType
from t2t_repro.registry import register_problem

_TRAIN = [
    [
        "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz",
        (
            "training-parallel-nc-v13/news-commentary-v13.de-en.en",
            "training-parallel-nc-v13/news-commentary-v13.de-en.de",
        ),
    ],
    [
        "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        ("commoncrawl.de-en.en", "commoncrawl.de-en.de"),
    ],
    [
        "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
        ("training/europarl-v7.de-en.en", "training/europarl-v7.de-en.de"),
    ],
]
_PARACRAWL = [
    [
        "https://s3.amazonaws.com/web-language-models/paracrawl/release4/en-de.bicleaner07.tmx.gz",
        ("tmx", "en-de.bicleaner07.tmx.gz"),
    ]
]
_EVAL = [
    [
        "http://data.statmt.org/wmt17/translation-task/dev.tgz",
        ("dev/newstest2013.en", "dev/newstest2013.de"),
    ],
]


@register_problem
class TranslateEndeWmt32k(TranslateProblem):
    """WMT18 without its Rapid corpus, and newstest2013; 32k subwords."""

    approx_train_samples = 4_600_000

    approx_vocab_size = 2**15
    train_datasets = _TRAIN
    additional_training_datasets: list = []

    def source_data_files(self, dataset_split: str) -> list:
        train = dataset_split == Split.TRAIN
        return self.train_datasets + self.additional_training_datasets if train else _EVAL


@register_problem
class TranslateEndeWmtClean32k(TranslateEndeWmt32k):
    """The same with the training pairs cleaned, and the vocabulary of the uncleaned."""

    use_vocab_from_other_problem = TranslateEndeWmt32k()
    datatypes_to_clean = ["txt"]


@register_problem
class TranslateEndePc32k(TranslateEndeWmt32k):
    """ParaCrawl 4 alone."""

    use_vocab_from_other_problem = TranslateEndeWmt32k()
    train_datasets = _PARACRAWL


@register_problem
class TranslateEndePcClean32k(TranslateEndePc32k):
    """ParaCrawl 4 alone, cleaned."""

    datatypes_to_clean = ["tmx"]


@register_problem
class TranslateEndeWmtPc32k(TranslateEndeWmt32k):
    """WMT and ParaCrawl 4."""

    use_vocab_from_other_problem = TranslateEndeWmt32k()
    additional_training_datasets = _PARACRAWL


@register_problem
class TranslateEndeWmtCleanPc32k(TranslateEndeWmtPc32k):
    """Cleaned WMT, and ParaCrawl 4."""

    datatypes_to_clean = ["txt"]


@register_problem
class TranslateEndeWmtPcClean32k(TranslateEndeWmtPc32k):
    """WMT, and cleaned ParaCrawl 4."""

    datatypes_to_clean = ["tmx"]


@register_problem
class TranslateEndeWmtCleanPcClean32k(TranslateEndeWmtPcClean32k):
    """Cleaned WMT and ParaCrawl 4."""

    datatypes_to_clean = ["txt", "tmx"]


@register_problem
class TranslateEndeWmt32kPacked(TranslateEndeWmt32k):
    """Several sentences in an example of 256 tokens a side."""

    packed_length = 256
    use_vocab_from_other_problem = TranslateEndeWmt32k()


@register_problem
class TranslateEndeWmt8k(TranslateEndeWmt32k):
    """8k subwords."""

    approx_vocab_size = 2**13


@register_problem
class TranslateEndeWmt8kPacked(TranslateEndeWmt8k):
    """8k subwords, several sentences in an example of 256 tokens a side."""

    packed_length = 256
    use_vocab_from_other_problem = TranslateEndeWmt8k()


@register_problem
class TranslateEndeWmtCharacters(TranslateEndeWmt8k):
    """Bytes."""

    vocab_type = VocabType.CHARACTER
