"""Ansor's rules for GPUs: the sketches that its own tests count, and what is in them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backends.gpu.drawn import WORKLOADS, candidates
from tests.space.test_derive import conv_nchw, matmul, of_one, total, two_matmuls, winograd_nhwc

import tensorsmith as ts
from tensorsmith.backends import sketches, space_of
from tensorsmith.backends.gpu.generate import check_limits
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.backends.gpu.tactics.roots import roots, shared_bytes
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue, norm, pool, reduce
from tensorsmith.program.lower import lower
from tensorsmith.records.names import renamed
from tensorsmith.space.population.evolve import crossover, mutate
from tensorsmith.space.population.sampling import Sampling, sample_plan
from tensorsmith.space.sketch.rewrite import Fetch
from tensorsmith.space.sketch.sketch import Candidate

A100 = NAMED["a100"]

#: the column for GPUs of Ansor's own tests
COUNTS: dict[str, tuple[Workload, int]] = {
    "matmul 512": (matmul(512, 512, 512), 1),
    "matmul 8x8x1024": (matmul(8, 8, 1024), 2),
    "two matmuls": (two_matmuls(), 1),
    "conv + bias + bn + relu": (conv_nchw(), 1),
    "max_pool 2x2": (of_one(pool.max_pool, 1, 56, 56, 512, kernel=2, stride=1, padding=0), 1),
    "min 10x1024": (of_one(reduce.min, 10, 1024, axes=-1), 2),
    "softmax 2x1024": (of_one(norm.softmax, 2, 1024), 4),
    "softmax 1x12x128x128": (of_one(norm.softmax, 1, 12, 128, 128), 4),
    "winograd 28x28": (winograd_nhwc(1, 28, 28, 128, 128), 1),
    "sum 128": (total(128), 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_ansors(name: str) -> None:
    workload, count = COUNTS[name]
    assert len(ts.sketches(workload, rules="ansor", target="a100")) == count


def test_the_cross_thread_reduction_comes_first() -> None:
    first, second = (s.brief() for s in sketches(COUNTS["matmul 8x8x1024"][0], "ansor", A100))
    assert "k.1@thread" in first and "cache_write" in second


def test_matmul_has_the_levels_of_ansors_tiling() -> None:
    (sketch,) = sketches(COUNTS["matmul 512"][0], "ansor", A100)
    loops = {n.stage: str(n.loops) for n in sketch.nests}
    assert loops["C"] == "i.0@block j.0@block i.1@vthread j.1@vthread i.2@thread j.2@thread | i.3 j.3"
    assert loops["C.cache"] == "k.0 k.1 i.0 j.0 | k.2 i.1 j.1" and str(sketch.nest("C.cache").at) == "C:6"
    assert [r.tensor for r in sketch.rewrites if isinstance(r, Fetch)] == ["A", "B"]
    assert loops["C.cache.A"] == "d0.0@thread d1.0@thread | d1.1" and str(sketch.nest("C.cache.A").at) == "C.cache:1"


def test_padding_is_computed_where_it_is_fetched() -> None:
    (sketch,) = sketches(COUNTS["conv + bias + bn + relu"][0], "ansor", A100)
    assert [r.stage for r in sketch.rewrites if r.name == "inline"] == ["add", "mul", "bias_add", "pad"]
    assert "select" in str(sketch.rewritten.stage("conv.pad").body)


def test_rows_of_a_softmax_belong_to_a_block() -> None:
    first = sketches(COUNTS["softmax 2x1024"][0], "ansor", A100)[0]
    assert str(first.nest("softmax_max").at) == str(first.nest("softmax_sum").at) == "softmax:1"


def test_the_tile_of_winograds_input_is_in_registers() -> None:
    (sketch,) = sketches(COUNTS["winograd 28x28"][0], "ansor", A100)
    tile, data = sketch.nest("winograd_tile"), sketch.nest("winograd_data")
    assert tile.at is not None and tile.at.stage == "winograd_data" and not tile.loops.is_cooperative
    assert data.unrolled


@pytest.mark.parametrize("name", ["matmul 512", "conv + bias + bn + relu", "softmax 2x1024", "matmul 8x8x1024"])
@pytest.mark.parametrize(("device", "rules"), [("a100", "ansor"), ("opencl", "default")])
def test_every_row_is_within_the_limits(name: str, device: str, rules: str) -> None:
    """Drawn as the paper does, as we do, mutated or crossed: no row asks for more than the device has."""
    target = NAMED[device]
    rng = np.random.default_rng(3)
    for plan in space_of(COUNTS[name][0], target, rules).plans:
        drawn = [sample_plan(plan, 6, rng, Sampling(kind)) for kind in ("uniform", "target")]
        children = [mutate(plan, drawn[1], rng), crossover(plan, *drawn, rng)]
        for rows in (*drawn, *children):
            for row in rows:
                found = plan.geometry.measure(row[None])
                shared = {r.nest.stage: int(shared_bytes(plan, r, row[None], found)[0]) for r in roots(plan)}
                for kernel in kernels(lower(plan.candidate(row))):
                    check_limits(kernel, target)
                    if kernel.name in shared:
                        assert shared[kernel.name] == kernel.shared_bytes  # as predicted
                        points = math.prod(plan.geometry.stages[kernel.name].shape)
                        assert kernel.block >= target.warp or points <= 2 * target.warp  # Ansor's limit


@pytest.mark.parametrize("name", ["GRP-3-b1", "C3D-4-b1", "C2D-3-b1"])
def test_shared_memory_is_counted_as_the_code_has_it(name: str) -> None:
    """Where tiles reach beyond the ends of axes, which do not shorten what a block has."""
    for plan in space_of(catalogue.get(name).workload(), A100).plans:
        rows = sample_plan(plan, 16, np.random.default_rng(0))
        found = plan.geometry.measure(rows)
        for root in roots(plan):
            made = [k for row in rows for k in kernels(lower(plan.candidate(row))) if k.name == root.nest.stage]
            assert list(shared_bytes(plan, root, rows, found)) == [k.shared_bytes for k in made]
            assert max(k.shared_bytes for k in made) <= A100.shared_bytes


def test_a_long_reduction_with_few_results_is_split_over_blocks() -> None:
    (split,) = [s for s in sketches(matmul(64, 64, 4096), "default", A100) if s.choices]
    assert [c.hole for c in split.choices] == ["C.factor"]
    found = split.resolve({"C.factor": 2})
    assert "k_f.0@block" in str(found.nest("C.rf").loops) and found.rewritten.stage("C.rf").axis("k_f").extent == 8
    assert len(sketches(matmul(2048, 2048, 512), "default", A100)) == 1  # enough blocks without


def test_records_keep_what_a_candidate_is() -> None:
    """Through JSON, and in the names of another workload that is the same."""
    workload = WORKLOADS["ConvLayer-small"]
    (candidate,) = candidates(workload, 1, 5)
    again = Candidate.from_json(workload, candidate.to_json())
    assert str(lower(again)) == str(lower(candidate))
    assert str(lower(renamed(candidate, workload))) == str(lower(candidate))
