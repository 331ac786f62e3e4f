import pathlib
import re

import pytest

from t2t_repro import problem
from t2t_repro.bin import datagen
from t2t_repro.errors import UserError
from t2t_repro.problem import Split, VocabType
from t2t_repro.text.encoders import ByteTextEncoder, TokenTextEncoder
from t2t_repro.text.subword import SubwordTextEncoder
from t2t_repro.text.tokenizer import count_tokens
from tests.programs import call


class Toy(problem.Text2TextProblem):
    name = "toy"
    input_space_id = problem.SpaceID.EN_TOK
    target_space_id = problem.SpaceID.DE_TOK
    vocab_type = VocabType.SUBWORD
    approx_vocab_size = 300
    inputs_prefix = "to german: "

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(50):
            yield {"inputs": f"the cat number {number}", "targets": f"die Katze Nummer {number}"}


class Sharing(Toy):
    name = "sharing"
    use_vocab_from_other_problem = Toy()


def test_names_and_numbers_are_those_of_t2t():
    toy, text = Toy(), problem.Text2TextProblem()
    assert toy.filepaths(Split.TRAIN, "/d", 100)[7] == "/d/toy-train-00007-of-00100"
    assert toy.filepaths(Split.EVAL, "/d", 1) == ["/d/toy-dev-00000-of-00001"]
    assert Sharing().vocab_filename == toy.vocab_filename == "vocab.toy.300.subwords"
    for kind, names in ((VocabType.TOKEN, ["vocab.toy.tokens"]), (VocabType.CHARACTER, [])):
        toy.vocab_type = kind
        assert toy.vocab_filenames == names
    assert (text.approx_vocab_size, text.max_subtoken_length) == (2**15, 200)
    assert text.dataset_splits[0] == {"split": "train", "shards": 100}
    assert (Toy().input_space_id, problem.Problem().target_space_id) == (3, 0)
    assert Toy().eval_metrics()[-1] == "rouge_L_fscore"


def test_reversed_swaps_sides_and_shares_files(tmp_path):
    forward, backward = Toy(), Toy(was_reversed=True)
    assert isinstance(backward, Toy) and backward.was_reversed and not forward.was_reversed
    assert (backward.input_space_id, backward.target_space_id) == (8, 3)
    assert backward.filepaths("dev", "/d", 1) == forward.filepaths("dev", "/d", 1)
    assert backward.vocab_filename == forward.vocab_filename
    assert backward.forward().was_reversed is False and forward.forward() is forward

    class TwoVocabularies(Toy):
        def feature_encoders(self, data_dir):
            return {"inputs": english, "targets": german}

    english, german = TokenTextEncoder(None, vocab_list=["a"]), ByteTextEncoder()
    encoders = TwoVocabularies(was_reversed=True).feature_encoders("")
    assert encoders == {"inputs": german, "targets": english}


def test_vocabulary_is_built_once_and_shared_and_samples_get_prefix_and_end(tmp_path):
    with pytest.raises(UserError, match=f"vocab.toy.300.subwords.*--data_dir={tmp_path}"):
        Toy().feature_encoders(str(tmp_path))
    seen = []

    def count(texts):
        seen.extend(texts)
        return count_tokens(seen)

    Sharing().prepare_vocabulary(str(tmp_path), "", count)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"vocab.toy.300.subwords", "vocab.toy.300.subwords.json"}
    Toy().prepare_vocabulary(str(tmp_path), "", count)
    assert len(seen) == 100
    encoder = SubwordTextEncoder(str(tmp_path / "vocab.toy.300.subwords"))
    assert Toy().inputs_vocab_size(str(tmp_path)) == encoder.vocab_size
    assert Toy().targets_vocab_size(str(tmp_path)) == encoder.vocab_size
    sample = next(iter(Toy().generate_encoded_samples(str(tmp_path), "", Split.TRAIN)))
    assert sample["inputs"][-1] == sample["targets"][-1] == 1
    assert encoder.decode(sample["inputs"][:-1]) == "to german: the cat number 0"
    assert encoder.decode(sample["targets"][:-1]) == "die Katze Nummer 0"


def test_a_problem_of_ones_own_as_the_docs_have_it(tmp_path, monkeypatch):
    page = (pathlib.Path(__file__).parents[1] / "docs" / "own-text.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from [^`]*register_problem[^`]*)```", page)
    (command,) = re.findall(r"^t2t-datagen (--t2t_usr_dir=.*)$", page, re.M)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text(example)
    (tmp_path / "my_text").mkdir()
    for file in ("train.en", "train.de", "dev.en", "dev.de"):
        (tmp_path / "my_text" / file).write_text(f"the cat\na {file} dog and a bird\n")
    monkeypatch.chdir(tmp_path)
    call(datagen, *command.split(), "--num_concurrent_processes=1")
    assert (tmp_path / "data" / "translate_ende_mine-dev-00000-of-00001").exists()


def test_a_translation_problem_of_archives(tmp_path):
    class Mine(problem.TranslateProblem):
        name = "mine"

        def source_data_files(self, dataset_split):
            return [["x", (f"{dataset_split}.en", f"{dataset_split}.de")]]

    for split in ("train", "dev", "test"):
        lines = 1 if split == "train" else 2
        (tmp_path / f"{split}.en").write_text(f"{split}\n" * lines)
        (tmp_path / f"{split}.de").write_text("wort\n" * lines)
    mine = Mine()
    samples = list(mine.generate_samples("", str(tmp_path), "train"))
    assert samples == [{"inputs": "train", "targets": "wort"}]
    for split in ("dev", "test"):
        assert list(mine.generate_samples("", str(tmp_path), split))[0]["inputs"] == split
    assert [mine.num_samples(str(tmp_path), split) for split in ("train", "dev")] == [1, 2]
    assert (tmp_path / "mine-compiled-dev.lang1").exists()
    assert list(mine.generate_text_for_vocab("", str(tmp_path))) == ["train", "wort"]
