"""The loops and branches around what is being written: which instructions were passed for certain, and where a new one can go.

An instruction that depends on its operands alone is written once; who asks for it again, where the first one was passed, gets the
same value. One that depends on nothing that a loop changes goes in front of the loop. LLVM would find both, in passes that take
longer than all the rest that it does to such a text; so a text that leaves nothing of that kind to find is *tidy*, and goes through
fewer passes (`backends/cpu/llvm.py`). What is not found here: loads, and calls, that a loop repeats, and loads of what was loaded
before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAMES = re.compile(r"%[\w.]+")
_DIVISION = re.compile(r"[su](?:div|rem) \S+ \S+, %")  # by what may be 0 where the loop would not have come to it


@dataclass
class Scope:
    """A loop, a branch, or the function itself. What is written in a loop or a branch may not be passed."""

    front: list[str] | None = None  # of a loop: lines that go in front of it
    condition: tuple[str, bool] | None = None  # of a branch: what was decided, and how
    texts: list[str] = field(default_factory=list)  # instructions that belong here
    loaded: list[str] = field(default_factory=list)  # the same, of loads
    innermost: bool = True  # of a loop: there is none inside
    repeats: bool = False  # of a loop: a load or call would be the same in every round


class Scopes:
    """Of one function as it is being written."""

    def __init__(self, hoists: bool) -> None:
        self.hoists = hoists  # whether instructions go in front of loops
        self.tidy = hoists
        self._stack = [Scope()]
        self._loops: list[int] = []  # numbers of the scopes that are loops
        self._known: dict[str, str] = {}  # results of instructions that were passed for certain, by their text
        self._loaded: set[str] = set()  # loads that were passed since memory was last taken to have changed
        self._levels: dict[str, int] = {}  # by the name of a value: the number of the scope that it belongs to
        self._own_memory: set[str] = set()  # pointers into the function's own memory, which becomes registers

    def enter(self, front: list[str] | None = None, condition: tuple[str, bool] | None = None) -> None:
        if front is not None:
            for number in self._loops:
                self._stack[number].innermost = False
            self._loops.append(len(self._stack))
        self._stack.append(Scope(front, condition))

    def leave(self) -> None:
        scope = self._stack.pop()
        if scope.front is not None:
            self._loops.pop()
        for text in scope.texts:
            del self._known[text]  # only here: while it is known, nobody writes it again
        self._loaded.difference_update(scope.loaded)
        if scope.innermost and scope.repeats:
            self.tidy = False

    def forget(self) -> None:
        """Nothing is known where a block begins that anybody may jump to."""
        self._known.clear()
        self._loaded.clear()
        for scope in self._stack:
            scope.texts.clear()
            scope.loaded.clear()
        self.hoists = self.tidy = False

    def holds(self, condition: str) -> bool | None:
        """Whether a condition holds, where a branch around has decided that."""
        for scope in self._stack:
            if scope.condition is not None and scope.condition[0] == condition:
                return scope.condition[1]
        return None

    def known(self, text: str) -> str | None:
        return self._known.get(text)

    def here(self, name: str) -> None:
        """A value belongs to the innermost scope."""
        self._levels[name] = len(self._stack) - 1

    def out(self, name: str) -> None:
        """A value that came out of a scope that was left."""
        self._levels[name] = min(self._levels.get(name, 0), len(self._stack) - 1)

    def level(self, name: str) -> int:
        """The number of the scope that a value belongs to, counted from the function."""
        return self._levels.get(name, 0)

    def own_memory(self, name: str) -> None:
        self._own_memory.add(name)

    def memory_changed(self) -> None:
        self._loaded.clear()

    def add(self, name: str, text: str) -> list[str] | None:
        """Notes a new instruction that depends on its operands alone; gives the lines in front of a loop that it goes to, or None:
        it is written where we are."""
        operands = _NAMES.findall(text)
        loop = self._unchanged(operands) if self.hoists else None
        if loop is not None and _DIVISION.match(text):
            loop = None
        level = len(self._stack) - 1 if loop is None else loop - 1
        self._known[text], self._levels[name] = name, level
        self._stack[level].texts.append(text)
        if self._own_memory and text.startswith("getelementptr") and not self._own_memory.isdisjoint(operands):
            self._own_memory.add(name)
        return None if loop is None else self._stack[loop].front

    def add_load(self, name: str, text: str) -> None:
        """Notes an instruction that has to be where it is: a load or a call."""
        self.here(name)
        if not self.tidy or "@llvm.fma" in text:  # which adds to what a loop changes
            return
        operands = _NAMES.findall(text)
        if not self._own_memory.isdisjoint(operands):
            return
        if text in self._loaded:
            self.tidy = False
        self._loaded.add(text)
        self._stack[-1].loaded.append(text)
        if self._unchanged(operands) is not None:
            self._stack[self._loops[-1]].repeats = True

    def _unchanged(self, operands: list[str]) -> int | None:
        """The number of the outermost loop that changes none of some values; None if the innermost changes one."""
        depends = 0
        for name in operands:
            depends = max(depends, self._levels.get(name, 0))
        for loop in self._loops:
            if loop > depends:
                return loop
        return None
