"""Where the values between kernels lie: one arena, planned before anything runs.

A value lives from the call that writes it to the last call that reads it. Values that never live at the same time may lie at the
same place. Values are placed one by one, each into the tightest gap that those placed before it and alive at the same time leave;
this is done by size and by time, and the smallest plan is taken. A view has no memory of its own, and the result of a call takes
the place of an operand that dies there where the call allows it. What a call needs for itself lies at the beginning of the arena,
where no value is that lives during the call, or none at all, whichever takes less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.errors import InternalError

ALIGNMENT = 64  # a cache line, and the widest vector register


@dataclass(frozen=True)
class Use:
    """What one call does to memory. `replaceable` are those of its reads whose place its one result may take.

    `scratch` is how many bytes it needs at the beginning of the arena for itself.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    replaceable: frozenset[str] = frozenset()
    scratch: int = 0


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
    """The plan of calls in this order. `sizes` are bytes; `elsewhere` are the roots that are not in the arena (inputs, ...)."""
    blocks = _blocks(uses, sizes, views, elsewhere)
    distinct = list({id(b): b for b in blocks.values()}.values())
    scratch = [_Block(_aligned(use.scratch), n, n) for n, use in enumerate(uses) if use.scratch]
    apart = [_Block(max(b.size for b in scratch), 0, len(uses))] if scratch else []
    plans = (_place(first, sorted(distinct, key=order)) for order in _ORDERS for first in (scratch, apart))
    total, places = min(plans, key=lambda found: found[0])
    offsets = {name: places[id(block)] for name, block in blocks.items()}
    offsets |= {view: offsets[base] for view in views if (base := root(view, views)) in offsets}
    return MemoryPlan(offsets, total)


@dataclass(eq=False)
class _Block:
    """Memory of a value, or of several that replace each other; alive during calls `first` to `last`, both included."""

    size: int
    first: int
    last: int


#: in which blocks are placed: the largest first, or the earliest first
_ORDERS: tuple[Callable[[_Block], tuple[int, int]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (b.first, -b.size),
)


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
            size = _aligned(sizes[name])
            block = _dying(n, use, size, blocks, views) or _Block(size, n, n)
            block.last = last[name]
            blocks[name] = block
    return blocks


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


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


def _place(first: Sequence[_Block], blocks: Sequence[_Block]) -> tuple[int, dict[int, int]]:
    """The bytes that the blocks take together, and the offset of each by its identity; placed in this order.

    The `first` blocks, none of which live at the same time, are all at the beginning.
    """
    places: dict[int, int] = {}
    alive: defaultdict[int, list[_Block]] = defaultdict(list)  # during each call, those that have their place

    def put(block: _Block, offset: int) -> None:
        places[id(block)] = offset
        for n in range(block.first, block.last + 1):
            alive[n].append(block)

    for block in first:
        put(block, 0)
    total = max((block.size for block in first), default=0)
    for block in blocks:
        others = {id(other): other for n in range(block.first, block.last + 1) for other in alive[n]}
        best, best_gap, end = None, None, 0
        for other in sorted(others.values(), key=lambda b: places[id(b)]):
            offset = places[id(other)]
            gap = offset - end
            if gap >= block.size and (best_gap is None or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, offset + other.size)
        at = end if best is None else best
        total = max(total, at + block.size)
        put(block, at)
    return total, places
