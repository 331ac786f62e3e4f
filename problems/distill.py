"""What t2t-distill makes: a teacher's translations, in files of --tmp_dir."""

import os
from typing import Any

from t2t_repro.problem import Count, Problem, TranslateDistillProblem
from t2t_repro.registry import register_problem
from t2t_repro.text.tokenizer import count_tokens

from .text2text import Text2textTmpdir


@register_problem
class Text2textTmpdirDistill(TranslateDistillProblem, Text2textTmpdir):
    """Reads train/inputs, train/gold and train/prediction in tmp_dir, one sentence a line, and the
    same in dev. What is learned is the prediction; the vocabulary is the teacher's (--vocab_from).
    """

    def source_data_files(self, dataset_split: str) -> str:
        return os.path.join(dataset_split, "")

    def distilled_path(self, tmp_dir: str, dataset_split: str) -> str:
        return os.path.join(tmp_dir, self.source_data_files(dataset_split))

    def prepare_raw_files(self, tmp_dir: str, options: dict[str, Any]) -> None:
        Problem.prepare_raw_files(self, tmp_dir, options)

    def prepare_vocabulary(self, data_dir: str, tmp_dir: str, count: Count = count_tokens) -> None:
        if self._asked_files:
            Text2textTmpdir.prepare_vocabulary(self, data_dir, tmp_dir, count)
