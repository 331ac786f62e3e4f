"""The paper's data: WMT14 as tensorflow-datasets lists it (`wmt14_translate`), section 5.1.

Training: Europarl 7, Common Crawl and News Commentary 9; for French also the UN's and the 10^9
corpus. dev: newstest2013. test: newstest2014. docs/paper.md goes from the files to the scores.
"""

import os
from collections.abc import Iterator
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora import parallel
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.sources import RawFile
from t2t_repro.errors import UserError
from t2t_repro.problem import Count, Split, TranslateProblem, VocabType
from t2t_repro.registry import register_problem
from t2t_repro.text import raw, sentence_piece
from t2t_repro.text.tokenizer import count_tokens

_SPLITS = {Split.TRAIN: "train", Split.EVAL: "validation", Split.TEST: "test"}
_VOCABULARY_BYTES = 1e7  # of each language: the paper's was built from all, T2T's from 1e6 a file


@register_problem
class TranslateEndeWmt14(TranslateProblem):
    """English-German with some 37,000 subwords, the paper's number, shared by both languages.

    `--tmp_dir` is what tensorflow-datasets calls data_dir: if wmt14_translate has been prepared
    there, that is read. Otherwise the archives of its lists are, which lie in tmp_dir under their
    own names or are downloaded into it; they are read line by line, where tensorflow-datasets
    holds whole corpora in memory.
    """

    approx_vocab_size = 37000
    approx_train_samples = 4_500_000
    language = "de"
    decode_hparams = "extra_length=50"  # section 6.1; its beam of 4 and alpha 0.6 are T2T's too

    @property
    def dataset_splits(self) -> list[dict]:
        return [*super().dataset_splits, {"split": Split.TEST, "shards": 1}]

    def missing_files(self, tmp_dir: str) -> list[RawFile]:
        prepared = _is_prepared(_builder(self.language, tmp_dir))
        return [] if prepared else super().missing_files(tmp_dir)

    def source_data_files(self, dataset_split: str) -> list[Any]:
        corpora = _builder(self.language).subsets[_SPLITS[dataset_split]]
        from tensorflow_datasets.translate import wmt

        files = []
        for name in corpora:
            corpus = wmt.DATASET_MAP[name]
            (url,), (other, english) = corpus.get_url(self.language), corpus.get_path(self.language)
            files.append([url, (english, other)])
        return files

    def compile(self, tmp_dir: str, dataset_split: str) -> str:
        base = os.path.join(tmp_dir, f"wmt14-en-{self.language}-compiled-{dataset_split}")
        parallel.write_pairs(base, self._pairs(tmp_dir, dataset_split))
        return base

    def _pairs(self, tmp_dir: str, dataset_split: str) -> Iterator[Pair]:
        builder = _builder(self.language, tmp_dir)
        if _is_prepared(builder):
            yield from _prepared_pairs(builder, _SPLITS[dataset_split], self.language)
        else:
            files = self.source_data_files(dataset_split)
            yield from parallel.pairs(tmp_dir, files)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        base = self.compile(tmp_dir, Split.TRAIN)
        return raw.sample_lines([f"{base}.lang1", f"{base}.lang2"], _VOCABULARY_BYTES)


class _TranslateEndeWmt14With32k(TranslateEndeWmt14):
    """The same with 32k subwords, as T2T's own problems have."""

    approx_vocab_size = 2**15


register_problem(_TranslateEndeWmt14With32k, name="translate_ende_wmt14_32k")


@register_problem
class TranslateEndeWmt14Bpe37k(TranslateEndeWmt14):
    """The same with byte pairs as the paper had: 37,000 merges learnt of both languages together.

    Text goes in and comes out as it is: what the paper tokenised before, SentencePiece cuts as it
    goes along. docs/paper.md says what else is not as then.
    """

    vocab_type = VocabType.SENTENCE_PIECE

    @property
    def vocab_filename(self) -> str:
        return f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}.{self.vocab_type}"

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            texts = self.generate_text_for_vocab(data_dir, tmp_dir)
            texts = progress.track(texts, "vocabulary", unit="texts")
            sentence_piece.learn_bpe(path, texts, self.approx_vocab_size)


@register_problem
class TranslateEnfrWmt14(TranslateEndeWmt14):
    """English-French with some 32,000 subwords, the paper's number; some 41 million pairs."""

    approx_vocab_size = 32000
    approx_train_samples = 41_000_000
    language = "fr"


def _builder(language: str, data_dir: str | None = None) -> Any:
    """Returns tensorflow-datasets' own builder; `data_dir` is where it keeps what is prepared."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise UserError(
            "Expected the package tensorflow-datasets, which lists the files of WMT14. Received: "
            f"{error}. Install it: pip install tensorflow-datasets."
        ) from error
    return tfds.builder(f"wmt14_translate/{language}-en", data_dir=data_dir)


def _is_prepared(builder: Any) -> bool:
    # Not builder.is_prepared(), which logs a warning where nothing has been prepared.
    return os.path.exists(os.path.join(builder.data_dir, "dataset_info.json"))


def _prepared_pairs(builder: Any, split: str, language: str) -> Iterator[Pair]:
    """Yields (English, other) of what `builder` has prepared, always in the same order."""
    import tensorflow_datasets as tfds

    for pair in tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False)):
        yield pair["en"].decode().strip(), pair[language].decode().strip()
