"""For the reference: functions that other functions make (`exp`, `sum`, ...), which nobody sees who only reads the source."""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

import griffe

_WHERE = ("tensorsmith.lang.", "tensorsmith.ops.")


class MadeFunctions(griffe.Extension):
    """Adds what names mean at run time, where the source has an assignment in place of a definition."""

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        if not mod.path.startswith(_WHERE):
            return
        now = vars(importlib.import_module(mod.path))
        made = [n for n, f in now.items() if isinstance(f, FunctionType) and f.__module__ == mod.path and not n.startswith("_")]
        made = [n for n in made if n not in mod.members or mod.members[n].is_attribute]
        if made:
            inspected = griffe.inspect(mod.path, filepath=mod.filepath)
            for name in made:
                mod.set_member(name, inspected[name])
