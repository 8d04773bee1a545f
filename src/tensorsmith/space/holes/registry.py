"""The kinds of holes by name. Sketches ask for them, and built-in ones know sketches: they are imported when first asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from tensorsmith.errors import UserError
from tensorsmith.space.holes.kind import ChoiceKind, NumberKind

#: modules whose `KIND` is a kind, in the order of the columns of a nest
_NUMBERS = ("size", "parallel", "unroll", "threads", "pad", "run", "buffers", "matrix")
_CHOICES = ("at", "rows", "loops", "factor")

_added: list[NumberKind | ChoiceKind] = []


@functools.cache
def kinds() -> dict[str, NumberKind | ChoiceKind]:
    """All kinds by name."""
    built_in = [importlib.import_module(f"tensorsmith.space.holes.{name}").KIND for name in (*_NUMBERS, *_CHOICES)]
    return {k.name: k for k in (*built_in, *_added)}


@functools.cache
def number_kinds() -> tuple[NumberKind, ...]:
    """The kinds of open numbers, in the order in which a nest has them."""
    return tuple(k for k in kinds().values() if isinstance(k, NumberKind))


def number_kind(name: str) -> NumberKind:
    """The kind of open numbers of a name."""
    found = kinds().get(name)
    if not isinstance(found, NumberKind):
        raise UserError(f"there is no kind of open numbers called {name!r}; known are {', '.join(k.name for k in number_kinds())}")
    return found


def choice_kind(name: str) -> ChoiceKind:
    """The kind of choices of a name."""
    found = kinds().get(name)
    if not isinstance(found, ChoiceKind):
        known = [k.name for k in kinds().values() if isinstance(k, ChoiceKind)]
        raise UserError(f"there is no kind of choices called {name!r}; known are {', '.join(known)}")
    return found


def register_kind(kind: NumberKind | ChoiceKind) -> None:
    """Makes a kind of holes known to this process."""
    if kind.name in kinds():
        raise UserError(f"there is a kind of holes called {kind.name!r} already; give this one another name")
    _added.append(kind)
    _forget()


@contextmanager
def kinds_added(*new: NumberKind | ChoiceKind) -> Iterator[None]:
    """Registers kinds for the length of a `with` block."""
    before = list(_added)
    try:
        for kind in new:
            register_kind(kind)
        yield
    finally:
        _added[:] = before
        _forget()


def _forget() -> None:
    kinds.cache_clear()
    number_kinds.cache_clear()
