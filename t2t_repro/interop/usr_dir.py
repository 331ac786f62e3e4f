"""A --t2t_usr_dir that was written for tensor2tensor, unchanged.

While the folder is loaded, and only then, `from tensor2tensor.utils import registry` and the like
find what is in t2t_modules.py. An installed tensor2tensor is never shadowed.
"""

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from t2t_repro import registry
from t2t_repro.errors import UserError, suggest
from t2t_repro.interop import t2t_modules

_TOP = "tensor2tensor"


class Unsupported(UserError, ImportError):
    """A name of tensor2tensor's that is not here."""


def load(path: str, warn: Callable[[str], None] | None = None) -> None:
    """Loads the user's package at `path`, written for t2t_repro or for tensor2tensor.

    Args:
        path: a folder with an __init__.py.
        warn: receives warnings; None: stderr.

    Raises:
        UserError: if it is no package; if it uses a name of tensor2tensor's that is not here:
            which, and what to write instead.
    """
    with _imports(warn or _say):
        registry.load_usr_dir(path)


@contextlib.contextmanager
def _imports(warn: Callable[[str], None]) -> Iterator[None]:
    """Finds tensor2tensor's modules inside the block."""
    shim = _Shim(t2t_modules.contents(warn))
    sys.meta_path.append(shim)  # last: an installed tensor2tensor is found before
    try:
        yield
    finally:
        sys.meta_path.remove(shim)
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Module):
                del sys.modules[name]


class _Shim:
    """A finder and loader of the modules in `contents`."""

    def __init__(self, contents: dict[str, dict[str, Any]]):
        self.contents = {f"{_TOP}.{name}": names for name, names in contents.items()}
        self.packages = {name.rpartition(".")[0] for name in self.contents} | {_TOP}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _TOP and not isinstance(sys.modules.get(_TOP), _Module):
            return None
        if name in self.packages or name in self.contents:
            package = name in self.packages
            return importlib.machinery.ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]
        if name.startswith(f"{_TOP}."):
            raise self.unsupported(name)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> "_Module":
        return _Module(spec.name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(self.contents.get(module.__name__, {}))

    def attribute(self, module: str, name: str) -> Any:
        """What a module has beyond its contents."""
        full = f"{module}.{name}"
        if name.startswith("__") or full in self.packages or full in self.contents:
            raise AttributeError(name)  # the import system goes on to look for a module
        found = None
        if module == f"{_TOP}.models.transformer":
            found = t2t_modules.hparam_set(name)
        elif module == f"{_TOP}.data_generators.text_problems":
            found = t2t_modules.text_problem(name)
        if found is None:
            raise self.unsupported(full)
        return found

    def unsupported(self, full: str) -> Unsupported:
        """The error for a name that is not here."""
        short = full.removeprefix(f"{_TOP}.")
        instead = t2t_modules.INSTEAD.get(short)
        module, _, name = full.rpartition(".")
        if instead is None and module == f"{_TOP}.models.transformer":
            known = registry.list_hparams()
            instead = f"its sets are those of t2t-trainer --registry_help.{suggest(name, known)}"
        elif instead is None and module in self.contents:
            known = sorted(self.contents[module])
            instead = f"{module} has here: {', '.join(known)}.{suggest(name, known)}"
        elif instead is None:
            have = sorted(name.removeprefix(f"{_TOP}.") for name in self.contents)
            instead = f"of tensor2tensor, a --t2t_usr_dir may import {', '.join(have)}"
        return Unsupported(f"{full} is not supported by t2t_repro: {instead}".rstrip(".") + ".")


class _Module(types.ModuleType):
    """A module of tensor2tensor's, as far as it is here."""

    def __init__(self, name: str, shim: _Shim):
        super().__init__(name)
        self._shim = shim

    def __getattr__(self, name: str) -> Any:
        return self._shim.attribute(self.__name__, name)


def _say(text: str) -> None:
    print(f"t2t_usr_dir: warning: {text}", file=sys.stderr)
