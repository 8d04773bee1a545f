"""Matrix instructions (tensor cores), a rule of ours: a sum in f32 of products of f16 is computed by whole warps.

C[i, j] = sum(f32(A[i, k]) * f32(B[k, j])); D[i, j] = relu(C[i, j])
    ->    D: blocks, tiles in turns, warps, lanes; inside of them C: k.0, where the tiles of A and B are fetched, then k.1, in
          each step of which a warp multiplies 16 x 16 by 16 x 8 for each of its tiles
"""

from __future__ import annotations

from tensorsmith.backends.gpu.matrix import matrix_product
from tensorsmith.backends.gpu.rules import nests
from tensorsmith.backends.gpu.rules.tiling import with_fetched
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.rules.fusion import fusible_reader
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.targets.target import Target


class MatrixInstructions:
    """Applies to products of matrices, batched or not, on machines that have such instructions; the rules after it are asked too.
    Both operands have to be such that their tiles can be fetched. A split reduction has to be one of the steps, whose
    parts are whole instructions (`split.py`)."""

    name = "gpu_matrix"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        assert isinstance(target, GpuTarget)
        stage = state.stage(index)
        product = matrix_product(stage)
        if not target.matrix_flops or product is None or not fusible_reader(state, stage.name):
            return Verdict.SKIP
        if any(isinstance(r, Rfactor) and r.axis != product.steps for r in state.rewrites):
            return Verdict.SKIP
        fetched = nests.fetchable(state.now, stage)
        return Verdict.APPLY if {product.left.tensor, product.right.tensor} <= set(fetched) else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        product = matrix_product(stage)
        assert product is not None
        reader = state.now.stage(str(fusible_reader(state, stage.name)))
        place = {a.name: b.name for a, b in zip(stage.axes, reader.axes)}
        outer = nests.by_matrix(reader, place[product.rows], place[product.columns])
        new = state.with_nest(outer).with_nest(nests.matrix_product(stage, outer, product.steps, ahead=True))
        return [with_fetched(new, stage, padded=True)]
