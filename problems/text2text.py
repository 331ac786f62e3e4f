"""The user's own text pairs: four files in --tmp_dir, or files of any form that become these."""

import os
import pathlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from t2t_repro.corpora import intake
from t2t_repro.corpora.request import RawText
from t2t_repro.corpora.sources import RawFile
from t2t_repro.errors import UserError
from t2t_repro.problem import Count, Sample, Split, Text2TextProblem, VocabType
from t2t_repro.registry import register_problem
from t2t_repro.text import raw, vocabulary, vocabulary_size
from t2t_repro.text.encoders import TokenTextEncoder
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.tokenizer import count_tokens


@register_problem
class Text2textTmpdir(Text2TextProblem):
    """Reads one sample a line from inputs.train.txt, targets.train.txt, inputs.eval.txt and
    targets.eval.txt in tmp_dir, each plain or .gz, and builds subwords: as many as they support.

    `--train_source` makes them out of other files. The test split is text alone, to decode and to
    score: inputs.test.txt and targets.test.txt.
    """

    TRAIN_FILES = ("inputs.train.txt", "targets.train.txt")
    EVAL_FILES = ("inputs.eval.txt", "targets.eval.txt")
    TEST_FILES = ("inputs.test.txt", "targets.test.txt")
    pairs_a_file = 10_000
    raw_file_flags = ("--train_source=FILE", "--train_target=FILE2")
    raw_file_hint = "where FILE and FILE2 are your texts, one sentence per line (docs/own-text.md)"

    def missing_files(self, tmp_dir: str) -> list[RawFile]:
        if self._has_own_samples:
            return []
        names = (*self.TRAIN_FILES, *self.EVAL_FILES)
        return [RawFile(name) for name in names if raw.find(tmp_dir, name) is None]

    def prepare_raw_files(self, tmp_dir: str, options: dict[str, Any]) -> None:
        request, rest = RawText.from_flags(options)
        super().prepare_raw_files(tmp_dir, rest)
        if request:
            files = {split: self._names(split) for split in Split.ALL}
            intake.prepare(tmp_dir, request, files, self.random_seed)

    _asked_files: Mapping[str, str] = MappingProxyType({})  # by `ask_vocabularies`
    _asked_names: Mapping[str, str] = MappingProxyType({})

    def ask_vocabularies(self, files: Mapping[str, str]) -> None:
        if self.vocab_type != VocabType.SUBWORD:
            super().ask_vocabularies(files)
        self._asked_files = dict(files)
        self._asked_names = vocabulary.own_names(files, self.name)
        names = set(self._asked_names.values())
        one = len(names) == 1 and names.pop().endswith(VocabType.SUBWORD)
        if self._asked_vocab_size and not one:
            raise UserError(
                "Expected one subword vocabulary in the run of --vocab_from, because --vocab_size "
                f"extends the vocabulary. Received: {' and '.join(set(files.values()))}. "
                "Remove --vocab_size."
            )
        if self._asked_vocab_size:  # before all of the text is counted
            vocabulary_size.check_extension(
                SubwordTextEncoder(files["inputs"]), self._asked_vocab_size
            )

    def vocab_files(self, folder: str | os.PathLike) -> list[str]:
        asked = {} if self._asked_vocab_size else self._asked_names  # else it is extended
        there = asked or vocabulary.find_own(folder, self.name)
        return list(dict.fromkeys(there.values())) or super().vocab_files(folder)

    def has_asked_vocabularies(self, data_dir: str | os.PathLike) -> bool:
        files, to = self._asked_files, self._asked_names
        if files and self._asked_vocab_size:
            path, old = self._own_subwords(data_dir), pathlib.Path(files["inputs"])
            others = vocabulary.find_own(data_dir, self.name)
            return not others and vocabulary_size.is_extended(path, old, self._asked_vocab_size)
        return not files or vocabulary.is_own_installed(files, to, data_dir, self.name)

    def are_vocabularies_separate(self, data_dir: str | os.PathLike) -> bool:
        there = vocabulary.find_own(data_dir, self.name)
        if len(set(there.values())) < 2:
            return False
        ours, theirs = (pathlib.Path(data_dir, name).read_bytes() for name in there.values())
        return ours != theirs

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        if self._asked_files and self._asked_vocab_size:
            if not self.has_asked_vocabularies(data_dir):
                texts = self.generate_text_for_vocab(data_dir, tmp_dir)
                counts = count(texts)
                path, old = self._own_subwords(data_dir), self._asked_files["inputs"]
                wanted = self._asked_vocab_size, counts, self.max_subtoken_length
                vocabulary_size.extend(path, pathlib.Path(old), *wanted)
        elif self._asked_files:
            where = data_dir, self.name
            vocabulary.install_own(self._asked_files, self._asked_names, *where)
        elif not vocabulary.find_own(data_dir, self.name):
            super().prepare_vocabulary(data_dir, tmp_dir, count)

    def _own_subwords(self, data_dir: str | os.PathLike) -> pathlib.Path:
        return pathlib.Path(data_dir, *super().vocab_files(data_dir))

    def stored_encoders(self, data_dir: str) -> dict[str, Any]:
        there = vocabulary.find_own(data_dir, self.name)
        return vocabulary.read_own(data_dir, there) if there else super().stored_encoders(data_dir)

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        return raw.parallel_lines(*self._files(tmp_dir, dataset_split))

    @property
    def _has_own_samples(self) -> bool:
        """Whether a subclass reads what it likes."""
        return type(self).generate_samples is not Text2textTmpdir.generate_samples

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int | None:
        if self._has_own_samples:
            return None
        return raw.count_parallel_lines(*self._files(tmp_dir, dataset_split))

    def text_alone(self, tmp_dir: str) -> list[str]:
        there = all(raw.find(tmp_dir, name) for name in self.TEST_FILES)
        return [Split.TEST] if there and not self._has_own_samples else []

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        names = () if self._has_own_samples else self._names(dataset_split)
        return raw.find_all(tmp_dir, names)

    def _names(self, dataset_split: str) -> tuple[str, str]:
        names = (self.TRAIN_FILES, self.EVAL_FILES, self.TEST_FILES)
        return dict(zip(Split.ALL, names, strict=True))[dataset_split]

    def _files(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        return [raw.required(tmp_dir, name) for name in self._names(dataset_split)]


@register_problem
class Text2textTmpdirPacked(Text2textTmpdir):
    """The same, several pairs in an example of 256 tokens a side, with a vocabulary of its own.

    So its batches have one shape or two, for a backend that compiles each.
    """

    packed_length = 256


@register_problem
class Text2textTmpdirTokens(Text2textTmpdir):
    """The same with a vocabulary of whole tokens: vocab.txt in tmp_dir, one token a line.

    Padding, end of sentence and <UNK> are added; other words are read as <UNK>.
    """

    vocab_type = VocabType.TOKEN

    oov_token = "<UNK>"

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count=None) -> None:
        path = pathlib.Path(data_dir, self.vocab_filename)
        if path.exists():
            return
        tokens = list(raw.stripped_lines(raw.required(tmp_dir, "vocab.txt")))
        several = [n for n, token in enumerate(tokens, start=1) if len(token.split()) > 1]
        if several:
            raise UserError(
                f"Expected one token on each line of vocab.txt in {os.fspath(tmp_dir)!r}. "
                f"Received: {tokens[several[0] - 1]!r} on line {several[0]}. Keep only the first "
                "word of each line: awk '{print $1}' FILE > NEW"
            )
        # <UNK> is added, and may be listed too: tensor2tensor then has it twice, and what follows
        # it in the list has ids that are one higher.
        others = [token for token in tokens if token != self.oov_token]
        TokenTextEncoder(None, vocab_list=[self.oov_token, *others]).store_to_file(path)
