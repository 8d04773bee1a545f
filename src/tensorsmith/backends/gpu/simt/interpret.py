"""Runs kernels on NumPy: what they mean, and the reference of everything that prints them.

The blocks run one after the other, the threads of a block together: every expression is an array with an entry for each thread. It
raises `Wrong` where a program is none: an index outside of an array, a barrier that only some threads come to, or a *race*: two
threads touch the same element of shared memory, one of them storing, with no barrier between. Blocks that store to the same element
of global memory are a race too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.simt.ir import GLOBAL, PRIVATE, SHARED, Array, Barrier, For, If, Kernel, Let, Move, Statement
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
                for n in range(s.width):
                    source = self.arrays[s.source]
                    value = self.read(source, self.value(s.start, active) + n, active)
                    self.store(s.array, self.value(s.index, active) + n, value, active)
            else:
                self.store(s.array, self.value(s.index, active), self.value(s.value, active), active)

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


def _garbage(array: Array, threads: int) -> Values:
    """Memory that nobody has stored to yet."""
    facts = dtype(array.dtype)
    shape = (array.elements, threads) if array.scope == PRIVATE else (array.elements,)
    return np.full(shape, np.nan if facts.kind == "f" else 77 if facts.kind != "b" else True, facts.numpy)
