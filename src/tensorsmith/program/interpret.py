"""Runs a loop program in NumPy: the second oracle, and the living definition of what a program means.

It follows the program loop by loop and block by block, so it checks tiles, tails, attach points, regions and layouts, which the
evaluator of definitions knows nothing of. Slow, for small sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorsmith.lang.dtypes import converted, dtype
from tensorsmith.lang.evaluate import BINARY_FUNCTIONS, UNARY_FUNCTIONS, identity
from tensorsmith.lang.expr import Binary, Bitcast, Cast, Const, Expr, Load, Select, Unary, Var
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, ProgramBuffer
from tensorsmith.program.packing import evaluate_linear as _linear
from tensorsmith.program.packing import pack

Array = np.ndarray[Any, np.dtype[Any]]

_COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def interpret(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name."""
    storage: dict[str, Array] = {}
    for b in program.buffers.values():
        if b.kind in ("input", "constant"):
            given = pack(b.packed, inputs[b.name]) if b.packed else inputs[b.name]
            storage[b.name] = given.astype(dtype(b.dtype).numpy, copy=False)  # a constant may be stored in another type
        else:
            shape = tuple(int(n) for n in (b.packed.shape if b.packed else b.shape))
            storage[b.name] = _garbage(shape, b.dtype)
    with np.errstate(all="ignore"):
        for node in program.body:
            _run(program, node, {}, storage)
    return {name: storage[name] for name in program.workload.outputs}


def _garbage(shape: tuple[int, ...], name: str) -> Array:
    """Storage nobody has written yet: reading it must show."""
    facts = dtype(name)
    return np.full(shape, np.nan if facts.kind == "f" else 77 if facts.kind != "b" else True, facts.numpy)


def _run(program: Program, node: Node, env: dict[str, Any], storage: dict[str, Array]) -> None:
    if isinstance(node, Loop):
        for value in range(int(node.var.count)):
            env[node.var.name] = value
            for inner in node.body:
                _run(program, inner, env, storage)
        del env[node.var.name]
        return
    for inner in node.before:
        # a block's own loops do not run while what is attached to it is computed
        _run(program, inner, env, storage)
    _run_block(program, node, env, storage)


def _run_block(program: Program, block: Block, env: dict[str, Any], storage: dict[str, Array]) -> None:
    loops: tuple[LoopVar, ...] = block.tile + block.reduce
    grids = np.meshgrid(*(np.arange(int(v.count)) for v in loops), indexing="ij", sparse=True)
    values = {**env, **dict(zip((v.name for v in loops), grids))}
    shape = tuple(int(v.count) for v in loops)
    axes: dict[str, Any] = {}
    spatial, valid = np.ones((), bool), np.ones((), bool)
    for axis in block.stage.all_axes:
        binding = block.axes[axis.name]
        local, value = _linear(binding.local, values), _linear(binding.value, values)
        inside = (local < binding.length) & (value < binding.extent)
        valid = valid & inside
        if any(axis is a for a in block.stage.axes):
            spatial = spatial & inside
        axes[axis.name] = value
    body = np.broadcast_to(_Body(program, block, axes, values, storage).value(block.stage.body), shape)
    rank = len(block.tile)
    tile_shape = shape[:rank]
    buffer = program.buffers[block.stage.name]
    if buffer.packed is not None:
        where = tuple(np.asarray(values[n]) for n in buffer.packed.writers)
    else:
        where = _position(buffer, [axes[a.name] for a in block.stage.axes], values)
    where = tuple(np.broadcast_to(_drop(w, rank), tile_shape) for w in where)
    mask = np.broadcast_to(_drop(spatial, rank), tile_shape)
    target = storage[block.stage.name][np.newaxis]  # so that a tensor without dimensions takes a mask's elements too
    kept = (np.zeros(np.count_nonzero(mask), int), *(w[mask] for w in where))
    if block.stage.reduction is None:
        target[kept] = body[mask]
        return
    start = np.array(identity(block.stage.reduction, block.stage.dtype), target.dtype)
    masked = np.where(np.broadcast_to(valid, shape), body, start)
    combine = _COMBINE[block.stage.reduction]
    result = combine.reduce(masked, axis=tuple(range(rank, len(shape))), dtype=target.dtype)
    if any(env[v.name] for v in block.outer_reduce):
        target[kept] = combine(target[kept], result[mask])
    else:
        target[kept] = result[mask]


def _drop(array: Any, rank: int) -> Any:
    """Only the tile's dimensions of an array that does not depend on the reduction loops."""
    array = np.asarray(array)
    return array.reshape(array.shape[:rank]) if array.ndim > rank else array


def _position(buffer: ProgramBuffer, indices: list[Any], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where in a buffer's storage an element lies."""
    return tuple(i - _linear(o, values) for i, o in zip(indices, buffer.origin))


class _Body:
    """Evaluates a body over the points of a block."""

    def __init__(
        self, program: Program, block: Block, axes: dict[str, Any], values: dict[str, Any], storage: dict[str, Array]
    ) -> None:
        self.program, self.block, self.axes, self.values, self.storage = program, block, axes, values, storage
        self.known: dict[Expr, Any] = {}  # what was computed already: a value may be used again

    def value(self, e: Expr) -> Any:
        if e not in self.known:
            self.known[e] = self._value(e)
        return self.known[e]

    def _value(self, e: Expr) -> Any:
        if isinstance(e, Const):
            return converted(np.array(e.value), e.dtype)
        if isinstance(e, Var):
            return np.asarray(self.axes[e.name], np.int64)
        if isinstance(e, Load):
            return self.load(e)
        if isinstance(e, Cast):
            return converted(np.asarray(self.value(e.a)), e.dtype)
        if isinstance(e, Bitcast):
            return np.asarray(self.value(e.a)).view(dtype(e.dtype).numpy)
        if isinstance(e, Select):
            return np.where(self.value(e.cond), self.value(e.a), self.value(e.b))
        if isinstance(e, Unary):
            a = self.value(e.a)
            return np.asarray(UNARY_FUNCTIONS[e.op](a)).astype(a.dtype, copy=False)
        assert isinstance(e, Binary)
        return np.asarray(BINARY_FUNCTIONS[e.op](self.value(e.a), self.value(e.b)))

    def load(self, e: Load) -> Any:
        buffer = self.program.buffers[e.tensor]
        array = self.storage[e.tensor]
        if buffer.packed is not None:
            return array[tuple(self.values[v.name] for v in buffer.packed.loops)]
        indices = [np.clip(self.value(i), 0, n - 1) for i, n in zip(e.indices, self.program.workload.buffers[e.tensor].shape)]
        where = _position(buffer, indices, self.values)
        # points outside of the computed region are masked later; they must only not fail here
        return array[tuple(np.clip(w, 0, n - 1) for w, n in zip(where, array.shape))]
