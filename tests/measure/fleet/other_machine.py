"""Commands that start a node as if it were on another machine: another environment, or a script in its place."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import tensorsmith

SOURCE = Path(tensorsmith.__file__).parent.parent


def elsewhere(folder: Path, **environment: str) -> str:
    """A command prefix whose Python has an environment of its own; what it stores goes to the folder."""
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "TMPDIR": str(folder), **environment}
    return shlex.join(["env", "-i", *(f"{name}={value}" for name, value in given.items()), sys.executable])


def script(path: Path, text: str) -> str:
    """An executable file, by its path."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
