"""The registry: hparam sets, problems and models by name, as T2T's utils/registry.py.

This module alone imports the catalogues, when the first name is looked up. They lie beside the
package in a checkout (`hparams/`, `problems/`) and inside it in an installed wheel.
"""

import collections
import dataclasses
import functools
import importlib
import multiprocessing
import pathlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from t2t_repro.config import BYTENET, RECURRENT, TRANSFORMER, HParams, snake_case
from t2t_repro.errors import UserError, unknown

# Of each kind the user's names, then this package's: the user's go before.
_HPARAMS: collections.ChainMap[str, Callable[[], HParams]] = collections.ChainMap({}, {})
_PROBLEMS: collections.ChainMap[str, type] = collections.ChainMap({}, {})
_MODELS: collections.ChainMap[str, Any] = collections.ChainMap(  # or the module that registers it
    {}, {TRANSFORMER: "transformer", **dict.fromkeys(RECURRENT, "lstm"), BYTENET: "bytenet"}
)
_MADE_FOR: dict[str, str] = {}  # hparam set: problem
_USR_DIRS: dict[str, str] = {}  # a user's package: its folder
_REVERSED = "_rev"


def register_hparams(
    function: Callable[[], HParams] | None = None, *, name: str = "", problem: str = ""
) -> Any:
    """Registers a function that returns a complete HParams, and returns it.

    It may replace a set of this package's catalogue; the same holds for problems.

    Args:
        function: makes the set; None: a decorator is returned, as in
            `@register_hparams(problem="translate_ende_wmt14")`.
        name: of the set; "": the function's own.
        problem: the set's own, which t2t-trainer takes if none is named; "": none.

    Raises:
        UserError: if the user has registered another set of this name.
    """
    if function is None:
        return functools.partial(register_hparams, name=name, problem=problem)
    name = name or function.__name__
    _MADE_FOR[name] = problem
    return _register(_HPARAMS, "hparam set", name, function)


def register_problem(cls: type, *, name: str = "") -> type:
    """Registers a Problem class.

    Args:
        cls: the class.
        name: of the problem; "": the class's in snake case, as T2T's `default_name`.
    """
    name = name or snake_case(cls.__name__)
    setattr(cls, "name", name)  # noqa: B010 (any class may be registered)
    return _register(_PROBLEMS, "problem", name, cls)


def register_model(cls: type, *, name: str = "") -> type:
    """Registers a model: a class that derives from `models.sequence_model.SequenceModel`.

    Args:
        cls: the class.
        name: of the model; "": the class's in snake case, as T2T's `default_name`.
    """
    return _register(_MODELS, "model", name or snake_case(cls.__name__), cls)


def get_model(name: str) -> Any:
    """Returns the class of the model `name`, which is imported for it.

    Raises:
        UserError: on an unknown model; the nearest names are given.
    """
    check_model(name)
    if isinstance(_MODELS[name], str):
        importlib.import_module(f"{__package__}.models.{_MODELS[name]}")
    return _MODELS[name]


def check_model(name: str) -> None:
    """Refuses an unknown model, without importing any."""
    if name not in _MODELS:
        raise unknown("model", name, _MODELS)


def list_models() -> list[str]:
    """Returns the names of all models, sorted."""
    return sorted(_MODELS)


def get_hparams(name: str, overrides: Any = "", model: str | None = None, **settings) -> HParams:
    """Returns the hparam set `name` with changes applied.

    Args:
        name: of the set.
        overrides: changes to it: "hidden_size=64,num_heads=4", or a dict.
        model: which model it is to be for; None: the one that it says.
        settings: changes, too: hidden_size=64, num_heads=4.

    Raises:
        UserError: on an unknown set, model or hparam (the nearest names are given), or a bad value.
    """
    if name not in list_hparams():
        raise unknown("hparam set", name, _HPARAMS)
    hparams = _HPARAMS[name]()
    hparams = dataclasses.replace(hparams, model=model or hparams.model)
    hparams = hparams.override(overrides, **settings)
    check_model(hparams.model)
    return hparams


def get_own_hparams(name: str) -> HParams:
    """Returns this package's hparam set `name`, also if a user's replaces it.

    Raises:
        UserError: as `get_hparams`.
    """
    _, ours = _HPARAMS.maps
    return ours[name]() if name in ours else get_hparams(name)


def problem_of_hparams(name: str) -> str:
    """Returns the problem that the hparam set `name` was made for; "": none.

    Raises:
        UserError: on an unknown set; the nearest names are given.
    """
    get_hparams(name)
    return _MADE_FOR[name]


def get_problem(name: str):
    """Returns the problem `name`; `name` + "_rev" swaps its inputs and targets.

    Raises:
        UserError: on an unknown problem; the nearest names are given.
    """
    _load_catalogue("problems")
    forward = name.removesuffix(_REVERSED)
    if name in _PROBLEMS:
        return _PROBLEMS[name]()
    if forward in _PROBLEMS:
        return _PROBLEMS[forward](was_reversed=True)
    raise unknown("problem", name, list_problems())


def list_hparams() -> list[str]:
    """Returns the names of all hparam sets, sorted."""
    _load_catalogue("hparams")
    return sorted(_HPARAMS)


def list_problems() -> list[str]:
    """Returns the names of all problems, sorted. Each also exists with "_rev" at the end."""
    _load_catalogue("problems")
    return sorted(_PROBLEMS)


def load_usr_dir(path: str) -> None:
    """Imports the user's own package at `path`, which registers problems and hparam sets.

    As T2T's utils/usr_dir.py. The catalogues load first, so that a name clash is found here.

    Raises:
        UserError: if there is no such folder, it has no `__init__.py`, or another package that is
            loaded has its name.
    """
    folder = pathlib.Path(path).expanduser().resolve()
    init = folder / "__init__.py"
    if not init.is_file():
        raise UserError(f"Expected --t2t_usr_dir=FOLDER with an __init__.py. Received: {path!r}.")
    _load_catalogue("hparams")
    _load_catalogue("problems")
    sys.path.insert(0, str(folder.parent))
    try:
        module = importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
    if module.__file__ != str(init):
        raise UserError(
            f"Expected no other package with the name of --t2t_usr_dir={path}. "
            f"Received: {module.__file__}. Rename your folder."
        )
    _USR_DIRS[folder.name] = str(folder)


def usr_dir_of(cls: type) -> str:
    """Returns the folder of the user's package that defines a class; "": none does."""
    return _USR_DIRS.get(cls.__module__.partition(".")[0], "")


def _register(table: collections.ChainMap, kind: str, name: str, value: Any) -> Any:
    users, ours = table.maps
    if value.__module__.startswith(f"{__package__}."):
        ours[name] = value
        return value
    there = users.get(name, value)
    # One definition may be executed again, as where a package is loaded once more.
    where, other = (f"{each.__module__}.{each.__qualname__}" for each in (value, there))
    if where != other:
        raise UserError(
            f"Expected a new name for the {kind} {where}. Received: {name!r}, the name of {other}."
        )
    # Once: those whom a program starts load the package again.
    if name in ours and name not in users and not multiprocessing.parent_process():
        print(f"Warning: your {kind} {name} replaces t2t_repro's.", file=sys.stderr)
    users[name] = value
    return value


@functools.cache
def _load_catalogue(name: str) -> None:
    """Imports every module of t2t_repro.{hparams,problems}, once."""
    places = sys.modules[str(__package__)].__path__
    places.append(str(pathlib.Path(__file__).parents[1]))  # of a checkout
    try:
        catalogue = importlib.import_module(f"{__package__}.{name}")
    finally:
        places.pop()
    for module in pkgutil.iter_modules(catalogue.__path__):
        importlib.import_module(f"{catalogue.__name__}.{module.name}")
