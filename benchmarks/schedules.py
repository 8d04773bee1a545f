"""Schedules given by hand for the cases of `codegen.py`: what the code generator is judged by before any search.

Each is a sketch with its decisions, the same data that the search works on. The register tiles differ with the number of vector
registers: 16 hold 12 results, 3 loads and a broadcast; 32 hold 28 results and the rest.
"""

from __future__ import annotations

from formulations import case_of
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import CacheRead, Inline
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import Target

Schedule = tuple[str, Workload, Candidate]


def hand_schedules(target: Target) -> dict[str, Schedule]:
    """By name: the title of the case, its workload, and the candidate for as many threads as the target has cores."""
    wide = target.vector_registers >= 32
    convolutions = {
        # name: (shape, loops, rows and vectors of the tile with 16 and with 32 registers, unroll)
        "conv-7x7-224": ((1, 224, 224, 3, 64, 7, 2, 3), ROWS, (4, 3), (14, 2), 6),
        "conv-1x1-56": ((1, 56, 56, 64, 64, 1, 1, 0), ROWS, (4, 2), (14, 2), 8),
        "conv-3x3-56": ((1, 56, 56, 64, 64, 3, 1, 1), ROWS, (6, 2), (14, 2), 4),
        "conv-3x3-28": ((1, 28, 28, 128, 128, 3, 1, 1), PANELS, (6, 2), (14, 2), 4),
        "conv-3x3-14": ((1, 14, 14, 256, 256, 3, 1, 1), BORDERS, (5, 2), (14, 2), 4),
        "conv-3x3-7": ((1, 7, 7, 512, 512, 3, 1, 1), BORDERS, (4, 3), (7, 3), 2),
    }
    tile = (12, 2) if wide else (6, 2)
    found = {"matmul-512": _matmul(512, target, tile), "matmul-1024": _blocked_matmul(1024, target, tile)}
    for name, (shape, loops, narrow_tile, wide_tile, unroll) in convolutions.items():
        found[name] = _conv(shape, loops, wide_tile if wide else narrow_tile, unroll, target)
    return found


#: a row of the image at a time, all channels of it, while its input is in the first cache
ROWS = "n.0 h.0 co.0 w.0 | kh.0 kw.0 ci.0 w.1 co.1"
#: some output channels at a time, all of the image, while their weights are in the second cache
PANELS = "n.0 co.0 h.0 w.0 | kh.0 kw.0 ci.0 w.1 co.1"
#: the same with the tiles of a row and the taps laid out, so that taps on the padding are known and left out
BORDERS = "n.0 co.0 h.0 w.0! | kh.0 kw.0! ci.0 w.1 co.1"


def _conv(shape: tuple[int, ...], loops: str, tile: tuple[int, int], unroll: int, target: Target) -> Schedule:
    title = f"C2D({', '.join(map(str, shape))})"
    workload = case_of(title).workload()
    rewrites = tuple(Inline(s.name) for s in workload.stages if s.name.endswith("_pad"))
    (conv,) = workload.outputs
    sketch = Sketch(workload, (Nest(conv, loops, vector="co.1", packed=("weight",)),), rewrites).check()
    rows, vectors = tile
    decisions = {"w.1": rows, "co.1": vectors * target.lanes(), "parallel": 2, "unroll": unroll}
    return title, workload, Candidate(sketch, {f"{conv}.{hole}": n for hole, n in decisions.items()})


def _matmul(n: int, target: Target, tile: tuple[int, int]) -> Schedule:
    """Neither operand is constant: a panel of b is copied in loop order, in every run, by the thread that works on it.

    Such a panel takes a quarter of the second cache, with all of its rows; a streams by.
    """
    title = f"matmul({n}, {n}, {n})"
    workload = case_of(title).workload()
    (name,) = workload.outputs
    b = workload.inputs[1].name
    nests = (
        Nest(f"{b}.pack", "k.0 j.0 | j.1", vector="j.1", at=f"{name}:2", follows=name),
        Nest(name, "i.0 j.0 i.1 j.1 | k.0 i.2 j.2", vector="j.2"),
    )
    sketch = Sketch(workload, nests, (CacheRead(name, b),)).check()
    rows, vectors = tile
    decisions = {"i.1": n, "i.2": rows, "j.1": 4, "j.2": vectors * target.lanes(), "parallel": 2, "unroll": 4}
    return title, workload, Candidate(sketch, {f"{name}.{hole}": value for hole, value in decisions.items()})


def _blocked_matmul(n: int, target: Target, tile: tuple[int, int]) -> Schedule:
    """Both operands are copied in loop order. Each thread has as many columns as the others and copies those of b, once; of a it
    copies as many rows at a time as three fifths of the second cache hold."""
    title = f"matmul({n}, {n}, {n})"
    workload = case_of(title).workload()
    (name,) = workload.outputs
    a, b = (x.name for x in workload.inputs)
    rewrites = (CacheRead(name, b), CacheRead(name, a))
    nests = (
        Nest(f"{b}.pack", "k.0 k.1 j.0 | j.1", vector="j.1", at=f"{name}:1", follows=name),
        Nest(f"{a}.pack", "i.0 k.0 | i.1", vector="i.1", at=f"{name}:3", follows=name),
        Nest(name, "j.0 i.0 k.0 j.1 i.1 | k.1 i.2 j.2", vector="j.2"),
    )
    sketch = Sketch(workload, nests, rewrites).check()
    rows, columns = tile[0], tile[1] * target.lanes()
    decisions = {
        "i.1": 3 * target.l2_bytes // (5 * 4 * n * rows), "i.2": rows, "j.1": -(-n // (columns * target.cores)), "j.2": columns,
        "k.1": n, "unroll": 4, "parallel": 1,
    }  # fmt: skip
    return title, workload, Candidate(sketch, {f"{name}.{hole}": value for hole, value in decisions.items()})
