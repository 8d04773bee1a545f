"""Random inputs for a workload, and the comparison of a result with the reference.

A sum of n terms in a type with machine epsilon e is off by about e * sqrt(n) of the size of its partial sums, which is
that of the results themselves for inputs of either sign. So an element may differ by

    share * (|want| + RMS(want)),    share = 8 * sum of e * sqrt(n) over the stage and all stages it depends on

A term left out of a sum changes the result by about RMS / sqrt(n), which that catches for n up to a million in f32.
Integers and bools must be equal.
"""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import OutOfMemory
from tensorsmith.lang.dtypes import Array, converted, dtype
from tensorsmith.lang.expr import loads
from tensorsmith.lang.workload import Workload

_SAFETY = 8  # other orders of summation, contraction to FMA, polynomial functions good to some units in the last place


def random_inputs(workload: Workload, seed: int = 0) -> dict[str, Array]:
    """Floats uniform in -1..1, small integers, random bools; an input used as an index gets indices in bounds."""
    generator = np.random.default_rng(seed)
    limits = _index_limits(workload)
    result: dict[str, Array] = {}
    for buffer in workload.inputs:
        facts = dtype(buffer.dtype)
        try:
            if facts.kind == "f":
                values: Array = generator.uniform(-1, 1, buffer.shape)
            elif facts.kind == "b":
                values = generator.integers(0, 2, buffer.shape)
            else:
                low, high = (0, 16) if facts.kind == "u" else (-8, 9)
                if buffer.name in limits:
                    low, high = 0, max(1, limits[buffer.name])
                values = generator.integers(low, high, buffer.shape)
            result[buffer.name] = converted(values, buffer.dtype)
        except MemoryError:
            raise OutOfMemory(f"input {buffer.name} {buffer.dtype}{list(buffer.shape)}", buffer.bytes) from None
    return result


def _index_limits(workload: Workload) -> dict[str, int]:
    """For every tensor read inside an index, directly or through integer stages: the smallest extent it indexes."""
    limits: dict[str, int] = {}

    def mark(name: str, extent: int) -> None:
        if limits.get(name, extent + 1) <= extent:
            return  # and so it was for whatever this tensor is computed from
        limits[name] = extent
        if workload.is_stage(name):
            for read in workload.stage(name).reads:
                if dtype(read.dtype).kind in "iu":
                    mark(read.tensor, limits[name])

    for stage in workload.stages:
        for read in stage.reads:
            for index, extent in zip(read.indices, workload.buffers[read.tensor].shape):
                for inside in loads(index):
                    mark(inside.tensor, extent)
    return limits


def tolerance(workload: Workload, name: str) -> float:
    """The share of |want| + RMS(want) by which an element of stage `name` may be off; 0 for integers and bools."""
    if dtype(workload.buffers[name].dtype).kind != "f":
        return 0.0
    ancestors: set[str] = set()

    def visit(stage: str) -> None:
        if stage in ancestors or not workload.is_stage(stage):
            return
        ancestors.add(stage)
        for read in workload.stage(stage).reads:
            visit(read.tensor)

    visit(name)
    return _SAFETY * sum(_rounding(workload, stage) for stage in ancestors)


def _rounding(workload: Workload, name: str) -> float:
    stage = workload.stage(name)
    facts = dtype(stage.dtype)
    if facts.kind != "f":
        return 0.0
    terms = math.prod(a.extent for a in stage.reduce_axes) if stage.reduction in ("sum", "prod") else 1
    return facts.epsilon * math.sqrt(max(1, terms))


def difference(workload: Workload, name: str, got: Array, want: Array, slack: float = 1.0) -> str | None:
    """What is wrong with `got` as the result of stage `name`, with the worst element; None if nothing is.

    `slack` widens the tolerance, for results that may come of another formulation, whose rounding is larger.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name} is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return None
    share = slack * tolerance(workload, name)
    if dtype(workload.buffers[name].dtype).kind == "f":
        g, w = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(w)
        size = math.sqrt(np.mean(np.square(w[finite]))) if finite.any() else 0.0
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        with np.errstate(invalid="ignore"):
            error = np.abs(g - w)
            wrong = ~same & ~(finite & (error <= share * (np.abs(w) + size)))
        error = np.where(np.isnan(error), np.inf, error)
    else:
        if got.dtype == np.bool_:  # NumPy takes any byte but 0 for True: memory that was never written would be right
            got, want = got.view(np.uint8), want.view(np.uint8)
        wrong = got != want
        error = np.where(wrong, 1.0, 0.0)
    if not wrong.any():
        return None
    worst = np.unravel_index(int(np.argmax(np.where(wrong, error, -1.0))), want.shape)
    where = ", ".join(str(int(i)) for i in worst)
    return (
        f"{name}: {int(wrong.sum())} of {want.size} elements are wrong, the worst at [{where}]: "
        f"got {got[worst]}, expected {want[worst]} (tolerance {share:.1e})"
    )


def close(workload: Workload, name: str, got: Array, want: Array) -> bool:
    """Whether `got` is acceptable as the result of stage `name`."""
    return difference(workload, name, got, want) is None


def assert_close(workload: Workload, name: str, got: Array, want: Array) -> None:
    """Raises `AssertionError` with the worst element unless `got` is acceptable as the result of stage `name`."""
    problem = difference(workload, name, got, want)
    if problem is not None:
        raise AssertionError(problem)
