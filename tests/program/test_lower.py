"""Lowering: splits, regions with halos, overhanging tiles, packing, and whole programs as golden texts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.property.agreement import disagreements

from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.program.lower import lower, lower_decisions, split
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch

GOLDEN = Path(__file__).parent.parent / "golden"
UPDATE = "TENSORSMITH_UPDATE_GOLDEN"  # set it to write the texts that are found instead of comparing them


def candidate(workload, *nests, rewrites=(), **decisions):
    """A candidate; `D_i_1=4` is the hole `D.i.1`, and holes that are not given are 1 (0 for parallel)."""
    sketch = Sketch(workload, nests, tuple(rewrites)).check()
    given = {name.replace("_", "."): value for name, value in decisions.items()}
    chosen = {h: given.pop(h, 0 if h.endswith(".parallel") else 1) for h in sketch.holes}
    assert not given, f"no such holes: {given}"
    return Candidate(sketch, chosen)


def matmul_relu(n=13, m=10, depth=7):
    a = ts.placeholder((n, depth), name="A")
    b = ts.placeholder((depth, m), name="B", constant=True)
    k = ts.reduce_axis(depth, name="k")
    c = ts.compute((n, m), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ts.workload([a, b, ts.compute((n, m), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")])


def blur(n=20, taps=3, step=1):
    """P, then windows of it."""
    a = ts.placeholder((n,), name="A")
    p = ts.compute((n,), lambda x: a[x] * 2.0, name="P")
    k = ts.reduce_axis(taps, "k")
    out = (n - taps) // step + 1
    return ts.workload([a, ts.compute((out,), lambda i: ts.sum(p[i * step + k], axis=k), name="C")])


@pytest.mark.parametrize(
    "length, sizes, counts",
    [
        (100, [4, 8], [4, 4, 8]),
        (100, [], [100]),
        (7, [8], [1, 7]),
        (7, [1], [7, 1]),
        (13, [4], [4, 4]),
        (13, [99, 4], [1, 4, 4]),
        (13, [4, 99], [1, 1, 13]),
        (1, [3, 3, 3], [1, 1, 1, 1]),
    ],
)
def test_split(length, sizes, counts):
    assert split(length, sizes) == counts
    assert np.prod(counts) >= length


def test_split_of_arrays_is_split_of_rows():
    sizes = [np.array([4, 1, 99]), np.array([8, 99, 3])]
    together = split(100, sizes)
    for n in range(3):
        assert [int(c[n]) for c in together] == split(100, [int(s[n]) for s in sizes])


def region(program, stage):
    block = next(b for b in program.blocks() if b.stage.name == stage)
    return {a.name: (str(block.axes[a.name].origin), block.axes[a.name].length) for a in block.stage.axes}


def test_halo_region():
    """A tile of 4 outputs needs 4 + 2 elements; with stride 2, (4 - 1) * 2 + 3."""
    nests = Nest("P", "| x.0", at="C:1"), Nest("C", "i.0 i.1 | k.0")
    c = candidate(blur(), *nests, C_i_1=4)
    program = lower(c)
    assert region(program, "P") == {"x": ("4*C.i.0", 6)}
    assert program.buffers["P"].shape == (6,) and program.buffers["P"].kind == "local"
    assert not disagreements(c.sketch.workload, c)
    c = candidate(blur(step=2), *nests, C_i_1=4)
    assert region(lower(c), "P") == {"x": ("8*C.i.0", 9)}
    assert not disagreements(c.sketch.workload, c)


def test_region_of_fixed_reduction_loops():
    """Inside the reduction loop only one tap is needed."""
    c = candidate(blur(), Nest("P", "| x.0", at="C:2"), Nest("C", "i.0 k.0 | i.1"), C_i_1=4)
    assert region(lower(c), "P") == {"x": ("4*C.i.0 + C.k.0", 4)}
    assert not disagreements(c.sketch.workload, c)


def test_region_of_two_readers_is_their_union():
    a = ts.placeholder((20,), name="A")
    p = ts.compute((20,), lambda x: a[x] + 1.0, name="P")
    w = ts.workload([a, ts.compute((17,), lambda i: p[i] + p[i + 3], name="C")])
    c = candidate(w, Nest("P", "x.0 |", at="C:1"), Nest("C", "i.0 | i.1"), C_i_1=4)
    assert region(lower(c), "P") == {"x": ("4*C.i.0", 7)}
    assert not disagreements(w, c)


def test_a_region_that_could_start_before_the_tensor_is_the_whole():
    a = ts.placeholder((9,), name="A")
    p = ts.compute((9,), lambda x: a[x] + 1.0, name="P")
    w = ts.workload([a, ts.compute((9,), lambda i: ts.select(i >= 2, p[i - 2], 0.0), name="C")])
    c = candidate(w, Nest("P", "x.0 |", at="C:1"), Nest("C", "i.0 | i.1"), C_i_1=4)
    assert region(lower(c), "P") == {"x": ("0", 9)}
    assert not disagreements(w, c)


@pytest.mark.parametrize("vector", [None, "i.1"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_region_behind_the_tensor_is_not_computed(vector, depth):
    """Right padding: the last tiles ask for nothing. (The readers of memory past the end are found by guard pages.)"""
    a = ts.placeholder((9,), name="A")
    p = ts.compute((9,), lambda x: a[x] + 1.0, name="P")
    w = ts.workload([a, ts.compute((40,), lambda i: ts.select(i < 9, p[i], 0.0), name="C")])
    loops = "i.0 | i.1" if depth == 1 else "i.0 i.1 |"
    c = candidate(w, Nest("P", "| x.0", at=f"C:{depth}"), Nest("C", loops, vector if depth == 1 else None), C_i_1=4)
    assert not disagreements(w, c)


@pytest.mark.parametrize("loops", ["i.0 | i.1", "i.0 i.1 |", "i.0 i.1 i.2 |"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_reversed_reads(loops, depth):
    """The region of a smaller tile ends, not starts, where that of a full one does."""
    a = ts.placeholder((30,), name="A")
    p = ts.compute((30,), lambda x: a[x] + 1.0, name="P")
    w = ts.workload([a, ts.compute((21,), lambda i: p[29 - i], name="C")])
    if depth <= loops.split("|")[0].count("."):
        sizes = {f"C_i_{n}": 4 for n in range(1, loops.count("."))}
        c = candidate(w, Nest("P", "| x.0", at=f"C:{depth}"), Nest("C", loops), **sizes)
        assert not disagreements(w, c)


def test_fused_parallel_parts_of_one_axis_overhang():
    w = matmul_relu(9, 5)
    for parallel in range(5):
        c = candidate(w, Nest("C", "i.0 j.0 | k.0"), Nest("D", "i.0 i.1 j.0 j.1 |"), D_i_1=4, D_j_1=3, D_parallel=parallel)
        assert not disagreements(w, c)


def test_overhang_is_never_stored():
    c = candidate(matmul_relu(), Nest("C", "| k.0 i.0 j.0", at="D:2"), Nest("D", "i.0 j.0 | i.1 j.1"), D_i_1=5, D_j_1=4)
    program = lower(c)
    assert region(program, "C") == {"i": ("5*D.i.0", 5), "j": ("4*D.j.0", 4)}
    assert not disagreements(c.sketch.workload, c)


def test_lanes_are_neighbours_in_a_packed_constant():
    nests = Nest("C", "i.0 j.0 | j.1 i.1 k.0", vector="j.1", packed=("B",)), Nest("D", "i.0 j.0 |")
    program = lower(candidate(matmul_relu(), *nests, C_j_1=4))
    packed = program.buffers["B"].packed
    assert packed is not None and [v.name for v in packed.loops] == ["C.j.0", "C.k.0", "C.j.1"]


def test_packing_refuses():
    a = ts.placeholder((8,), name="A")
    b = ts.placeholder((8,), name="B", constant=True)
    w = ts.workload([a, b, ts.compute((4,), lambda i: a[i] * b[i] + b[i + 1], name="C")])
    for tensor in ("A", "B"):
        with pytest.raises(Refusal, match=f"cannot pack: {tensor} must be a constant that is read once"):
            lower(candidate(w, Nest("C", "i.0 |", packed=(tensor,))))


def test_arrays_and_integers():
    c = candidate(matmul_relu(), Nest("C", "| k.0 i.0 j.0", at="D:2"), Nest("D", "i.0 j.0 | i.1 j.1"))
    program = lower_decisions(c.sketch, {**c.decisions, "D.i.1": np.array([2, 5, 13]), "D.j.1": np.array([10, 3, 4])})
    counts = {v.name: v.count for b in program.blocks() for v in b.tile}
    assert counts["D.i.1"].tolist() == [2, 5, 13]
    assert counts["C.i.0"].tolist() == [2, 5, 13]
    assert counts["C.j.0"].tolist() == [10, 3, 4]


def cases():
    a = ts.placeholder((12, 12), name="A")
    w = ts.placeholder((3, 3), name="W", constant=True)
    pad = ts.compute((14, 14), lambda y, x: ts.select((y >= 1) & (y < 13) & (x >= 1) & (x < 13), a[y - 1, x - 1], 0.0), name="P")
    r, s = ts.reduce_axis(3, "r"), ts.reduce_axis(3, "s")
    conv = ts.workload([a, w, ts.compute((12, 12), lambda i, j: ts.sum(pad[i + r, j + s] * w[r, s], axis=[r, s]), name="C")])
    x = ts.placeholder((5, 33), name="X")
    k = ts.reduce_axis(33, "k")
    m = ts.compute((5,), lambda i: ts.max(x[i, k], axis=k), name="M")
    e = ts.compute((5, 33), lambda i, j: ts.exp(x[i, j] - m[i]), name="E")
    t = ts.compute((5,), lambda i: ts.sum(e[i, k], axis=k), name="S")
    softmax = ts.workload([x, ts.compute((5, 33), lambda i, j: e[i, j] / t[i], name="Y")])
    total = ts.workload([x, ts.compute((5,), lambda i: ts.sum(x[i, k], axis=k), name="R")])
    return {
        "matmul_relu": candidate(
            matmul_relu(),
            Nest("C", "k.0 | k.1 i.0 j.0", vector="j.0", at="D:2", packed=("B",)),
            Nest("D", "i.0 j.0 | i.1 j.1", vector="j.1"),
            C_k_1=4, C_unroll=2, D_i_1=4, D_j_1=8, D_parallel=2,
        ),
        "padded_conv": candidate(
            conv,
            Nest("P", "y.0 | x.0", vector="x.0", at="C:2"),
            Nest("C", "i.0 j.0 i.1 | r.0 s.0! j.1", vector="j.1", packed=("W",)),
            C_i_1=4, C_j_1=8, C_parallel=1,
        ),
        "softmax": candidate(
            softmax,
            Nest("M", "i.0 | k.0 k.1", vector="k.1", at="Y:1"),
            Nest("E", "j.0 i.0 | j.1", vector="j.1", at="Y:1"),
            Nest("S", "| k.0 k.1 i.0", vector="k.1", at="Y:1"),
            Nest("Y", "i.0 j.0 | j.1", vector="j.1"),
            M_k_1=8, E_j_1=16, S_k_1=8, Y_j_1=16, Y_parallel=1,
        ),
        "row_sum_rfactor": candidate(
            total,
            Nest("R.rf", "i.0 | k.0 k_f.0", vector="k_f.0", at="R:1"),
            Nest("R", "i.0 | k_f.0", vector="k_f.0"),
            rewrites=[Rfactor("R", "k", 8, True)],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(cases()))
def test_golden(name):
    chosen = cases()[name]
    assert not disagreements(chosen.sketch.workload, chosen)
    path = GOLDEN / f"{name}.txt"
    text = f"{chosen.sketch.rewritten}\n\n{chosen.sketch.brief()}\n\n{lower(chosen)}\n"
    if os.environ.get(UPDATE):
        path.write_text(text)
    assert path.read_text() == text, f"run with {UPDATE}=1 if the change is intended, and read the diff"
