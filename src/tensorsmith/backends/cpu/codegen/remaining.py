"""What is left of an axis: the bookkeeping behind tiles that do not divide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorsmith.backends.cpu.codegen.irtext import Function, Value, i64
from tensorsmith.program.tails import is_partial

MAX_SIZES = 3  # how many sizes of a partial tile get code of their own


@dataclass(frozen=True)
class Remaining:
    """How much of an axis is left for the loops inside: a number, or a value of which all possible numbers may be known."""

    now: Value | int
    possible: tuple[int, ...] | None = None
    #: how much of it a call has, where that is read at run time; not positive: nothing. Loops stop behind it, but their last step
    #: is a whole tile, whose rest is computed for nobody: buffers have room for it
    there: Value | None = None
    exact: bool = False  # `now` is a count that is read at run time, of a reduction: nothing behind it may be touched

    def trips(self, f: Function, stride: int) -> Value | int:
        """Steps of a loop of that stride, the last one perhaps partial."""
        if self.there is not None:
            return Remaining(self.there).trips(f, stride)
        if isinstance(self.now, int):
            return -(-self.now // stride)
        if stride == 1:
            return self.now
        rounded = f.op(f"add nsw i64 {self.now.text}, {stride - 1}", "i64")
        return f.op(f"sdiv i64 {rounded.text}, {stride}", "i64")

    def whole(self, stride: int) -> int:
        """Of these steps, those that are not partial; 0 where that is not known."""
        return self.now // stride if isinstance(self.now, int) else 0

    def inside(self, f: Function, var: Value | int, stride: int) -> Remaining:
        """What is left inside one step of a loop."""
        if self.there is not None:
            start = i64(var * stride) if isinstance(var, int) else f.op(f"mul nsw i64 {var.text}, {stride}", "i64")
            left = f.op(f"sub nsw i64 {self.there.text}, {start.text}", "i64")
            short = f.op(f"icmp slt i64 {left.text}, {stride}", "bool")
            there = f.op(f"select {short}, {left}, i64 {stride}", "i64")
            return replace(replace(self, there=None).inside(f, var, stride), there=there)
        if isinstance(self.now, int):
            if not is_partial(self.now, stride):
                return Remaining(stride)
            if isinstance(var, int):
                return Remaining(min(self.now - var * stride, stride))
        possible = None
        if isinstance(self.now, int):
            possible = _inside({self.now}, stride)
        elif self.possible is not None:
            possible = _inside(set(self.possible), stride)
        if possible is not None and len(possible) == 1:
            return Remaining(possible[0])
        start = i64(var * stride) if isinstance(var, int) else f.op(f"mul nsw i64 {var.text}, {stride}", "i64")
        now = i64(self.now) if isinstance(self.now, int) else self.now
        left = f.op(f"sub nsw i64 {now.text}, {start.text}", "i64")
        short = f.op(f"icmp slt i64 {left.text}, {stride}", "bool")
        return Remaining(f.op(f"select {short}, {left}, i64 {stride}", "i64"), possible, exact=self.exact)


def _inside(values: set[int], stride: int) -> tuple[int, ...]:
    full = {stride} if any(v >= stride for v in values) else set()
    return tuple(sorted(full | {v % stride for v in values if v % stride}, reverse=True))


Remainders = Mapping[str, Remaining]  # by axis, of the nest being emitted
