"""Every program takes a package that was written for tensor2tensor."""

import pytest

from t2t_repro import registry
from t2t_repro.bin import checkpoint, compare, datagen, exporter, trainer, visualize
from tests import forks
from tests.interop.test_usr_dir import PACKAGE


@pytest.fixture
def package(tmp_path):
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "__init__.py").write_text(PACKAGE)
    return tmp_path / "usr"


@pytest.mark.slow
def test_datagen_trainer_and_decoder(package, tmp_path):
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (tmp_path / name).write_text("a cat sat\nthe mat\n" * 40)
    (tmp_path / "pairs").write_text("a cat\tthe mat\n")
    shared = [f"--t2t_usr_dir={package}", f"--data_dir={tmp_path}/data"]
    task = ["--problem=translate_ende_multi30k", f"--output_dir={tmp_path}/run"]
    small = ["--hparams_set=transformer_shim_pre", "--hparams=batch_size=64"]
    commands = {
        "datagen": [*shared, task[0], f"--tmp_dir={tmp_path}", "--nocheck_data"],
        "trainer": [*shared, *task, *small, "--train_steps=2", "--eval_steps=1"],
        "decoder": [
            *(*shared, task[1], f"--score_file={tmp_path}/pairs"),
            f"--decode_to_file={tmp_path}/out",
        ],
    }
    program = "import sys, runpy\n" + "\n".join(
        f"sys.argv = {[name, *flags]!r}; "
        f"runpy.run_module('t2t_repro.bin.{name}', run_name='__main__')"
        for name, flags in commands.items()
    )
    forks.said_by("-c", program)
    assert len((tmp_path / "out").read_text().split()) == 2


@pytest.mark.parametrize("program", [checkpoint, compare, datagen, exporter, trainer, visualize])
def test_each_program_loads_it(program, package):
    """What else is wrong with the flags is found only after the package is loaded."""
    task = "--problem=translate_ende_multi30k"
    flags = [f"--t2t_usr_dir={package}", *([task] if program is trainer else [])]
    with pytest.raises(SystemExit) as left:
        program.console(flags)
    assert left.value.code == 2
    assert "transformer_shim_pre" in registry.list_hparams()
