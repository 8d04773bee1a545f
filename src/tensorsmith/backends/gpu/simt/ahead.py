"""Fetching ahead (double buffering): while threads use one tile of an operand, they fetch the next into a second buffer.

    for k: { barrier; fetch A[k]; barrier; use A }
        ->    fetch A[0] to buffer 0; for k: { barrier; if k + 1 < n: fetch A[k + 1] to buffer (k + 1) % 2; use buffer k % 2 }

Where copies to shared memory can go on while threads do, they are made so (`apart`), and threads wait for them before the barrier.

The one barrier of a round stands for two: what was fetched in the round before is there, and nobody uses the other buffer any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorsmith.backends.gpu.simt.ir import Barrier, For, If, Let, Move, Multiply, Statement, Store, Wait, walk
from tensorsmith.backends.gpu.simt.values import number
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, Load, Var, operands_first

APART_BYTES = (4, 8, 16)  # that a copy may have which goes on while the thread does


def fetched_ahead(
    loop: str, count: int, fetch: Sequence[Statement], use: Sequence[Statement], sizes: Mapping[str, int]
) -> list[Statement]:
    """The statements of a loop whose rounds `fetch` and `use` arrays; `sizes` are the elements of one buffer of each."""
    step = Var(loop)
    following = Binary("add", step, number(1))
    this, other = Var(f"{loop}.turn"), Var(f"{loop}.other")  # names, so that addresses stay linear
    first = _Shift(loop, number(0), None, sizes).body(fetch)
    ahead = _Shift(loop, following, other, sizes).body(fetch)
    used = _Shift(loop, step, this, sizes).body(use)
    inside: list[Statement] = [
        Let(this.name, Binary("mod", step, number(2)), 2),
        Let(other.name, Binary("sub", number(1), this), 2),
        *([Wait()] if any(isinstance(s, Move) and s.apart for s in walk(fetch)) else []),
        Barrier(),
        If(Binary("lt", following, number(count)), tuple(ahead)),
        *used,
    ]
    return [*first, For(loop, count, tuple(inside))]


def made_apart(body: Sequence[Statement], bytes_of: Mapping[str, int]) -> list[Statement]:
    """Statements whose copies go on while threads do, given the bytes of an element of each array that is copied to."""
    return [_apart(s, bytes_of) for s in body]


def _apart(s: Statement, bytes_of: Mapping[str, int]) -> Statement:
    """A statement with its plain copies made apart: of four, eight or sixteen bytes, which is what machines can."""
    if isinstance(s, (For, If)):
        return replace(s, body=tuple(_apart(x, bytes_of) for x in s.body))
    if isinstance(s, Store) and isinstance(s.value, Load) and dtype(s.value.dtype).bytes in APART_BYTES:
        return Move(s.array, s.index, s.value.tensor, s.value.indices[0], 1, apart=True)
    return replace(s, apart=True) if isinstance(s, Move) and s.width * bytes_of[s.array] in APART_BYTES else s


class _Shift:
    """Statements at another step of a loop, with arrays in a buffer that a variable tells; None is the first."""

    def __init__(self, loop: str, step: Expr, turn: Var | None, sizes: Mapping[str, int]) -> None:
        self.loop, self.step, self.turn, self.sizes = loop, step, turn, sizes

    def body(self, body: Sequence[Statement]) -> list[Statement]:
        return [self._statement(s) for s in body]

    def _statement(self, s: Statement) -> Statement:
        if isinstance(s, Let):
            return Let(s.name, self._value(s.value), s.count)
        if isinstance(s, For):
            return For(s.name, s.count, tuple(self.body(s.body)), s.in_a_row)
        if isinstance(s, If):
            return If(self._value(s.condition), tuple(self.body(s.body)))
        if isinstance(s, Store):
            return Store(s.array, self._place(s.array, self._value(s.index)), self._value(s.value))
        if isinstance(s, Move):
            to, start = self._place(s.array, self._value(s.index)), self._place(s.source, self._value(s.start))
            return replace(s, index=to, start=start)
        if isinstance(s, Multiply):
            left, right = (tuple(self._load(x) for x in part) for part in (s.left, s.right))
            sums = tuple(self._place(s.array, self._value(e)) for e in s.sums)
            rows = [None if x is None else replace(x, first=self._load(x.first)) for x in (s.left_row, s.right_row)]
            return Multiply(s.array, sums, left, right, *rows)
        return s

    def _load(self, load: Load) -> Load:
        return Load(load.tensor, (self._place(load.tensor, self._value(load.indices[0])),), load.dtype)

    def _place(self, array: str, index: Expr) -> Expr:
        if array not in self.sizes or self.turn is None:
            return index
        return Binary("add", index, Binary("mul", self.turn, number(self.sizes[array])))

    def _value(self, e: Expr) -> Expr:
        new: dict[Expr, Expr] = {}
        for x in operands_first(e):
            operands = tuple(new[c] for c in x.operands)
            if isinstance(x, Var):
                new[x] = self.step if x.name == self.loop else x
            elif isinstance(x, Load):
                new[x] = Load(x.tensor, (self._place(x.tensor, operands[0]),), x.dtype)
            else:
                new[x] = x.with_operands(operands) if operands else x
        return new[e]
