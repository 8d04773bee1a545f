"""Imports go downwards only: who may know whom, and what stays free of I/O."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "tensorsmith"

#: each folder or module, and what of tensorsmith it may import besides itself
ALLOWED = {
    "errors": set(),
    "targets": {"errors"},
    "lang": {"errors"},
    "ops": {"errors", "lang"},
    "rewrites": {"errors", "lang", "ops"},
    "space": {"errors", "targets", "lang", "backends"},
    "program": {"errors", "targets", "lang", "space"},
    "backends": {"errors", "targets", "lang", "space", "program", "learn"},
    "runtime": {"errors", "targets"},
    "learn": {"errors", "targets", "lang", "space", "program", "backends"},
    "search": {"errors", "targets", "lang", "space", "program", "learn", "backends"},
    "records": {"errors", "targets", "lang", "space", "search"},
    "graph": {"errors", "targets", "lang", "ops", "rewrites", "runtime"},
    "frontends": {"errors", "targets", "lang", "ops", "graph", "runtime", "compile", "tune"},
    "compile": {"errors", "targets", "lang", "rewrites", "graph", "space", "program", "backends", "runtime", "records"},
    "measure": {"errors", "targets", "lang", "rewrites", "space", "program", "backends", "runtime", "compile", "search"},
    "tuning": {
        "backends",
        "errors",
        "targets",
        "lang",
        "rewrites",
        "graph",
        "space",
        "search",
        "measure",
        "records",
        "runtime",
        "compile",
    },
    "tune": {"errors", "targets", "lang", "graph", "compile", "search", "records", "runtime", "tuning"},
    "cli": {
        "backends",
        "errors",
        "targets",
        "lang",
        "ops",
        "space",
        "graph",
        "frontends",
        "compile",
        "records",
        "runtime",
        "learn",
        "tuning",
    }
    | {"tune"},
}


#: conveniences that reach upwards, imported when they are called: `candidate.explain()`
UPWARDS = {("space/sketch/sketch.py", "backends")}


def imported(path: Path) -> set[str]:
    """The first names below `tensorsmith` that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" if node.module == "tensorsmith" else node.module for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("tensorsmith.")}
    return found


#: all but the package's own `__init__`, which takes its names from everywhere
FILES = sorted(set(ROOT.rglob("*.py")) - {ROOT / "__init__.py"})


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_downwards(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in ALLOWED, f"{own} is new: say in this test what it may import"
    known = {above for file, above in UPWARDS if file == str(path.relative_to(ROOT))}
    assert imported(path) - {own} - known <= ALLOWED[own]


def test_the_public_names_are_few() -> None:
    import tensorsmith

    assert len(tensorsmith.__all__) <= 30
    assert all(hasattr(tensorsmith, name) for name in tensorsmith.__all__)
