"""A --t2t_usr_dir that was written for tensor2tensor, unchanged.

While the folder is loaded, and only then, `from tensor2tensor.utils import registry` and the like
find the contents of t2t_modules.py. An installed tensor2tensor is never shadowed.
"""

import contextlib
import functools
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from t2t_repro import registry
from t2t_repro.errors import UserError, suggest
from t2t_repro.interop import t2t_modules

_TOP = "tensor2tensor"


class Unsupported(UserError, ImportError):
    """A name of tensor2tensor that is not supported."""


def load(path: str, warn: Callable[[str], None] | None = None) -> None:
    """Loads the user's package at `path`, written for t2t_repro or for tensor2tensor.

    Args:
        path: a folder with an __init__.py.
        warn: receives warnings; None: stderr.

    Raises:
        UserError: if it is no package, or uses an unsupported name of tensor2tensor; it names a
            replacement.
    """
    with _modules(warn or _say):
        registry.load_usr_dir(path)


@contextlib.contextmanager
def _modules(warn: Callable[[str], None]) -> Iterator[None]:
    """Lets the supported modules of tensor2tensor be imported inside the block."""
    if importlib.util.find_spec(_TOP):
        yield
        return
    contents = {f"{_TOP}.{name}": names for name, names in t2t_modules.contents(warn).items()}
    packages = {name.rpartition(".")[0] for name in contents} | {_TOP}
    for name in sorted(packages | contents.keys()):
        module: Any = types.ModuleType(name)
        vars(module).update(contents.get(name, {}))
        if name in packages:
            module.__path__ = []
        module.__getattr__ = functools.partial(_attribute, contents, name)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(f"{_TOP}."):
            raise
        raise _unsupported(contents, str(error.name)) from error
    finally:
        for name in packages | contents.keys():
            del sys.modules[name]


def _attribute(contents: dict[str, dict[str, Any]], module: str, name: str) -> Any:
    """Returns an attribute of a module that is not among its contents."""
    found = None
    if module == f"{_TOP}.models.transformer":
        found = t2t_modules.hparam_set(name)
    elif module == f"{_TOP}.data_generators.text_problems":
        found = t2t_modules.text_problem(name)
    if found is None:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unsupported(contents, f"{module}.{name}")
    return found


def _unsupported(contents: dict[str, dict[str, Any]], full: str) -> Unsupported:
    """Returns the error for an unsupported name."""
    instead = t2t_modules.INSTEAD.get(full.removeprefix(f"{_TOP}."))
    module, _, name = full.rpartition(".")
    if instead is None and module == f"{_TOP}.models.transformer":
        known = registry.list_hparams()
        instead = f"t2t-trainer --registry_help lists the supported sets.{suggest(name, known)}"
    elif instead is None and module in contents:
        known = sorted(contents[module])
        instead = f"from {module} you may import: {', '.join(known)}.{suggest(name, known)}"
    elif instead is None:
        have = sorted(name.removeprefix(f"{_TOP}.") for name in contents)
        instead = f"a --t2t_usr_dir may import these modules of tensor2tensor: {', '.join(have)}"
    return Unsupported(f"{full} is not supported by t2t_repro: {instead}".rstrip(".") + ".")


def _say(text: str) -> None:
    print(f"t2t_usr_dir: warning: {text}", file=sys.stderr)
