"""Names of hparam sets and problems, the user's own among them."""

import pytest

import t2t_repro
from t2t_repro import registry
from t2t_repro.errors import UserError

USR_DIR = """
import dataclasses
from t2t_repro import registry
from t2t_repro.problem import Text2TextProblem

@registry.register_hparams
def {prefix}_small():
    return dataclasses.replace(registry.get_hparams("transformer_base"), num_hidden_layers=1)

@registry.register_problem
class {camel}Problem(Text2TextProblem):
    pass
"""


def test_snake_case():
    assert registry.snake_case("TranslateEndeWmt32k") == "translate_ende_wmt32k"
    assert registry.snake_case("Text2textTmpdir") == "text2text_tmpdir"
    assert registry.snake_case("Adafactor") == "adafactor"


def test_models_by_name():
    assert registry.get_model("transformer") is t2t_repro.Transformer
    other = registry.get_hparams("lstm_attention", "hidden_size=8", "lstm_seq2seq")
    assert (other.model, other.hidden_size) == ("lstm_seq2seq", 8)
    for given in (("", "lstm"), ("model=transformr",)):
        with pytest.raises(UserError, match="lstm|transformr"):
            registry.get_hparams("lstm_attention", *given)


def test_a_model_of_ones_own():
    @registry.register_model
    class MyTransformer(t2t_repro.Transformer):
        pass

    assert registry.get_model("my_transformer") is MyTransformer
    assert registry.list_models().count("my_transformer") == 1


def test_usr_dir(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("from . import parts\n")
    (tmp_path / "mine" / "parts.py").write_text(USR_DIR.format(prefix="mine", camel="Mine"))
    for _ in range(2):
        registry.load_usr_dir(tmp_path / "mine")
    assert registry.get_hparams("mine_small").num_hidden_layers == 1
    problem = registry.get_problem("mine_problem_rev")
    assert problem.name == "mine_problem" and problem.was_reversed
    package = f"t2t-datagen --t2t_usr_dir={tmp_path / 'mine'} --problem=mine_problem"
    assert problem.datagen_command("a b") == f"{package} '--data_dir=a b' --tmp_dir=RAW_FILES"


def test_a_name_of_ours_is_the_users_and_one_of_his_is_no_others(tmp_path, capsys):
    ours = registry.get_hparams("transformer_small")
    (tmp_path / "__init__.py").write_text(USR_DIR.format(prefix="transformer", camel="Reverse"))
    registry.load_usr_dir(tmp_path)
    assert registry.get_hparams("transformer_small").num_hidden_layers == 1
    assert registry.get_own_hparams("transformer_small") == ours
    assert "transformer_small" in capsys.readouterr().err
    registry.register_hparams(registry._HPARAMS["transformer_small"])  # as where it loads again
    assert not capsys.readouterr().err
    with pytest.raises(UserError, match="transformer_small"):
        registry.register_hparams(lambda: ours, name="transformer_small")
