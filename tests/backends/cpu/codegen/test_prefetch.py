"""The next panel of a packed operand is fetched while the current one is in use."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from tensorsmith.backends.cpu.codegen.addresses import Storage
from tensorsmith.backends.cpu.codegen.irtext import Value
from tensorsmith.backends.cpu.codegen.prefetch import fetching
from tensorsmith.backends.cpu.memory import spacing
from tensorsmith.build import build
from tensorsmith.lang.define import cast, compute, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.program.ir import Loop, loop_vars
from tensorsmith.program.layout import layouts
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

TARGET = dataclasses.replace(native(), l2_bytes=1 << 19, line_bytes=64)


def product(loops="j.0 i.0 | k.0 i.1 j.1", rows=64, depth=128, columns=256, constant=True, **sizes):
    a, b = placeholder((rows, depth), name="A"), placeholder((depth, columns), name="B", constant=constant)
    k = reduce_axis(depth, name="k")
    w = workload([a, b, compute((rows, columns), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")])
    sketch = Sketch(w, (Nest("C", loops, vector=loops.split()[-1], packed=("B",) if constant else ()),)).check()
    given = {"C.j.1": 16, "C.i.1": 4, "C.unroll": 2, "C.parallel": 1} | {f"C.{n.replace('_', '.')}": s for n, s in sizes.items()}
    return Candidate(sketch, {h: given.get(h, 1) for h in sketch.holes})


def found(candidate, target=TARGET):
    """What the tile of a product fetches, with the values of the loops around it unknown."""
    program = lower(candidate)
    node, around = program.body[0], {}
    while isinstance(node, Loop):
        around[node.var.name] = Value(f"%{node.var.name}", "i64")
        (node,) = node.body
    memory = {
        name: Storage(Value("%p", "ptr"), program.buffers[name].dtype, layout.strides, slack=True)
        for name, layout in layouts(program, spacing(target)).items()
    }
    return fetching(node, program.buffers, memory, loop_vars(program), around, target), loop_vars(program)


def test_the_passes_over_a_panel_fetch_all_of_the_next_one() -> None:
    (what,), loops = found(product())
    assert what.tensor == "B" and what.next_bytes == 128 * 16 * 4
    assert what.panel.terms == {"C.j.0": 128 * 16} and set(what.place.terms) == {"C.i.0", "C.k.0"}
    lines = {
        (int(what.place.terms["C.i.0"]) * i + int(what.place.terms["C.k.0"]) * k) // 64
        for i in range(int(loops["C.i.0"].count))
        for k in range(0, 128, min(2, what.every(64)))
    }
    assert lines == set(range(what.next_bytes // 64))


def test_passes_and_steps_are_counted_through_nested_loops() -> None:
    (what,), _ = found(product("j.0 i.0 i.1 | k.0 k.1 i.2 j.1", i_1=4, i_2=4, k_1=8))
    share = what.next_bytes // 16
    step = what.bytes_per_step
    assert step == -(-share // 128)
    assert what.place.terms == {"C.i.0": 4 * share, "C.i.1": share, "C.k.0": 8 * step, "C.k.1": step}


def test_every_operand_has_lines_of_its_own(monkeypatch) -> None:
    """Two panels, one with half as many bytes: in 32 steps of a pass two lines of the one are due, and one of the other."""
    a, k = placeholder((64, 128), name="A"), reduce_axis(128, name="k")
    b, c = (placeholder((128, 256), kind, name=name, constant=True) for name, kind in (("B", "f32"), ("C", "f16")))
    d = compute((64, 256), lambda i, j: total(a[i, k] * (b[k, j] + cast("f32", c[k, j])), axis=k), name="D")
    w = workload([a, b, c, d])
    sketch = Sketch(w, (Nest("D", "j.0 i.0 | k.0 i.1 j.1", vector="j.1", packed=("B", "C")),)).check()
    seen: list[str] = []
    monkeypatch.setattr("tensorsmith.backends.cpu.codegen.reduction.emit", lambda body, what, env: seen.append(what.tensor))
    build(Candidate(sketch, {"D.j.1": 16, "D.i.1": 4, "D.unroll": 32, "D.parallel": 1}), TARGET)
    assert Counter(seen) == {"B": 2, "C": 1}


@pytest.mark.parametrize(
    "candidate",
    [
        product("i.0 j.0 | k.0 i.1 j.1"),  # every panel is read once before the next
        product(columns=16),  # there is no next panel
        product(depth=16),  # short panels come by themselves
        product(depth=1 << 14, rows=16),  # two of these do not fit the second cache
        product(constant=False),  # not in the order of the loops
    ],
)
def test_where_nothing_is_fetched(candidate) -> None:
    assert found(candidate)[0] == []
    if candidate.sketch.workload.stages[0].reduce_axes[0].extent < 1 << 14:
        assert "@llvm.prefetch" not in build(candidate, TARGET).llvm_ir


@pytest.mark.parametrize("rows, depth, columns", [(64, 128, 256), (63, 131, 250), (9, 600, 48)])
@pytest.mark.parametrize("loops", ["j.0 i.0 | k.0 i.1 j.1", "j.0 k.0 i.0 | k.1 i.1 j.1"])
def test_results_are_right(loops, rows, depth, columns) -> None:
    candidate = product(loops, rows, depth, columns, k_1=64)
    kernel = build(candidate, TARGET)
    assert "@llvm.prefetch" in kernel.llvm_ir
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, depth), np.float32), rng.random((depth, columns), np.float32)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)


@pytest.mark.parametrize("loops, lines", [("i.0 j.0 | k.0 i.1 j.1", 0), ("i.0 k.0 j.0 | k.1 i.1 j.1", 4)])
def test_results_that_are_added_to_are_fetched_before_the_loops(loops, lines) -> None:
    """Four rows of 64 bytes; nothing is added to where the whole sum is in one tile."""
    kernel = build(product(loops, constant=False, k_1=64))
    fetches = [line for line in kernel.llvm_ir.splitlines() if "call void @llvm.prefetch" in line]
    assert len(fetches) == lines and all("i32 0, i32 3, i32 1" in line for line in fetches)
