"""Keras finds the package's classes by name after `import t2t_repro` alone."""

import os
import pkgutil
import subprocess
import sys

import keras
import pytest

import t2t_repro
from t2t_repro import serializable

LOAD = """
import sys
import t2t_repro
assert "keras" not in sys.modules and "numpy" not in sys.modules
import keras
for path in sys.argv[1:]:
    model = keras.saving.load_model(path)
    print(type(model) is t2t_repro.Transformer, model.compiled, model.count_params())
"""


def all_modules():
    for package in ("layers", "models", "training"):
        path = os.path.join(os.path.dirname(t2t_repro.__file__), package)
        for module in pkgutil.iter_modules([path]):
            yield f"t2t_repro.{package}.{module.name}"


def test_every_class_is_listed():
    for name in all_modules():
        if not name.endswith("jax_step"):
            __import__(name)
    found: dict[str, set[str]] = {}
    for name, known in keras.saving.get_custom_objects().items():
        module = getattr(known, "__module__", "")
        if name.startswith("t2t_repro>") and module.startswith("t2t_repro."):
            if isinstance(known, type) and not known.__name__.startswith("_"):
                found.setdefault(module.removeprefix("t2t_repro."), set()).add(known.__name__)
    listed = {module: set(names) for module, names in serializable.CLASSES.items()}
    assert {module: names for module, names in found.items() if module in listed} == listed
    assert not set(found) - set(listed)


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
