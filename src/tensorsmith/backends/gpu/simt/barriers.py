"""Where barriers are needed: what the threads of a block may have read and stored since the last one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Since:
    """Shared arrays that were read and stored to since the last barrier."""

    read: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    def __or__(self, other: Since) -> Since:
        return Since(self.read | other.read, self.stored | other.stored)

    def clashes(self, next_: Since) -> bool:
        """Whether what comes next must wait for all threads."""
        return bool(next_.stored & (self.read | self.stored) or next_.read & self.stored)
