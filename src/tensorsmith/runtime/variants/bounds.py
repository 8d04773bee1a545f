"""What a call has of a network that is compiled for the largest sizes of a range, as values that a file can have.

A *form* is a number, then what the size of each symbol is multiplied by: at length 5, (1, 2) is 11.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import InternalError
from tensorsmith.runtime.arguments import COUNTS, DTYPES, Argument

Form = tuple[int, ...]
Dimension = tuple[tuple[int, Form], ...]  # the dimensions that one of an output is made of: the largest extent, and that of a call
Number = tuple[str, float, tuple[int, ...]]  # a type; what the sizes are multiplied with or divided by; -1, 0 or 1 for each

_LARGEST = 1 << 48  # of any number in a form


def form_value(form: Form, sizes: Sequence[int]) -> int:
    """The number that a form is at some sizes."""
    return form[0] + sum(c * n for c, n in zip(form[1:], sizes))


def number_value(number: Number, sizes: Sequence[int]) -> float:
    """A number that follows from the sizes."""
    _, found, powers = number
    for n, power in zip(sizes, powers):
        found = found * n if power > 0 else found / n if power < 0 else found
    return found


@dataclass(frozen=True)
class Bounds:
    """What a call has: the counts that kernels read, its outputs by dimension, and numbers that are inputs of the network."""

    counts: tuple[Form, ...]
    outputs: tuple[tuple[Dimension, ...], ...]
    numbers: tuple[Number, ...] = ()

    @property
    def inputs(self) -> list[Argument]:
        """The inputs that the network has for it, behind the caller's."""
        found = [Argument(f"tensorsmith.number.{n}", (1,), dtype) for n, (dtype, _, _) in enumerate(self.numbers)]
        return [*found, Argument(COUNTS, (len(self.counts),), "i64")] if self.counts else found

    def to_json(self) -> dict[str, Any]:
        """As lists, for a file."""
        outputs = [[[[top, list(form)] for top, form in dim] for dim in dims] for dims in self.outputs]
        numbers = [[dtype, times, list(powers)] for dtype, times, powers in self.numbers]
        return {"counts": [list(form) for form in self.counts], "outputs": outputs, "numbers": numbers}

    @staticmethod
    def from_json(form: Any, largest: Sequence[int], outputs: Sequence[Argument]) -> Bounds:
        """What `to_json` gave, for a network of those outputs at the largest sizes. Raises `InternalError` if it cannot be that."""
        try:
            made = Bounds(
                tuple(_form(f, largest) for f in form["counts"]),
                tuple(tuple(tuple((_whole(top), _form(f, largest)) for top, f in dim) for dim in dims) for dims in form["outputs"]),
                tuple(_number(n, largest) for n in form["numbers"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InternalError(f"the bounds of a variant are no bounds: {problem}") from problem
        shapes = [tuple(math.prod(top for top, _ in dim) for dim in dims) for dims in made.outputs]
        ends = all(form_value(f, largest) == top for dims in made.outputs for dim in dims for top, f in dim)
        if shapes != [a.shape for a in outputs] or not ends:
            raise InternalError("the bounds of a variant are those of other outputs")
        return made


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) > _LARGEST:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value


def _form(value: Any, largest: Sequence[int]) -> Form:
    """A form of as many symbols, or of none."""
    found = tuple(_whole(n) for n in value)
    if len(found) not in (1, 1 + len(largest)):
        raise ValueError(f"{value!r:.40} is no form of {len(largest)} sizes")
    return found


def _number(value: Any, largest: Sequence[int]) -> Number:
    dtype, times, powers = value
    if dtype not in DTYPES or type(times) is not float or len(powers) != len(largest) or not set(powers) <= {-1, 0, 1}:
        raise ValueError(f"{value!r:.40} is no number that follows from sizes")
    return dtype, times, tuple(powers)
