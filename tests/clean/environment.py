"""An environment like that of somebody who has just come: a fresh venv, an empty home, none of this process's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATIENCE = 1800  # seconds, for what downloads or tunes


@dataclass(frozen=True)
class Environment:
    """A venv in a folder of its own, and a home beside it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """Nothing but a path with the venv's programs first, and a home in which there is nothing."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {"PATH": f"{self.python.parent}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}

    @staticmethod
    def make(folder: Path, *install: str) -> Environment:
        """A fresh one, with packages from the registry that pip is configured for here."""
        made = Environment(folder)
        run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
        made.install(*install)
        return made

    def install(self, *what: str) -> None:
        """With pip, configured as it is here."""
        configured = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        run([str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], self.folder, configured)

    def run(self, *command: str, folder: Path | None = None) -> str:
        """What a command prints, run in a folder where nothing of the project is."""
        where = folder or self.folder / "work"
        where.mkdir(exist_ok=True)
        return run(list(command), where, self.variables)


def run(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> str:
    """What a command prints; an error with all it said if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


def build(folder: Path, *options: str) -> list[Path]:
    """What `python -m build` makes of this checkout, in a folder."""
    run([sys.executable, "-m", "build", "--outdir", str(folder), *options, str(ROOT)], folder)
    return sorted(folder.glob("tensorsmith-*"))
