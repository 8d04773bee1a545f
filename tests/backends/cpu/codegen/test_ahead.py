"""On machines that take instructions in their order, loads come long before the multiply-adds that use them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu.codegen.points import InARow
from tensorsmith.backends.cpu.in_order import fits, gathers, group_of_steps
from tensorsmith.build import build
from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

A53, A55, N1 = (ts.Target.named(name) for name in ("cortex-a53", "cortex-a55", "neoverse-n1"))
WAYS = {"carried": 4, "gathered": 10}  # by the latency of a multiply-add


def product_of(rows=64, depth=128, columns=64):
    a, b = placeholder((rows, depth), name="A"), placeholder((depth, columns), name="B", constant=True)
    k = reduce_axis(depth, name="k")
    return [a, b, compute((rows, columns), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")]


def hot_loop(target):
    """The instructions of a product's innermost loop with most multiply-adds, without labels."""
    lines = ts.compile(product_of(), target=target).assembly.splitlines()
    places = {line.rstrip(":"): n for n, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)}
    best = []
    for n, line in enumerate(lines):
        jump = re.match(r"\s+b\.\w+\s+(\.LBB\w+)", line)
        if jump and places.get(jump[1], n) < n:
            loop = [x.strip() for x in lines[places[jump[1]] : n + 1] if x.startswith("\t") and not x.startswith("\t//")]
            if not any(re.match(r"c?b[.\w]*\s", x) for x in loop[:-1]):
                best = max(best, loop, key=lambda found: sum("fmla" in x for x in found))
    assert best
    return best


def loaded(line):
    """The vector registers that an instruction loads."""
    words = line.split("[")[0]
    return re.findall(r"\b[qsd](\d+)", words) if re.match(r"ldu?[rp]\b", line) else []


def between(loop):
    """For every operand of every multiply-add that the loop loads: the instructions, and multiply-adds, since it was loaded."""
    found = []
    twice = loop + loop
    for n in range(len(loop), len(twice)):
        if twice[n].startswith("fmla"):
            for register in re.findall(r"v(\d+)\.", twice[n])[1:]:
                since = next((m for m in range(n - 1, n - len(loop), -1) if register in loaded(twice[m])), None)
                if since is not None:
                    found.append((n - since, sum(x.startswith("fmla") for x in twice[since:n])))
    return found


def results(loop):
    return len({re.findall(r"v(\d+)\.", x)[0] for x in loop if x.startswith("fmla")})


def test_operands_are_carried_to_the_next_step() -> None:
    loop = hot_loop(A55)
    points = results(loop)
    assert points >= 16
    vectors = 2
    assert min(multiply_adds for _, multiply_adds in between(loop)) >= points - 2 * vectors
    assert max(len(loaded(x)) for x in loop) == 1  # two at once are slow there


def test_operands_of_four_steps_are_gathered_in_front_of_them() -> None:
    loop = hot_loop(A53)
    points = results(loop)
    assert points >= 14 and sum(x.startswith("fmla") for x in loop) == 8 * points
    runs = re.findall("f+", "".join("f" if x.startswith("fmla") else "." for x in loop))
    assert [len(run) for run in runs] == [4 * points] * 2
    assert min(instructions for instructions, _ in between(loop)) >= 4  # cycles that a load takes


@pytest.mark.parametrize("target", [A53, A55])
def test_one_load_brings_the_factors_of_a_row_for_four_steps(target) -> None:
    loop = hot_loop(target)
    vectors = sum(len(loaded(x)) for x in loop)
    rows = results(loop) // 2
    assert vectors == 8 * 2 + 2 * rows and not any(re.match(r"ldu?r\s+s|ld1r", x) for x in loop)
    assert not any(re.match(r"st[rp]\s+q|ld[rp]\s+q\d+, .*\[sp", x) for x in loop)


def test_other_machines_leave_the_order_to_llvm() -> None:
    for target in (N1, ts.Target.named("x86-64-v3")):
        assert "annotation" not in ts.compile(product_of(), target=target).assembly
    assert "annotation" in ts.compile(product_of(), target=A53).assembly


def test_registers_decide() -> None:
    assert gathers(A53) and not gathers(A55)
    assert group_of_steps(8, 2, 4, A53, gathered=True) == 4
    assert group_of_steps(9, 2, 4, A53, gathered=True) == 2
    assert group_of_steps(10, 2, 4, A53, gathered=True) == 1
    assert group_of_steps(6, 4, 4, A53, gathered=True) == 0
    assert fits(9, 2, A55) and not fits(10, 2, A55)


def test_steps_behind_the_last_whole_vector_have_shorter_ones() -> None:
    steps = InARow({"w": 3, "c": 1}, 4, 7)
    places = [steps.place({"w": n // 3, "c": n % 3}) for n in range(7)]
    assert places == [(0, 4), (1, 4), (2, 4), (3, 4), (0, 2), (1, 2), (0, 1)]
    assert steps.place({"w": 2, "c": 1}) == (0, 4)  # the first step of the next round


def candidate_of(tensors, loops, **sizes):
    w = workload(tensors)
    sketch = Sketch(w, (Nest("C", loops, vector=loops.split()[-1], packed=("B",)),)).check()
    given = {f"C.{n.replace('_', '.')}": s for n, s in sizes.items()}
    return Candidate(sketch, {h: given.get(h, 1) for h in sketch.holes})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unroll", [1, 2, 3, 4, 8])
def test_products_are_right(way: str, unroll: int) -> None:
    target = replace(native(), vector_bytes=16, vector_registers=32, in_order=True, fma_latency=WAYS[way])
    rng = np.random.default_rng(unroll)
    for depth in (2 * unroll, 3 * unroll + 1, 37):
        candidate = candidate_of(product_of(7, depth, 20), "i.0 j.0 | k.0 i.1 j.1", i_1=4, j_1=8, unroll=unroll)
        a, b = rng.standard_normal((7, depth), np.float32), rng.standard_normal((depth, 20), np.float32)
        np.testing.assert_allclose(build(candidate, target)(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unroll", [2, 3, 6, 8, 21])
def test_windows_that_slide_are_right(way: str, unroll: int) -> None:
    """Neighbouring rows read the same elements, at other steps; the innermost loop is written whole."""
    target = replace(native(), vector_bytes=16, vector_registers=32, in_order=True, fma_latency=WAYS[way])
    a, b = placeholder((30, 3), name="A"), placeholder((7, 3, 8), name="B", constant=True)
    w, c = reduce_axis(7, name="w"), reduce_axis(3, name="c")
    out = compute((12, 8), lambda i, j: total(a[i * 2 + w, c] * b[w, c, j], axis=(w, c)), name="C")
    candidate = candidate_of([a, b, out], "i.0 j.0 | w.0 c.0 i.1 j.1", i_1=4, j_1=8, unroll=unroll)
    rng = np.random.default_rng(unroll)
    x, y = rng.standard_normal((30, 3), np.float32), rng.standard_normal((7, 3, 8), np.float32)
    windows = np.stack([x[2 * i : 2 * i + 7] for i in range(12)])
    np.testing.assert_allclose(build(candidate, target)(x, y), np.einsum("iwc,wcj->ij", windows, y), rtol=1e-4, atol=1e-4)
