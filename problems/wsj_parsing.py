"""Constituency parsing of the Wall Street Journal: words in, linearised trees out.

All problems here read files of bracketed trees, one a line, from tmp_dir. `--treebank_dir` makes
them out of a Penn Treebank folder.
"""

import itertools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from t2t_repro import progress
from t2t_repro.corpora.sources import RawFile
from t2t_repro.errors import UserError
from t2t_repro.parsing import treebank
from t2t_repro.parsing.lexicon import Lexicon, parts_of_speech
from t2t_repro.parsing.trees import PENN, linearised, parse
from t2t_repro.problem import Count, Sample, SpaceID, Split, Text2TextProblem
from t2t_repro.registry import register_problem
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID, TokenTextEncoder
from t2t_repro.text.tokenizer import count_tokens

UNKNOWN_TAG = "<UNK>"


class _TreesProblem(Text2TextProblem):
    """A sample for each line of wsjTrain.trees, wsjEval.trees and wsjTest.trees in tmp_dir."""

    writes_trees = True
    MORE_TREES: tuple[str, ...] = ()  # of training, beside these
    approx_train_samples = 40_000
    decode_hparams = "beam_size=21,alpha=0.3,extra_length=300"  # the paper's section 6.3

    raw_file_flags = ("--treebank_dir=FOLDER",)
    raw_file_hint = "where FOLDER is a Penn Treebank with files such as wsj_0200.mrg"

    TREES_FILES = {
        Split.TRAIN: "wsjTrain.trees",
        Split.EVAL: "wsjEval.trees",
        Split.TEST: "wsjTest.trees",
    }

    def prepare_raw_files(self, tmp_dir: str, options: dict[str, Any]) -> None:
        """Makes the trees files out of a treebank, and beside them the words of dev and test.

        Args:
            tmp_dir: gets wsjTrain.trees, wsjEval.trees, wsjTest.trees, wsjEval.words and
                wsjTest.words.
            options: treebank_dir, the folder; treebank_split, see `treebank.split`.

        Raises:
            UserError: if there is no treebank to split so, or other trees are in tmp_dir already.
        """
        others = dict(options)
        shares = others.pop("treebank_split", None)
        folder = others.pop("treebank_dir", None)
        super().prepare_raw_files(tmp_dir, others)
        if folder is None:
            if shares is not None:
                raise UserError(
                    "Expected --treebank_dir with --treebank_split. Received: only "
                    f"--treebank_split={shares!r}. Add --treebank_dir, or remove --treebank_split."
                )
            return
        splits = treebank.split(treebank.files(folder), shares)
        found = {
            split: [tree for path in paths for tree in treebank.read(path)]
            for split, paths in zip(Split.ALL, splits, strict=True)
        }
        for split, paths in zip(Split.ALL, splits, strict=True):
            if not found[split]:
                raise UserError(
                    f"Expected trees for the {split} split. Received: none in {len(paths)} files "
                    f"(first: {paths[0]}). Give another --treebank_split or --treebank_dir."
                )
        for split, trees in found.items():
            path = pathlib.Path(tmp_dir, self.TREES_FILES[split])
            treebank.write(path, map(str, trees))
            if split != Split.TRAIN:  # what to decode, and then to score against the trees
                words = (" ".join(tree.words()) for tree in trees)
                treebank.write(path.with_suffix(".words"), words)

    def missing_files(self, tmp_dir: str) -> list[RawFile]:
        names = [self.TREES_FILES[entry["split"]] for entry in self.dataset_splits]
        return [RawFile(name) for name in names if raw.find(tmp_dir, name) is None]

    def trees_files(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        """Returns the files of a split; each must be there, plain or .gz."""
        name = self.TREES_FILES[dataset_split]
        path = raw.find(tmp_dir, name)
        if path is None:
            raise UserError(
                f"Expected {name} (or {name}.gz), with one bracketed tree per line, in "
                f"{os.fspath(tmp_dir)!r}. Received: no such file. Put the file there, set "
                "--tmp_dir to its folder, or set --treebank_dir to the folder of a Penn Treebank."
            )
        return [path]

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        for path in self.trees_files(tmp_dir, dataset_split):
            for number, line in enumerate(raw.stripped_lines(path), start=1):
                yield self.sample_of(line, f"{path}, line {number}")

    def sample_of(self, tree: str, where: str) -> Sample:
        """Returns the words and tags of a bracketed tree.

        Args:
            tree: on one line.
            where: begins the message of an error.

        Raises:
            UserError: if it is no tree, or its outermost bracket, which is left out, is a phrase.
        """
        root = parse(tree, where)
        if root.word is None and root.label != "TOP" and root.label in PENN:
            raise UserError(
                f"{where}: expected TOP as the root of the tree. Received: {root.label}. "
                f"Write (TOP ({root.label} ...))."
            )
        words, tags = linearised(root, where)
        return {"inputs": words, "targets": tags}

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int:
        paths = self.trees_files(tmp_dir, dataset_split)
        return sum(1 for path in paths for _ in raw.raw_lines(path))

    def raw_text_files(self, tmp_dir: str, dataset_split: str) -> list[str]:
        more = self.MORE_TREES if dataset_split == Split.TRAIN else ()
        return raw.find_all(tmp_dir, [self.TREES_FILES[dataset_split], *more])


@register_problem
class WsjParsing(_TreesProblem):
    """tensor2tensor's: wsjTrain.trees and wsjEval.trees, and 32k subwords for words and tags.

    As in T2T the subwords come from the first 1,000 lines of wsj.train.text.txt and
    wsj.train.tags.txt; where tmp_dir does not have these, from the first 1,000 training trees.
    """

    VOCABULARY_FILES = ("wsj.train.text.txt", "wsj.train.tags.txt")
    approx_vocab_size = 2**15

    max_samples_for_vocab = 1000

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        if not any(raw.find(tmp_dir, name) for name in self.VOCABULARY_FILES):
            yield from super().generate_text_for_vocab(data_dir, tmp_dir)
            return
        paths = [raw.required(tmp_dir, name) for name in self.VOCABULARY_FILES]
        samples = raw.parallel_lines(*paths)
        for sample in itertools.islice(samples, self.max_samples_for_vocab):
            yield sample["inputs"]
            yield sample["targets"]


@register_problem
class WsjParsing4k(WsjParsing):
    """The same with 4k subwords: for the public sample of the treebank."""

    approx_vocab_size = 2**12


@register_problem
class ParsingWsj16k(_TreesProblem):
    """The paper's "WSJ only" (section 6.3): 16k subwords for the words, and every tag whole.

    The tags have a vocabulary of their own, as in the parsing problems that T2T began with: the
    model must not share its embeddings, as the parsing sets of the paper do not.
    """

    approx_targets_vocab_size = 128  # the tags
    input_space_id = SpaceID.EN_TOK
    target_space_id = SpaceID.PARSE_TOK

    approx_vocab_size = 2**14

    @property
    def dataset_splits(self) -> list[dict]:
        return [
            {"split": Split.TRAIN, "shards": 10},
            {"split": Split.EVAL, "shards": 1},
            {"split": Split.TEST, "shards": 1},
        ]

    @property
    def tags_filename(self) -> str:
        """The vocabulary of the targets."""
        return f"vocab.{self.dataset_filename()}.tags.tokens"

    @property
    def lexicon_filename(self) -> str:
        """Each training word and the parts of speech it may have: for decoding to trees only."""
        return f"vocab.{self.dataset_filename()}.lexicon"

    @property
    def vocab_filenames(self) -> list[str]:
        return [self.vocab_filename, self.tags_filename, self.lexicon_filename]

    def sample_of(self, tree: str, where: str) -> Sample:
        sample = super().sample_of(tree, where)
        parts_of_speech(sample["inputs"], sample["targets"], where)
        return sample

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        for sample in self.generate_samples(data_dir, tmp_dir, Split.TRAIN):
            yield sample["inputs"]

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        super().prepare_vocabulary(data_dir, tmp_dir, count)
        tags_path = pathlib.Path(data_dir, self.tags_filename)
        lexicon_path = pathlib.Path(data_dir, self.lexicon_filename)
        if tags_path.exists() and lexicon_path.exists():
            return
        tags: set[str] = set()
        lexicon = Lexicon()

        def targets() -> Iterator[str]:
            for sample in self.generate_samples(data_dir, tmp_dir, Split.TRAIN):
                lexicon.add(sample["inputs"], sample["targets"])
                yield sample["targets"]

        for text in progress.track(targets(), "vocabulary", unit="texts"):
            tags.update(text.split())
        if not tags_path.exists():
            encoder = TokenTextEncoder(None, vocab_list=[UNKNOWN_TAG, *sorted(tags)])
            encoder.store_to_file(tags_path)
        if not lexicon_path.exists():
            lexicon.write(lexicon_path)

    def feature_encoders(self, data_dir: str) -> dict:
        path = pathlib.Path(data_dir, self.tags_filename)
        words = super().feature_encoders(data_dir)["inputs"]
        return {"inputs": words, "targets": TokenTextEncoder(path, replace_oov=UNKNOWN_TAG)}

    def sample_encoder(self, data_dir: str) -> Callable[[Sample], Sample]:
        encoders = self.feature_encoders(data_dir)
        return lambda sample: {
            name: [*encoders[name].encode(text), EOS_ID] for name, text in sample.items()
        }


@register_problem
class ParsingWsj4k(ParsingWsj16k):
    """The same with 4k subwords: for the public sample of the treebank."""

    approx_vocab_size = 2**12


@register_problem
class ParsingWsjSemi32k(ParsingWsj16k):
    """The paper's semi-supervised setting: 32k subwords, and trees that parsers made.

    Beside wsjTrain.trees it trains on high_confidence.trees and berkeley_parser.trees in tmp_dir,
    one of which must be there.
    """

    MORE_TREES = ("high_confidence.trees", "berkeley_parser.trees")
    approx_train_samples = 17_000_000

    def missing_files(self, tmp_dir: str) -> list[RawFile]:
        more = any(raw.find(tmp_dir, name) for name in self.MORE_TREES)
        other = [] if more else [RawFile(" or ".join(self.MORE_TREES))]
        return super().missing_files(tmp_dir) + other

    approx_vocab_size = 2**15

    @property
    def dataset_splits(self) -> list[dict]:
        return [{"split": Split.TRAIN, "shards": 100}, *super().dataset_splits[1:]]

    def trees_files(self, tmp_dir: str, dataset_split: str) -> list[pathlib.Path]:
        paths = super().trees_files(tmp_dir, dataset_split)
        if dataset_split != Split.TRAIN:
            return paths
        more = [path for name in self.MORE_TREES if (path := raw.find(tmp_dir, name))]
        if not more:
            raise UserError(
                f"Expected {' or '.join(self.MORE_TREES)} (or .gz) in {os.fspath(tmp_dir)!r}: "
                "trees made by a parser, one bracketed tree per line. Received: neither file. Put "
                "one or both files there, or use the problem parsing_wsj16k."
            )
        return paths + more
