"""WMT16 English-German, tokenized and cut into 32k byte pairs by others.

As `translate_ende_wmt_bpe32k` of tensor2tensor 1.5 and before (translate_ende.py); 1.15 has it not.
"""

import pathlib
from collections.abc import Iterable

from t2t_repro.corpora.sources import corpus_files
from t2t_repro.problem import Sample, Split, Text2TextProblem, VocabType
from t2t_repro.registry import register_problem
from t2t_repro.text import raw
from t2t_repro.text.encoders import RESERVED_TOKENS, write_vocabulary

URL = "https://drive.google.com/uc?export=download&id=0B_bZck-ksdkpM25jRUN2X2UxMm8"
ARCHIVE = "wmt16_en_de.tar.gz"


@register_problem
class TranslateEndeWmtBpe32k(Text2TextProblem):
    """Reads train.tok.clean.bpe.32000, newstest2013.tok.bpe.32000 (.en and .de) and vocab.bpe.32000
    from tmp_dir, or takes them out of wmt16_en_de.tar.gz there.

    Translations come out as they went in: tokenized, and in pieces that end in "@@".
    """

    approx_vocab_size = 32000
    vocab_type = VocabType.TOKEN
    oov_token = "UNK"
    vocab_filename = "vocab.bpe.32000"

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        return raw.parallel_lines(*self._files(tmp_dir, dataset_split))

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int:
        return raw.count_parallel_lines(*self._files(tmp_dir, dataset_split))

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count=None) -> None:
        """Copies the vocabulary, with T2T's reserved tokens before it and UNK behind it."""
        path = pathlib.Path(data_dir, self.vocab_filename)
        if not path.exists():
            (source,) = corpus_files(tmp_dir, URL, [path.name], ARCHIVE)
            write_vocabulary(path, [*RESERVED_TOKENS, *raw.lines(source), self.oov_token])

    def _files(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        train = dataset_split == Split.TRAIN
        name = "train.tok.clean.bpe.32000" if train else "newstest2013.tok.bpe.32000"
        names = [f"{name}.{language}" for language in ("en", "de")]
        return corpus_files(tmp_dir, URL, names, ARCHIVE)
