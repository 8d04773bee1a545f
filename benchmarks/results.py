"""Files of results, `docs/results/NAME.json`: what one table of the docs was made from, and what is known about its making.

    {"table": "operators-b1", "commit": "...", "dirty": false, "quick": false, "date": ..., "command": ..., "seconds": ...,
     "machine": {"cpu", "cores", "memory_bytes", "system"}, "versions": {"Python", "torch", ...}, "search": {...},
     "cases": {case: {"seconds": {competitor: best}, "median_seconds": {competitor: median}, "disturbed": share, ...}}}

The commit is the last one that changed the measured code (`CODE`): commits that only add results or change pages do not make a
result older than it is. A file that was made from changed code, or with the small settings of `--quick`, is not publishable, and
says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import about
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.learn.pretrained import path_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
CODE = ("src", "benchmarks")  # what a figure depends on
PACKAGES = (*about.PACKAGES, "transformers", "halide", "apache-tvm", "nncf")
LEARNED_FROM = (
    "the paper's operators at batch 1, its operators at random shapes and random groups of operators "
    "(benchmarks/collect.py, seed 0); not from batch 16, from networks, or from benchmarks/drawn.py"
)

Result = dict[str, Any]


class NotCommitted(Exception):
    """The measured code differs from every commit."""


def git(*words: str) -> str | None:
    """What git says; None without git or outside of a repository."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files() -> list[str]:
    """Files of the measured code that differ from the last commit, new ones too."""
    said = git("status", "--porcelain", "--", *CODE)
    return [line[2:].strip() for line in (said or "").splitlines()]


def code_commit() -> str:
    """The last commit that changed the measured code."""
    found = git("log", "-1", "--format=%H", "--", *CODE)
    if not found:
        raise NotCommitted("figures name the commit that they are of, and there is no git history here")
    return found


def provenance(table: str, command: str, *, quick: bool, dirty: bool = False) -> Result:
    """The head of a file of results. Raises `NotCommitted` for changed code, unless that is allowed and marked: `dirty`."""
    changed = changed_files()
    if changed and not dirty:
        raise NotCommitted(
            f"{', '.join(changed[:5])}{' and others' if len(changed) > 5 else ''} differ from the last commit: commit them, "
            "or give --dirty for figures that cannot be published"
        )
    run = about.about([command])
    return {
        "table": table,
        "commit": code_commit(),
        "dirty": bool(changed),
        "quick": quick,
        "date": run["date"],
        "command": command,
        "machine": {"cpu": run["cpu"], "cores": run["cores"], "memory_bytes": memory_bytes(), "system": run["system"]},
        "versions": versions(run),
        "search": {"database": "none: every search starts with an empty one", "pretrained_model": pretrained()},
    }


def versions(run: Mapping[str, Any]) -> dict[str, str | None]:
    """Of Python, of the C++ compiler and of every package that may take part; None: not installed."""
    found = {"Python": run["python"], "C++ compiler": run["compiler"]}
    return found | {name: about._version(name) for name in PACKAGES}


def pretrained() -> dict[str, str | None]:
    """The model that searches start with, by its content, and what it learned from."""
    path = path_of(SCHEMA)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
    return {"sha256": content, "learned_from": LEARNED_FROM}


def memory_bytes() -> int:
    """Of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# -- what scripts write, as cases ----------------------------------------------------------------------------------------


def _rows(form: Mapping[str, Any]) -> dict[str, Any]:
    return {case: row for case, row in form.items() if case != "_run"}


def _policies(form: Mapping[str, Any]) -> dict[str, Any]:
    """By policy: the speed after so many trials on each workload, relative to the best program that anyone found."""
    names = dict.fromkeys(policy for speeds in form["speeds"].values() for policy in speeds)
    return {name: {"speeds": {n: s[name] for n, s in form["speeds"].items() if name in s}} for name in names}


def _kernels(form: Mapping[str, Any]) -> dict[str, Any]:
    """By network: each kernel's seconds and bound."""
    kept = ("name", "calls", "seconds", "bound", "limit", "share")
    return {network: {"kernels": [{key: k[key] for key in kept} for k in found]} for network, found in _rows(form).items()}


#: by the form of a script's JSON file
CASES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "rows": _rows,
    "models": lambda form: form["models"],
    "policies": _policies,
    "kernels": _kernels,
    "tasks": lambda form: form["rows"],
}


# -- files ---------------------------------------------------------------------------------------------------------------


def write(path: Path, result: Result) -> None:
    """At once or not at all: a run that is stopped leaves no half file that would count as done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)


def read(path: Path) -> Result:
    found: Result = json.loads(path.read_text(encoding="utf-8"))
    return found


def is_done(path: Path, head: Result) -> bool:
    """Whether a file is of the same code, command and settings, so that nothing has to be measured again."""
    if not path.exists():
        return False
    found = read(path)
    return not found["dirty"] and not head["dirty"] and all(found[key] == head[key] for key in ("commit", "command", "quick"))
