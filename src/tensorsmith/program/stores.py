"""A loop program as TVM would write it: loops around stores of whole tensors, with an index for each dimension.

    for i.0: for j.0:                    a block of C, with an initial value that has loops of its own
      for i.1, j.1:       C[i, j] = 0
      for k.0, i.1, j.1:  C[i, j] = C[i, j] + A[i, k] * B[k, j]

What the features of other systems are defined on (`learn/features/ansor/`, `learn/features/loops.py`). Where values really are, in
registers, in regions or in another order, is not seen: a stage that is attached stores into its whole tensor at the elements
that its readers need, as in TVM before storage is flattened. All numbers are float64 arrays with an entry per candidate of a
batch. A loop of one step is there, and as good as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Expr, Load, Var, variables
from tensorsmith.lang.workload import Stage
from tensorsmith.program.expression_counts import Counts, counted
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, own_block
from tensorsmith.program.linear import Linear, Num
from tensorsmith.program.positions import over_loops
from tensorsmith.program.unrolling import is_laid_out

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class StoreLoop:
    """A loop around a store. Two stores are in the same loop if it has the same name."""

    name: str
    stage: str  # whose loop it is
    extent: Array
    reduce: bool
    parallel: Array  # by candidate: whether threads share it
    unrolled: Array  # by candidate: whether its steps are written one after the other
    vectorized: bool = False
    bound: str = ""  # what its steps are on a GPU (`LoopVar.bound`)

    @property
    def several(self) -> Array:
        return self.extent > 1


@dataclass(frozen=True, eq=False)
class Index:
    """The position along one dimension. Where it is not affine only the loops are known that it depends on."""

    coefficients: Mapping[str, Array]  # by loop
    offset: Array
    affine: bool


@dataclass(frozen=True, eq=False)
class StoreAccess:
    """What a store does to one tensor: a tuple of indices for each place that it loads from, or for the one that it stores to."""

    tensor: str
    shape: tuple[int, ...]
    element: float  # bytes
    written: bool
    read: bool
    places: tuple[tuple[Index, ...], ...]


@dataclass(frozen=True, eq=False)
class Store:
    """One store: the initial value of a reduction, or what is computed."""

    stage: Stage
    initial: bool
    loops: tuple[StoreLoop, ...]  # outermost first
    accesses: tuple[StoreAccess, ...]  # the tensor that is stored to comes first
    counts: Counts  # operations by kind of one execution
    realized: Array  # elements of the stage's region
    outside: Array  # steps of the loops that the region is made in
    written_out: Array  # stores in the body of the innermost loop that unrolling leaves


def stores(program: Program, size: int, decisions: Mapping[str, Num] | None = None) -> list[Store]:
    """Every store, in the order they run, of a lowered batch of `size` candidates. `decisions` tells how many loops are parallel
    for each candidate; without it, the flags of the loops hold for all."""
    walk = _Walk(program, size, decisions)
    for node in program.body:
        walk.visit(node, ())
    return walk.found


@dataclass
class _Walk:
    program: Program
    size: int
    decisions: Mapping[str, Num] | None
    found: list[Store] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)  # reductions whose initial value is stored already

    def visit(self, node: Node, around: tuple[StoreLoop, ...], fused: bool = True) -> None:
        if isinstance(node, Loop):
            if node.var.reduce:
                self._begin(own_block(node), around)
            degree = None if self.decisions is None else self.decisions.get(f"{own_block(node).stage.name}.parallel")
            parallel = self._all(fused and node.parallel)
            if degree is not None:
                parallel = parallel & self._all(np.asarray(degree) > len(around))
            laid_out = self._all(is_laid_out(node.unrolled, node.var.count)) & ~parallel
            loop = self._loop(node.var, parallel, laid_out)
            for inner in node.body:
                self.visit(inner, (*around, loop), fused and len(node.body) == 1)
            return
        for inner in node.before:
            self.visit(inner, around, fused=False)
        if node.stage.reduction:
            self._begin(node, around)
        loops = (*around, *(self._own(node, v) for v in _in_order(node)))
        self.found.append(self._store(node, loops))

    def _begin(self, block: Block, around: tuple[StoreLoop, ...]) -> None:
        """The initial value: in the loops before the first one over the reduction, then in copies of the spatial ones inside."""
        if block.stage.name in self.begun:
            return
        self.begun.add(block.stage.name)
        rest = {v.name: v for v in self._spatial_below(block, {x.name for x in around})}
        loops = tuple(self._own(block, v, prefix="init ") for v in rest.values())
        renamed = {name: f"init {name}" for name in rest}
        here = StoreAccess(
            block.stage.name,
            block.stage.shape,
            float(dtype(block.stage.dtype).bytes),
            True,
            False,
            (tuple(self._index(Var(a.name), block, renamed) for a in block.stage.axes),),
        )
        around = (*around, *loops)
        self.found.append(Store(block.stage, True, around, (here,), {}, self._ones(), self._ones(), self._ones()))

    def _spatial_below(self, block: Block, around: set[str]) -> list[LoopVar]:
        """The loops over axes of the result that run inside the loops around, outermost first."""
        names = {n for a in block.stage.axes for n in block.axes[a.name].local.terms}
        outer = [v for v in _loops_to(self.program, block) if v.name in names and v.name not in around]
        return [*outer, *(v for v in _in_order(block) if not v.reduce)]

    def _store(self, block: Block, loops: tuple[StoreLoop, ...]) -> Store:
        stage, workload = block.stage, self.program.workload
        own = StoreAccess(
            stage.name,
            stage.shape,
            float(dtype(stage.dtype).bytes),
            True,
            bool(stage.reduction),
            (tuple(self._index(Var(a.name), block) for a in stage.axes),),
        )
        by_tensor: dict[str, list[Load]] = {}
        for load in stage.reads:
            if load.tensor != stage.name:
                by_tensor.setdefault(load.tensor, []).append(load)
        reads = [
            StoreAccess(
                name,
                workload.buffers[name].shape,
                float(dtype(loads[0].dtype).bytes),
                False,
                True,
                tuple(tuple(self._index(i, block) for i in load.indices) for load in loads),
            )
            for name, loads in by_tensor.items()
        ]
        several = {x.name: x.several for x in loops}
        counts = counted(stage, lambda e: self._terms(e, block, several))
        realized = self._product([block.axes[a.name].length for a in stage.axes])
        outside = self._product([x.extent for x in loops if x.stage != stage.name])
        # steps of reductions in a row, times the points of the tile, each a store
        written = self._ones()
        if stage.reduction:
            points = self._product([v.count for v in block.tile if v.name != block.vector])
            written = points * self._all(block.unroll)
        return Store(stage, False, loops, (own, *reads), counts, realized, outside, written)

    # -- numbers -----------------------------------------------------------------------------------------------------

    def _ones(self) -> Array:
        return np.ones(self.size)

    def _all(self, value: Any) -> Array:
        """A number or a truth of every candidate."""
        given = np.asarray(value)
        kind = bool if given.dtype == bool else np.float64
        return given.astype(kind, copy=False) if given.ndim else np.full(self.size, given, kind)

    def _product(self, values: list[Any]) -> Array:
        found = self._ones()
        for value in values:
            found = found * self._all(value)
        return found

    def _loop(self, var: LoopVar, parallel: Array, unrolled: Array, vectorized: bool = False, prefix: str = "") -> StoreLoop:
        extent = self._all(var.count)
        return StoreLoop(prefix + var.name, var.stage, extent, var.reduce, parallel, unrolled, vectorized, var.bound)

    def _own(self, block: Block, var: LoopVar, prefix: str = "") -> StoreLoop:
        """A loop of a block: those over its results are all written out, those over its reduction where they are marked."""
        vectorized = var.name == block.vector
        marked = not vectorized and (not var.reduce or var.name in block.laid_out)
        unrolled = self._all(marked if not var.reduce else is_laid_out(marked, var.count))
        return self._loop(var, self._all(False), unrolled, vectorized, prefix)

    def _index(self, e: Expr, block: Block, renamed: Mapping[str, str] | None = None) -> Index:
        new = renamed or {}
        form = affine(e)
        if form is None:
            loops = {n for a in variables(e) if a in block.axes for n in block.axes[a].value.terms}
            return Index({new.get(n, n): self._ones() for n in sorted(loops)}, self._all(0), False)
        linear: Linear = over_loops(form, block.axes)
        return Index({new.get(n, n): self._all(c) for n, c in linear.terms.items()}, self._all(linear.offset), True)

    def _terms(self, e: Expr, block: Block, several: Mapping[str, Array]) -> tuple[Array, Array]:
        """(multiplications, additions) of an affine index, loops of one step left out."""
        index = self._index(e, block)
        terms, factors = np.zeros(self.size), np.zeros(self.size)
        for name, coefficient in index.coefficients.items():
            there = several[name] & (coefficient != 0)
            terms = terms + there
            factors = factors + (there & (np.abs(coefficient) != 1))
        return factors, np.maximum(0.0, terms + (index.offset != 0) - 1.0)


def _in_order(block: Block) -> list[LoopVar]:
    """The loops of a block in the order in which points are visited: the reduction, the tile, then what a lane takes."""
    last = (block.group, block.vector)
    loops = [v for v in (*block.reduce, *block.tile) if v.name not in last]
    return loops + [block.loop(name) for name in last if name is not None]


def _loops_to(program: Program, block: Block) -> list[LoopVar]:
    """The loops around a block, outermost first."""

    def below(node: Node) -> list[LoopVar] | None:
        inside = node.body if isinstance(node, Loop) else node.before
        if node is block:
            return []
        for inner in inside:
            found = below(inner)
            if found is not None:
                return [node.var, *found] if isinstance(node, Loop) else found
        return None

    return next(found for found in map(below, program.body) if found is not None)
