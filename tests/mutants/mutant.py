"""A mutant: one small sabotage of the source, and the tests that have to fail because of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tensorsmith"


class OutOfDate(Exception):
    """The source is not what the mutant was written for."""


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new`, wherever in the source it stands: code may move to another file, but the text has to be there once.

    Every one of the `tests` has to fail, each a test's place as pytest writes it, without the part in brackets.
    """

    name: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A mutant applied: the file it is in, relative to the package, and its new text."""

    file: Path
    text: str


def sources(folder: Path = SOURCE) -> dict[Path, str]:
    """All files of the package, by their place in it."""
    return {path.relative_to(folder): path.read_text() for path in sorted(folder.rglob("*.py"))}


def applied(mutant: Mutant, texts: dict[Path, str]) -> Change:
    """The file that a mutant changes. Raises `OutOfDate` unless it changes just one function, class or constant."""
    found = [(file, text.count(mutant.old)) for file, text in texts.items() if mutant.old in text]
    if sum(count for _, count in found) != 1:
        places = ", ".join(f"{count} times in {file}" for file, count in found) or "nowhere"
        raise OutOfDate(f"mutant {mutant.name} is out of date: its old text has to be in the source once, and is {places}")
    ((file, _),) = found
    text = texts[file].replace(mutant.old, mutant.new)
    changed = _differing(texts[file], text)
    if changed != 1:
        raise OutOfDate(f"mutant {mutant.name} changes {changed} definitions of {file}; it has to be one")
    return Change(file, text)


def missing(test: str) -> str | None:
    """What is wrong with the place of a test, None if it exists."""
    file, _, name = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"there is no {file}"
    functions = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    return None if name in functions else f"there is no {name} in {file}"


def _differing(before: str, after: str) -> int:
    """How many statements of a module differ, those inside a class one by one."""
    one, other = _definitions(before), _definitions(after)
    return max(len(one), len(other)) - sum(a == b for a, b in zip(one, other))


def _definitions(text: str) -> list[str]:
    found = []
    for node in ast.parse(text).body:
        found += [ast.dump(member) for member in (node.body if isinstance(node, ast.ClassDef) else [node])]
    return found
