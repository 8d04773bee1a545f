"""Lists that show themselves as a whole: one line in a prompt, a table in a notebook, all items by `print`."""

from __future__ import annotations

from typing import TypeVar

from tensorsmith.show.line import line

T = TypeVar("T")


class Listed(list[T]):
    """A list of things that are shown together. It is a list in all else; a part of it is a plain one."""

    def summary(self) -> str:
        """What there is in it, in a few words."""
        return f"of {len(self)}"

    def __repr__(self) -> str:
        return line(self, self.summary())

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"  {item!r}" for item in self)])
