"""Where the values between kernels lie: one arena, planned before anything runs.

A value lives from the call that writes it to the last call that reads it. Values that never live at the same time may lie at the same
place. The plan goes by size: the largest value is placed first, and each goes into the tightest gap that those placed before it and
alive at the same time leave. A view has no memory of its own, and the result of a call takes the place of an operand that dies
there where the call allows it.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tensorsmith.errors import InternalError

ALIGNMENT = 64  # a cache line, and the widest vector register


@dataclass(frozen=True)
class Use:
    """What one call does to memory. `replaceable` are those of its reads whose place its one result may take."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    replaceable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in the arena of every value that has its memory there, views included."""

    offsets: Mapping[str, int]
    bytes: int


def root(name: str, views: Mapping[str, str]) -> str:
    """The value whose memory a value is in."""
    seen = {name}
    while name in views:
        name = views[name]
        if name in seen:
            raise InternalError(f"the value {name!r} is a view of itself")
        seen.add(name)
    return name


def plan(uses: Sequence[Use], sizes: Mapping[str, int], views: Mapping[str, str], elsewhere: Collection[str]) -> MemoryPlan:
    """The plan of calls in this order. `sizes` are bytes; `elsewhere` are the roots whose memory is not the arena's (inputs, ...)."""
    blocks = _blocks(uses, sizes, views, elsewhere)
    distinct = list({id(b): b for b in blocks.values()}.values())
    total = _place(distinct)
    offsets = {name: block.offset for name, block in blocks.items()}
    offsets |= {view: offsets[base] for view in views if (base := root(view, views)) in offsets}
    return MemoryPlan(offsets, total)


@dataclass(eq=False)
class _Block:
    """Memory of a value, or of several that replace each other; alive during calls `first` to `last`, both included."""

    size: int
    first: int
    last: int
    values: list[str] = field(default_factory=list)
    offset: int = 0


def _blocks(
    uses: Sequence[Use], sizes: Mapping[str, int], views: Mapping[str, str], elsewhere: Collection[str]
) -> dict[str, _Block]:
    """The block of each value that is a root."""
    last = {root(name, views): n for n, use in enumerate(uses) for name in (*use.reads, *use.writes)}
    blocks: dict[str, _Block] = {}
    for n, use in enumerate(uses):
        for name in use.reads:
            if (base := root(name, views)) not in blocks and base not in elsewhere:
                raise InternalError(f"call {n} reads {name!r}, which no call before it writes")
        for name in use.writes:
            if name in views or name in blocks:
                raise InternalError(f"call {n} writes {name!r}, which has its value already")
            if name in elsewhere:
                continue
            size = -(-sizes[name] // ALIGNMENT) * ALIGNMENT
            block = _dying(n, use, size, blocks, views) or _Block(size, n, n)
            block.last = last[name]
            block.values.append(name)
            blocks[name] = block
    return blocks


def _dying(n: int, use: Use, size: int, blocks: Mapping[str, _Block], views: Mapping[str, str]) -> _Block | None:
    """The block of an operand that the result of call n may take over."""
    if len(use.writes) != 1:
        return None
    kept = {root(name, views) for name in use.reads if name not in use.replaceable}
    for name in use.reads:
        base = root(name, views)
        if name in use.replaceable and base not in kept and base in blocks:
            block = blocks[base]
            if block.last == n and block.size == size:
                return block
    return None


def _place(blocks: Sequence[_Block]) -> int:
    """Gives every block its offset; the bytes they take together."""
    placed: list[_Block] = []  # by offset
    total = 0
    for block in sorted(blocks, key=lambda b: (-b.size, b.first)):
        if block.size == 0:
            continue
        best, best_gap, end = None, None, 0
        for other in placed:
            if other.last < block.first or block.last < other.first:
                continue
            gap = other.offset - end
            if gap >= block.size and (best_gap is None or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, other.offset + other.size)
        block.offset = end if best is None else best
        total = max(total, block.offset + block.size)
        bisect.insort(placed, block, key=lambda b: b.offset)
    return total
