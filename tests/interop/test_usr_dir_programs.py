"""Every program takes a package that was written for tensor2tensor."""

import pathlib
import subprocess
import sys

import pytest

from t2t_repro import registry
from t2t_repro.bin import checkpoint, compare, datagen, exporter, trainer, visualize

PACKAGE = """
from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry


@registry.register_problem
class ShimTiny(text_problems.Text2TextProblem):
  @property
  def vocab_type(self):
    return text_problems.VocabType.CHARACTER

  @property
  def dataset_splits(self):
    return [{"split": problem.DatasetSplit.TRAIN, "shards": 1},
            {"split": problem.DatasetSplit.EVAL, "shards": 1}]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    for word in ("eins", "zwei", "drei", "vier"):
      yield {"inputs": word, "targets": word[::-1]}


@registry.register_hparams
def transformer_shim_tiny():
  hparams = transformer.transformer_tiny()
  hparams.hidden_size = 8
  hparams.filter_size = 8
  hparams.num_heads = 2
  hparams.num_hidden_layers = 1
  hparams.batch_size = 64
  return hparams
"""


@pytest.fixture
def package(tmp_path):
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "__init__.py").write_text(PACKAGE)
    return tmp_path / "usr"


@pytest.mark.slow
def test_datagen_trainer_and_decoder(package, tmp_path):
    (tmp_path / "pairs").write_text("eins\tsnie\n")
    shared = [f"--t2t_usr_dir={package}", f"--data_dir={tmp_path}/data"]
    run = [*shared, f"--output_dir={tmp_path}/run"]
    commands = {
        "datagen": [*shared, "--problem=shim_tiny"],
        "trainer": [
            *(*run, "--problem=shim_tiny", "--hparams_set=transformer_shim_tiny"),
            *("--train_steps=2", "--eval_steps=1"),
        ],
        "decoder": [*run, f"--score_file={tmp_path}/pairs", f"--decode_to_file={tmp_path}/out"],
    }
    program = "import sys, runpy\n" + "\n".join(
        f"sys.argv = {[name, *flags]!r}; "
        f"runpy.run_module('t2t_repro.bin.{name}', run_name='__main__')"
        for name, flags in commands.items()
    )
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "shim_tiny: vocabulary of 258" in done.stdout
    assert len((tmp_path / "out").read_text().split()) == 2


@pytest.mark.parametrize("program", [checkpoint, compare, datagen, exporter, trainer, visualize])
def test_each_program_loads_it(program, package, capsys):
    """What else is wrong with the flags is found only after the package is loaded."""
    flags = [f"--t2t_usr_dir={package}", *(["--problem=shim_tiny"] if program is trainer else [])]
    with pytest.raises(SystemExit) as left:
        program.console(flags)
    assert left.value.code == 2
    assert "shim_tiny" in registry.list_problems()
