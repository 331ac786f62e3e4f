"""BLEU of what a model writes of some held-out sentences: a score of the model as it is trained."""

import os

import keras

from t2t_repro.data.pipeline import read_split
from t2t_repro.decoding.decode import engine_of
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator, one_line
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.scoring.bleu import SacreBleu
from t2t_repro.text.encoders import EOS_ID

# The paper's limit; a model that knows nothing yet writes on to it.
SETTINGS = DecodeHParams(beam_size=1, extra_length=50)


class DevBleu:
    """sacreBLEU of greedy translations of a fixed sample of a split, detokenised on both sides.

    Args:
        model: a `Transformer`; it decodes as it stands when the score is asked for.
        problem: a problem of text.
        data_dir: its files.
        split: one of its splits.
        count: how many sentences, spread evenly over the split in the order of its files; where
            there are fewer, all.

    Attributes:
        sample: of which sentences, in words.
        signature: sacreBLEU's.

    Raises:
        UserError: if the split has no example.
    """

    def __init__(
        self,
        model: keras.Model,
        problem: Problem,
        data_dir: str | os.PathLike,
        split: str,
        count: int,
    ):
        examples = list(read_split(problem, split, data_dir))
        if not examples:
            raise UserError(f"Expected sentences in the {split} split to decode. Received: none.")
        count = min(count, len(examples))
        taken = [examples[i * len(examples) // count] for i in range(count)]
        encoders = problem.feature_encoders(os.fspath(data_dir))
        self._translator = Translator(engine_of(model), encoders, SETTINGS, warn=lambda text: None)
        self._sources = [self._translator.cut(each["inputs"], "") for each in taken]
        targets = ([i for i in each["targets"] if i != EOS_ID] for each in taken)
        self._bleu = SacreBleu([one_line(encoders["targets"].decode(ids)) for ids in targets])
        self.signature = self._bleu.signature
        of = f"{count:,} of {len(examples):,}" if count < len(examples) else f"all {count:,}"
        self.sample = f"{of} sentences, decoded greedily"

    def score(self) -> float:
        """Returns the BLEU in percent."""
        hypotheses = self._translator.translate_ids(self._sources)
        return self._bleu.score([one_line(best.text) for best, *_ in hypotheses])
