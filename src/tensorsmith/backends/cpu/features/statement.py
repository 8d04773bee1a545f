"""Statements: the blocks of a program, each with its loops, its accesses, and the features that are worked out from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorsmith.backends.cpu.features.access import Access, Reuse, accesses
from tensorsmith.backends.cpu.features.nest import Nested, nested_blocks
from tensorsmith.backends.cpu.features.numbers import Integer, Num
from tensorsmith.program.ir import Program
from tensorsmith.program.layout import Spacing, layouts


@dataclass
class Statement:
    """One block with everything known about it; `values` are unscaled features by name."""

    nested: Nested
    accesses: list[Access]
    values: dict[str, Num] = field(default_factory=dict)
    reuses: dict[int, Reuse] = field(default_factory=dict)  # by access that has a slot
    arithmetic: Num = 0.0  # operations in all
    # bytes of the lines that the whole program touches, then by level those that one step of it does, all statements in it together
    bodies: list[Num] = field(default_factory=list)


def statements(
    program: Program, spacing: Spacing, decisions: Mapping[str, Integer] | None = None, only: frozenset[str] | None = None
) -> list[Statement]:
    """Every block, or those of the stages given, with its loops and accesses, before anything is worked out."""
    laid_out = layouts(program, spacing)
    nests = nested_blocks(program, laid_out, decisions, only)
    held = frozenset(n.stage for n in nests if n.held)
    by_stage = {n.stage: n for n in nests}
    found = []
    for n in nests:
        assert n.block is not None
        if only is not None and n.stage not in only:
            continue
        statement = Statement(n, accesses(program, laid_out, n, n.block, held))
        for access in statement.accesses:
            users = program.workload.consumers[access.name] if access.write else (access.name,)
            others = [u for u in users if program.workload.is_stage(u)]
            if others:  # of which some may be in other root nests
                access.shared = float(max(n.shared(by_stage[u]) if u in by_stage else 0 for u in others))
                access.partners = float(len(others))
        found.append(statement)
    return found
