"""Cache write: results are gathered in a buffer of their own and copied out once.

    C[i, j] = sum(...)    ->    C.cache[i, j] = sum(...); C[i, j] = C.cache[i, j]

The cache is then fused into the copy by the rule for fusion.
"""

from __future__ import annotations

from tensorsmith.space.analysis import needs_tiling, reduces_constant
from tensorsmith.space.rules.base import Derived, State, Verdict, simple_nest
from tensorsmith.space.rules.fusion import fusible_reader
from tensorsmith.space.sketch.rewrite import CacheWrite
from tensorsmith.targets.target import Target


class AddCacheWrite:
    """Applies to a stage with reuse that no elementwise reader follows."""

    name = "cache_write"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        if not needs_tiling(stage) or reduces_constant(state.now, stage) or fusible_reader(state, stage.name):
            return Verdict.SKIP
        return Verdict.SKIP if state.has_cache_write(stage.name) or state.nest(stage.name) else Verdict.APPLY

    def apply(self, state: State, index: int, target: Target) -> Derived:
        name = state.stage(index).name
        new = state.rewritten(CacheWrite(name))
        new = new.with_nest(simple_nest(new.now.stage(name)))  # kept only if the cache is so cheap that it is inlined
        return [(new, index)]  # the cache stands where the stage stood; the copy comes behind it
