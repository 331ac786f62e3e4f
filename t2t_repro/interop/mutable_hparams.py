"""Hparam sets written as in tensor2tensor: assign, then return."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from t2t_repro import t2t_compat
from t2t_repro.config import FIELDS, HParams
from t2t_repro.errors import UserError, suggest
from t2t_repro.fields import parse_like, parse_overrides, parse_value


class _NoHparam(UserError, AttributeError):
    """An unknown name; as an AttributeError, so that `hasattr` and `getattr` work."""


class MutableHParams:
    """Collects assignments and becomes a frozen `HParams` by `freeze`; T2T's methods."""

    def __init__(self, base: HParams):
        object.__setattr__(self, "_own", dataclasses.asdict(base))
        object.__setattr__(self, "_foreign", {})  # T2T's other hparams, as far as they are assigned
        object.__setattr__(self, "_added", {})  # the user's own, which nothing here reads

    def __copy__(self) -> "MutableHParams":
        copied = object.__new__(type(self))
        vars(copied).update({name: dict(values) for name, values in vars(self).items()})
        return copied

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own:
            self._own[name] = value
        elif name in self._added:
            self._added[name] = value
        else:
            self._foreign[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        for values in (self._own, self._added, self._foreign):
            if name in values:
                return values[name]
        if name in t2t_compat.T2T_ONLY and t2t_compat.T2T_ONLY[name][0]:
            value = t2t_compat.default(name)
            return self._foreign.setdefault(name, {}) if value == {} else value
        raise _NoHparam(f"Unknown hparam. Received: {name!r}.{suggest(name, self._own)}")

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)

    def add_hparam(self, name: str, value: Any) -> None:
        """Assigns, or adds an hparam of the user's own."""
        if name not in self._own and name not in t2t_compat.T2T_ONLY:
            self._added[name] = value
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Assigns."""
        setattr(self, name, value)

    def del_hparam(self, name: str) -> None:
        """Removes a name that HParams lacks."""
        self._added.pop(name, None)
        self._foreign.pop(name, None)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value, or `default` where there is none."""
        return getattr(self, name, default)

    def values(self) -> dict[str, Any]:
        """Returns every value by its name."""
        return {**self._own, **self._foreign, **self._added}

    def override_from_dict(self, values: dict[str, Any]) -> "MutableHParams":
        """Assigns several."""
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def parse(self, text: str) -> "MutableHParams":
        """Assigns from "name=value,name=value".

        Raises:
            UserError: on an unknown name, or a value of another kind than the one that is there.
        """
        for name, value in parse_overrides(text).items():
            if name in self._own:
                self._own[name] = parse_value(FIELDS[name], value)
            else:
                setattr(self, name, parse_like(getattr(self, name), name, value))
        return self

    def to_json(self, **options: Any) -> str:
        """Returns every value as JSON."""
        return json.dumps(self.values(), **options)

    def freeze(self, where: str, warn: Callable[[str], None]) -> HParams:
        """Returns what was collected.

        Args:
            where: the name of the set, for messages.
            warn: gets a line for each of the user's own hparams, which nothing here reads.

        Raises:
            UserError: if an hparam that we lack has another value than T2T's default, or a value
                of ours is not possible.
        """
        t2t_compat.check(self._foreign, self._own)
        own = self._own.items()
        result = HParams(**{n: t2t_compat.from_t2t_value(FIELDS[n], v) for n, v in own})
        for name, value in self._added.items():
            warn(f"hparam set {where}: nothing in t2t_repro reads its {name}={value!r}.")
        return result
