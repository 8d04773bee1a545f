"""Sums over parts: right for every machine, in registers, weights read as they are packed; and other sums in outer loops."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from tests.backends.cpu.bytes import built_by_meaning
from tests.ops.test_integer_blocks import product, quantised, rows_of, weights_of

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.parts import part_sums
from tensorsmith.build import build
from tensorsmith.lang.define import placeholder
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.block_formats import FORMATS, Format
from tensorsmith.ops.integer_blocks import integer_block_matmul
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

MACHINES = ["znver4", "skylake-avx512", "x86-64-v3", "x86-64-v2", "neoverse-n1", "neoverse-v2", "cortex-a72"]


def defined(kind: Format, columns: int, depth: int, rows: int) -> Workload:
    blocks = depth // 32
    given = [placeholder((rows, blocks, 32), "i8", "q"), placeholder((rows, blocks), "f32", "scale")]
    given.append(placeholder((rows, blocks, 2), "i32", "sums"))
    fields = [placeholder((columns, depth // kind.weights, *f.shape), f.dtype, f"w_{n}", True) for n, f in kind.fields.items()]
    return ts.workload([*given, *fields, integer_block_matmul(*given, *fields, format=kind.name, name="y")])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS)
def test_right_by_meaning(kind: Format, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    depth, columns, rows = 2 * kind.weights, 37, 5
    raw = rows_of(kind, columns, depth)
    given = quantised(np.random.default_rng(1).normal(size=(rows, depth)).astype(np.float32))
    tensors, arrays = product(kind, raw, given)
    workload = ts.workload(tensors)
    target = ts.Target.named(machine, cores=2)
    candidate = default_candidate(workload, target)
    assert candidate.sketch.nest("y_dot").at is not None
    named = dict(zip([t.name for t in tensors], arrays))
    (got,) = built_by_meaning(candidate, target, monkeypatch).run(named).values()
    want = (given["q"].astype("f8") * given["scale"][..., None]).reshape(rows, depth) @ weights_of(kind, raw).T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


def loop(assembly: str, product: str) -> Counter[str]:
    """The instructions of the loop with most products, in which nothing is spilled and nothing stored."""
    loops = [block for block in re.split(r"\n(?=\.LBB)", assembly) if re.search(r"\bj\w+\s+\.LBB", block)]
    body = max(loops, key=lambda block: block.count(product))
    lines = body[: re.search(r"\bj\w+\s+\.LBB\w+", body).end()]  # type: ignore[union-attr]
    assert not re.search(r"%zmm\d+, [^%\n]*\(%", lines), "sums are stored in each part"
    return Counter(re.findall(r"^\t(\w+)", lines, re.MULTILINE))


@pytest.mark.parametrize(("name", "loads", "others"), [("q8_0", 32, 32), ("q4_0", 16, 32)])
def test_one_row_takes_few_instructions(name: str, loads: int, others: int) -> None:
    """For each part of 32 weights of four vectors: a product for four weights of each, and at most one operation to unpack them."""
    found = loop(ts.compile(defined(FORMATS[name], 4096, 1024, 1), target="znver4").assembly, "vpdpbusd")
    assert found["vpdpbusd"] == 32
    unpacking = sum(found[n] for n in ("vpxorq", "vpandq", "vpandd", "vpsrlw", "vgf2p8affineqb"))
    assert unpacking <= others
    assert found["vmovdqu64"] + found["vmovdqa64"] <= loads


@pytest.mark.parametrize("name", ["q4_k", "q5_k", "q6_k"])
def test_bytes_of_few_bits_need_no_correction(name: str) -> None:
    """Numbers of at most seven bits are the same with a sign and without: no machine has to move them, or to widen them."""
    workload = defined(FORMATS[name], 256, 512, 1)
    assert "vpmaddubsw" in ts.compile(workload, target="x86-64-v3").assembly
    arm = ts.compile(workload, target="neoverse-n1").assembly
    assert "sdot" in arm and "udot" not in arm


def test_what_is_a_sum_over_parts() -> None:
    workload = defined(FORMATS["q4_k"], 64, 512, 3)
    target = ts.Target.named("znver4")
    found = part_sums(workload, workload.stage("y"), target)
    assert found is not None and found.dot.name == "y_dot"
    assert part_sums(workload, workload.stage("y_dot"), target) is None
    assert [str(n) for n in found.outer()] == ["j.0", "i.0"]
    assert found.over_parts() == "b.0 o0.0 o1.0!"
    workload = defined(FORMATS["q6_k"], 64, 512, 3)
    found = part_sums(workload, workload.stage("y"), target)
    assert found is not None and found.over_parts() == "b.0 o0.0 o3.0 o1.0! o2.0!"


@pytest.mark.parametrize("loops", ["i.0 j.0 k.0 | i.1 j.1", "i.0 j.0 k.0! | i.1 j.1", "i.0 j.0 k.0 k.1 | i.1 j.1"])
@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_sums_in_outer_loops_stay_in_registers(loops: str, reduction: str) -> None:
    """Whole and partial tiles, every kind of loop; stored once, not in each step."""
    rows, depth, columns = 7, 12, 37
    a, b = placeholder((rows, depth), name="A"), placeholder((depth, columns), name="B")
    k = ts.reduce_axis(depth, "k")
    c = ts.compute((rows, columns), lambda i, j: getattr(ts, reduction)(a[i, k] * b[k, j], axis=k), name="C")
    workload = ts.workload([a, b, c])
    sketch = Sketch(workload, (Nest("C", loops, vector="j.1"),)).check()
    sizes = {"C.i.1": 3, "C.j.1": 16, "C.k.1": 4, "C.parallel": 1}
    candidate = Candidate(sketch, {h: sizes.get(h, 1) for h in sketch.holes})
    rng = np.random.default_rng(0)
    arrays = {"A": rng.uniform(-1, 1, a.shape).astype("f4"), "B": rng.uniform(-1, 1, b.shape).astype("f4")}
    products = arrays["A"][:, :, None].astype("f8") * arrays["B"]
    want = getattr(products, reduction)(1)
    kernel = build(candidate)
    np.testing.assert_allclose(kernel.run(arrays)["C"], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(interpret(lower(candidate), arrays)["C"], want, rtol=1e-5, atol=1e-6)
