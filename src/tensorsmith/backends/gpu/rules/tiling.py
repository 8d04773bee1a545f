"""Tiling for GPUs (Ansor's): a stage with reuse is computed in the registers of threads, its operands' tiles in shared memory.

    C[i, j] = sum(A[i, k] * B[k, j]); D[i, j] = relu(C[i, j])
        ->    D: blocks, virtual threads, threads; inside of them C: k.0, where the tiles of A and B are fetched, k.1, ...

A stage that no elementwise reader follows is computed into a cache first, which is then copied: the copy is its reader.
"""

from __future__ import annotations

from tensorsmith.backends.gpu.rules import nests
from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.rules.fusion import fusible_reader
from tensorsmith.space.sketch.rewrite import CacheWrite, Fetch, Rfactor
from tensorsmith.targets.target import Target


class CacheInRegisters:
    """Applies to a stage with reuse that no elementwise reader follows."""

    name = "gpu_cache_write"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not needs_tiling(stage) or reduces_constant(state.now, stage) or fusible_reader(state, stage.name):
            return Verdict.SKIP
        return Verdict.SKIP if state.has_cache_write(stage.name) or state.nest(stage.name) else Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        name = state.stage(index).name
        new = state.rewritten(CacheWrite(name))
        return [(new.with_nest(nests.plain(new.now.stage(name))), index)]


class GpuTiling:
    """Fusion at the third level of tiles: one sketch. Ours may have gaps between the rows of what is fetched, and fetch ahead."""

    name = "gpu_tiling"

    def __init__(self, ours: bool = False) -> None:
        self.ours = ours

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not needs_tiling(stage) or reduces_constant(state.now, stage) or not fusible_reader(state, stage.name):
            return Verdict.SKIP
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        reader = state.now.stage(str(fusible_reader(state, stage.name)))
        fetched = nests.fetchable(state.now, stage)
        whole = _parts(state, stage.name)
        new = state.with_nest(nests.tiled_nest(reader, whole)).with_nest(
            nests.product(stage, reader, self.ours and bool(fetched), whole)
        )
        return [with_fetched(new, stage, self.ours)]


def with_fetched(state: State, stage: Stage, padded: bool) -> tuple[State, int]:
    """A state in which the tiles of a stage's operands are fetched, and the stage to go on with."""
    for tensor in nests.fetchable(state.now, stage):
        fetch = Fetch(stage.name, tensor)
        state = state.rewritten(fetch)
        state = state.with_nest(nests.fetched(state.now.stage(fetch.copy), stage, padded))
    return state, [s.name for s in state.now.stages].index(_first(state, stage.name)) - 1


def _parts(state: State, name: str) -> frozenset[str]:
    """The axis of a stage that counts the parts of a split reduction: each has blocks of its own."""
    split = [r for r in state.rewrites if isinstance(r, Rfactor) and name in (r.partial, CacheWrite(r.partial).cache)]
    return frozenset(f"{r.axis}_f" for r in split)


def _first(state: State, name: str) -> str:
    """The first of a stage and the copies that were made for it, which stand in front of it."""
    copies = {r.copy for r in state.rewrites if isinstance(r, Fetch) and r.stage == name}
    return next(s.name for s in state.now.stages if s.name == name or s.name in copies)
