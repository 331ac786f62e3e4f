"""TensorFlow is loaded in silence, and Keras finds the package's classes by name."""

import importlib
import os
import subprocess
import sys

import keras
import pytest

import t2t_repro


def program(folder, tensorflow: str, **environment) -> subprocess.CompletedProcess:
    """Runs a program that loads a TensorFlow of ours."""
    (folder / "tensorflow.py").write_text(tensorflow)
    code = "from t2t_repro import imports as i; i.quiet_tensorflow(); import tensorflow as t"
    return subprocess.run(
        [sys.executable, "-c", f"{code}; print(t.done)"],
        env=os.environ | {"PYTHONPATH": f"{folder}:{os.getcwd()}"} | environment,
        capture_output=True,
        timeout=60,
    )


OURS = """
import os, types
config = types.SimpleNamespace(list_physical_devices=lambda kind: os.write(2, b"listed\\n"))
os.write(2, %r)
assert __spec__.loader is __loader__ and type(__loader__).__name__ == "SourceFileLoader"
done = "done"
"""


@pytest.mark.parametrize("level", ["2", "0"])
def test_tensorflow_is_loaded_in_silence_unless_its_words_are_asked_for(tmp_path, level):
    ended = program(tmp_path, OURS % b"words\n", TF_CPP_MIN_LOG_LEVEL=level)
    assert ended.stdout == b"done\n"
    assert ended.stderr == (b"" if level == "2" else b"words\n")


LOAD = """
import sys
import t2t_repro
assert "keras" not in sys.modules and "numpy" not in sys.modules
import keras
for path in sys.argv[1:]:
    model = keras.saving.load_model(path)
    print(type(model) is t2t_repro.Transformer, model.compiled, model.count_params())
"""


def test_every_class_that_keras_is_told_of_is_there():
    for module, names in t2t_repro._SAVED.items():
        for name in names:
            cls = getattr(importlib.import_module(f"t2t_repro.{module}"), name)
            assert keras.saving.get_registered_object(f"t2t_repro>{name}") is cls


@pytest.mark.slow
def test_load_model_in_a_new_process(tmp_path):
    from t2t_repro.training import optimizers

    hparams = t2t_repro.get_hparams("transformer_test", "hidden_size=8,num_heads=2")
    model = t2t_repro.Transformer.from_hparams(hparams, inputs_vocab_size=11, targets_vocab_size=11)
    model.save(tmp_path / "plain.keras")
    model.compile(optimizers.from_hparams(hparams), metrics=["accuracy"])
    model.save(tmp_path / "compiled.keras")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, tmp_path / "plain.keras", tmp_path / "compiled.keras"],
        cwd=os.path.dirname(os.path.dirname(t2t_repro.__file__)),
        capture_output=True,
        text=True,
        timeout=500,
    )
    size = model.count_params()
    assert done.stdout.split("\n")[:2] == [f"True False {size}", f"True True {size}"], done.stderr
