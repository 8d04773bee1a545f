"""The prior need not be right, but it must not be perverse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.cpu.features.test_golden import candidate, matmul
from tests.backends.cpu.machines import target

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.prior import estimate, estimate_seconds
from tensorsmith.backends.cpu.rates import Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.targets.target import Target

TARGET = target(vector_bytes=32, registers=16)
TILED = Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1", packed=("B",))


def seconds(rows: int = 6, lanes: int = 16, parallel: int = 1, unroll: int = 2, size: int = 384, nest: Nest = TILED) -> float:
    """Of a matmul with a register tile."""
    w = matmul(size, size, size, constant=True)
    c = candidate(w, nest, C__i__1=rows, C__j__1=lanes, C__parallel=parallel, C__unroll=unroll)
    return float(estimate_seconds(lower(c), TARGET)[0])


def changed(matrix: FeatureMatrix, name: str, factor: float, plus: float = 0.0) -> FeatureMatrix:
    """The matrix with a feature's value times a factor and so much more."""
    values = matrix.values.copy()
    raw = matrix.raw(name) * factor + plus
    values[:, :, SCHEMA.index[name]] = raw if name in ("lanes_useful", "parallel_balance") else np.log2(raw + 1)
    return replace(matrix, values=values)


@pytest.mark.parametrize(
    ("feature", "factor", "plus"),
    [
        ("registers_spilled", 1, 8),
        ("lanes_useful", 0.5, 0),
        ("into_l1", 20, 1e9),
        ("into_l2", 20, 1e9),
        ("into_l3", 20, 1e9),
        ("set_overflow", 1, 8),
        ("step_loads", 8, 0),
        ("outer_runs", 10, 0),
        ("tile_pages", 1, 1e4),
        ("masks_lanes", 1, 2),
        ("float_mathfunc", 1, 1e9),
    ],
)
def test_more_trouble_takes_longer(feature: str, factor: float, plus: float) -> None:
    c = candidate(matmul(384, 384, 384, constant=True), TILED, C__i__1=6, C__j__1=16, C__parallel=1, C__unroll=2)
    matrix = extract(lower(c), TARGET)
    assert estimate_seconds(changed(matrix, feature, factor, plus), TARGET)[0] > estimate_seconds(matrix, TARGET)[0]


def test_wide_vectors_beat_narrow_ones() -> None:
    assert seconds(lanes=16) < seconds(lanes=8) < seconds(lanes=4) < seconds(lanes=1)
    assert seconds(lanes=16) < seconds(lanes=9)  # a vector with seven idle lanes


def test_a_tile_that_fits_the_registers_beats_others() -> None:
    fits, spills, starves = seconds(rows=6, lanes=16), seconds(rows=12, lanes=32), seconds(rows=1, lanes=8)
    assert fits < spills and fits < starves


def test_threads_help_if_there_is_enough_to_share() -> None:
    assert seconds(parallel=1) < seconds(parallel=0)
    assert seconds(size=8, parallel=0) < seconds(size=8, rows=1, lanes=8, parallel=1)


def test_unrolling_saves_loop_steps() -> None:
    assert seconds(unroll=4) < seconds(unroll=1)


def test_memory_order_matters() -> None:
    a_column = Nest("C", "i.0 j.0 | k.0 j.1 i.1", vector="i.1")  # lanes along the rows of A: strided loads and stores
    assert seconds() < seconds(nest=a_column, rows=16, lanes=6)


def test_no_estimate_beats_the_machine() -> None:
    peak = Machine().hertz * Machine().fma_per_cycle * 8 * 2 * TARGET.cores
    assert seconds() >= 2 * 384**3 / peak
    assert seconds() < 2 * 2 * 384**3 / peak  # and a good tile comes near


@pytest.mark.parametrize("case", ["C2D-3-b1", "GMM-3-b1", "DEP-2-b1", "NRM-1-b1", "ConvLayer-2-b1", "TBS-1-b1"])
def test_the_default_beats_the_plain_schedule(case: str) -> None:
    w = catalogue.get(case).workload()
    default = estimate_seconds(lower(default_candidate(w, TARGET)), TARGET)[0]
    plain = estimate_seconds(lower(plain_candidate(w)), TARGET)[0]
    assert 2 * default < plain


def test_the_causes_add_up() -> None:
    matrix = extract(lower(default_candidate(catalogue.get("TBS-1-b1").workload(), TARGET)), TARGET)
    e = estimate(matrix, TARGET)
    assert all(v.shape == (1, len(matrix.stages)) and (v >= 0).all() for v in (*e.bounds.values(), *e.overheads.values()))
    greatest = np.max(list(e.bounds.values()), axis=0)
    assert (e.cycles >= greatest + np.sum(list(e.overheads.values()), axis=0) - 1e-6).all()
    assert e.seconds.sum() == pytest.approx(estimate_seconds(matrix, TARGET)[0])
    assert e.tightest(0, matrix.stages.index("tbs_scores")) == "arithmetic"


def test_rates_are_the_targets() -> None:
    """Of a core whose multiply-adds take ten cycles and start one at a time; it waits for its loads, too."""
    slow, fast = Target.named("cortex-a53", cores=1), Target.named("neoverse-n1", cores=1)
    assert isinstance(slow, CpuTarget) and isinstance(fast, CpuTarget)
    matrix = extract(lower(default_candidate(catalogue.get("GMM-3-b1").workload(), slow)), slow)
    a, b = estimate(matrix, slow), estimate(matrix, fast)
    assert a.bounds["arithmetic"] == pytest.approx(2 * b.bounds["arithmetic"])
    assert a.bounds["latency"] == pytest.approx(2.5 * b.bounds["latency"])
    assert a.bounds["load and store ports"].sum() > b.bounds["load and store ports"].sum()
    every = np.stack(list(a.bounds.values()))
    assert (a.cycles >= every.max(axis=0) + 0.5 * (every.sum(axis=0) - every.max(axis=0)) - 1e-6).all()
    here = estimate(matrix, TARGET)
    assert here.seconds == pytest.approx(estimate(matrix, TARGET, Machine()).seconds)
