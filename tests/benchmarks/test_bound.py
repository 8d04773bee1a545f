"""The bound: what has to be computed is counted, not guessed, and the largest part limits."""

from __future__ import annotations

import math

import pytest

import bound
from bound import Bound, Level, Rates
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue


def test_padding_makes_less_of_it_and_nothing_else_does() -> None:
    padded, plain = catalogue.get("DIL-4-b1").workload(), catalogue.get("GMM-3-b1").workload()
    assert bound.bound(padded, RATES).arithmetic < 0.8 * flops(padded) / RATES.flops
    assert bound.bound(plain, RATES).arithmetic == flops(plain) / RATES.flops


def test_other_types_have_no_arithmetic_bound() -> None:
    assert bound.bound(catalogue.get("matmul-i32-small").workload(), RATES).arithmetic == 0.0


RATES = Rates(1e11, (Level("L1", 64e3, 4e11), Level("L2", 1e6, 2e11), Level("memory", math.inf, 2e10)), 1e-7)


@pytest.mark.parametrize(("name", "limit"), [("GMM-3-b1", "FMA"), ("NRM-4-b1", "memory"), ("NRM-small", "call")])
def test_the_largest_part_limits(name: str, limit: str) -> None:
    found = bound.bound(catalogue.get(name).workload(), RATES)
    assert found.limit == limit and found.seconds == max(found.arithmetic, found.bytes, found.call)


def test_bytes_are_at_the_level_that_holds_them() -> None:
    found = bound.bound(catalogue.get("NRM-1-b1").workload(), RATES)  # 256 KiB
    assert found.level == "L2" and found.bytes == pytest.approx(256 * 1024 / 2e11, rel=1e-3)
    assert Bound(1.0, 2.0, "L1", 0.5).limit == "L1"


def test_streamed_constants_come_from_memory() -> None:
    workload = catalogue.get("C2D-4-b1").workload()
    constants = sum(b.bytes for b in workload.inputs if b.constant)
    found = bound.bound(workload, Rates(1e15, (Level("L2", 1e9, 2e11), Level("memory", math.inf, 2e10)), 1e-9), streamed=True)
    assert found.limit == "memory" and found.bytes == pytest.approx(constants / 2e10)


def test_the_machines_rates_are_there_and_nearer_memory_is_not_slower() -> None:
    found = bound.measure_rates(rounds=1)
    rates = [level.bytes_per_second for level in found.levels]
    assert found.flops > 0 and found.call > 0 and min(rates) > 0
    assert rates == sorted(rates, reverse=True) and [level.name for level in found.levels] == ["L1", "L2", "L3", "memory"]
    holds = [level.holds for level in found.levels]
    assert holds == sorted(holds) and holds[-1] == math.inf
