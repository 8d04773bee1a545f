"""Chains of transforms, and how they are cut into slices."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.rewrites.test_formulations import SAME, conv_layer

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.space.sketch.rewrite import Alias, apply_rewrites
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.space.transforms import Slices, slices
from tensorsmith.targets.target import Target, native


def winograd(original: Workload) -> Workload:
    return formulations(original)[1].workload


def found(workload: Workload, last: str) -> Slices | None:
    return slices(workload, workload.stage(last))


def test_the_rows_of_tiles_are_cut_and_a_convolved_depth_is_not():
    two = apply_rewrites(winograd(SAME["square"]), [Alias(SAME["square"].outputs[0])])
    cut = found(two, two.outputs[0])
    assert cut is not None and cut.members == ("conv_gemm", "conv_data")
    assert [a.name for a in cut.lead] == ["n"] and cut.axis.name == "ty" and cut.depth == 2
    three = winograd(SAME["three dimensions"])
    cut = found(three, "conv_blocks")
    assert cut is not None and [a.name for a in cut.lead] == ["n"] and cut.axis.name == "ty"
    assert cut.values_bytes(three) == sum(three.buffers[n].bytes for n in ("conv_gemm", "conv_data"))


@pytest.mark.parametrize("last", ["conv_data", "conv_gemm", "conv_rows", "conv_pad"])
def test_what_is_no_end_of_such_a_chain(last):
    assert found(winograd(SAME["square"]), last) is None
    assert found(SAME["square"], SAME["square"].outputs[0]) is None


def test_one_row_of_tiles_is_not_cut():
    assert found(winograd(conv_layer((1, 4, 64, 16), (3, 3, 16, 8), epilogue=False)), "conv_blocks") is None


def small_caches(**facts: int) -> Target:
    return dataclasses.replace(native(), **facts)


def attached(candidate: Candidate) -> set[str]:
    return {n.stage for n in candidate.sketch.nests if n.at is not None}


def test_the_default_cuts_where_the_values_are_many_and_the_constants_few():
    workload = winograd(conv_layer((1, 64, 32, 32), (3, 3, 32, 32)))  # 1.1 MB of values, 147 KB of constants, 16 rows of tiles
    members = {"conv_gemm", "conv_data"}
    assert members <= attached(default_candidate(workload, small_caches(l2_bytes=1 << 18)))
    assert not members & attached(default_candidate(workload, small_caches(l2_bytes=1 << 22)))  # they stay in the second cache
    deep = winograd(conv_layer((1, 16, 16, 64), (3, 3, 64, 64)))  # 4 rows of tiles, each reading 590 KB of constants
    assert not members & attached(default_candidate(deep, small_caches(l2_bytes=1 << 16)))


@pytest.mark.parametrize(("l3_bytes", "cut"), [(1 << 20, False), (1 << 19, True), (1 << 18, False)])
def test_what_no_cache_holds_is_not_read_again_and_again(l3_bytes: int, cut: bool) -> None:
    """885 KB of values are cut if they leave the caches, but not if the 332 KB of constants did, too, which every slice reads."""
    workload = winograd(conv_layer((4, 16, 16, 48), (3, 3, 48, 48)))
    found = attached(default_candidate(workload, small_caches(l2_bytes=1 << 16, l3_bytes=l3_bytes)))
    assert ({"conv_gemm", "conv_data"} <= found) == cut


def test_values_that_no_cache_can_hold_are_cut_unless_it_cannot_hold_constants_either():
    workload = winograd(conv_layer((1, 64, 32, 32), (3, 3, 32, 32)))
    for l3_bytes, options in ((1 << 25, [("0", "2")]), (1 << 19, [("2",)]), (1 << 17, [("0", "2")])):  # the last: nor the constants
        space = space_of(workload, small_caches(l3_bytes=l3_bytes))
        chosen = [c.options for p in space.plans for c in p.sketch.choices if c.kind == "rows" and "conv_gemm" in c.members]
        assert chosen and list(dict.fromkeys(chosen)) == options


@pytest.mark.parametrize("name", SAME)
def test_cut_or_not_the_default_is_right_and_in_the_space(name):
    workload = winograd(SAME[name])
    inputs = random_inputs(workload, 1)
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    in_order = small_caches(l2_bytes=1 << 10, vector_registers=32, in_order=True, fma_latency=10, fmas_per_cycle=1)
    for target in (native(), small_caches(l2_bytes=1 << 10, l3_bytes=1 << 10), in_order):
        candidate = default_candidate(workload, target)
        np.testing.assert_allclose(build(candidate)(**inputs), want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
        assert space_of(workload, target).find(candidate) is not None
