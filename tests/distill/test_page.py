"""docs/distillation.md: its commands have flags that the programs know, and its class works."""

import importlib
import pathlib
import re
import shlex

import pytest
from absl import flags

from t2t_repro import registry

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "distillation.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("t2t-")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_name_flags_that_are_there(line):
    name, *argv = shlex.split(line)
    module = name.removeprefix("t2t-").replace("-", "_")
    args = flags.FlagValues()
    importlib.import_module(f"t2t_repro.bin.{module}").define_flags(args)
    assert args([name, *argv]) == [name]


def test_its_class_is_a_problem():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    registry.list_problems()  # loads the catalogue
    problems = dict(registry._PROBLEMS)
    try:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
        problem = registry.get_problem("translate_ende_distilled")
        assert problem.source_data_files("train") == "distilled/train/"
        assert problem.stored_feature("targets") == "dist_targets"
        assert problem.vocab_filenames == ["vocab.teacher.subwords"]
    finally:
        registry._PROBLEMS.clear()
        registry._PROBLEMS.update(problems)
