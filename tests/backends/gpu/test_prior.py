"""The analytic prior of GPUs: that it knows what is better, and what a warp's accesses cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorsmith.backends.gpu.features.columns import columns, resident_blocks
from tensorsmith.backends.gpu.features.schema import SCHEMA, TOLD
from tensorsmith.backends.gpu.features.warp import lanes_of, sectors, wavefronts
from tensorsmith.backends.gpu.named import NAMED
from tensorsmith.backends.gpu.prior import estimate, estimate_seconds, estimated_seconds
from tensorsmith.learn.features.rows import FeatureMatrix, FeatureRows, Section

A100 = NAMED["a100"]
#: a block of a good matrix product of 1024: 128 x 128 results by 256 threads, 8 x 8 each, tiles 8 deep
GOOD: dict[str, Any] = {
    "blocks": 64, "threads": 256, "registers": 104, "shared_bytes": 8192, "multiply_adds": 8 * 64 * 1024, "results": 64,
    "reduce_steps": 1024, "loop_rounds": 8 * 128, "rounds": 128, "barriers": 256, "shared_loads": 8 * 1024 * 4,
    "shared_stores": 128 * 16, "shared_wavefronts": 8 * 1024 * 8, "global_loads": 128 * 16, "global_load_sectors": 128 * 256,
    "global_load_bytes": 128 * 8192, "global_stores": 8 * 64, "global_store_sectors": 8 * 64 * 16, "new_share": 1.0,
    "memory_bytes": 3 * 4 << 20, "read_bytes": 2 * 4 << 20, "far_bytes": 128 * 256 * 32,
}  # fmt: skip


def matrix(*kernels: dict[str, Any], target: Any = A100) -> FeatureMatrix:
    told = {name: np.array([k.get(name, 0) for k in kernels], float) for name in TOLD}
    return FeatureMatrix(columns(told, len(kernels), target)[:, None], ("C",), SCHEMA)


def seconds(*kernels: dict[str, Any], target: Any = A100) -> np.ndarray:
    return estimate_seconds(matrix(*kernels, target=target), target)


def test_a_good_kernel_is_near_the_peak() -> None:
    """64 of 108 multiprocessors are busy, each at nearly all it can do; with 864 blocks all of them are."""
    few, many = seconds(GOOD, {**GOOD, "blocks": 864})
    flops = 2 * 128 * 128 * 1024
    assert 0.3 * 64 / 108 < 64 * flops / few / A100.flops < 64 / 108
    assert 0.5 < 864 * flops / many / A100.flops < 1.0


@pytest.mark.parametrize(
    "worse",
    [
        {"shared_wavefronts": 8 * 1024 * 8 * 8},  # bank conflicts
        {"global_load_sectors": 128 * 256 * 16},  # loads that are not coalesced
        {"global_store_sectors": 8 * 64 * 512},
        {"registers": 400, "spilled_share": 0.4, "spill_bytes": 8 * 0.4 * 256 * 64 * 1024},
        {"blocks": 109},  # one more than multiprocessors, were only one block resident at a time
        {"loop_rounds": 8 * 1024 * 64},
        {"read_bytes": 3 << 30},
        {"functions": 8 * 64 * 1024},
        {"other_operations": 8 * 64 * 1024},
        {"rounds": 1024, "barriers": 2048},
    ],
    ids=lambda worse: next(iter(worse)),
)
def test_what_makes_a_kernel_slower(worse: dict[str, Any]) -> None:
    good, bad = seconds(GOOD, {**GOOD, **worse})
    assert bad > 1.05 * good


def test_tail_waves() -> None:
    """One block resident on each multiprocessor: 216 blocks take two turns, 217 take three."""
    one = {**GOOD, "shared_bytes": 140 << 10}
    a, b, c = seconds({**one, "blocks": 109}, {**one, "blocks": 216}, {**one, "blocks": 217})
    assert a == pytest.approx(b) and c > 1.4 * b
    found = matrix({**one, "blocks": 216}, {**one, "blocks": 217})
    assert found.raw("waves")[:, 0] == pytest.approx([2, 3], rel=1e-5)
    assert found.raw("tail_useful")[:, 0] == pytest.approx([1.0, 217 / 324], rel=1e-5)


def test_matrix_instructions_are_faster() -> None:
    work = 8 * 64 * 1024 * 32
    plain, by_matrix = seconds({**GOOD, "blocks": 864}, {**GOOD, "blocks": 864, "multiply_adds": 0, "matrix_multiply_adds": work})
    assert by_matrix < 0.75 * plain


def test_what_is_fetched_by_itself_is_hardly_waited_for() -> None:
    """As far as there is something else to do meanwhile; the first round's tiles are waited for in any case."""
    few = {**GOOD, "blocks": 108, "rounds": 500}
    plain, apart = seconds(few, {**few, "fetched_apart": 1})
    assert apart < 0.9 * plain
    nothing_else = {**few, "multiply_adds": 0, "other_operations": 0, "reduce_steps": 0, "loop_rounds": 0, "barriers": 0}
    plain, apart = seconds(nothing_else, {**nothing_else, "fetched_apart": 1})
    assert apart == pytest.approx(plain, rel=0.01)
    one = {**few, "rounds": 1}
    plain, apart = seconds(one, {**one, "fetched_apart": 1})
    assert apart == plain


def test_what_a_kernel_waits_for() -> None:
    def tightest(**changes: Any) -> str:
        return estimate(matrix({**GOOD, "blocks": 864, **changes}), A100).tightest(0, 0)

    assert tightest() == "arithmetic"
    assert tightest(shared_wavefronts=8 * 1024 * 100) == "loads and stores"
    assert tightest(read_bytes=3 << 30) == "memory"
    assert tightest(far_bytes=128 * 256 * 400 * 32, multiply_adds=0) == "second cache"
    assert tightest(blocks=1, rounds=10000, multiply_adds=10, shared_wavefronts=1) == "fetching"


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (256, 32, 0, 8),  # 2048 threads
        (256, 128, 0, 2),  # 65536 registers
        (256, 85, 0, 2),  # 88 are given
        (64, 32, 41 << 10, 3),  # 164 KB would be four times 41, but for what the system keeps
        (64, 32, 0, 32),  # blocks
        (64, 32, 48 << 10, 3),  # 164 KB, of which each block costs 49
        (1, 16, 0, 32),
        (1024, 64, 0, 1),
        (1024, 65, 0, 0),
        (1024, 400, 0, 0),
    ],
)
def test_resident_blocks(threads: int, registers: int, shared: int, blocks: int) -> None:
    """Figures of NVIDIA's occupancy calculator for compute capability 8.0."""
    assert resident_blocks(np.array([threads]), np.array([registers]), np.array([shared]), A100) == [blocks]


def by_hand_wavefronts(start: list[int], size: int) -> int:
    words = {s // 4 + w for s in start for w in range(max(1, -(-size // 4)))}
    return max(sum(w % 32 == bank for w in words) for bank in range(32))


@given(st.data())
def test_wavefronts_and_sectors(data: st.DataObject) -> None:
    """Against counting with sets, of accesses of different sizes and numbers of lanes at once."""
    count = data.draw(st.integers(1, 4))
    lanes = [data.draw(st.integers(1, 40)) for _ in range(count)]
    size = [data.draw(st.sampled_from([1, 2, 4, 8, 16])) for _ in range(count)]
    strides = [(data.draw(st.integers(0, 70)), data.draw(st.integers(0, 300)), data.draw(st.integers(1, 33))) for _ in range(count)]
    lane = np.arange(32)
    start = np.array([(lane % c * a + lane // c * b) * s for (a, b, c), s in zip(strides, size)])
    there = lanes_of(np.array(lanes), 32)
    fronts, lines = wavefronts(start, there, np.array(size)), sectors(start, there, np.array(size))
    for n in range(count):
        own = start[n][: lanes[n]].tolist()
        assert fronts[n] == by_hand_wavefronts(own, size[n])
        assert lines[n] == len({x // 32 for s in own for x in (s, s + size[n] - 1)})


def test_known_patterns() -> None:
    lane, there = np.arange(32)[None], np.ones((1, 32), bool)
    for stride, fronts in ((0, 1), (1, 1), (2, 2), (17, 1), (32, 32), (33, 1)):
        assert wavefronts(lane * stride * 4, there, np.array([4])) == [fronts]
    assert wavefronts(lane * 16, there, np.array([16])) == [4]  # 512 bytes, 128 a cycle
    assert sectors(lane * 4, there, np.array([4])) == [4]
    assert sectors(lane * 4 + 4, there, np.array([4])) == [5]  # not aligned
    assert sectors(lane * 128, there, np.array([4])) == [32]


def test_columns_are_those_of_the_schema() -> None:
    found = matrix(GOOD)
    for name, value in GOOD.items():
        assert found.raw(name)[0, 0] == pytest.approx(value, rel=1e-4), name
    assert np.isfinite(found.values).all() and (found.values >= 0).all()
    ratios = [n for n, f in enumerate(SCHEMA.features) if f.unit == "ratio"]
    assert (found.values[..., ratios] <= 1).all()
    assert len(set(SCHEMA.names)) == len(SCHEMA) and all(f.definition.endswith(".") for f in SCHEMA.features)


@given(st.dictionaries(st.sampled_from(TOLD), st.floats(0, 1e9)), st.sampled_from(sorted(NAMED)))
def test_any_numbers_give_a_time(told: dict[str, float], name: str) -> None:
    shares = {f.name for f in SCHEMA.features if f.unit == "ratio"}
    kernel = {n: min(v, 1.0) if n in shares else v for n, v in told.items()}
    assert 0 < seconds(kernel, target=NAMED[name])[0] < np.inf


def test_kernels_of_a_candidate_add_up() -> None:
    values = matrix(GOOD, {**GOOD, "blocks": 500}).values[:, 0]
    rows = FeatureRows(values, np.array([0, 0]), 1, (Section(("A", "B"), (0, 1), 1),), SCHEMA)
    assert estimated_seconds(rows, A100) == pytest.approx(seconds(GOOD, {**GOOD, "blocks": 500}).sum())
