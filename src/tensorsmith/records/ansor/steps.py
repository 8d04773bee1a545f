"""The steps of a program as TVM's auto_scheduler writes them: what is a step, and programs that differ in numbers alone.

    ["SP", 2, 0, 512, [4, 8], 1]        split        ["AN", 2, 0, 5]     annotate      ["CHR", 1, "shared", [2]]   cache read
    ["FSP", 3, 0, 1, 3]                 follow       ["FU", 5, [0, 1]]   fuse          ["CHW", 2, "local"]         cache write
    ["FFSP", 3, 0, [1, 2], 1, 1]        follow fused ["RE", 2, [1, 0]]   reorder       ["RF", 2, 1, 1]             rfactor
    ["PR", 5, 0, "auto_unroll_max_step$64"]  pragma  ["CA", 2, 3, 5] compute at        ["CI", 1]; ["CR", 1]        inline; root
    ["SA", 2, 0, 32, 8]                 align        ["PF", ...]                       refused by name where it occurs

A `Template` is a program without the numbers that search changes: the lengths of splits and the values of pragmas. Thousands of
records share one, so what it means is worked out once for all of them, on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_STEPS = 512  # of one program; Ansor's largest have about a hundred
LARGEST = 1 << 40  # of any number in a step: extents of fused loops are that large

ANNOTATIONS = (
    "", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.y", "blockIdx.z",
    "threadIdx.z", "tensorize",
)  # fmt: skip
UNROLL = "auto_unroll_max_step$"


class Malformed(ValueError):
    """What makes a line no record, in a few words that are the same for all lines with this fault."""


@dataclass(frozen=True)
class Template:
    """Steps with the numbers taken out: `("SP", stage, iterator, first, count)`, where the lengths are the numbers `first` to
    `first + count - 1` of a record and the extent that was written down is the one after them; `("PR", stage, iterator, first)`."""

    steps: tuple[tuple[Any, ...], ...]
    numbers: int


def parse(steps: object) -> tuple[Template, tuple[int, ...]]:
    """A template and the numbers that go into it. Raises `Malformed`."""
    if not isinstance(steps, list) or len(steps) > MOST_STEPS:
        raise Malformed("the steps are no list" if not isinstance(steps, list) else f"more than {MOST_STEPS} steps")
    found: list[tuple[Any, ...]] = []
    numbers: list[int] = []
    for number, step in enumerate(steps):
        kind = step[0] if isinstance(step, list) and step else None
        if kind == "SP":
            found.append(_split(step, numbers, steps, number))
        elif kind == "PR":
            found.append(_pragma(step, numbers))
        elif isinstance(kind, str) and kind in _FORMS:
            form = _FORMS[kind]
            if len(step) != len(form) + 1 or not all(check(x) for check, x in zip(form, step[1:])):
                raise Malformed(f"a malformed step {kind}")
            found.append(tuple(tuple(x) if isinstance(x, list) else x for x in step))
        else:
            raise Malformed("a step that is none of auto_scheduler's")
    return Template(tuple(found), len(numbers)), tuple(numbers)


def _split(step: list[Any], numbers: list[int], steps: Sequence[Any], number: int) -> tuple[Any, ...]:
    if len(step) != 6:
        raise Malformed("a malformed step SP")
    _, stage, iterator, extent, lengths, inner = step
    extent = 0 if extent is None else extent
    right = _whole(stage) and _whole(iterator) and _whole(extent) and isinstance(lengths, list) and 0 < len(lengths) <= 16
    if not right or not all(_whole(n) and n > 0 for n in lengths) or inner not in (0, 1, True, False):
        raise Malformed("a malformed step SP")
    first = len(numbers)
    numbers += lengths
    numbers.append(extent)
    # a split before an rfactor decides the extents of stages, which are no array
    fixed = tuple(lengths) if _next_is_rfactor(steps, number) else ()
    return ("SP", stage, iterator, first, len(lengths), int(inner), fixed)


def _next_is_rfactor(steps: Sequence[Any], number: int) -> bool:
    after = steps[number + 1] if number + 1 < len(steps) else None
    return isinstance(after, list) and after[:1] == ["RF"]


def _pragma(step: list[Any], numbers: list[int]) -> tuple[Any, ...]:
    if len(step) != 4 or not _whole(step[1]) or not _whole(step[2]) or not isinstance(step[3], str):
        raise Malformed("a malformed step PR")
    value = step[3].removeprefix(UNROLL)
    if not step[3].startswith(UNROLL) or not value.isascii() or not value.isdigit() or len(value) > 9:
        return ("PR", step[1], step[2], None)
    numbers.append(int(value))
    return ("PR", step[1], step[2], len(numbers) - 1)


def _whole(x: object) -> bool:
    return type(x) is int and 0 <= x < LARGEST


def _wholes(x: object) -> bool:
    return isinstance(x, list) and len(x) <= 256 and all(map(_whole, x))


def _annotation(x: object) -> bool:
    return type(x) is int and 0 <= x < len(ANNOTATIONS)


def _scope(x: object) -> bool:
    return x in ("local", "shared", "global")


def _flag(x: object) -> bool:
    return x in (0, 1)


_FORMS: dict[str, tuple[Any, ...]] = {
    "AN": (_whole, _whole, _annotation),
    "FU": (_whole, _wholes),
    "RE": (_whole, _wholes),
    "FSP": (_whole, _whole, _whole, _whole),
    "FFSP": (_whole, _whole, _wholes, _whole, _flag),
    "SA": (_whole, _whole, _whole, _whole),
    "CA": (_whole, _whole, _whole),
    "CI": (_whole,),
    "CR": (_whole,),
    "CHR": (_whole, _scope, _wholes),
    "CHW": (_whole, _scope),
    "RF": (_whole, _whole, _whole),
    "PF": (_whole, _whole, _whole),
}
