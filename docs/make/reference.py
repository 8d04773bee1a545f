"""The page of the reference that lists the words of the language, from the package's public names.

python docs/make/reference.py        writes docs/api/language.md
"""

from __future__ import annotations

import inspect
from pathlib import Path

import tensorsmith as ts

PAGE = Path(__file__).parents[1] / "api" / "language.md"

HEAD = """# Reference: the language

[The language](../language.md) explains these by examples. Everything here is `ts.` and its name. This page is made by
`python docs/make/reference.py`.
"""


def words() -> list[str]:
    """The public names that belong to the language."""
    return [n for n in ts.__all__ if str(getattr(getattr(ts, n), "__module__", "")).startswith("tensorsmith.lang")]


def sections() -> dict[str, list[str]]:
    """The words, by what they are: those that make tensors, reductions, and functions of elements."""
    found: dict[str, list[str]] = {"Tensors": [], "Reductions": [], "Elements": []}
    for name in words():
        word = getattr(ts, name)
        given = [] if isinstance(word, type) else list(inspect.signature(word).parameters)
        elements = "Reductions" if "axis" in given else "Elements"
        found["Tensors" if not given or {"shape", "extent", "tensors"} & set(given) else elements].append(name)
    return found


def page() -> str:
    parts = [HEAD]
    for title, names in sections().items():
        parts.append(f"## {title}\n")
        parts += [f"::: tensorsmith.{name}\n" for name in names]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE}: {len(words())} words")
