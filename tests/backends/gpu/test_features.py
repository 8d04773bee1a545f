"""Features of GPU candidates: what is told of a kernel is what its program does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.gpu import products

import tensorsmith as ts
from tensorsmith.backends.gpu.explain import explain
from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.features.schema import SCHEMA, TOLD
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimated_seconds
from tensorsmith.backends.gpu.simt.ir import SHARED, walk
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch

A100 = NAMED["a100"]
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def features(candidate: Candidate) -> FeatureMatrix:
    (found,) = extract_rows([(candidate.sketch, candidate.decisions)], A100).matrices()
    return found


def told(candidate: Candidate, name: str) -> float:
    return float(features(candidate).raw(name)[0, 0])


def test_partial_results_begin_at_multiples_of_sixteen_bytes() -> None:
    """Sixty-three threads: their partial results take 256 bytes of shared memory, as in the code."""
    x, k = ts.placeholder((8, 630), name="X"), ts.reduce_axis(630, name="k")
    workload = ts.workload([x, ts.compute((8,), lambda i: ts.sum(x[i, k], axis=k), name="S")])
    made = Candidate(Sketch(workload, (Nest("S", "i.0@block | k.0 k.1@thread"),)).check(), {"S.k.1": 63, "S.unroll": 1})
    (features,) = extract_rows([(made.sketch, made.decisions)], A100).matrices()
    (kernel,) = kernels(lower(made))
    assert features.raw("shared_bytes")[0, 0] == pytest.approx(kernel.shared_bytes) and kernel.shared_bytes == 256


def test_a_matrix_product() -> None:
    """Every count by hand: 4 x 4 blocks of 8 x 16 threads, two virtual ones each, 4 x 4 results of each."""
    c = products.candidate(256, 256, 64, vthread=(2, 1), thread=(8, 16), tile=(4, 4), deep=(2, 4), fetch=(2, 4))
    warps, rounds, k = 4, 8, 64
    wanted = {
        "blocks": 16, "threads": 128, "virtual_threads": 2, "shared_bytes": 4 * 8 * (64 + 64), "results": 32,
        "multiply_adds": warps * 32 * k, "rounds": rounds, "barriers": 2 * rounds, "reduce_steps": k,
        "shared_loads": warps * k * (2 * 4 / 4 + 4 / 4),  # four steps of k at once for each of eight rows; four columns at once
        "global_loads": rounds * (64 * 8 / 2 + 8 * 64 / 4) / 32,  # by twos and by fours
        "shared_stores": rounds * (64 * 8 / 2 + 8 * 64 / 4) / 32,
        "global_load_sectors": rounds * (64 * 8 + 8 * 64) * 4 / 32, "global_load_bytes": rounds * (64 * 8 + 8 * 64) * 4,
        "global_stores": warps * 32 / 4, "global_store_sectors": warps * 8 * 16, "memory_bytes": 4 * (2 * 256 * 64 + 256 * 256),
    }  # fmt: skip
    for name, value in wanted.items():
        assert told(c, name) == pytest.approx(value, rel=1e-4), name
    # A: lanes of two rows 32 words apart, four words of each. B: 64 words in a row. Stores of A: 64 words in a row, of B 128.
    fronts = warps * k * (2 * 2 + 2) + rounds * (64 * 4 / 32 * 2 + 8 * 16 / 32 * 4)
    assert told(c, "shared_wavefronts") == pytest.approx(fronts, rel=1e-4)


sizes = st.sampled_from([1, 2, 4])
shapes = st.fixed_dictionaries({
    "vthread": st.tuples(sizes, sizes), "thread": st.tuples(st.sampled_from([1, 4, 8, 16]), st.sampled_from([2, 8, 16, 32])),
    "inner": st.tuples(sizes, sizes), "tile": st.tuples(sizes, sizes), "deep": st.tuples(sizes, sizes),
    "fetch": st.tuples(sizes, sizes), "unroll": st.sampled_from([1, 4, 16]),
})  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(shapes, min_size=2, max_size=5))
def test_many_at_once_are_as_one_by_one(drawn: list[dict[str, object]]) -> None:
    made = [products.candidate(200, 96, 40, **one) for one in drawn]
    together = {name: np.array([c.decisions[name] for c in made]) for name in made[0].decisions}
    rows = extract_rows([(made[0].sketch, together)], A100)
    for n, c in enumerate(made):
        np.testing.assert_allclose(rows.matrices()[0].values[n], features(c).values[0], rtol=1e-6, atol=1e-6)
    assert (estimated_seconds(rows, A100) > 0).all() and rows.schema is SCHEMA


@settings(max_examples=30, deadline=None)
@given(shapes)
def test_shared_memory_and_threads_are_those_of_the_kernel(drawn: dict[str, object]) -> None:
    c = products.candidate(200, 96, 40, **drawn)
    (kernel,) = kernels(lower(c))
    assert told(c, "threads") == pytest.approx(kernel.block) and told(c, "blocks") == pytest.approx(kernel.grid, rel=1e-4)
    assert told(c, "shared_bytes") == pytest.approx(kernel.shared_bytes, rel=1e-4)
    assert told(c, "results") == pytest.approx(kernel.private_bytes / 4, rel=1e-4)
    assert any(a.scope == SHARED for a in kernel.arrays) and list(walk(kernel.body))


def test_ansors_structure_is_told_as_our_programs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `benchmarks/a100_data.py` says of rows of the A100 file is what is told of our programs with the same tiles, so that the
    model that is tested there is the one that searches use."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import a100_data

    sample = a100_data.read(BENCHMARKS.parent / "tests" / "benchmarks" / "data" / "a100-matmul-sample.csv.gz")
    (search,) = (s for s in sample if s.name == "f32 1024x1024x512")
    c = search.columns
    small = (c["i_inner1"] * c["i_inner2"] * c["j_inner1"] * c["j_inner2"] <= 64) & (c["unroll_max"] >= 512)
    plain = (c["fetch_vector_a"] <= 4) & (c["fetch_vector_b"] <= 4) & (c["i_inner1"] == 1) & (c["j_inner1"] == 1)
    some = search.where(small & plain & (c["k_inner2"] <= 16))  # which both lay out
    assert len(some.seconds) >= 12
    expected = a100_data.described(some, A100)
    exact = (
        "blocks", "threads", "virtual_threads", "shared_bytes", "multiply_adds", "results", "reduce_steps", "rounds", "barriers",
        "global_loads", "global_load_sectors", "shared_stores", "memory_bytes", "new_share", "shared_loads", "shared_wavefronts",
        "registers",
    )  # fmt: skip
    for n in range(len(some.seconds)):
        r = {name: int(column[n]) for name, column in some.columns.items()}
        made = products.candidate(
            r["m"], r["n"], r["k"], vthread=(r["i_vthread"], r["j_vthread"]), thread=(r["i_thread"], r["j_thread"]),
            tile=(r["i_inner2"], r["j_inner2"]), deep=(r["k_inner1"], r["k_inner2"]),
            fetch=(r["fetch_vector_a"], r["fetch_vector_b"]), unroll=64,
        )  # fmt: skip
        found = features(made)
        for name in exact:
            assert found.raw(name)[0, 0] == pytest.approx(expected[name][n], rel=1e-3), (name, r)


@pytest.mark.parametrize(
    "name", ["C2D-small", "GMM-small", "DEP-small", "NRM-small", "TBS-small", "softmax-small", "max_pool-small"]
)
def test_any_workload_has_features(name: str) -> None:
    """Plain nests, whose points are dealt out to the threads of all blocks."""
    c = plain_candidate(catalogue.get(name).workload())
    found = features(c)
    assert found.stages and np.isfinite(found.values).all() and (found.values >= 0).all()
    made = kernels(lower(c))
    assert found.raw("blocks")[0].round().tolist() == [k.grid for k in made]
    assert found.raw("threads")[0].round().tolist() == [k.block for k in made]


def test_no_candidates() -> None:
    rows = extract_rows([], A100)
    assert rows.values.shape == (0, len(SCHEMA)) and rows.candidates == 0


def test_in_words() -> None:
    text = explain(products.candidate(256, 256, 64, thread=(8, 16)), A100)
    assert text.startswith("estimated: ") and "nothing was measured" in text and "bound by" in text and "a100" in text
    assert set(TOLD) <= set(SCHEMA.names)
