"""Readable text of expressions: what nodes say of themselves, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from tensorsmith.lang.visit import HasOperands, parts

Names = Mapping[object, str]  # of parts that are written once, before the rest

#: how operators read, and how tightly they bind
INFIX = {
    "or": ("|", 1), "and": ("&", 2), "lt": ("<", 3), "le": ("<=", 3), "eq": ("==", 3), "ne": ("!=", 3),
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "mod": ("%", 5),
}  # fmt: skip
TIGHTEST = 6


class Shown(HasOperands, Protocol):
    """A node that reads as a text, in parentheses where it binds less tightly than `level`."""

    def text(self, names: Names, level: int = 0) -> str: ...


class HasExtent(Protocol):
    """An axis."""

    @property
    def name(self) -> str: ...

    @property
    def extent(self) -> int: ...


def show(e: Shown) -> str:
    """`e` as one line; parentheses only where the precedence asks for them. Where that would be too long, with names for parts.

    t2 + t2 where t1 = A[i] + 1.0; t2 = t1 * t1
    """
    names: dict[object, str] = {}
    named = []
    for part in parts(e):
        text = part.text(names)
        names[part] = f"t{len(names) + 1}"
        named.append(f"{names[part]} = {text}")
    return f"{inside(e, names)}{' where ' if named else ''}{'; '.join(named)}"


def inside(e: Shown, names: Names, level: int = 0) -> str:
    """An operand: by its name, if it has one."""
    return names[e] if e in names else e.text(names, level)


def call(function: str, names: Names, *operands: Shown) -> str:
    return f"{function}({', '.join(inside(x, names) for x in operands)})"


def axes_text(axes: Iterable[HasExtent]) -> str:
    """`i<512, j<512`"""
    return ", ".join(f"{a.name}<{a.extent}" for a in axes)
