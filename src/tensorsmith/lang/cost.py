"""What an expression costs, where a value that is used again is computed once, and of a choice only one branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.lang.expr import Expr

Inside = tuple[Sequence[Expr], Sequence[Expr]]  # operands, all of which are computed, and branches, only one of which is


def cost(e: Expr, own: Callable[[Expr], int], inside: Callable[[Expr], Inside]) -> int:
    """`own` of all nodes that are computed, each once; of branches, those that cost most by themselves."""
    alone: dict[Expr, int] = {}

    def by_itself(branch: Expr) -> int:
        if branch not in alone:
            alone[branch] = added(branch, set())
        return alone[branch]

    def added(x: Expr, counted: set[Expr]) -> int:
        if x in counted:
            return 0
        counted.add(x)
        operands, branches = inside(x)
        total = own(x) + sum(added(c, counted) for c in operands)
        return total + (added(max(branches, key=by_itself), counted) if branches else 0)

    return added(e, set())
