"""The interpreter does what a program says: tested where the evaluator of definitions knows nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorsmith.lang import define as ts
from tensorsmith.program.interpret import interpret
from tensorsmith.program.ir import Block, Loop
from tensorsmith.program.lower import lower
from tensorsmith.program.packing import pack
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def program_of(workload, *nests, **decisions):
    sketch = Sketch(workload, nests).check()
    given = {name.replace("_", "."): value for name, value in decisions.items()}
    return lower(Candidate(sketch, {h: given.get(h, 0 if h.endswith("parallel") else 1) for h in sketch.holes}))


def rows(n=5, m=7):
    a = ts.placeholder((n, m), "i32", name="A")
    k = ts.reduce_axis(m, "k")
    return ts.workload([a, ts.compute((n,), lambda i: ts.sum(a[i, k], axis=k), name="R")])


A = np.arange(35, dtype=np.int32).reshape(5, 7)


def test_outer_reduction_loops_start_afresh_once():
    for loops in ("k.0 i.0 | k.1", "i.0 k.0 | k.1", "k.0 k.1 | i.0", "| i.0 k.0 k.1", "k.0 i.0 k.1 |"):
        program = program_of(rows(), Nest("R", loops), R_k_1=3)
        assert interpret(program, {"A": A})["R"].tolist() == A.sum(1).tolist(), loops


def test_a_program_without_its_loop_is_wrong():
    """It really follows the loops: with one step fewer, the last rows stay as garbage."""
    program = program_of(rows(), Nest("R", "i.0 | k.0"))
    (loop,) = program.body
    assert isinstance(loop, Loop)
    cut = replace(program, body=(replace(loop, var=replace(loop.var, count=4)),))
    assert interpret(cut, {"A": A})["R"].tolist() == [*A.sum(1)[:4].tolist(), 77]


def test_what_is_attached_sees_only_its_region():
    a = ts.placeholder((10,), name="A")
    p = ts.compute((10,), lambda x: a[x] + 1.0, name="P")
    w = ts.workload([a, ts.compute((8,), lambda i: p[i] + p[i + 2], name="C")])
    program = program_of(w, Nest("P", "x.0 |", at="C:1"), Nest("C", "i.0 | i.1"), C_i_1=3)
    x = np.arange(10, dtype=np.float32)
    assert interpret(program, {"A": x})["C"].tolist() == (2 * x[:8] + 4).tolist()
    # a region that is one too short reads what nobody has written, or a neighbour
    short = {b.stage.name: b for b in program.blocks()}["P"]
    assert isinstance(short, Block) and program.buffers["P"].shape == (5,)


def test_tensors_without_dimensions():
    a = ts.placeholder((), name="A", constant=True)
    b = ts.placeholder((6,), name="B")
    k = ts.reduce_axis(6, "k")
    s = ts.compute((), lambda: ts.sum(b[k] * a[()], axis=k), name="S")
    w = ts.workload([a, b, ts.compute((), lambda: s[()] + a[()], name="T")])
    arrays = {"A": np.array(2.0, np.float32), "B": np.arange(6, dtype=np.float32)}
    for loops in ("k.0 |", "| k.0", "k.0 | k.1"):
        program = program_of(w, Nest("S", loops, packed=()), Nest("T", "|"), S_k_1=4)
        assert interpret(program, arrays)["T"] == 32
    one = ts.workload([a, b, ts.compute((6,), lambda i: b[i] + a[()], name="T")])
    program = program_of(one, Nest("T", "i.0 |", packed=("A",)))
    assert interpret(program, arrays)["T"].tolist() == [2, 3, 4, 5, 6, 7]


def test_packed_constants_are_in_loop_order_and_zero_past_the_end():
    a = ts.placeholder((5,), name="A", constant=True)
    w = ts.workload([a, ts.compute((5, 2), lambda i, j: a[i] + ts.cast("f32", j), name="C")])
    program = program_of(w, Nest("C", "i.0 j.0 | i.1", packed=("A",)), C_i_1=3)
    packed = program.buffers["A"].packed
    assert [v.name for v in packed.loops] == ["C.i.0", "C.i.1"]
    x = np.arange(1, 6, dtype=np.float32)
    assert pack(packed, x).tolist() == [[1, 2, 3], [4, 5, 0]]
    assert interpret(program, {"A": x})["C"].tolist() == [[v, v + 1] for v in x]


def test_computed_indices_are_clamped():
    a = ts.placeholder((4,), name="A")
    n = ts.placeholder((4,), "i32", name="N")
    w = ts.workload([a, n, ts.compute((4,), lambda i: a[n[i]], name="C")])
    arrays = {"A": np.arange(4, dtype=np.float32), "N": np.array([-3, 1, 3, 9], np.int32)}
    assert interpret(program_of(w, Nest("C", "| i.0")), arrays)["C"].tolist() == [0, 1, 3, 3]
