"""Kernels: what every thread of a block does, in step with the others only where a barrier says so.

    kernel    := Kernel(name, grid, block, arrays, body: statement*)
    statement := Let(name, value)                        a whole number, 0 <= name < count
               | For(name, count, body: statement*)      every thread runs all its steps
               | If(condition, body: statement*)         holds for some threads
               | Store(array, index, value)
               | Move(array, index, source, start, width, apart)   so many neighbours at once
               | Multiply(array, sums, left, right)      the lanes of a warp together, see `gpu/matrix.py`
               | Meet()                                  no lane of a warp goes on before all of it have come here
               | Wait()                                  until what the thread moves apart has arrived
               | Barrier()                               no thread goes on before all have come here

Expressions are those of definitions (`lang/nodes.py`), but a load has one index, which counts elements. The variables are those of
`Let` and `For`, and `BLOCK` and `THREAD`, the numbers of the block and of the thread in it. Indices are in bounds: what could lie
outside is clamped, or stands inside an `If`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Expr, Load, Var

BLOCK, THREAD = Var("block"), Var("thread")

GLOBAL, SHARED, PRIVATE = SCOPES = ("global", "shared", "private")  # of all blocks, of one block, of one thread: its registers


@dataclass(frozen=True)
class Array:
    """Memory. What is `written` of global memory is an output or lies between kernels; the rest is only read."""

    name: str
    dtype: str
    elements: int
    scope: str
    written: bool = True

    @property
    def bytes(self) -> int:
        return self.elements * dtype(self.dtype).bytes


@dataclass(frozen=True)
class Let:
    """A name for a whole number that is at least 0 and less than `count`."""

    name: str
    value: Expr
    count: int


@dataclass(frozen=True)
class For:
    """A loop; `in_a_row` of its steps are laid out."""

    name: str
    count: int
    body: tuple[Statement, ...]
    in_a_row: int = 1


@dataclass(frozen=True)
class If:
    """Statements that only those threads run for which a condition holds. There is no barrier among them."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Store:
    array: str
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Move:
    """`width` neighbouring elements of an array from those of another; both begin at a multiple of the width. One that is `apart`
    goes from global to shared memory while the thread goes on: what it brings is there when the thread has waited for it."""

    array: str
    index: Expr
    source: str
    start: Expr
    width: int
    apart: bool = False


@dataclass(frozen=True)
class Row:
    """Eight neighbours in shared memory that a lane names for all of its warp, by the first: see `gpu/matrix.py`."""

    first: Load
    across: bool


@dataclass(frozen=True)
class Multiply:
    """A matrix instruction of a warp, all of whose lanes come here: the product of a tile of 16 x 16 and one of 16 x 8, both f16,
    is added to 16 x 8 sums in f32. Each lane names its own elements, in the order of `gpu/matrix.py`. Where lanes name rows of an
    operand too, these have the same elements, and all of them can be loaded at once."""

    array: str  # private: of the sums
    sums: tuple[Expr, ...]
    left: tuple[Load, ...]
    right: tuple[Load, ...]
    left_row: Row | None = None
    right_row: Row | None = None


@dataclass(frozen=True)
class Meet:
    """Of a warp: its lanes, which branches may have parted, are at one place behind it, as matrix instructions want them."""


@dataclass(frozen=True)
class Wait:
    """Of a thread: all that it has moved apart is there behind it, for itself."""


@dataclass(frozen=True)
class Barrier:
    """Of a block: what was stored to shared memory before it is there for all threads behind it."""


Statement = Let | For | If | Store | Move | Multiply | Meet | Wait | Barrier


@dataclass(frozen=True)
class Kernel:
    """One launch: `grid` blocks of `block` threads."""

    name: str
    grid: int
    block: int
    arrays: tuple[Array, ...]
    body: tuple[Statement, ...]

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    @property
    def arguments(self) -> tuple[Array, ...]:
        """Its arrays in global memory, in order."""
        return tuple(a for a in self.arrays if a.scope == GLOBAL)

    @property
    def counts(self) -> dict[str, int]:
        """How many values each variable may take."""
        found = {BLOCK.name: self.grid, THREAD.name: self.block}
        for s in walk(self.body):
            if isinstance(s, (For, Let)):
                found[s.name] = max(found.get(s.name, 0), s.count)
        return found

    @property
    def shared_bytes(self) -> int:
        return sum(-(-a.bytes // 16) * 16 for a in self.arrays if a.scope == SHARED)

    @property
    def private_bytes(self) -> int:
        return sum(a.bytes for a in self.arrays if a.scope == PRIVATE)


def walk(body: Sequence[Statement]) -> Iterator[Statement]:
    """Every statement, those inside others behind them."""
    for s in body:
        yield s
        if isinstance(s, (For, If)):
            yield from walk(s.body)


def laid_out(body: Sequence[Statement]) -> int:
    """How many statements there are when loops are laid out as they say."""
    total = 0
    for s in body:
        if isinstance(s, (For, If)):
            total += laid_out(s.body) * (min(s.count, s.in_a_row) if isinstance(s, For) else 1)
        else:
            total += 1
    return total
