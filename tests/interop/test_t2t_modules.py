"""Problems written for tensor2tensor that make their samples and vocabularies themselves."""

from t2t_repro import registry
from t2t_repro.text.subword import SubwordTextEncoder

SHARED = """
import os
from tensor2tensor.data_generators import text_problems
from tensor2tensor.utils import registry

@registry.register_problem
class ShimShared(text_problems.Text2TextProblem):
  approx_vocab_size = 128
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    name = os.path.join(tmp_dir, dataset_split)
    return text_problems.text2text_txt_iterator(name + ".en", name + ".de")
"""


def test_two_vocabularies_of_ones_own(load, tmp_path):
    """The way of T2T's translate_enzh.py."""
    load(
        """
import os
from tensor2tensor.data_generators import generator_utils, text_encoder, text_problems, translate
from tensor2tensor.utils import registry

@registry.register_problem
class ShimTwo(translate.TranslateProblem):
  source_vocab_name = "vocab.en"
  @property
  def target_vocab_name(self):
    return "vocab.de"
  def source_data_files(self, dataset_split):
    return [["x", ("a.en", "a.de")]]
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    sides = [["x", ["a.en"]]], [["x", ["a.de"]]]
    names = self.source_vocab_name, self.target_vocab_name
    both = [generator_utils.get_or_generate_vocab(data_dir, tmp_dir, name, 40, files)
            for name, files in zip(names, sides)]
    return text_problems.text2text_generate_encoded(
        self.generate_samples(data_dir, tmp_dir, dataset_split), *both, has_inputs=self.has_inputs)
  def feature_encoders(self, data_dir):
    return {"inputs": text_encoder.SubwordTextEncoder(os.path.join(data_dir, "vocab.en")),
            "targets": text_encoder.SubwordTextEncoder(os.path.join(data_dir, "vocab.de"))}
"""
    )
    (tmp_path / "a.en").write_text("a cat on a mat\n" * 20)
    (tmp_path / "a.de").write_text("die Katze\n" * 20)
    problem, folder = registry.get_problem("shim_two"), str(tmp_path)
    assert problem.vocab_filenames == ["vocab.en", "vocab.de"]
    problem.prepare_vocabulary(folder, folder)
    (first, *_) = problem.generate_encoded_samples(folder, folder, "train")
    encoders = problem.feature_encoders(folder)
    assert encoders["targets"].decode(first["targets"][:-1]) == "die Katze"
    reverse = registry.get_problem("shim_two_rev")
    assert reverse.feature_encoders(folder)["inputs"].vocab_size == encoders["targets"].vocab_size
    assert sorted(p.name for p in tmp_path.glob("vocab*")) == ["vocab.de", "vocab.en"]


def test_vocabularies_from_another_problem_in_both_ways(load, tmp_path):
    load(
        SHARED
        + """
@registry.register_problem
class ShimShares(ShimShared):
  vocab_filenames = ["vocab.shim_shared.128.subwords"]
  def get_or_create_vocab(self, data_dir, tmp_dir, force_get=False):
    return ShimShared().get_or_create_vocab(data_dir, tmp_dir, force_get=force_get)

@registry.register_problem
class ShimSharesToo(ShimShared):
  @property
  def use_vocab_from_other_problem(self):
    return ShimShared()
"""
    )
    (tmp_path / "train.en").write_text("a cat sat\nthe mat\n" * 40)
    (tmp_path / "train.de").write_text("eine Katze\ndie Matte\n" * 40)
    for name in ("shim_shares", "shim_shares_too"):
        problem, data = registry.get_problem(name), str(tmp_path / name)
        problem.prepare_vocabulary(data, str(tmp_path))
        assert problem.vocab_filenames == ["vocab.shim_shared.128.subwords"]
        (file,) = problem.vocab_filenames
        assert {p.name for p in (tmp_path / name).iterdir()} == {file, f"{file}.json"}
        encoder = problem.feature_encoders(data)["inputs"]
        assert problem.get_or_create_vocab(data, None, True).vocab_size == encoder.vocab_size


def test_problems_of_files_in_tmp_dir_are_those_of_tensor2tensor(load, tmp_path):
    """Derived from its catalogue's, they build what they say, and call what T2T's have."""
    load(
        """
from tensor2tensor.data_generators import text_encoder, text_problems
from tensor2tensor.utils import registry

@registry.register_problem
class ShimTmpdir(text_problems.Text2textTmpdir):
  pass

@registry.register_problem
class ShimTmpdirOfMine(text_problems.Text2textTmpdir):
  vocab_filenames = ["vocab.mine"]
  def get_or_create_vocab(self, data_dir, tmp_dir, force_get=False):
    assert self.has_inputs
    return text_encoder.TokenTextEncoder(None, vocab_list=["a", "b", "c"])
"""
    )
    plain, mine = map(registry.get_problem, ("shim_tmpdir", "shim_tmpdir_of_mine"))
    assert plain.says_vocab_size and plain.approx_vocab_size == 2**15
    assert plain.pairs_a_file is None  # so that there are T2T's 100 files
    folder = str(tmp_path / "data")
    mine.prepare_vocabulary(folder, str(tmp_path))
    assert not (tmp_path / "data").exists()
    assert mine.feature_encoders(folder)["inputs"].vocab_size == 5


def test_a_distillation_of_ones_own(load, tmp_path):
    """As T2T's class asks for it: what stands before the names of three files."""
    load(
        f"""
from tensor2tensor.data_generators import translate
from tensor2tensor.utils import registry

@registry.register_problem
class ShimDistill(translate.TranslateDistillProblem):
  @property
  def vocab_filename(self):
    return "vocab.teacher"
  def source_data_files(self, dataset_split):
    return {str(tmp_path)!r} + "/" + dataset_split + "."
"""
    )
    for name, text in {"inputs": "ab", "gold": "cd", "prediction": "ab ab"}.items():
        (tmp_path / f"train.{name}").write_text(f"{text}\n")
    problem = registry.get_problem("shim_distill")
    SubwordTextEncoder.build_to_target_size(30, {"ab": 5, "cd": 5}, 1, 5).store_to_file(
        str(tmp_path / "vocab.teacher")
    )
    problem.prepare_vocabulary(str(tmp_path), "")
    (sample,) = problem.generate_encoded_samples(str(tmp_path), "", "train")
    decode = problem.feature_encoders(str(tmp_path))["inputs"].decode
    texts = {name: decode(ids[:-1]) for name, ids in sample.items()}
    assert texts == {"inputs": "ab", "targets": "cd", "dist_targets": "ab ab"}
