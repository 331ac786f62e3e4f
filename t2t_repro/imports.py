"""Does something around the first import of a module that is slow to load, whoever imports it."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Gets the module, still empty, and what fills it.
Around = Callable[[ModuleType, Callable[[], None]], None]


def around(name: str, work: Around) -> None:
    """Lets `work` import a module that is not imported yet; the last one asked for has the module.

    Args:
        name: of the module, in full.
        work: is called once, with the empty module and a function that fills it.
    """
    sys.meta_path[:] = [f for f in sys.meta_path if getattr(f, "awaited", None) != name]
    sys.meta_path.insert(0, _Finder(name, work))


class _Finder:
    """Waits for the module, once."""

    def __init__(self, name: str, work: Around):
        self.awaited, self._work = name, work

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.awaited:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec and spec.loader
        if loader is None:
            return spec

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # from here on it is as if nobody had waited
            self._work(module, lambda: loader.exec_module(module))

        loader.exec_module = exec_module
        return spec
