"""Ansor's 164 features: what each comes to, worked out by hand (spec: ansor.md, section 6), and that a batch is its candidates."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.backends.cpu.features.test_extract import STRUCTURES, random_batch
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.lang.define import compute, maximum, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.features.ansor.extract import extract_rows
from tensorsmith.learn.features.ansor.schema import BUFFER_NAMES, SCHEMA
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.program.lower import lower
from tensorsmith.program.unrolling import pragma_of, steps_under_pragma
from tensorsmith.search.policies.ansor import AnsorPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Sketch


def features(sketch: Sketch, **decisions: int) -> FeatureMatrix:
    given = dict.fromkeys(sketch.holes, 1) | {name.replace("_", "."): value for name, value in decisions.items()}
    (found,) = extract_rows([(sketch, given)]).matrices()
    return found


def shown(found: FeatureMatrix, row: int, *names: str) -> list[float]:
    return [float(found.raw(name)[0, row]) for name in names]


def slot(found: FeatureMatrix, n: int, row: int = 0) -> dict[str, float]:
    return {name: float(found.raw(f"B{n}_{name}")[0, row]) for name in BUFFER_NAMES}


def close(found: dict[str, float], **expected: float) -> None:
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def matmul(n: int) -> Workload:
    a, b = placeholder((n, n), name="A"), placeholder((n, n), name="B")
    k = reduce_axis(n, name="k")
    return workload([a, b, compute((n, n), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")])


# -- the schema ----------------------------------------------------------------------------------------------------------------


def test_the_columns_are_those_of_tvm_in_its_order() -> None:
    """section 6.2"""
    at = {0: "float_mad", 7: "int_mad", 14: "bool_op", 15: "select_op", 16: "vec_num", 19: "vec_type_none", 26: "vec_type_mixed"}
    at |= {27: "unroll_num", 30: "unroll_type_none", 38: "parallel_num", 41: "parallel_type_none", 49: "is_gpu"}
    at |= {50: "blockIdx_x_len", 53: "threadIdx_x_len", 56: "vthread_len", 57: "B0_is_read", 60: "B0_bytes", 74: "B0_stride"}
    at |= {75: "B1_is_read", 146: "B4_stride", 147: "curve_1", 156: "curve_10", 157: "alloc_size", 160: "alloc_inner_prod"}
    at |= {161: "outer_prod", 162: "num_loops", 163: "auto_unroll_max_step"}
    assert len(SCHEMA) == len(set(SCHEMA.names)) == 164
    assert {n: SCHEMA.names[n] for n in at} == at
    digest = hashlib.sha256("\n".join(f"{f.name} {f.unit}" for f in SCHEMA.features).encode()).hexdigest()[:16]
    assert (SCHEMA.version, digest) == (
        1,
        "e8cb89ac4248d834",
    )  # another one is another version: models would read the wrong columns
    assert all(f.unit and f.group and f.definition.endswith(".") for f in SCHEMA.features)


def test_all_but_flags_are_logarithms() -> None:
    found = features(Sketch(matmul(8), (Nest("C", "i.0 j.0 | k.0"),)).check(), C_parallel=1)
    assert found.column("outer_prod")[0, 0] == pytest.approx(np.log2(8**3 + 1)) and found.column("vec_type_none")[0, 0] == 1.0


# -- a matrix product ----------------------------------------------------------------------------------------------------------


def test_the_matrix_product_of_tvms_own_test() -> None:
    """Section 6.4, with its loop in lanes innermost: parallel i.0 (32) j.0 (64), k (512), i.1 (16), lanes j.1 (8)."""
    sketch = Sketch(matmul(512), (Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1"),)).check()
    found = features(sketch, C_i_1=16, C_j_1=8, C_parallel=2)
    points = 512**3
    counts = shown(found, 0, "float_addsub", "float_mul", "float_mad", "int_mul", "int_addsub")
    assert counts == pytest.approx([points, points, 0, 2 * points, 2 * points], rel=1e-4)  # i.0 * 16 + i.1 and j.0 * 8 + j.1
    assert shown(found, 0, "vec_num", "vec_prod", "vec_len", "vec_type_mixed", "vec_type_none") == pytest.approx(
        [1, 8, 8, 1, 0], rel=1e-4
    )
    assert shown(found, 0, "unroll_num", "unroll_prod", "unroll_len") == pytest.approx([1, 16, 16], rel=1e-4)
    assert shown(found, 0, "parallel_num", "parallel_prod", "parallel_len") == pytest.approx([2, 32 * 64, 64], rel=1e-4)
    assert shown(found, 0, "is_gpu", "blockIdx_x_len", "threadIdx_z_len", "vthread_len") == [0, 1, 1, 1]
    a, c, b = slot(found, 0), slot(found, 1), slot(found, 2)
    each = {"bytes": points * 4, "unique_bytes": 512 * 512 * 4, "unique_lines": 512 * 512 / 16}
    close(a, is_read=1, lines=points / 8, stride=0, reuse_loop=1, reuse_ct=8, reuse_dis_iter=1, reuse_dis_bytes=12, **each)
    close(c, is_readwrite=1, lines=points / 16, stride=1, reuse_loop=1, reuse_ct=512, reuse_dis_iter=128, **each)
    close(c, reuse_dis_bytes=(8 * 16 + 8 + 16) * 4, bytes_d_reuse_ct=points * 4 / 512, lines_d_reuse_ct=points / 16 / 512)
    close(b, is_read=1, lines=points / 16, stride=1, reuse_loop=1, reuse_ct=16, reuse_dis_iter=8, reuse_dis_bytes=68, **each)
    assert slot(found, 3) == dict.fromkeys(BUFFER_NAMES, 0.0)
    rest = shown(found, 0, "alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod", "outer_prod", "num_loops")
    assert rest == pytest.approx([512 * 512 * 4, 512 * 512, 1, points, points, 5], rel=1e-4)


def test_the_matrix_product_without_tiles() -> None:
    """C[i, j] += A[i, k] * B[k, j] in loops i, j, k: the innermost one moves A by 1 and B by a row, and does not move C."""
    found = features(Sketch(matmul(64), (Nest("C", "i.0 j.0 | k.0"),)).check(), C_parallel=1)
    points = 64**3
    b, a, c = slot(found, 0), slot(found, 1), slot(found, 2)
    close(b, is_read=1, lines=points, stride=64, reuse_loop=1, reuse_ct=64, reuse_dis_iter=64 * 64)
    close(b, reuse_dis_bytes=4 * (64 + 64 + 64 + 64 * 64))  # at j: C, as it begins and as it is added to, a row of A, all of B
    close(
        a, is_read=1, lines=points / 16, stride=1, reuse_loop=1, reuse_ct=64, reuse_dis_iter=64, reuse_dis_bytes=4 * (1 + 64 + 64)
    )
    close(c, is_readwrite=1, lines=points / 64 / 16, stride=0, reuse_loop=1, reuse_ct=64, reuse_dis_iter=1, reuse_dis_bytes=12)
    assert shown(found, 0, "int_mul", "int_addsub", "num_loops", "vec_num", "vec_type_none") == [0, 0, pytest.approx(3), 0, 1]


def test_loops_of_one_step_are_as_good_as_absent() -> None:
    tiled = Sketch(matmul(32), (Nest("C", "i.0 j.0 i.1 j.1 k.0 i.2 j.2 | k.1 i.3 j.3", vector="j.3"),)).check()
    plain = Sketch(matmul(32), (Nest("C", "i.0 j.0 k.0 | "),)).check()
    np.testing.assert_allclose(features(tiled, C_parallel=1).values, features(plain, C_parallel=1).values)


# -- a convolution -------------------------------------------------------------------------------------------------------------


def test_a_convolution_by_hand() -> None:
    """O[h, c] = sum(I[h + r, k] * W[r, k, c]) in loops h.0 (2), c.0 (2), r (3), k (4), h.1 (4), lanes c.1 (8)."""
    i, w = placeholder((10, 4), name="I"), placeholder((3, 4, 16), name="W")
    r, k = reduce_axis(3, name="r"), reduce_axis(4, name="k")
    o = compute((8, 16), lambda h, c: total(i[h + r, k] * w[r, k, c], axis=(r, k)), name="O")
    sketch = Sketch(workload([i, w, o]), (Nest("O", "h.0 c.0 | r.0 k.0 h.1 c.1", vector="c.1"),)).check()
    found = features(sketch, O_h_1=4, O_c_1=8, O_parallel=1, O_unroll=4)
    points = 8 * 16 * 3 * 4
    out, weight, image = slot(found, 0), slot(found, 1), slot(found, 2)
    close(out, is_readwrite=1, bytes=points * 4, unique_bytes=8 * 16 * 4, lines=points / 16, unique_lines=8, stride=1)
    close(out, reuse_loop=1, reuse_ct=4, reuse_dis_iter=32, reuse_dis_bytes=4 * (32 + 4 + 8))
    close(weight, is_read=1, unique_bytes=3 * 4 * 16 * 4, lines=points / 16, unique_lines=12, reuse_ct=4, reuse_dis_bytes=4 * 17)
    close(image, is_read=1, unique_bytes=10 * 4 * 4, lines=points / 8 * 4 * 4 / 64, unique_lines=10, reuse_ct=8, stride=0)
    # floats computed and bytes touched at k, r, c.0 and h.0
    at_k, at_r, at_c, all_of_it = 256 / 320, 768 / 608, 1536 / 1120, 3072 / 1440
    curve = shown(found, 0, "curve_1", "curve_5", "curve_10")
    assert curve == pytest.approx([at_k + (307.2 - 256) / 512 * (at_r - at_k), at_c, all_of_it], rel=1e-4)
    assert shown(found, 0, "int_addsub", "int_mul") == pytest.approx(
        [3 * points, 2 * points], rel=1e-4
    )  # h.0 * 4 + h.1 + r, c.0 * 8 + c.1
    assert shown(found, 0, "auto_unroll_max_step") == pytest.approx([16])  # four steps of the reduction, each of four stores


# -- several stages ------------------------------------------------------------------------------------------------------------


def test_a_copy_in_the_loop_that_reads_it() -> None:
    """Section 12: the read of B in C is used again by another store, one element and 16 bytes away."""
    a = placeholder((64, 32), name="A")
    b = compute((64, 32), lambda i, j: a[i, j], name="B")
    c = compute((64, 32), lambda i, j: b[i, j] * 2.0, name="C")
    nests = (Nest("B", "i.0 j.0 |", at="C:2"), Nest("C", "i.0 j.0 |"))
    found = features(Sketch(workload([a, c]), nests).check(), C_parallel=1)
    assert found.stages == ("B", "C")
    reads = {n: slot(found, n, 1) for n in range(2) if slot(found, n, 1)["is_read"]}
    (read,) = reads.values()
    close(read, reuse_serial=1, reuse_loop=0, reuse_ct=1, reuse_dis_iter=1, reuse_dis_bytes=16)
    close(slot(found, 0), reuse_none=1, reuse_ct=0, bytes_d_reuse_ct=2 * 64 * 32 * 4)


def test_a_region_is_made_as_often_as_the_loops_around_it_run() -> None:
    a, b = placeholder((64, 64), name="A"), placeholder((64, 64), name="B")
    k = reduce_axis(64, name="k")
    c = compute((64, 64), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")
    d = compute((64, 64), lambda i, j: maximum(c[i, j], 0.0), name="D")
    nests = (Nest("C", "i.0 j.0 | k.0", at="D:2"), Nest("D", "i.0 j.0 | i.1 j.1", vector="j.1"))
    found = features(Sketch(workload([a, b, d]), nests).check(), D_i_1=4, D_j_1=16, D_parallel=1)
    names = "alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod", "outer_prod"
    assert shown(found, 0, *names) == pytest.approx([64 * 4, 64 * 64, 64, 64 * 64, 64**3], rel=1e-4)
    assert shown(found, 1, *names) == pytest.approx([64 * 64 * 4, 64 * 64, 1, 64 * 64, 64 * 64], rel=1e-4)
    assert shown(found, 1, "float_cmp", "auto_unroll_max_step") == pytest.approx([64 * 64, 0], rel=1e-4)
    close(slot(found, 0), is_read=1, stride=64)  # B: a step of k is a row of the whole tensor


# -- batches -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_batch_is_its_candidates(name: str) -> None:
    given = STRUCTURES[name]
    rows, columns = random_batch(given, Random(name), 24)
    (many,) = extract_rows([(given, columns)]).matrices()
    assert many.values.dtype == np.float32 and np.isfinite(many.values).all() and many.values.min() >= 0
    for n, row in enumerate(rows):
        (one,) = extract_rows([(given, row)]).matrices()
        assert one.stages == many.stages
        np.testing.assert_allclose(one.values[0], many.values[n], rtol=1e-5, atol=1e-5, err_msg=str(row))


def test_rows_of_several_structures_are_those_of_each() -> None:
    names = list(STRUCTURES)[:3]
    batches = [(STRUCTURES[n], random_batch(STRUCTURES[n], Random(n), 5 + k)[1]) for k, n in enumerate(names)]
    together = extract_rows(batches)
    for batch, found in zip(batches, together.matrices(), strict=True):
        (alone,) = extract_rows([batch]).matrices()
        np.testing.assert_array_equal(alone.values, found.values)
    assert together.candidates == 5 + 6 + 7
    assert together.total(np.ones(len(together.values))).tolist() == [len(m.stages) for m in together.matrices() for _ in m.values]
    assert extract_rows([]).values.shape == (0, 164)


def test_loops_that_threads_of_a_gpu_share() -> None:
    device = NAMED["a100"]
    candidate = backend_of(device).default_candidate(matmul(256), device)
    (found,) = extract_rows([(candidate.sketch, candidate.decisions)]).matrices()
    blocks = {b.stage.name: b for b in lower(candidate).blocks()}
    assert found.raw("is_gpu").all() and len(found.stages) == len(blocks)
    shares = [shown(found, n, "blockIdx_x_len", "threadIdx_x_len", "vthread_len", "outer_prod") for n in range(len(found.stages))]
    assert all(x * y * z <= points * (1 + 1e-4) and x * y > 1 for x, y, z, points in shares)


# -- unrolling -----------------------------------------------------------------------------------------------------------------


def test_the_pragma_unrolls_whole_loops_from_the_innermost_one_on() -> None:
    """Section 0, auto_unroll_max_step: while the unrolled body has no more stores than that."""
    assert [steps_under_pragma([3, 8, 2], 4, limit) for limit in (0, 7, 8, 63, 64, 191, 192, 512)] == [1, 1, 2, 2, 16, 16, 48, 48]
    both = steps_under_pragma([np.array([8, 2])], np.array([4, 4]), np.array([16, 16]))
    assert np.asarray(both).tolist() == [1, 2]
    assert np.asarray(pragma_of(np.array([1, 2, 16, 17, 64, 65, 512, 4096]))).tolist() == [0, 16, 16, 64, 64, 512, 512, 512]


# -- who sees them -------------------------------------------------------------------------------------------------------------


def test_ansors_policy_learns_from_them() -> None:
    space = space_of(matmul(32), target(), "ansor")
    policy = AnsorPolicy(space, seed=0)
    policy.tell([Trial(c, Status.OK, 1e-3 * (n + 1)) for n, c in enumerate(policy.ask(4))])
    samples = policy.samples()
    assert [rows.shape[1] for rows in samples.rows] == [len(SCHEMA)] * 4 and samples.base == [0.0] * 4


def test_the_page_lists_them() -> None:
    page = Path(__file__).parents[3] / "docs" / "features.md"
    assert SCHEMA.markdown() in page.read_text()
