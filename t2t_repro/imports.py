"""Hooks around the first import of TensorFlow and of Keras.

TensorFlow's libraries print while they are loaded, whatever TF_CPP_MIN_LOG_LEVEL says: stderr leads
nowhere for that time. Keras learns this package's classes by name, so that
`keras.saving.load_model` works after `import t2t_repro`, which loads neither.
"""

import contextlib
import functools
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"


class _Finder:
    """Loads a module within a context, once."""

    def __init__(self, name: str, loading: Callable[[ModuleType], Any]):
        self._name, self._loading = name, loading

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if loader := spec and spec.loader:
            load = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with self._loading(module):
                    load(module)

            setattr(loader, "exec_module", exec_module)  # noqa: B010
        return spec


def quiet_tensorflow() -> None:
    """Lets TensorFlow load silently, unless the environment asks for its log."""
    level = os.environ.setdefault(VARIABLE, "2")
    log = logging.getLogger("tensorflow")
    if level not in ("2", "3") or _is_of_use in log.filters:
        return
    log.addFilter(_is_of_use)
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder("tensorflow", _quietly))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Returns False for the advice in TensorFlow's log against compiling for each shape, which the
    programs do on purpose."""
    return "triggered tf.function retracing" not in record.getMessage()


@contextlib.contextmanager
def _quietly(tensorflow: Any) -> Iterator[None]:
    """Drops what TensorFlow's libraries print while they are loaded; an import's error is Python's.

    What they say of a GPU, `devices.choose` says.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
        tensorflow.config.list_physical_devices("GPU")  # once, which is when CUDA speaks
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def register_classes(names: Mapping[str, Sequence[str]]) -> None:
    """Lets Keras, once imported, find classes that are imported on demand.

    Classes that they use need not be named: their modules import and register them.

    Args:
        names: {module of this package: names of classes}.
    """

    @contextlib.contextmanager
    def registering(keras: Any) -> Iterator[None]:
        yield
        known = keras.saving.get_custom_objects()
        for module in names:
            for name in names[module]:
                later = types.SimpleNamespace(from_config=functools.partial(_loaded, module, name))
                known.setdefault(f"t2t_repro>{name}", later)

    if "keras" in sys.modules:
        with registering(sys.modules["keras"]):
            pass
    else:
        sys.meta_path.insert(0, _Finder("keras", registering))


def _loaded(module: str, name: str, config: dict[str, Any]) -> Any:
    """Returns an object of a class of this package, made of what Keras has saved."""
    return getattr(importlib.import_module(f"t2t_repro.{module}"), name).from_config(config)
