"""WMT English-German, for models and data that tensor2tensor made."""

from collections.abc import Iterable

from t2t_repro.errors import UserError
from t2t_repro.problem import Sample, Text2TextProblem
from t2t_repro.registry import register_problem


@register_problem
class TranslateEndeWmt32k(Text2TextProblem):
    """WMT English-German with 32k subwords, as T2T names and encodes it (translate_ende.py).

    Its TFRecords and its vocabulary come from tensor2tensor's t2t-datagen.
    """

    @property
    def approx_vocab_size(self) -> int:
        return 2**15

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        raise UserError(
            f"Expected the files of {self.name} from tensor2tensor's t2t-datagen. Received: a "
            "request to make them here, which is not possible yet. For text of your own, use the "
            "problem text2text_tmpdir."
        )


@register_problem
class TranslateEndeWmt8k(TranslateEndeWmt32k):
    """The same with 8k subwords."""

    @property
    def approx_vocab_size(self) -> int:
        return 2**13
