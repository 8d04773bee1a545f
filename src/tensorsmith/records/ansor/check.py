"""Compares programs that we lower with what the steps describe: loops, what they are bound to, places, memory.

Both are brought to one form, a line for each loop that runs more than once, `i 8 block`, with the loops around each stage and its
scope of memory. The one side is read off the loop program of the placed candidates, the other off the replayed stages; nothing that
placing worked out is used. A tile that threads fetch is told by its extents and by how many neighbours a thread takes at once. What
the steps do not tell (how loops of a register tile become code) is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, own_block
from tensorsmith.program.lower import lower_decisions
from tensorsmith.records.ansor.placing import Placed
from tensorsmith.records.ansor.state import Array, Iterator, StageState, State

_WORDS = {"blockIdx.x": "block", "threadIdx.x": "thread"}


Line = tuple[str, Array, str]  # axis, steps in each record, mark


@dataclass
class _Stage:
    """A stage's loops, those of other stages around it, and its scope of memory."""

    loops: list[Line] = field(default_factory=list)
    around: list[Line] = field(default_factory=list)
    scope: str = ""


def differing(placed: Placed) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """By record: whether the lowered program has other loops, places or scopes than the steps describe."""
    rows = len(placed.state.numbers)
    program = lower_decisions(placed.sketch, placed.decisions)
    ours, theirs = _of_program(program, rows), _of_state(placed.state, rows)
    found = np.zeros(rows, bool)
    if ours.keys() != theirs.keys() or any(ours[name].scope != theirs[name].scope for name in ours):
        return ~found
    for name, mine in ours.items():
        for a, b in ((mine.loops, theirs[name].loops), (mine.around, theirs[name].around)):
            found |= np.array([x != y for x, y in zip(_forms(a, rows), _forms(b, rows))], bool)
    return found


def _forms(loops: Sequence[Line], rows: int) -> list[list[tuple[str, int, str]]]:
    """By record: the loops that run more than once."""
    columns = [(axis, n.tolist(), mark) for axis, n, mark in loops]
    return [[(axis, n[row], mark) for axis, n, mark in columns if n[row] > 1] for row in range(rows)]


# -- of our programs -----------------------------------------------------------------------------------------------------


def _of_program(program: Program, rows: int) -> dict[str, _Stage]:
    found: dict[str, _Stage] = {}

    def visit(node: Node, around: list[Line]) -> None:
        stage = own_block(node).stage.name
        mine = found[stage] = _Stage(around=around, scope=_scope(program.buffers[stage].kind))
        inside: Node = node
        while isinstance(inside, Loop):
            mine.loops.append(_line(inside.var, rows, "parallel" if inside.parallel else ""))
            chain = [*around, *((axis, n, "" if mark == "parallel" else mark) for axis, n, mark in mine.loops)]
            for other in inside.body[:-1]:
                visit(other, chain)
            inside = inside.body[-1]
        chain = [*around, *((axis, n, "" if mark == "parallel" else mark) for axis, n, mark in mine.loops)]
        for other in inside.before:
            visit(other, chain)
        mine.loops += [_line(v, rows, "") for v in (*inside.reduce, *inside.tile)]
        if mine.scope == "shared" and inside.stage.reduction is None:
            mine.loops = _tile(inside, mine.loops, program, rows)
        threads = program.decisions.get(f"{stage}.threads")
        if threads is not None:
            mine.loops.append(("threads", _array(threads, rows), ""))

    for node in program.body:
        visit(node, [])
    return found


def _tile(block: Block, loops: Sequence[Line], program: Program, rows: int) -> list[Line]:
    """The extents of a tile that threads fetch, and the neighbours that each takes at once, if they go on from row to row."""
    extents: dict[str, Array] = {}
    for axis, n, _ in loops:
        extents[axis] = extents.get(axis, _array(1, rows)) * n
    width = _array(program.decisions.get(f"{block.stage.name}.run", 1), rows)
    if block.vector is not None:
        lanes = block.loop(block.vector)
        behind = [extents[a.name] for a in block.stage.axes[[a.name for a in block.stage.axes].index(lanes.axis) + 1 :]]
        length = np.broadcast_to(np.asarray(block.axes[lanes.axis].length, np.int64), rows)
        flat = (length % np.asarray(lanes.count) == 0) & np.all([n == 1 for n in [*behind, _array(1, rows)]], axis=0)
        width = width * np.where((_array(lanes.count, rows) == 1) | flat, _array(lanes.count, rows), -1)
        extents[lanes.axis] = length
    return [
        *((axis, n, "thread") for axis, n in extents.items()),
        ("width", np.abs(width) + 1, "" if (width > 0).all() else "torn"),
    ]


def _array(n: Any, rows: int) -> Array:
    return np.broadcast_to(np.asarray(n, np.int64), rows)


def _line(v: LoopVar, rows: int, mark: str) -> Line:
    return v.axis, _array(v.count, rows), v.bound or mark


def _scope(kind: str) -> str:
    return kind if kind in ("shared", "local") else ""


# -- of replayed stages --------------------------------------------------------------------------------------------------


def _of_state(state: State, rows: int) -> dict[str, _Stage]:
    return {s.name: _Stage(_all(s, rows), _around(s, rows), _scope_of(s)) for s in state.computed}


def _all(stage: StageState, rows: int) -> list[Line]:
    """A stage's loops; of blocks and threads that share all of its axes, and of tiles that threads fetch, what they come to."""
    loops = stage.loops
    if _scope_of(stage) == "shared" and loops[-1].annotation == "vectorize":
        width = loops[-1].length
        assert width is not None
        return [*_own(stage, loops, rows), ("width", _array(width, rows) + 1, "")]
    bound = [x for x in loops if x.annotation in _WORDS]
    marks = [x.annotation for x in bound]
    rest = [x for x in loops if x not in bound]
    if marks == ["blockIdx.x", "threadIdx.x"] and bound[0].parent is bound[1].parent is not None and not bound[0].reduce:
        whole = [("", x, "grid") for x in _root(bound[0]).leaves()]
    elif marks == ["threadIdx.x"] and stage.at is None and not bound[0].reduce:
        whole = [("", x, "grid") for x in bound[0].leaves()]
    else:
        found = _own(stage, loops, rows)
        if marks[-1:] == ["threadIdx.x"] and _root(bound[-1]).fused and _root(bound[-1]).parts and stage.at is None:
            assert bound[-1].extent is not None
            found.append(("threads", _array(bound[-1].extent, rows), ""))
        return found
    assert bound[-1].extent is not None
    lines = [_entry(leaf, mark, rows) for _, leaf, mark in whole]
    return [*lines, *_own(stage, rest, rows), ("threads", _array(bound[-1].extent, rows), "")]


def _scope_of(stage: StageState) -> str:
    if stage.at is None:
        return ""
    return "shared" if any(x.annotation == "threadIdx.x" for x in stage.loops) else "local"


def _own(stage: StageState, loops: Sequence[Iterator], rows: int) -> list[Line]:
    found: list[Line] = []
    done: set[Iterator] = set()
    for loop in loops:
        mark = _WORDS.get(loop.annotation, loop.annotation)
        root = _root(loop)
        # all of its steps are blocks and threads, or rounds and threads
        if (root.fused and root.parts) or (root.reduce and stage.at is not None and _dealt(root)):
            if root not in done:
                done.add(root)
                bound = "grid" if stage.at is None and not root.reduce else "thread"
                found += [_entry(leaf, bound, rows) for leaf in root.leaves()]
            continue
        for leaf in loop.leaves():
            found.append(_entry(leaf, mark if mark in ("block", "thread", "vthread", "parallel") else "", rows))
    return found


def _dealt(root: Iterator) -> bool:
    """Whether threads share the steps of a loop in rounds."""
    return [x.annotation for x in root.parts] == ["", "threadIdx.x"]


def _entry(leaf: Iterator, mark: str, rows: int) -> Line:
    assert leaf.extent is not None
    return _root(leaf).axis, np.broadcast_to(leaf.extent, rows), mark


def _root(loop: Iterator) -> Iterator:
    while loop.parent is not None:
        loop = loop.parent
    return loop


def _around(stage: StageState, rows: int) -> list[Line]:
    if stage.at is None:
        return []
    owner, last = stage.at
    own = _own(owner, owner.loops[: owner.loops.index(last) + 1], rows)
    return [*_around(owner, rows), *((axis, n, "" if mark == "parallel" else mark) for axis, n, mark in own)]
