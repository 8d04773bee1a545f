"""Names that C takes, made of names that it may not take."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: of C11 and C++17, and what our own functions call their variables
_WORDS = (
    "alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default delete do "
    "double else enum explicit export extern false float for friend goto if inline int long main mutable namespace new "
    "noexcept not nullptr operator or private protected public register restrict return short signed sizeof static "
    "struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile "
    "while xor model threads weights inputs outputs arguments code n"
)
_TAKEN = frozenset(_WORDS.split())


def c_name(text: str) -> str:
    """A name for C that resembles a text."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    if not name or name[0].isdigit():
        name = f"x{name}"
    return f"{name}_" if name in _TAKEN else name


def c_names(texts: Iterable[str]) -> list[str]:
    """A name for each, all different, whichever case they are written in."""
    found: list[str] = []
    taken: set[str] = set()
    for text in texts:
        name = first = c_name(text)
        count = 1
        while name.upper() in taken:
            count += 1
            name = f"{first}_{count}"
        taken.add(name.upper())
        found.append(name)
    return found
