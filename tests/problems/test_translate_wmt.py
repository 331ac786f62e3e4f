"""WMT English-German as tensor2tensor names it."""

import pytest

from t2t_repro import registry
from t2t_repro.errors import UserError


@pytest.mark.parametrize(
    "name, size", [("translate_ende_wmt32k", 2**15), ("translate_ende_wmt8k", 2**13)]
)
def test_names_and_kinds(name, size):
    problem = registry.get_problem(name)
    assert problem.vocab_filename == f"vocab.{name}.{size}.subwords"
    assert problem.filepaths("dev", "d", 1) == [f"d/{name}-dev-00000-of-00001"]
    assert (problem.input_space_id, problem.target_space_id) == (0, 0)


def test_the_raw_files_are_tensor2tensors(tmp_path):
    problem = registry.get_problem("translate_ende_wmt8k")
    with pytest.raises(UserError, match="files of translate_ende_wmt8k from tensor2tensor's"):
        list(problem.generate_samples("d", str(tmp_path), "train"))
