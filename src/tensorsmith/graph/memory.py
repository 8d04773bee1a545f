"""Where the values between kernels lie: one arena, planned before anything runs.

A value lives from the call that writes it to the last call that reads it. Values that never live at the same time may lie at the
same place. Values are placed one by one, each into the tightest gap that those placed before it and alive at the same time leave;
this is done by size and by time, and the smallest plan is taken. A view has no memory of its own: it is all of another value, or a
piece of it. A value whose pieces are written by calls of their own lives from the first of them. The result of a call takes the
place of an operand that dies there where the call allows it. What a call needs for itself lies at the beginning of the arena, where
no value is that lives during the call, or none at all, whichever takes less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.errors import InternalError
from tensorsmith.runtime.buffers import ALIGNMENT, PAGE, round_up

_LONG = 64  # calls that a value lives: those that live longer are few
_SHIFT = 17 * ALIGNMENT  # how far into its page a slot begins, beyond the one before it: four in a row are all far apart


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


@dataclass(frozen=True)
class View:
    """Where a value without memory of its own lies: so many bytes behind the beginning of another one."""

    base: str
    offset: int = 0


def placed(name: str, views: Mapping[str, View]) -> View:
    """The value whose memory a value is in, its *root*, and where it begins there."""
    if name not in views:
        return View(name)
    view, seen = views[name], {name}
    while view.base in views:
        if view.base in seen:
            raise InternalError(f"the value {view.base!r} is a view of itself")
        seen.add(view.base)
        further = views[view.base]
        view = View(further.base, further.offset + view.offset)
    return view


def root(name: str, views: Mapping[str, View]) -> str:
    """The value whose memory a value is in."""
    return placed(name, views).base if name in views else name


def plan(
    uses: Sequence[Use],
    sizes: Mapping[str, int],
    views: Mapping[str, View],
    elsewhere: Collection[str],
    lasting: Collection[str] = (),
) -> MemoryPlan:
    """The plan of calls in this order. `sizes` are bytes; `elsewhere` are the roots that are not in the arena (inputs, ...),
    `lasting` those that somebody reads behind the last call."""
    slots = _slots(uses, sizes, views, elsewhere, lasting)
    distinct = list({id(b): b for b in slots.values()}.values())
    scratch = [_Slot(round_up(use.scratch), n, n) for n, use in enumerate(uses) if use.scratch]
    apart = [_Slot(max(b.size for b in scratch), 0, len(uses))] if scratch else []
    plans = (_place(first, sorted(distinct, key=order)) for order in _ORDERS for first in (scratch, apart))
    total, places = min(plans, key=lambda found: found[0])
    offsets = {name: places[id(slot)] for name, slot in slots.items()}
    where = ((name, placed(name, views)) for name in views)
    offsets |= {name: offsets[view.base] + view.offset for name, view in where if view.base in offsets}
    return MemoryPlan(offsets, total)


@dataclass(eq=False)
class _Slot:
    """Memory of a value, or of several that replace each other; alive during calls `first` to `last`, both included."""

    size: int
    first: int
    last: int


#: in which slots are placed: the largest first, or the earliest first
_ORDERS: tuple[Callable[[_Slot], tuple[int, int]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (b.first, -b.size),
)


def _slots(
    uses: Sequence[Use],
    sizes: Mapping[str, int],
    views: Mapping[str, View],
    elsewhere: Collection[str],
    lasting: Collection[str],
) -> dict[str, _Slot]:
    """The slot of each value that is a root."""
    last = {root(name, views): n for n, use in enumerate(uses) for name in (*use.reads, *use.writes)}
    last |= {name: len(uses) for name in lasting}
    whole = {name for use in uses for name in use.writes if name not in views}
    written: set[str] = set()
    slots: dict[str, _Slot] = {}
    for n, use in enumerate(uses):
        for name in use.reads:
            if (base := root(name, views)) not in slots and base not in elsewhere:
                raise InternalError(f"call {n} reads {name!r}, which no call before it writes")
        for name in use.writes:
            base = root(name, views)
            if name in written or (name in views and base in whole):
                raise InternalError(f"call {n} writes {name!r}, which has its value already")
            written.add(name)
            if base in elsewhere or base in slots:
                continue
            size = _apart(sizes[base])
            slot = (None if name in views else _dying(n, use, sizes, slots, views)) or _Slot(size, n, n)
            slot.last = last[base]
            slots[base] = slot
    return slots


def _apart(size: int) -> int:
    """Bytes of a slot such that the next one begins elsewhere in its page.

    Sizes of tensors tend to be multiples of a page, and at the same place of another page a kernel would wait for its own results
    (`runtime.buffers.output_allocator`).
    """
    size = round_up(size)
    return size if size < PAGE else size + (_SHIFT - size) % PAGE


def _dying(n: int, use: Use, sizes: Mapping[str, int], slots: Mapping[str, _Slot], views: Mapping[str, View]) -> _Slot | None:
    """The slot of an operand that the result of call n may take over. An operand that is a piece of a slot does not give it."""
    if len(use.writes) != 1:
        return None
    size = _apart(sizes[use.writes[0]])
    pieces = {name for name in use.reads if name in views and not _is_all(placed(name, views), sizes[name], sizes)}
    kept = {root(name, views) for name in use.reads if name not in use.replaceable or name in pieces}
    for name in use.reads:
        base = root(name, views)
        if name in use.replaceable and base not in kept and base in slots:
            slot = slots[base]
            if slot.last == n and slot.size == size:
                return slot
    return None


def _is_all(view: View, size: int, sizes: Mapping[str, int]) -> bool:
    return view.offset == 0 and size == sizes[view.base]


def _place(first: Sequence[_Slot], slots: Sequence[_Slot]) -> tuple[int, dict[int, int]]:
    """The bytes that the slots take together, and the offset of each by its identity; placed in this order.

    The `first` slots, none of which live at the same time, are all at the beginning.
    """
    places: dict[int, int] = {}
    begun: defaultdict[int, list[_Slot]] = defaultdict(list)  # those that have their place, by their first call
    alive: defaultdict[int, list[_Slot]] = defaultdict(list)  # by every call but the first, if these are few
    long: list[_Slot] = []  # the others

    def put(slot: _Slot, offset: int) -> None:
        places[id(slot)] = offset
        begun[slot.first].append(slot)
        if slot.last - slot.first > _LONG:
            long.append(slot)
            return
        for n in range(slot.first + 1, slot.last + 1):
            alive[n].append(slot)

    for slot in first:
        put(slot, 0)
    total = max((slot.size for slot in first), default=0)
    for slot in slots:
        later = (begun.get(n, ()) for n in range(slot.first, slot.last + 1))
        others = [other for beginning in later for other in beginning] + alive.get(slot.first, [])
        others += [other for other in long if other.first < slot.first <= other.last]
        best, best_gap, end = None, None, 0
        for other in sorted(others, key=lambda b: places[id(b)]):
            offset = places[id(other)]
            gap = offset - end
            if gap >= slot.size and (best_gap is None or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, offset + other.size)
        at = end if best is None else best
        total = max(total, at + slot.size)
        put(slot, at)
    return total, places
