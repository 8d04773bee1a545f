"""Imports go downwards only: who may know whom, and what stays free of I/O."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.targets.target import Target

ROOT = Path(__file__).parent.parent / "src" / "tensorsmith"

#: each folder or module, and what of tensorsmith it may import besides itself
ALLOWED = {
    "errors": {"show"},
    "files": set(),  # as show
    "elements": set(),  # as show
    "show": set(),  # which everyone but plugins may import: see below
    "plugins": {"errors"},
    "targets": {"errors"},
    "lang": {"errors"},
    "ops": {"errors", "lang"},
    "rewrites": {"errors", "lang", "ops"},
    "space": {"errors", "targets", "lang", "program"},
    "program": {"errors", "targets", "lang", "space"},
    "backends": {"errors", "plugins", "targets", "lang", "space", "program", "learn", "runtime"},
    "runtime": {"errors", "targets"},
    "learn": {"errors", "plugins", "space", "program"},
    "search": {"errors", "plugins", "targets", "lang", "space", "program", "learn", "backends"},
    "baselines": {"errors", "targets", "lang", "space", "program", "learn", "search", "backends"},
    "records": {"errors", "targets", "lang", "ops", "space", "program", "backends", "search"},
    "graph": {"errors", "targets", "lang", "ops", "rewrites", "runtime"},
    "frontends": {"errors", "targets", "lang", "ops", "graph", "runtime", "compile", "tune", "language"},
    "serve": {"errors", "language"},
    "language": {"errors", "targets", "lang", "ops", "graph", "runtime", "compile"},
    "build": {"errors", "targets", "lang", "rewrites", "space", "program", "backends", "runtime"},
    "carried": {"errors", "targets", "lang", "rewrites", "space", "backends", "records"},
    "predicted": {"errors", "targets", "lang", "rewrites", "space", "backends", "learn", "search", "records"},
    "locking": {"errors", "targets", "lang", "rewrites", "space", "runtime", "records"},
    "compile": {"errors", "targets", "lang", "rewrites", "graph", "runtime", "records", "build", "carried", "predicted", "locking"},
    "measure": {"errors", "plugins", "targets", "lang", "rewrites", "space", "program", "backends", "runtime", "build", "search"},
    "tuning": {
        "backends",
        "errors",
        "plugins",
        "targets",
        "lang",
        "rewrites",
        "graph",
        "space",
        "learn",
        "search",
        "measure",
        "records",
        "runtime",
        "build",
        "compile",
    },
    "testing": {
        "errors",
        "backends",
        "build",
        "targets",
        "lang",
        "ops",
        "space",
        "program",
        "learn",
        "search",
        "measure",
        "runtime",
    },
    "tune": {"errors", "targets", "lang", "rewrites", "graph", "compile", "learn", "search", "runtime", "tuning"},
    "report": {
        "errors",
        "targets",
        "lang",
        "rewrites",
        "graph",
        "space",
        "program",
        "backends",
        "runtime",
        "records",
        "tuning",
    },
    "onnxruntime": {"errors", "targets", "graph", "frontends", "runtime", "compile"},
    "cli": {
        "backends",
        "errors",
        "targets",
        "lang",
        "ops",
        "rewrites",
        "space",
        "graph",
        "frontends",
        "language",
        "serve",
        "compile",
        "records",
        "runtime",
        "learn",
        "measure",
        "tuning",
    }
    | {"tune", "report", "locking"},
}
for _name in set(ALLOWED) - {"errors", "plugins", "show", "elements", "files"}:  # what objects show of themselves, all may use
    ALLOWED[_name] |= {"show", "elements", "files"}


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
    assert imported(path) - {own} <= ALLOWED[own]


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def needed(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports, inside functions and for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{a.name}" for a in node.names}
            found |= {name if name in known else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found & set(known)


#: folders whose modules are in no circle of imports, however late these happen
WITHOUT_CIRCLES = ("lang", "ops", "rewrites", "graph", "frontends", "records")


def test_no_imports_in_a_circle() -> None:
    known = modules()
    graph = {name: needed(path, known) - {name} for name, path in known.items()}
    reached = {name: set(direct) for name, direct in graph.items()}
    while True:
        more = {name: found.union(*(reached[x] for x in found)) for name, found in reached.items()}
        if more == reached:
            break
        reached = more
    circles = [name for name, found in reached.items() if name in found]
    assert [name for name in circles if set(name.split(".")[1:2]) & set(WITHOUT_CIRCLES)] == []


def facts_of_one_kind() -> set[str]:
    """The names of what only one kind of target has: its class's own, less those that every target has."""
    every = {*dir(Target), *Target.__annotations__}
    own = {name for kind in (CpuTarget, GpuTarget) for name in (*dir(kind), *kind.__dataclass_fields__)}
    return {name for name in own if not name.startswith("_")} - every


#: words that others use for other things are facts only where they are asked of a target
ONLY_OF_TARGETS = {"has", "features", "cpu", "chains", "triple", "in_order"}
ONLY_OF_TARGETS |= {"device", "dialect", "warp", "registers", "shared_bytes", "threads", "clock", "flops", "bytes_per_second"}


def read(path: Path) -> set[str]:
    """The facts of one kind of target that a file reads."""
    facts, found = facts_of_one_kind(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        of_target = owner == "target" or owner.endswith("_target")
        if node.attr in (facts if of_target else facts - ONLY_OF_TARGETS):
            found.add(f"{owner}.{node.attr}")
    return found


def backend_modules(path: Path) -> set[str]:
    """The modules inside of backends that a file imports; the record is in `tensorsmith.backends` itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return {name for name in found if name.startswith("tensorsmith.backends.") and name != "tensorsmith.backends.backend"}


#: all but the folders of backends
OUTSIDE = [p for p in FILES if p.relative_to(ROOT).parts[0] != "backends"]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_a_backend_knows_its_modules_and_the_facts_of_its_targets(path: Path) -> None:
    assert not backend_modules(path)
    assert not read(path)


def test_facts_are_noticed(tmp_path: Path) -> None:
    """The test above can fail."""
    (tmp_path / "file.py").write_text(
        "def f(target, tile):\n    return target.l2_bytes + tile.features + self.target.cpu + x.l1_ways\n"
    )
    assert read(tmp_path / "file.py") == {"target.l2_bytes", "target.cpu", "x.l1_ways"}
    (tmp_path / "file.py").write_text(
        "from tensorsmith.backends import backend_of\nfrom tensorsmith.backends.cpu.link import link\n"
    )
    assert backend_modules(tmp_path / "file.py") == {"tensorsmith.backends.cpu.link"}


@pytest.mark.parametrize("verb", ["tensorsmith.measure.worker", "tensorsmith.measure.network_worker"])
def test_workers_load_no_more_than_they_need(verb: str) -> None:
    """A worker builds and runs; it knows no records, no networks as graphs, no models that learn."""
    script = f"import {verb}; print(*sorted(m for m in sys.modules if m.startswith('tensorsmith.')))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    blocked = "import sys, types; package = types.ModuleType('tensorsmith'); package.__path__ = [sys.argv[1]]; "
    blocked += "sys.modules['tensorsmith'] = package; "  # without the public names, which load everything
    done = subprocess.run(
        [sys.executable, "-c", blocked + script, str(ROOT)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    folders = {name.split(".")[1] for name in done.stdout.split()}
    assert not folders & {"records", "compile", "graph", "tuning", "frontends"}, sorted(folders)


def test_the_public_names_are_few() -> None:
    """The words of definitions are not counted: most are NumPy's, and whoever writes a definition looks for them by name."""
    import tensorsmith
    from tensorsmith.lang import words

    assert len(set(tensorsmith.__all__) - set(words.__all__)) <= 20
    assert all(hasattr(tensorsmith, name) for name in tensorsmith.__all__)


def test_every_word_of_the_language_is_a_public_name() -> None:
    import tensorsmith
    from tensorsmith.lang import words
    from tensorsmith.lang.expr import FLOAT_FUNCTIONS, REDUCTIONS

    assert {*FLOAT_FUNCTIONS, *REDUCTIONS} <= set(words.__all__)
    assert all(getattr(tensorsmith, name) is getattr(words, name) for name in words.__all__)
    assert set(words.__all__) <= set(tensorsmith.__all__)
    assert all(re.search(rf"\b{name}\b", tensorsmith.__doc__ or "") for name in words.__all__ if name != "workload")
