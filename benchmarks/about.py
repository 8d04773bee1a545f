"""What a run was: the command, the machine, the commit and the versions of everyone who took part."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorsmith.targets.target import native

PACKAGES = ("torch", "onnxruntime", "openvino", "onnx", "numpy", "llvmlite")
SEED = 0  # of the order of the rounds

About = dict[str, Any]


def about(words: Sequence[str] | None = None) -> About:
    """For the JSON file. `words` are those of the command line, the script's first; None means those of this process."""
    script, *arguments = sys.argv if words is None else words
    target = native()
    return {
        "command": shlex.join(["python", os.path.relpath(script, Path(__file__).parents[1]), *arguments]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": f"{_cpu()} ({target.cpu}, vectors of {8 * target.vector_bytes} bits)",
        "cores": target.cores,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": compiler(),
        "versions": {name: _version(name) for name in PACKAGES},
        "seed": SEED,
    }


def text(run: About) -> str:
    """In a few lines, for the top of the output."""
    commit = "not in a git repository" if run["commit"] is None else run["commit"][:12] + (", changed" if run["changed"] else "")
    versions = {"Python": run["python"], **run["versions"]}
    return "\n".join(
        [
            f"$ {run['command']}",
            f"{run['date']}, commit {commit}",
            f"{run['cpu']}, {run['cores']} cores, {run['system']}",
            ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items()),
        ]
    )


def contest_text(run: About) -> str:
    """The same, with what matters to a contest."""
    return "\n".join(
        [
            text(run),
            f"C++ compiler for torch.compile: {run['compiler'] or 'none, so torch.compile takes no part'}",
            f"order of the rounds drawn with seed {run['seed']}",
        ]
    )


def compiler() -> str | None:
    """The C++ compiler that torch.compile would find, if there is one, with its version."""
    found = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "clang++")))), None)
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return said[0] if said else Path(found).name


def _git(*words: str) -> str | None:
    """What git says of this folder; None without git or outside of a repository."""
    try:
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
