"""Plug-ins by name: built in, registered, or from a module or a file of the user's own.

POLICIES.get("random")                    built in, or registered
POLICIES.get("my_module:MyPolicy")        what a module has under that name
POLICIES.get("folder/mine.py:MyPolicy")   what a file has under that name
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from tensorsmith.errors import UserError

T = TypeVar("T")


class Registry(Generic[T]):
    """The plug-ins of one kind. `what` they are is said in messages; `built_in` ones are imported when they are first asked for."""

    def __init__(self, what: str, built_in: Mapping[str, str]) -> None:
        """`built_in`: by name, the place of each as in "module:Name"."""
        self.what = what
        self._built_in = dict(built_in)
        self._added: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        return (*self._built_in, *self._added)

    def add(self, name: str, plugin: T) -> None:
        """Makes a plug-in known to this process."""
        if name in self.names():
            raise UserError(f"there is a {self.what} called {name!r} already; give this one another name")
        if not name or ":" in name:
            raise UserError(f"a {self.what} cannot be called {name!r}; give it a name without a colon")
        self._added[name] = plugin

    def get(self, name: str) -> T:
        """The plug-in of a name, or what a module or file has, as in "module:Name"."""
        if name in self._added:
            return self._added[name]
        if name in self._built_in:
            plugin: T = load(self.what, self._built_in[name])
            return plugin
        if ":" not in name:
            known = ", ".join(self.names())
            raise UserError(f'there is no {self.what} {name!r}; known are {known}, and "module:Name" gives one of your own')
        own: T = load(self.what, name)
        return own


def load(what: str, place: str) -> Any:
    """What a module or a file has under a name: "package.module:Name", "folder/file.py:Name"."""
    where, _, name = place.rpartition(":")
    try:
        module = _file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except Exception as problem:  # it is the user's own code
        hint = "" if where.endswith(".py") else f"; for a file here, write {where}.py:{name}"
        raise UserError(f"{what} {place!r}: {where} cannot be imported: {problem!r}{hint}") from problem
    if not hasattr(module, name):
        raise UserError(f"{what} {place!r}: {where} has nothing called {name!r}")
    return getattr(module, name)


def _file(path: Path) -> Any:
    """A Python file as a module, run once however often it is asked for."""
    path = path.resolve(strict=True)
    name = f"tensorsmith_plugin_{path.stem}_{abs(hash(str(path))):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
