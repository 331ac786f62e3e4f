"""docs/from-opennmt-tf.md: what it says to write here is there."""

import dataclasses
import importlib
import pathlib
import re
import shlex

import pytest
from absl import flags

import t2t_repro
from t2t_repro.config import HParams
from t2t_repro.decoding.settings import DecodeHParams

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "from-opennmt-tf.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
HERE = [row.split("|")[2] for row in PAGE.splitlines() if row.startswith("| ")]


def known_flags(program):
    module = importlib.import_module(f"t2t_repro.bin.{program}")
    values = flags.FlagValues()
    module.define_flags(values)
    return values


PROGRAMS = {
    f"t2t-{name.replace('_', '-')}": known_flags(name)
    for name in (
        *("datagen", "trainer", "decoder", "exporter", "avg_all", "bleu", "visualize"),
        *("translate_all",),
    )
} | {"t2t-eval": known_flags("evaluator")}


@pytest.mark.parametrize(
    "line",
    [line for line in COMMANDS.replace("\\\n", " ").splitlines() if line.startswith("t2t-")],
)
def test_the_example_is_understood(line):
    program, *argv = shlex.split(line)
    values = PROGRAMS[program]
    values([program, *argv])
    if program == "t2t-trainer":
        hparams = t2t_repro.get_hparams(values.hparams_set, values.hparams)
        assert hparams.optimizer_adam_beta2 == 0.998 and hparams.learning_rate == 0.2
        assert hparams.learning_rate_warmup_steps == 8000 and hparams.relu_dropout == 0.1
        assert hparams.layer_preprocess_sequence == "n"
    if program == "t2t-decoder" and values.decode_hparams:
        assert DecodeHParams.parse(values.decode_hparams).beam_size == 5


def test_the_tables_name_programs_flags_and_settings_that_there_are():
    assert len(HERE) > 80
    known = {flag for values in PROGRAMS.values() for flag in values}
    settings = {
        field.name for kind in (HParams, DecodeHParams) for field in dataclasses.fields(kind)
    }
    for cell in HERE:
        assert set(re.findall(r"(?<!-)--(\w+)", cell)) <= known, cell
        assert set(re.findall(r"t2t-[a-z-]+", cell)) <= set(PROGRAMS), cell
        flagless = re.sub(r"--\w+=?", " ", cell)  # --hparams=batch_size=64 leaves batch_size=64
        assert set(re.findall(r"([a-z]\w+)=", flagless)) - {"name"} <= settings, cell
