"""The one line that an object is to whoever looks at it in a prompt, a list or a traceback.

`repr` is short and of one line everywhere, and never an address or a page; what is longer is for `str`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

LONGEST = 120  # characters of a line


def line(owner: object, text: object, tail: object = "") -> str:
    """`<Workload D f32[512, 512]: 2 stages>`. Where that is too long, `text` is cut; the `tail`, which tells it apart, stays."""
    kind, end = type(owner).__name__, plain(tail)
    return f"<{kind} {cut(plain(text), LONGEST - len(kind) - len(end) - 3)}{end}>"


def cut(text: str, longest: int) -> str:
    """A text of so many characters at most."""
    return text if len(text) <= longest else text[: max(0, longest - 3)] + "..."[: max(0, longest)]


def plain(text: object) -> str:
    """One line that can do nothing to a terminal or a page: names may come from a stranger's file.

    Whatever is not printed (escape sequences, line ends, marks that turn the direction of writing over) is gone. All that is shown
    of models, files and records goes through this function, or through `page` where it has several lines.
    """
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in shown)


def page(text: object) -> str:
    """The same of a text of several lines, which stay."""
    return "\n".join(map(plain, str(text).split("\n")))


def typed(dtype: str, shape: Iterable[object]) -> str:
    """`f32[512, 512]`"""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def short_digest(text: str) -> str:
    """Eight digits that differ where texts do."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def many(count: int, word: str) -> str:
    """`1 call`, `3 calls`"""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
