"""Repeating, resizing by tables and sampling, against NumPy and PyTorch's well known results."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder
from tensorsmith.ops import resample


def test_repeat(run, random):
    x = random(2, 3, 4)
    assert (run(resample.repeat, x, times=(1, 2, 3)) == x.repeat(2, 1).repeat(3, 2)).all()
    with pytest.raises(UserError, match="expected 3 numbers"):
        resample.repeat(placeholder((2, 3, 4)), (1, 2))


def test_spread(run, random):
    x = random(2, 3, 4)
    want = np.zeros((3, 3, 10), "f4")
    want[::2, :, ::3] = x
    assert (run(resample.spread, x, steps=(2, 1, 3)) == want).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tables(run, random, same, axis):
    x, weights = random(3, 4, 5), random(7, 2)
    places = np.random.default_rng(0).integers(0, 3, (7, 2))
    picked = np.take(x, places, axis).astype("f8")  # the taps follow the axis
    picked = np.moveaxis(np.moveaxis(picked, axis % 3, 0), axis % 3 + 1, 1)
    want = np.moveaxis((picked * weights[:, :, None, None]).sum(1), 0, axis)
    same(run(resample.resample, x, places, weights, axis=axis), want)
    more = random(7)
    shift = more.reshape([-1 if d == axis % 3 else 1 for d in range(3)])
    same(run(resample.resample, x, places, weights, more, axis=axis), want + shift)


def test_integers_are_rounded_and_limited(run):
    x = np.array([[0, 255, 3]], "u1")
    places, weights = np.array([[0, 1], [1, 1], [0, 2], [0, 2]]), np.array([[0.5, 0.5], [1, 1], [0.5, 0.5], [0.5, -0.5]], "f4")
    assert run(resample.resample, x, places, weights, axis=1).tolist() == [[128, 255, 2, 0]]
    assert run(resample.resample, x, places, weights, axis=1, dtype="f32").tolist() == [[127.5, 510, 1.5, -1.5]]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("border", resample.BORDERS)
@pytest.mark.parametrize("mode", resample.MODES)
def test_the_identity_grid_gives_the_image(run, random, mode, border, corners):
    x = random(2, 4, 5, 3)
    edge = [1 if corners else 1 - 1 / n for n in (4, 5)]
    rows, columns = (np.linspace(-e, e, n) for e, n in zip(edge, (4, 5)))
    grid = np.stack(np.broadcast_arrays(columns[None, :], rows[:, None]), axis=-1)
    grid = np.broadcast_to(grid, (2, 4, 5, 2)).astype("f4")
    got = run(resample.grid_sample, x, grid, mode=mode, border=border, align_corners=corners)
    np.testing.assert_allclose(got, x, atol=1e-5)


def test_beyond_the_edges(run):
    x = np.arange(1, 5, dtype="f4").reshape(1, 4, 1)
    grid = np.array([-1.75, -1.25, 1.25, 1.75], "f4").reshape(1, 4, 1)  # two elements beyond each end, and one
    found = {b: run(resample.grid_sample, x, grid, mode="nearest", border=b).ravel().tolist() for b in resample.BORDERS}
    assert found == {"zeros": [0, 0, 0, 0], "border": [1, 1, 4, 4], "reflection": [2, 1, 4, 3]}


def test_refusals():
    x = placeholder((1, 4, 4, 3), name="x")
    with pytest.raises(UserError, match="needs a grid"):
        resample.grid_sample(x, placeholder((1, 4, 4, 3), name="g"))
    with pytest.raises(UserError, match="mode 'area'"):
        resample.grid_sample(x, placeholder((1, 4, 4, 2), name="g"), mode="area")
    with pytest.raises(UserError, match="same shape"):
        resample.resample(x, placeholder((3, 2), "i64", name="p"), placeholder((3, 1), name="w"), axis=1)
