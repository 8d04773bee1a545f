"""AutoTVM's features by hand (spec: baselines.md, section 8, items 2 and 3), and of points of templates."""

from __future__ import annotations

import numpy as np
import pytest
from tests.baselines.test_templates import case

from tensorsmith.baselines.autotvm.loop_features import (
    FEATURES,
    KINDS,
    SAMPLES,
    Access,
    Loop,
    LoopProgram,
    Statement,
    curve,
    features,
    itervar,
)


def one(x: float) -> np.ndarray:
    return np.array([float(x)])


def product() -> LoopProgram:
    """for i<4, j<8, k<16: C[8i+j] += A[16i+k] * B[8k+j]"""
    c = Access("C", {0: one(8), 1: one(1)})
    a, b = Access("A", {0: one(16), 2: one(1)}), Access("B", {1: one(1), 2: one(8)})
    return LoopProgram([Loop(one(n)) for n in (4, 8, 16)], [Statement((0, 1, 2), (c, c, a, b), adds=1, multiplies=1)])


def unlogged(x: float) -> float:
    return 2**x - 1 if x >= 0 else 1 - 2**-x


def test_itervar() -> None:
    (found,) = itervar(product())
    assert len(found) == 126
    loops = found.reshape(3, 42)
    for row, (length, level, topdown, bottomup), arithmetic, accesses in zip(
        loops,
        [(4, 1, 4, 512), (8, 2, 32, 128), (16, 3, 512, 16)],
        [(0, 0, 0), (0, 0, 0), (1, 1, 0)],
        [
            [(16, 64, 8), (0, 128, 4), (8, 32, 16), (8, 32, 16)],
            [(0, 16, 8), (1, 128, 1), (1, 8, 16), (1, 8, 16)],
            [(1, 16, 1), (8, 16, 1), (0, 1, 16), (0, 1, 16)],
        ],
    ):
        assert [unlogged(row[0]), row[1], unlogged(row[2]), unlogged(row[3])] == pytest.approx([length, level, topdown, bottomup])
        assert row[4:15].tolist() == [float(kind == "serial") for kind in KINDS]
        assert [unlogged(x) for x in row[15:18]] == pytest.approx(arithmetic)
        for part, wanted in zip(row[18:].reshape(4, 6), accesses):  # A_0, B_0, C_0, C_1: stride, mod, count, reuse, per thread
            assert [unlogged(part[n]) for n in (0, 2, 3)] == pytest.approx(wanted)
            assert unlogged(part[1]) == -1 and part[4:].tolist() == [0, 0]


def test_threads_have_their_share() -> None:
    """With i shared among threads, what one of them touches is left out: i's own steps, which move A and C, not B."""
    program = product()
    program.loops[0] = Loop(one(4), "parallel")
    row = itervar(program)[0].reshape(3, 42)[0]
    assert [[unlogged(x) for x in part[4:]] for part in row[18:].reshape(4, 6)] == [
        pytest.approx(pair) for pair in ((4, 1), (1, 4), (4, 1), (4, 1))
    ]


def test_curve() -> None:
    (found,) = curve(product())
    assert len(found) == 3 * 160
    count_to_reuse = found[: 2 * SAMPLES].reshape(SAMPLES, 2)  # of A, the first of the buffers
    assert [tuple(count_to_reuse[x]) for x in (0, 4, 5, 6)] == [(0, 0), (3, 0), (3, 1), (3, 0)]
    topdown_to_count = found[6 * SAMPLES : 8 * SAMPLES].reshape(SAMPLES, 2)
    assert [tuple(topdown_to_count[x]) for x in (0, 2, 5, 9)] == [(0, 0), (4, 0), (4, 0), (6, 0)]


@pytest.mark.parametrize("kind", FEATURES)
def test_points_have_features_one_by_one(kind: str) -> None:
    """Of many points at once, those of each alone; and points differ."""
    template = case("ConvLayer-small")["conv"]
    points = list(template.points())
    together = features(template, points, kind)
    assert together.shape[0] == len(points) and np.isfinite(together).all()
    for n in (0, 7, len(points) - 1):
        alone = features(template, [points[n]], kind)[0]
        np.testing.assert_array_equal(together[n, : len(alone)], alone)
    assert len(np.unique(together, axis=0)) > len(points) / 3


def test_curves_are_as_long_for_other_shapes() -> None:
    widths = {features(case(name)["conv"], [(0, 0, 0, 0)], "curve").shape[1] for name in ("C2D-small", "C2D-4-b1", "C2D-3-b16")}
    assert widths == {480}
