"""Features of small programs, worked out by hand. All targets have 16 f32 lanes, 64-byte lines and a 32 KiB L1 unless said."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.cpu.machines import target

import tensorsmith as ts
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.lang.define import workload
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch


def matmul(n: int, m: int, k: int, constant: bool = False) -> Workload:
    a, b = ts.placeholder((n, k), name="A"), ts.placeholder((k, m), name="B", constant=constant)
    r = ts.reduce_axis(k, name="k")
    return workload([a, b, ts.compute((n, m), lambda i, j: ts.sum(a[i, r] * b[r, j], axis=r), name="C")])


def candidate(w: Workload, *nests: Nest, **decisions: int) -> Candidate:
    sketch = Sketch(w, nests).check()
    given = {name.replace("__", "."): value for name, value in decisions.items()}
    return Candidate(sketch, {h: given.get(h, 1) for h in sketch.holes})


def features(c: Candidate) -> FeatureMatrix:
    return extract(lower(c), target())


def check(matrix: FeatureMatrix, block: int, expected: dict[str, float]) -> None:
    found = {name: float(matrix.raw(name)[0, block]) for name in expected}
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_ansors_worked_example() -> None:
    """Its loops: parallel i.0(32), parallel j.0(64), k(512), j.1(8), i.1(16). Ours are the same, with i.1 in lanes and k outside of
    the register tile, so that C is read back and stored at every step of k, as Ansor's program does."""
    nest = Nest("C", "i.0 j.0 k.0 | j.1 i.1", vector="i.1")
    m = features(candidate(matmul(512, 512, 512), nest, C__i__1=16, C__j__1=8, C__parallel=2))
    points = 512**3
    check(m, 0, {"float_mad": points, "float_mul": 0, "float_addsub": 0, "points": points, "num_loops": 5})
    # C[i, j]: all five loops execute it; k (512 steps) does not move it. Inside k: 8 * 16 points; C 128, B 8, A 16 elements
    check(
        m,
        0,
        {
            "store_is_readwrite": 1,
            "store_is_write": 0,
            "store_bytes": points * 4,
            "store_unique_bytes": 512 * 512 * 4,
            "store_unique_lines": 512 * 512 * 4 / 64,
            "store_reuse_loop": 1,
            "store_reuse_iterations": 8 * 16,
            "store_reuse_bytes": (8 * 16 + 8 + 16) * 4,
            "store_reuse_count": 512,
            "store_bytes_per_reuse": points * 4 / 512,
            "store_stride": 512,
        },
    )
    # A[i, k] (as large as B, and used first: read1). i.1 moves it by a row of 512; every point asks for another line.
    # j.1 (8 steps) does not move it; inside j.1: 16 points of C, 16 of A, one of B
    check(
        m,
        0,
        {
            "read1_stride": 512,
            "read1_lane_stride": 512,
            "read1_lines": points,
            "read1_reuse_count": 8,
            "read1_reuse_iterations": 16,
            "read1_reuse_bytes": (16 + 16 + 1) * 4,
        },
    )
    # B[k, j]: i.1 does not move it (16 steps), j.1 moves it by one element of a 64-byte line
    check(
        m,
        0,
        {
            "read2_unique_bytes": 512 * 512 * 4,
            "read2_stride": 0,
            "read2_lines": points / 16 * 4 / 64,
            "read2_reuse_count": 16,
            "read2_reuse_iterations": 1,
            "read2_reuse_bytes": 3 * 4,
        },
    )
    # one loop in lanes (of the first axis), one laid out (of the last), two parallel ones (of both)
    check(m, 0, {"vec_num": 1, "vec_len": 16, "vec_outer_spatial": 1, "vec_mixed": 0, "unroll_num": 1, "unroll_inner_spatial": 1})
    check(m, 0, {"parallel_num": 2, "parallel_prod": 32 * 64, "parallel_len": 64, "parallel_mixed": 1})
    # a step: 8 vectors of one multiply-add; A is 16 single lanes (512 apart), B 8 broadcasts.
    # Registers: 8 results, A's vector, one of B
    check(m, 0, {"tile_vectors": 8, "step_loads": 24, "load_share_strided": 16 / 24, "load_share_broadcast": 8 / 24})
    check(m, 0, {"step_operations": 8, "operand_registers": 2, "registers_used": 10, "registers_spilled": 0, "chains": 8})
    # all operations over all bytes: three tensors of 1 MiB
    check(m, 0, {"intensity_10": 2 * points / (3 << 20)})


def test_a_packed_register_tile() -> None:
    """64 x 64 x 64; 16 x 2 tiles of 4 rows by two vectors; k innermost by 2, results in registers; B packed as (j.0, k.0, j.1)."""
    nest = Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1", packed=("B",))
    w = matmul(64, 64, 64, constant=True)
    m = features(candidate(w, nest, C__i__1=4, C__j__1=32, C__parallel=1, C__unroll=2))
    # 4 x 2 results; B's two vectors stay for the four rows; one register for the broadcast of A
    check(m, 0, {"tile_values": 128, "tile_vectors": 8, "operand_registers": 3, "registers_used": 11, "register_share": 11 / 32})
    check(m, 0, {"step_loads": 6, "step_operations": 8, "loads_per_operation": 6 / 8, "load_share_vector": 2 / 6})
    check(m, 0, {"outer_runs": 32, "reduce_steps": 64, "steps": 32 * 64, "vector_points": 64**3 / 16, "lanes_useful": 1})
    check(m, 0, {"chains": 8, "chain_share": 1, "unroll_steps": 2, "variants": 1, "code_size": (8 + 6) * 2})
    # the store is executed once per element, after k; no loop that executes it leaves it in place
    check(m, 0, {"store_is_write": 1, "store_bytes": 4096 * 4, "store_reuse_none": 1, "store_bytes_per_reuse": 2 * 4096 * 4})
    # A (read1): j.1 leaves it in place. i.1 moves it by a row of 256 bytes
    check(m, 0, {"read1_packed": 0, "read1_stride": 0, "read1_lines": 64**3 / 32, "read1_reuse_count": 32, "read1_accesses": 4})
    # B (read2), packed: neighbours in lanes; reused by the 4 rows, after 32 points that touch 32 of C, 1 of A, 32 of B
    check(m, 0, {"read2_packed": 1, "read2_lane_stride": 1, "read2_stride": 1, "read2_lines": 64**3 / 16, "read2_accesses": 2})
    check(m, 0, {"read2_reuse_count": 4, "read2_reuse_iterations": 32, "read2_reuse_bytes": (32 + 1 + 32) * 4})
    # a tile: C 4 rows of 2 lines, A 4 whole rows of 4 lines, B a contiguous panel of 64 * 32 elements
    check(m, 0, {"tile_bytes": (8 + 16 + 128) * 64})
    # the program: three times 256 lines, more than L1. A step of i.0 touches 16 lines of C and of A, 256 of B, which fits L1:
    # so every line is fetched into L1 once, those of C twice (they are written back). All of it stays in L2
    check(m, 0, {"program_bytes": 768 * 64, "into_l1": (256 + 256 + 2 * 256) * 64, "into_l2": 0, "into_l3": 0})
    check(m, 0, {"parallel_steps": 16, "parallel_balance": 1, "parallel_work": 2 * 64**3 / 16})
    check(m, 0, {"vec_inner_spatial": 1, "unroll_mixed": 1, "unroll_num": 2, "unroll_prod": 8, "parallel_outer_spatial": 1})


def test_tails_of_vectors_and_tiles() -> None:
    """100 elements in tiles of 32: three whole ones (two vectors each) and one of 4 (one vector)."""
    a = ts.placeholder((100,), name="A")
    w = workload([a, ts.compute((100,), lambda i: ts.maximum(a[i], 0.0), name="D")])
    m = features(candidate(w, Nest("D", "i.0 | i.1", vector="i.1"), D__i__1=32, D__parallel=1))
    check(m, 0, {"points": 100, "float_cmp": 100, "vector_points": 7, "lanes_useful": 100 / 112, "points_useful": 100 / 128})
    check(m, 0, {"variants": 2, "outer_runs": 4, "tile_vectors": 2, "step_loads": 2, "store_accesses": 2, "chains": 0})
    check(m, 0, {"store_bytes": 400, "store_unique_bytes": 400, "store_unique_lines": 7, "read1_reuse_none": 1})
    check(m, 0, {"parallel_steps": 4, "parallel_balance": 1, "registers_used": 1 + 1 + 1})


def test_traffic_of_a_plain_matmul() -> None:
    """256 x 256 x 256, loops i, j around a sum over k, nothing tiled, nothing in lanes."""
    m = features(plain_candidate(matmul(256, 256, 256)))
    # One step of j: a row of A (16 lines), a column of B (256 lines), a line of C: 17 KiB, which fits L1. So over all j the
    # lines are fetched once: 16, 256 * 16, 16. That is 258 KiB, which does not fit, so every step of i fetches them anew.
    a, b, c = 16 * 256, 4096 * 256, 16 * 256
    check(m, 0, {"read1_into_l1": a * 64, "read2_into_l1": b * 64, "store_into_l1": c * 64, "into_l1": (a + b + 2 * c) * 64})
    # the three tensors (768 KiB) fit L2, and stay there from one run to the next
    check(m, 0, {"program_bytes": 768 << 10, "into_l2": 0, "program_l2_share": 0.75})
    # one result at a time; 16 of 16 lanes but one are idle
    check(m, 0, {"chains": 1, "chain_share": 1 / 8, "lanes_useful": 1 / 16, "vec_num": 0, "vec_none": 1, "step_loads": 2})
    # B's column: 256 rows, 1 KiB apart, fall into 4 of the 64 sets
    check(m, 0, {"step_set_lines": 1, "tile_set_lines": 256 / 4})


@pytest.mark.parametrize(("k", "lines"), [(1024, 16), (512, 8), (1040, 1)])
def test_rows_at_a_power_of_two_share_cache_sets(k: int, lines: int) -> None:
    """16 rows of A: 4 KiB apart they share one set of 8 ways; 2 KiB apart they share two; 4,160 bytes apart none do."""
    nest = Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1")
    m = features(candidate(matmul(64, 64, k), nest, C__i__1=16, C__j__1=16))
    check(m, 0, {"step_set_lines": lines, "read1_set_lines": lines, "set_overflow": max(0, lines - 8)})


def test_memory_of_our_own_has_gaps_that_keep_rows_off_one_set() -> None:
    """B is transposed in tiles of 16 rows that are 4 KiB apart. As an input they share a set; computed before, they do not."""
    shape = (64, 1024)
    a, b = ts.placeholder(shape, name="A"), ts.placeholder(shape, name="B")
    made = ts.compute(shape, lambda i, j: a[i, j] + 1.0, name="B")
    turn = Nest("T", "j.0 i.0 | j.1 i.1")
    tile = {"T__i__1": 16, "T__j__1": 1}
    for source, nests, lines in [([b], (), 16), ([a], (Nest("B", "i.0 j.0 | j.1", vector="j.1"),), 1)]:
        read = made if nests else b
        w = workload([*source, ts.compute((1024, 64), lambda j, i, read=read: read[i, j] * 2.0, name="T")])
        m = features(candidate(w, *nests, turn, **tile, **({"B__j__1": 16} if nests else {})))
        check(m, len(nests), {"step_set_lines": lines, "read1_set_lines": lines, "set_overflow": max(0, lines - 8)})
        check(m, len(nests), {"read1_stride": 1024 + 16 if nests else 1024, "alloc_bytes": 64 * 1024 * 4})
    check(m, 0, {"alloc_bytes": 64 * (1024 + 16) * 4, "alloc_total": 64 * (1024 + 16), "store_unique_bytes": 64 * 1024 * 4})


def test_values_that_stay_in_registers_touch_no_memory() -> None:
    w = catalogue.get("ConvLayer-2-b1").workload()
    m = features(default_candidate(w, target()))
    assert m.stages == ("layer_conv", "layer")
    check(m, 0, {"alloc_held": 1, "alloc_bytes": 0, "store_bytes": 0, "store_accesses": 0, "is_root": 0})
    check(m, 1, {"alloc_held": 0, "alloc_bytes": 28 * 28 * 128 * 4, "is_root": 1, "read1_is_read": 1, "read1_bytes": 0})
    # 28 x 28 x 128 results of 3 x 3 x 64 products, although the tiles of w do not divide 28; padding is no operation
    check(m, 0, {"float_mad": 28 * 28 * 128 * 9 * 64, "select_op": 0, "int_cmp": 0})
    check(m, 1, {"float_addsub": 2 * 28 * 28 * 128, "float_mul": 28 * 28 * 128, "float_cmp": 28 * 28 * 128})


def test_an_attached_stage_has_its_regions_shape() -> None:
    """E[i, j] = exp(A[i, j]) computed per row of the sum: its buffer is one row of 48, and its reader is near."""
    a = ts.placeholder((32, 48), name="A")
    e = ts.compute((32, 48), lambda i, j: ts.exp(a[i, j]), name="E")
    r = ts.reduce_axis(48, name="k")
    s = ts.compute((32,), lambda i: ts.sum(e[i, r], axis=r), name="S")
    nests = [Nest("E", "i.0 j.0 | j.1", vector="j.1", at="S:1"), Nest("S", "i.0 i.1 | k.0 k.1", vector="k.1")]
    m = features(candidate(workload([a, s]), *nests, E__j__1=16, S__k__1=16))
    check(m, 0, {"alloc_bytes": 48 * 4, "alloc_outer": 32, "alloc_total": 32 * 48, "alloc_inner": 48, "alloc_local": 1})
    # within a row, E is written once; then S reads it. Each step of i touches a row of A (3 lines), E (3) and one line of S
    check(m, 0, {"store_unique_bytes": 48 * 4, "store_reuse_serial": 1, "store_reuse_count": 1, "store_reuse_bytes": 7 * 64})
    check(m, 0, {"float_mathfunc": 32 * 48, "read1_unique_bytes": 32 * 48 * 4})
    check(m, 1, {"across_lanes": 1, "read1_into_l1": 0, "read1_reuse_serial": 1, "read1_lane_stride": 1, "reduce_steps": 3})


def test_loops_of_one_step_are_as_good_as_absent() -> None:
    w = matmul(48, 64, 40)
    few = candidate(w, Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1"), C__i__1=6, C__j__1=32, C__parallel=2, C__unroll=4)
    nest = Nest("C", "i.0 j.0 k.0 i.1 j.1 | k.1 i.2 k.2 j.2", vector="j.2")
    many = candidate(w, nest, C__i__1=1, C__i__2=6, C__j__1=1, C__j__2=32, C__k__1=40, C__k__2=1, C__parallel=2, C__unroll=4)
    np.testing.assert_allclose(features(many).values, features(few).values, rtol=1e-5, atol=1e-5)


def test_no_operation_is_lost_or_made_up_by_partial_tiles() -> None:
    nest = Nest("C", "i.0 j.0 k.0 i.1 j.1 | k.1 i.2 j.2", vector="j.2")
    sizes = {"C__i__1": 3, "C__i__2": 5, "C__j__1": 2, "C__j__2": 24, "C__k__1": 7}
    m = features(candidate(matmul(37, 101, 53), nest, **sizes))
    check(m, 0, {"float_mad": 37 * 101 * 53, "points": 37 * 101 * 53})
