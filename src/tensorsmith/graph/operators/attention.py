"""Which keys a query may see."""

from __future__ import annotations

import functools
import math

from tensorsmith.errors import UserError
from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, select
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import check_rank


@operator("band_mask", Kind.INJECTIVE)
def band_mask(
    scores: Tensor, *lengths: Tensor, offset: int = 0, before: int | None = None, after: int | None = None, name: str
) -> Tensor:
    """Scores (B, H, queries, keys), -inf where query i, which stands at place p = i + offset, may not see key j.

    It sees p - before <= j <= p + after; None is no limit. Where `lengths` (B) are given, keys past them are not seen, and query i
    stands at lengths[b] - queries + i.
    """
    check_rank(scores, 4, name, "(batch, heads, queries, keys)")
    if lengths and lengths[0].shape != scores.shape[:1]:
        raise UserError(f"{name}: {lengths[0].name} has the shape {list(lengths[0].shape)}; expected {list(scores.shape[:1])}")
    queries = scores.shape[2]

    def body(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        limit = define.cast("i64", lengths[0][b]) if lengths else None
        place = i + offset if limit is None else i + limit - queries
        seen = [] if limit is None else [j < limit]
        seen += [] if after is None else [j <= place + after]
        seen += [] if before is None else [j >= place - before]
        if not seen:
            return scores[b, h, i, j]
        return select(functools.reduce(lambda x, y: x & y, seen), scores[b, h, i, j], -math.inf)

    return compute(scores.shape, body, name=name)
