"""Runs kernels on NumPy: what they mean, and the reference of everything that prints them.

The blocks run one after the other, the threads of a block together: every expression is an array with an entry for each thread. It
raises `Wrong` where a program is none: an index outside of an array, a barrier that only some threads come to, or a *race*: two
threads touch the same element of shared memory, one of them storing, with no barrier between. Blocks that store to the same element
of global memory are a race too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.matrix import COLUMN_LANES, COLUMNS, LANES, LEFT, PIECE, RIGHT, ROW_LANES, ROWS, STEPS, SUMS
from tensorsmith.backends.gpu.simt.ir import (
    GLOBAL,
    PRIVATE,
    SHARED,
    Array,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Move,
    Multiply,
    Row,
    Statement,
    Wait,
)
from tensorsmith.errors import TensorsmithError
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from tensorsmith.lang.expr import Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, Var

Values = np.ndarray[Any, np.dtype[Any]]


class Wrong(TensorsmithError):
    """A kernel does what no kernel may do."""


def run(kernel: Kernel, memory: Mapping[str, Values]) -> None:
    """Runs a kernel on arrays in global memory, each flat; what it stores is in them afterwards."""
    traffic = {a.name: _Traffic(a.elements) for a in kernel.arrays if a.scope == GLOBAL and a.written}
    with np.errstate(all="ignore"):
        for block in range(kernel.grid):
            _Block(kernel, memory, block, traffic).run(kernel.body, np.ones(kernel.block, bool))


class _Traffic:
    """Who touched which element of an array since the last barrier: a thread, nobody (-1), or several (-2)."""

    def __init__(self, elements: int) -> None:
        self.stored = np.full(elements, -1)
        self.read = np.full(elements, -1)

    def forget(self) -> None:
        self.stored.fill(-1)
        self.read.fill(-1)

    def reads(self, where: Values, who: Values) -> bool:
        """Notes who reads; whether that is a race."""
        before = self.stored[where]
        old = self.read[where]
        self.read[where] = np.where((old == -1) | (old == who), who, -2)
        for_one = np.zeros(len(self.read), int)
        np.add.at(for_one, where, 1)
        self.read[where[for_one[where] > 1]] = -2
        return bool(np.any((before != -1) & (before != who)))

    def stores(self, where: Values, who: Values) -> bool:
        """Notes who stores; whether that is a race."""
        race = len(np.unique(where)) < len(where)
        for seen in (self.stored[where], self.read[where]):
            race = race or bool(np.any((seen != -1) & (seen != who)))
        self.stored[where] = who
        return race


class _Block:
    def __init__(self, kernel: Kernel, memory: Mapping[str, Values], block: int, traffic: Mapping[str, _Traffic]) -> None:
        self.kernel, self.block = kernel, block
        self.variables: dict[str, Any] = {"block": np.int64(block), "thread": np.arange(kernel.block)}
        self.arrays = {a.name: a for a in kernel.arrays}
        self.memory = {a.name: memory[a.name] if a.scope == GLOBAL else _garbage(a, kernel.block) for a in kernel.arrays}
        self.shared = {a.name: _Traffic(a.elements) for a in kernel.arrays if a.scope == SHARED}
        self.traffic = traffic
        self.under_way: list[tuple[str, Any, Values, Values]] = []  # moves apart: array, index, value, and whose they are

    def run(self, body: Sequence[Statement], active: Values) -> None:
        for s in body:
            if isinstance(s, Let):
                self.variables[s.name] = value = self.value(s.value, active)
                if np.any(
                    (np.broadcast_to(value, active.shape)[active] < 0) | (np.broadcast_to(value, active.shape)[active] >= s.count)
                ):
                    raise Wrong(f"{s.name} is not below {s.count}")
            elif isinstance(s, For):
                for step in range(s.count):
                    self.variables[s.name] = np.int64(step)
                    self.run(s.body, active)
            elif isinstance(s, If):
                holds = active & np.broadcast_to(self.value(s.condition, active), active.shape)
                if holds.any():
                    self.run(s.body, holds)
            elif isinstance(s, Barrier):
                if not active.all():
                    raise Wrong("some threads do not come to a barrier")
                for traffic in self.shared.values():
                    traffic.forget()
            elif isinstance(s, Move):
                self.move(s, active)
            elif isinstance(s, Wait):
                for name, index, value, who in self.under_way:
                    self.store(name, index, value, who & active)
                left = [(name, index, value, who & ~active) for name, index, value, who in self.under_way]
                self.under_way = [one for one in left if one[3].any()]
            elif isinstance(s, Meet):
                self.whole_warps(active)
            elif isinstance(s, Multiply):
                self.multiply(s, active)
            else:
                self.store(s.array, self.value(s.index, active), self.value(s.value, active), active)

    def move(self, s: Move, active: Values) -> None:
        for n in range(s.width):
            value = self.read(self.arrays[s.source], self.value(s.start, active) + n, active)
            index = self.value(s.index, active) + n
            if not s.apart:
                self.store(s.array, index, value, active)
                continue
            where = self.where(self.arrays[s.array], index, active)
            if self.shared[s.array].stores(where, np.flatnonzero(active)):  # it may arrive at once
                raise Wrong(f"a race: {s.array} is moved to where another thread has been since the last barrier")
            self.under_way.append((s.array, index, value, active.copy()))

    def multiply(self, s: Multiply, active: Values) -> None:
        self.whole_warps(active)
        sums = [Load(s.array, (e,), "f32") for e in s.sums]
        of_sums, of_left, of_right = (
            np.stack([np.broadcast_to(self.value(e, active), active.shape).reshape(-1, LANES) for e in part], axis=2)
            for part in (sums, s.left, s.right)
        )
        for row, named in ((s.left_row, of_left), (s.right_row, of_right)):
            if row is not None and not np.array_equal(self.dealt_out(row, named.shape[2] // 2, active), named, equal_nan=True):
                raise Wrong(f"the rows of {row.first.tensor} that lanes name have other elements than they name")
        for e, value in zip(s.sums, np.moveaxis(matrix_multiplied(of_sums, of_left, of_right), 2, 0)):
            self.store(s.array, self.value(e, active), value.reshape(-1), active)

    def dealt_out(self, row: Row, pieces: int, active: Values) -> Values:
        """What `ldmatrix` gives to lanes, `[warps, lanes, elements]`, of the rows that they name."""
        name, start = row.first.tensor, self.value(row.first.indices[0], active)
        if np.any(np.broadcast_to(start, active.shape)[active] % PIECE):
            raise Wrong(f"a row of {name} does not begin at a multiple of {PIECE} elements")
        rows = np.stack([self.read(self.arrays[name], start + n, active).reshape(-1, LANES) for n in range(PIECE)], axis=2)
        g, t = np.arange(LANES) // COLUMN_LANES, np.arange(LANES) % COLUMN_LANES
        found = []
        for piece, n in itertools.product(range(pieces), range(2)):
            at, along = (2 * t + n, g) if row.across else (g, 2 * t + n)
            found.append(rows[:, PIECE * piece + at, along])
        return np.stack(found, axis=2)

    def whole_warps(self, active: Values) -> None:
        if len(active) % LANES or (active.reshape(-1, LANES).any(axis=1) & ~active.reshape(-1, LANES).all(axis=1)).any():
            raise Wrong("some lanes of a warp do not come to a matrix instruction")

    def where(self, array: Array, index: Any, active: Values) -> Values:
        """The elements that active threads touch."""
        where = np.broadcast_to(index, active.shape)[active]
        if len(where) and (where.min() < 0 or where.max() >= array.elements):
            raise Wrong(f"{array.name} has {array.elements} elements; there is an access at {where.min()} to {where.max()}")
        return where

    def read(self, array: Array, index: Any, active: Values) -> Values:
        where, who = self.where(array, index, active), np.flatnonzero(active)
        result = np.zeros(active.shape, dtype(array.dtype).numpy)
        if array.scope == PRIVATE:
            result[active] = self.memory[array.name][where, who]
            return result
        if array.scope == SHARED and self.shared[array.name].reads(where, who):
            raise Wrong(f"a race: {array.name} is read where another thread has stored since the last barrier")
        result[active] = self.memory[array.name][where]
        return result

    def store(self, name: str, index: Any, value: Any, active: Values) -> None:
        array = self.arrays[name]
        where, who = self.where(array, index, active), np.flatnonzero(active)
        given = np.broadcast_to(value, active.shape)[active]
        if array.scope == PRIVATE:
            self.memory[name][where, who] = given
            return
        if array.scope == SHARED and self.shared[name].stores(where, who):
            raise Wrong(f"a race: {name} is stored to where another thread has been since the last barrier")
        if array.scope == GLOBAL:
            if not array.written:
                raise Wrong(f"{name} is only read, and stored to")
            if self.traffic[name].stores(where, who + self.block * self.kernel.block):
                raise Wrong(f"a race: several threads store to one element of {name}")
        self.memory[name][where] = given

    def value(self, e: Expr, active: Values) -> Any:
        if isinstance(e, Const):
            return np.array(e.value, dtype(e.dtype).numpy)
        if isinstance(e, Var):
            return self.variables[e.name]
        if isinstance(e, Load):
            return self.read(self.arrays[e.tensor], self.value(e.indices[0], active), active)
        if isinstance(e, Cast):
            return np.asarray(self.value(e.a, active)).astype(dtype(e.dtype).numpy)
        if isinstance(e, Bitcast):
            return np.asarray(self.value(e.a, active)).view(dtype(e.dtype).numpy)
        if isinstance(e, Select):
            return np.where(self.value(e.cond, active), self.value(e.a, active), self.value(e.b, active))
        if isinstance(e, Unary):
            a = np.asarray(self.value(e.a, active))
            return np.asarray(UNARY_FUNCTIONS[e.op](a)).astype(a.dtype, copy=False)
        assert isinstance(e, Binary)
        return np.asarray(BINARY_FUNCTIONS[e.op](self.value(e.a, active), self.value(e.b, active)))


def matrix_multiplied(sums: Values, left: Values, right: Values) -> Values:
    """What a matrix instruction makes of the sums of warps: `[warps, lanes, elements of a lane]` each."""
    lane = np.arange(LANES)
    g, t = lane // COLUMN_LANES, lane % COLUMN_LANES
    warps = len(sums)
    a, b = np.zeros((warps, ROWS, STEPS), np.float32), np.zeros((warps, STEPS, COLUMNS), np.float32)
    c = np.zeros((warps, ROWS, COLUMNS), np.float32)
    for n, operand in enumerate(LEFT):
        a[:, g + ROW_LANES * operand.half, 2 * t + operand.step] = left[:, :, n]
    for n, operand in enumerate(RIGHT):
        b[:, 2 * t + operand.step, g] = right[:, :, n]
    for n, (half, neighbour) in enumerate(SUMS):
        c[:, g + ROW_LANES * half, 2 * t + neighbour] = sums[:, :, n]
    c += a @ b
    return np.stack([c[:, g + ROW_LANES * half, 2 * t + neighbour] for half, neighbour in SUMS], axis=2)


def _garbage(array: Array, threads: int) -> Values:
    """Memory that nobody has stored to yet."""
    facts = dtype(array.dtype)
    shape = (array.elements, threads) if array.scope == PRIVATE else (array.elements,)
    return np.full(shape, np.nan if facts.kind == "f" else 77 if facts.kind != "b" else True, facts.numpy)
