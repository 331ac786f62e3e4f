"""BLEU of a model's translations of held-out sentences, during training and after it."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from t2t_repro import registry
from t2t_repro.data.pipeline import check_pairs, read_split
from t2t_repro.decoding.engine import engine_of
from t2t_repro.decoding.search import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.text.encoders import EOS_ID

# The paper's limit; an untrained model writes up to it.
GREEDY = DecodeHParams(beam_size=1, extra_length=50)


class Sample:
    """Sentences with their references, to score a model's translations.

    Args:
        sources: the ids of each sentence.
        references: the line of each.
        encoders: of "inputs" and "targets".
        described: which sentences, in words.

    Attributes:
        sources, references, encoders, described: as given.
        signature: sacreBLEU's.
    """

    def __init__(self, sources: Sequence, references: Sequence, encoders: Mapping, described: str):
        self.sources, self.references = list(sources), list(references)
        self.encoders, self.described = dict(encoders), described
        self._bleu = SacreBleu(self.references)
        self.signature = self._bleu.signature

    @property
    def digest(self) -> str:
        """The digest of the sentences and references."""
        return hashlib.sha256(json.dumps([self.sources, self.references]).encode()).hexdigest()

    def texts(self) -> list[str]:
        """Returns the sentences, one line each."""
        decode = self.encoders["inputs"].decode
        return [one_line(decode([i for i in ids if i != EOS_ID])) for ids in self.sources]

    def score(self, engine: Engine, settings: DecodeHParams) -> float:
        """Returns the BLEU of an engine's translations, in percent."""
        return self.bleu(self.written(engine, settings))

    def bleu(self, lines: Sequence[str]) -> float:
        """Returns the BLEU of translations, in percent."""
        return self._bleu.score(lines)

    def written(self, engine: Engine, settings: DecodeHParams) -> list[str]:
        """Returns an engine's translation of each sentence, one line."""
        translator = Translator(engine, self.encoders, settings, warn=lambda text: None)
        written = translator.translate_ids([translator.cut(ids, "") for ids in self.sources])
        return [one_line(best.text) for best, *_ in written]


class TextSample(Sample):
    """Sentences and their references, as text.

    Args:
        inputs: the sentences.
        targets: their references, as many.
        encoder: `encode` makes ids of text, `decode` text of ids.
        targets_encoder: that of the targets; None: the same.

    Raises:
        UserError: as `check_pairs`.
    """

    def __init__(
        self, inputs: Sequence, targets: Sequence, encoder: Any, *, targets_encoder: Any = None
    ):
        check_pairs(inputs, targets)
        encoders = {"inputs": encoder, "targets": targets_encoder or encoder}
        sources = [[*encoder.encode(text), EOS_ID] for text in inputs]
        references = [one_line(text) for text in targets]
        super().__init__(sources, references, encoders, f"{len(inputs):,} sentences")


class DevSample(Sample):
    """Sentences of a split with their references, detokenised.

    Args:
        problem: a problem of text, or its name.
        data_dir: its files.
        split: one of its splits.
        count: how many, spread evenly over the split in the order of its files; 0 or more than
            there are: all.

    Raises:
        UserError: if the split has no example.
    """

    def __init__(
        self, problem: Problem | str, data_dir: str, split: str = Split.EVAL, count: int = 0
    ):
        problem = registry.get_problem(problem) if isinstance(problem, str) else problem
        data_dir = os.path.expanduser(data_dir)
        examples = list(read_split(problem, split, data_dir))
        if not examples:
            raise UserError(f"Expected {split} examples of {problem.name}. Received: none.")
        of, count = len(examples), min(count or len(examples), len(examples))
        taken = [examples[i * of // count] for i in range(count)]
        encoders = problem.feature_encoders(data_dir)
        targets = ([i for i in each["targets"] if i != EOS_ID] for each in taken)
        references = [one_line(encoders["targets"].decode(ids)) for ids in targets]
        some = f"{count:,} of {of:,}" if count < of else f"all {of:,}"
        sources = [each["inputs"] for each in taken]
        super().__init__(sources, references, encoders, f"{some} {split} sentences")


class DevBleu:
    """BLEU of greedy translations by a model with its weights at the time of the call.

    Attributes:
        sample: of which sentences, in words.
        signature: sacreBLEU's.
    """

    def __init__(self, model: keras.Model, sentences: Sample):
        self._model, self._sentences = model, sentences
        self.sample = f"{self._sentences.described}, decoded greedily"
        self.signature = self._sentences.signature

    def score(self) -> float:
        """Returns the BLEU in percent."""
        return self._sentences.score(engine_of(self._model), GREEDY)
