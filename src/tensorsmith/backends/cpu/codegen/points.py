"""A point of a register tile, as code sees it: the value of every loop variable, and the lanes of the one that runs in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tensorsmith.backends.cpu.codegen.irtext import Value, const
from tensorsmith.program.linear import Linear


class Shifted(NamedTuple):
    """A loop variable's value of which a part is known now: one of several steps that are written together."""

    value: Value
    by: int


LoopValue = Value | int | Shifted  # of a loop variable: known when the code runs, or now, or in part
LoopValues = Mapping[str, LoopValue]  # in nesting order


@dataclass(frozen=True)
class InARow:
    """`count` steps of reduction loops that are written one after another; one vector can hold the operands of `width` of them.

    Behind the last whole vector are shorter ones: of 21 steps in fours, the last is alone.
    """

    apart: Mapping[str, int]  # steps from one of a loop to its next; not of the outermost loop where it takes one in a round
    width: int
    count: int

    def neighbours(self, form: Linear) -> bool:
        """Whether neighbouring steps read neighbours in memory, at positions of that form."""
        return all(form.terms.get(name) == distance for name, distance in self.apart.items())

    def place(self, values: LoopValues) -> tuple[int, int]:
        """Of a step in its vector, and how many that has."""
        number = 0
        for name, distance in self.apart.items():
            value = values[name]
            assert not isinstance(value, Value)
            number += distance * (value.by if isinstance(value, Shifted) else value)
        number %= self.count  # steps of the next round are loaded in this one
        start, width = number - number % self.width, self.width
        while start + width > self.count or number >= start + width:
            start, width = (start, width // 2) if start + width > self.count else (start + width, width)
        return number - start, width


class Lanes(NamedTuple):
    """Which steps of the vector loop a vector holds: `start` .. `start + active`; lanes from `active` on hold anything."""

    var: str
    start: int
    width: int
    active: int


def active_mask(lanes: Lanes) -> Value:
    items = ", ".join(f"i1 {'true' if n < lanes.active else 'false'}" for n in range(lanes.width))
    return Value(f"<{items}>", "bool", lanes.width)


def blank(name: str, lanes: Lanes) -> Value:
    """What lanes are filled into one by one. Idle ones hold 0: poison would spread to all lanes where they meet (a mask's
    `any`, a division)."""
    if lanes.active == lanes.width:
        return Value("poison", stored_type(name), lanes.width)
    return const(0, stored_type(name), lanes.width)


def stored_type(name: str) -> str:
    """The type that a value has in memory: a bool is a byte there."""
    return "u8" if name == "bool" else name
