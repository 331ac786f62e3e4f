"""Packages that were written for tensor2tensor load unchanged."""

import dataclasses

import pytest

from t2t_repro import registry
from t2t_repro.data import packing
from t2t_repro.errors import UserError
from t2t_repro.text.subword import SubwordTextEncoder

PACKAGE = """
from tensor2tensor.data_generators import problem
from tensor2tensor.data_generators import text_problems
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry
import os


@registry.register_problem
class TranslateEndeMulti30k(text_problems.Text2TextProblem):

  @property
  def approx_vocab_size(self):
    return 2**7

  @property
  def is_generate_per_split(self):
    return True

  @property
  def dataset_splits(self):
    return [{"split": problem.DatasetSplit.TRAIN, "shards": 2},
            {"split": problem.DatasetSplit.EVAL, "shards": 1}]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    name = "train" if dataset_split == problem.DatasetSplit.TRAIN else "val"
    return text_problems.text2text_txt_iterator(
        os.path.join(tmp_dir, name + ".en"), os.path.join(tmp_dir, name + ".de"))


@registry.register_hparams
def transformer_shim_post():
  hparams = transformer.transformer_base_v1()
  hparams.num_hidden_layers = 1
  hparams.hidden_size = 8
  hparams.num_heads = 2
  hparams.add_hparam("shim", 1)
  return hparams


@registry.register_hparams("transformer_shim_pre")
def another_name():
  hparams = transformer_shim_post()
  hparams.layer_preprocess_sequence = "n"
  hparams.layer_postprocess_sequence = "da"
  return hparams
"""


def test_a_usual_package(load, tmp_path, capsys):
    said = load(PACKAGE)
    assert said == [] and "translate_ende_multi30k" in capsys.readouterr().err
    problem = registry.get_problem("translate_ende_multi30k")
    assert problem.vocab_filename == "vocab.translate_ende_multi30k.128.subwords"
    assert problem.dataset_splits[0] == {"split": "train", "shards": 2}
    post = registry.get_hparams("transformer_shim_post")
    expected = dataclasses.replace(
        registry.get_hparams("transformer_base_v1"), num_hidden_layers=1, hidden_size=8, num_heads=2
    )
    assert post == expected
    assert "shim=1" in said[0]
    assert registry.get_hparams("transformer_shim_pre") == dataclasses.replace(
        post, layer_preprocess_sequence="n", layer_postprocess_sequence="da"
    )
    assert "another_name" not in registry.list_hparams()
    (tmp_path / "train.en").write_text("a cat sat\nthe mat\n" * 40)
    (tmp_path / "train.de").write_text("eine Katze\ndie Matte\n" * 40)
    data, raw = str(tmp_path / "data"), str(tmp_path)
    encoder = problem.get_or_create_vocab(data, raw)
    assert isinstance(encoder, SubwordTextEncoder)
    first = next(iter(problem.generate_encoded_samples(data, raw, "train")))
    assert encoder.decode(first["targets"][:-1]) == "eine Katze" and first["targets"][-1] == 1
    assert problem.get_or_create_vocab(data, raw, force_get=True).vocab_size == encoder.vocab_size
    with pytest.raises(UserError, match="en.gz"):
        list(problem.generate_samples(data, raw, "dev"))


def test_sibling_modules_by_the_packages_own_name(load):
    said = load(
        "from . import parts\nfrom shimpackage.other import more\n"
        "import shimpackage.parts as again\n"
        "assert again is parts\n",
        name="shimpackage",
        parts="from tensor2tensor.utils import registry\nfrom shimpackage import other\n",
        other="more = 5\n",
    )
    assert said == []


def test_the_registry_and_the_rest(load):
    load(
        """
from tensor2tensor.data_generators import generator_utils, text_encoder, text_problems, translate
from tensor2tensor.layers import common_hparams
from tensor2tensor.utils import metrics, registry
import tensor2tensor.data_generators.problem as problem_lib
from tensor2tensor.data_generators.text_problems import VocabType, Text2textTmpdir

assert text_encoder.RESERVED_TOKENS + ["X"] == ["<pad>", "<EOS>", "X"]
assert text_encoder.native_to_unicode("a") == "a" and text_encoder.EOS_ID == 1
assert metrics.Metrics.ACC == "accuracy" and problem_lib.SpaceID.EN_TOK == 3
assert registry.hparams("transformer_tiny").hidden_size == 128
assert "transformer_tiny" in registry.list_hparams("transformer_t")
assert registry.problem("text2text_tmpdir").name == "text2text_tmpdir"
assert registry.default_name(Text2textTmpdir) == "text2text_tmpdir"

@registry.register_problem("named_otherwise")
class Mine(translate.TranslateProblem):
  vocab_type = VocabType.CHARACTER
  def source_data_files(self, dataset_split):
    return [["local", ("a.en", "a.de")]]

@registry.register_problem()
class SecondOfMine(Text2textTmpdir):
  pass

@registry.register_hparams()
def shim_basic():
  hparams = common_hparams.basic_params1()
  hparams.add_hparam("filter_size", 77)
  return hparams
"""
    )
    assert registry.get_problem("named_otherwise").name == "named_otherwise"
    assert "second_of_mine" in registry.list_problems()
    assert registry.get_hparams("shim_basic").filter_size == 77


TOP = "from tensor2tensor.utils import registry\n"
PROBLEM = (
    "from tensor2tensor.data_generators import text_problems\n"
    f"{TOP}@registry.register_problem\nclass ShimRefused(text_problems.Text2TextProblem):\n  "
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("\nfrom tensor2tensor.layers import common_layers", "layers.common_layers"),
        ("import tensor2tensor.bin.t2t_trainer", "tensor2tensor.bin"),
        ("from tensor2tensor.data_generators import problem\nproblem.DataSplit", "DatasetSplit"),
        (f"{TOP}@registry.register_model\nclass A: pass", "SequenceModel"),
        (f"{PROBLEM}def generate_data(self, data_dir, tmp_dir, task_id=-1): pass", "generate_data"),
        (f"{PROBLEM}has_inputs = False", "has_inputs"),
    ],
)
def test_what_is_not_supported_is_named(load, text, name):
    with pytest.raises(UserError, match=name):
        load(text)
    assert "shim_refused" not in registry.list_problems()


def test_a_set_may_derive_from_ours_whose_name_it_takes(load):
    ours = registry.get_hparams("transformer_small").hidden_size
    load(
        f"""{TOP}from tensor2tensor.models import transformer
@registry.register_hparams
def transformer_small():
  hparams = transformer.transformer_small()
  hparams.hidden_size += 8
  return hparams

registry.register_hparams("transformer_shim_other")(transformer.transformer_small)
"""
    )
    assert registry.get_hparams("transformer_small").hidden_size == ours + 8
    assert registry.get_hparams("transformer_shim_other").hidden_size == ours  # as there


def test_a_packed_problem(load):
    load(f"{PROBLEM}@property\n  def packed_length(self): return 64\n  packed_spacing = 2")
    problem = registry.get_problem("shim_refused")
    assert (problem.packed_length, problem.packed_spacing) == (64, 2)
    assert len(packing.features(problem)) == 6
