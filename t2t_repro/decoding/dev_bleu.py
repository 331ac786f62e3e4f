"""BLEU of what a model writes of held-out sentences, to judge it by in training and after it."""

import os

import keras

from t2t_repro.data.pipeline import read_split
from t2t_repro.decoding.decode import engine_of
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.text.encoders import EOS_ID, TextEncoder

# The paper's limit; a model that knows nothing yet writes on to it.
GREEDY = DecodeHParams(beam_size=1, extra_length=50)


class DevSample:
    """Sentences of a split with their references, detokenised.

    Args:
        problem: a problem of text.
        data_dir: its files.
        split: one of its splits.
        count: how many, spread evenly over the split in the order of its files; where there are
            fewer, or for 0, all.

    Attributes:
        described: which sentences, in words.
        references: of each, one line.
        signature: sacreBLEU's.

    Raises:
        UserError: if the split has no example.
    """

    def __init__(
        self,
        problem: Problem,
        data_dir: str | os.PathLike,
        split: str = Split.EVAL,
        count: int = 0,
    ):
        examples = list(read_split(problem, split, data_dir))
        if not examples:
            raise UserError(f"Expected sentences in the {split} split to decode. Received: none.")
        of, count = len(examples), min(count or len(examples), len(examples))
        taken = [examples[i * of // count] for i in range(count)]
        self._encoders = encoders = problem.feature_encoders(os.fspath(data_dir))
        self._sources: list[list[int]] = [each["inputs"] for each in taken]
        targets = ([i for i in each["targets"] if i != EOS_ID] for each in taken)
        self.references = [one_line(encoders["targets"].decode(ids)) for ids in targets]
        self._bleu = SacreBleu(self.references)
        self.signature = self._bleu.signature
        some = f"{count:,} of {of:,}" if count < of else f"all {of:,}"
        self.described = f"{some} {split} sentences"

    def score(self, engine: Engine, settings: DecodeHParams) -> float:
        """Returns the BLEU in percent of what an engine writes."""
        return self._bleu.score(self.written(engine, settings))

    def written(
        self,
        engine: Engine,
        settings: DecodeHParams,
        encoders: dict[str, TextEncoder] | None = None,
    ) -> list[str]:
        """Returns what an engine writes of each sentence, one line.

        Args:
            engine: what decodes.
            settings: how.
            encoders: of the engine's model, where its vocabulary is another; None: the data's.
        """
        own = encoders or self._encoders
        translator = Translator(engine, own, settings, warn=lambda text: None)
        sources = self._sources
        if encoders:
            decode = self._encoders["inputs"].decode
            sources = [translator.encode(decode([i for i in s if i != EOS_ID])) for s in sources]
        written = translator.translate_ids([translator.cut(ids, "") for ids in sources])
        return [one_line(best.text) for best, *_ in written]


class DevBleu:
    """BLEU of greedy translations by a model as it stands when it is asked; see `DevSample`.

    Attributes:
        sample: of which sentences, in words.
        signature: sacreBLEU's.
    """

    def __init__(
        self,
        model: keras.Model,
        problem: Problem,
        data_dir: str | os.PathLike,
        split: str,
        count: int,
    ):
        self._model, self._sentences = model, DevSample(problem, data_dir, split, count)
        self.sample = f"{self._sentences.described}, decoded greedily"
        self.signature = self._sentences.signature

    def score(self) -> float:
        """Returns the BLEU in percent."""
        return self._sentences.score(engine_of(self._model), GREEDY)
