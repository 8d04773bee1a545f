"""Docstrings of what users call: each says what its arguments mean, and the main ones show how they are called."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import FunctionType

import pytest
from tests.docs.blocks import ROOT

import tensorsmith as ts
from tensorsmith import backends, testing
from tensorsmith.runtime.executable import Executable

#: functions of the package that a user begins with; those of the language have a page of examples
VERBS = [n for n in ts.__all__ if n != "UserError" and not getattr(ts, n).__module__.startswith("tensorsmith.lang")]
OPS = sorted(p.stem for p in (ROOT / "src/tensorsmith/ops").glob("[a-z]*.py"))


def members(of: type) -> Iterator[tuple[str, object]]:
    for name, found in vars(of).items():
        if not name.startswith("_"):
            yield name, found.fget if isinstance(found, property) else getattr(found, "func", getattr(found, "__func__", found))


@pytest.mark.parametrize("name", VERBS)
def test_the_main_names_show_how_they_are_used(name: str) -> None:
    thing = getattr(ts, name)
    text = inspect.getdoc(thing) or ""
    assert "\n\n    " in text, f"{name} has no example: lines that are indented more than the text"
    if isinstance(thing, FunctionType):
        silent = [p for p in inspect.signature(thing).parameters if f"`{p}`" not in text and f"{p}=" not in text]
        assert not silent, f"{name} does not say what {silent} means"


@pytest.mark.parametrize("name", testing.__all__)
def test_suites_show_how_they_are_used(name: str) -> None:
    text = inspect.getdoc(getattr(testing, name)) or ""
    assert text and (name == "BrokenPromise" or f"    {name}(" in text)


@pytest.mark.parametrize("name", [*ts.__all__, *(f"backends.{n}" for n in backends.__all__)])
def test_every_public_name_has_a_docstring(name: str) -> None:
    thing = getattr(backends, name.removeprefix("backends.")) if name.startswith("backends.") else getattr(ts, name)
    assert inspect.getdoc(thing)


@pytest.mark.parametrize("of", [Executable, ts.Model, ts.Target], ids=lambda c: c.__name__)
def test_every_method_has_a_docstring(of: type) -> None:
    assert [name for name, found in members(of) if callable(found) and not found.__doc__] == []


@pytest.mark.parametrize("module", OPS)
def test_every_operator_has_a_docstring(module: str) -> None:
    found = importlib.import_module(f"tensorsmith.ops.{module}")
    own = {n: f for n, f in vars(found).items() if isinstance(f, FunctionType) and f.__module__ == found.__name__}
    assert [n for n, f in own.items() if not n.startswith("_") and not f.__doc__] == []
