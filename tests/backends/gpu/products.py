"""A matrix product in Ansor's structure for GPUs, written by hand: what others are compared with."""

from __future__ import annotations

import tensorsmith as ts
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import CacheRead, CacheWrite
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def workload(m: int, n: int, k: int) -> Workload:
    a, b = ts.placeholder((m, k), name="A"), ts.placeholder((k, n), name="B")
    axis = ts.reduce_axis(k, name="k")
    return ts.workload([a, b, ts.compute((m, n), lambda i, j: ts.sum(a[i, axis] * b[axis, j], axis=axis), name="C")])


def sketch(m: int, n: int, k: int) -> Sketch:
    """Tiles of A and B in shared memory, sums in registers, virtual threads."""
    return Sketch(
        workload(m, n, k),
        (
            Nest("A.pack", "i.0@thread k.0@thread | k.1", vector="k.1", at="C.cache:1"),
            Nest("B.pack", "k.0@thread j.0@thread | j.1", vector="j.1", at="C.cache:1"),
            Nest("C.cache", "k.0 k.1 i.0 j.0 | k.2 i.1 j.1", at="C:6"),
            Nest("C", "i.0@block j.0@block i.1@vthread j.1@vthread i.2@thread j.2@thread | i.3 j.3", vector="j.3"),
        ),
        (CacheWrite("C"), CacheRead("C.cache", "A"), CacheRead("C.cache", "B")),
    )


def decisions(
    vthread: tuple[int, int] = (1, 1),
    thread: tuple[int, int] = (8, 8),
    inner: tuple[int, int] = (1, 1),
    tile: tuple[int, int] = (4, 4),
    deep: tuple[int, int] = (4, 4),
    fetch: tuple[int, int] = (1, 1),
    unroll: int = 16,
) -> dict[str, int]:
    """What Ansor's tile sizes are called here: of a block, `vthread` x `thread` x `inner` x `tile` results, `deep` steps of k."""
    found = {
        "A.pack.k.1": fetch[0],
        "B.pack.j.1": fetch[1],
        "C.cache.k.1": deep[0],
        "C.cache.k.2": deep[1],
        "C.cache.unroll": unroll,
    }
    for axis, v, t, i, e in zip("ij", vthread, thread, inner, tile):
        found |= {f"C.{axis}.1": v, f"C.{axis}.2": t, f"C.{axis}.3": i * e, f"C.cache.{axis}.1": e}
    return found


def candidate(m: int, n: int, k: int, **sizes: object) -> Candidate:
    made = sketch(m, n, k)
    given = decisions(**sizes)  # type: ignore[arg-type]
    return Candidate(made, {hole.name: given.get(hole.name, 1) for hole in made.numbers})
