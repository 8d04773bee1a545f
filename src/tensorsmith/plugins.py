"""Plug-ins by name: built in, installed, registered, or from a module or a file of the user's own.

POLICIES.get("random")                    built in, or registered
POLICIES.get("autotvm")                   an entry point of an installed package: `tensorsmith.baselines` are found this way
POLICIES.get("my_module:MyPolicy")        what a module has under that name
POLICIES.get("folder/mine.py:MyPolicy")   what a file has under that name
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from tensorsmith.errors import UserError

T = TypeVar("T")


class Registry(Generic[T]):
    """The plug-ins of one kind. `what` they are is said in messages; those that are built in or installed are imported when they
    are first asked for."""

    def __init__(self, what: str, built_in: Mapping[str, str], group: str = "") -> None:
        """`built_in`: by name, the place of each as in "module:Name". The entry points of a `group` are installed ones."""
        self.what = what
        self.group = group
        self._built_in = dict(built_in)
        self._added: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._built_in, *installed(self.group), *self._added)))

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or name in self._added or name in installed(self.group)

    def add(self, name: str, plugin: T) -> None:
        """Makes a plug-in known to this process."""
        if name in self:
            raise UserError(f"there is a {self.what} called {name!r} already; give this one another name")
        if not name or ":" in name:
            raise UserError(f"a {self.what} cannot be called {name!r}; give it a name without a colon")
        self._added[name] = plugin

    def get(self, name: str) -> T:
        """The plug-in of a name, or what a module or file has, as in "module:Name"."""
        if name in self._added:
            return self._added[name]
        place = self._built_in.get(name) or installed(self.group).get(name)
        if place is not None:
            plugin: T = load(self.what, place)
            return plugin
        if ":" not in name:
            known = ", ".join(self.names())
            raise UserError(f'there is no {self.what} {name!r}; known are {known}, and "module:Name" gives one of your own')
        own: T = load(self.what, name)
        return own


@functools.cache
def installed(group: str) -> Mapping[str, str]:
    """The entry points of a group, of all installed packages: by name, the place of each. Nothing is imported."""
    if not group:
        return {}
    from importlib.metadata import entry_points  # it reads the metadata of every installed package: not before it is needed

    return {point.name: point.value for point in entry_points(group=group)}


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
