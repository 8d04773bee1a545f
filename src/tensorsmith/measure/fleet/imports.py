"""What a node imports for a tuner: of the modules and files that messages name, those alone that the node's own user allowed.

A kind of machine that is not the package's own (`Backend.module`) has to be imported before anything can be built for it, and tests
have hooks in files. `TENSORSMITH_NODE_IMPORTS`, in the environment of the node, names both, with commas between them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tensorsmith.backends.backend import known_modules
from tensorsmith.errors import UserError

IMPORTS = "TENSORSMITH_NODE_IMPORTS"  # the environment variable


def check_import(place: object, environment: Mapping[str, str] = os.environ) -> None:
    """Raises `UserError` unless a module, or a file, may be imported here. None and "" stand for nothing to import."""
    if place in (None, ""):
        return
    allowed = {name.strip() for name in environment.get(IMPORTS, "").split(",")} - {""}
    if not isinstance(place, str):
        raise UserError(f"a module is named by a text, {place!r:.80} given")
    if place not in allowed | known_modules():
        raise UserError(
            f"this node does not import {place!r:.200} for a tuner; if that is yours, allow it in the environment of the node: "
            f"{IMPORTS}={place:.200}"
        )


def check_hook(place: object, environment: Mapping[str, str] = os.environ) -> None:
    """The same of a test's hook, "file.py:function"."""
    check_import(place.rpartition(":")[0] or place if isinstance(place, str) else place, environment)
