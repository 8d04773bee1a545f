"""Winograd's convolution against the direct one."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Select, walk
from tensorsmith.ops.conv import conv2d
from tensorsmith.rewrites.winograd import TILES, transform_matrices, transform_weight, winograd_conv2d
from tensorsmith.space.analysis import constant_axes, is_strictly_inlinable, reduces_constant


def tensors(n, h, w, ci, co, padding, tile):
    x = placeholder((n, h, w, ci), name="x")
    u = placeholder((tile + 2, tile + 2, ci, co), name="u", constant=True)
    return x, u, winograd_conv2d(x, u, padding, tile)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    "shape, padding",
    [
        ((1, 8, 8, 3, 5), 1),
        ((1, 7, 9, 3, 5), 1),  # the last tiles hang over
        ((2, 5, 13, 4, 3), ((0, 1), (2, 0))),
        ((3, 3, 3, 1, 1), 0),  # one result
        ((1, 4, 4, 7, 2), 2),
    ],
)
def test_is_the_convolution(tile, shape, padding):
    x, u, y = tensors(*shape, padding, tile)
    generator = np.random.default_rng(3)
    data = generator.uniform(-1, 1, x.shape).astype("f4")
    weight = generator.uniform(-1, 1, (3, 3, shape[3], shape[4])).astype("f4")
    got = evaluate(workload([x, u, y]), {"x": data, "u": transform_weight(weight, tile)}, precise=True)[y.name]
    w = placeholder(weight.shape, name="w")
    direct = conv2d(x, w, 1, padding)
    want = evaluate(workload([x, w, direct]), {"x": data, "w": weight}, precise=True)[direct.name]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * 9 * shape[3])


@pytest.mark.parametrize("tile", TILES)
def test_the_matrices_are_an_identity(tile):
    """One dimension, in f64: A^T ((G g) * (B^T d)) is the correlation of d and g."""
    a, b, g = transform_matrices(tile)
    generator = np.random.default_rng(0)
    d, kernel = generator.normal(size=tile + 2), generator.normal(size=3)
    np.testing.assert_allclose(a.T @ ((g @ kernel) * (b.T @ d)), np.correlate(d, kernel, "valid"), atol=1e-12)


def test_the_matrices_are_inlined_constants():
    x, u, y = tensors(1, 28, 28, 128, 128, 1, 4)
    w = workload([x, u, y])
    for name in ("winograd_a", "winograd_b"):
        assert not w.stage(name).reads
        assert is_strictly_inlinable(w.stage(name))
        assert any(isinstance(e, Select) for e in walk(w.stage(name).body))
    for name, axes in (("winograd_data", "uvrs"), ("winograd_inverse", "yzrs")):
        assert reduces_constant(w, w.stage(name))
        assert constant_axes(w, w.stage(name)) == set(axes)
    assert not reduces_constant(w, w.stage("winograd_gemm"))
    assert w.stage("winograd_gemm").shape == (6, 6, 49, 128)


def test_the_weight_keeps_its_type():
    assert transform_weight(np.ones((3, 3, 2, 4), "f4")).shape == (6, 6, 2, 4)
    assert transform_weight(np.ones((3, 3, 2, 4), "f4"), 2).dtype == np.float32


def test_refusals():
    x = placeholder((1, 8, 8, 3), name="x")
    u = placeholder((6, 6, 3, 5), name="u", constant=True)
    with pytest.raises(UserError, match="tiles of 2 and 4, not of 3"):
        winograd_conv2d(x, u, tile=3)
    with pytest.raises(UserError, match=r"u has the shape \[6, 6, 3, 5\]; tiles of 2 and 3 channels need \[4, 4, 3, CO\]"):
        winograd_conv2d(x, u, tile=2)
    with pytest.raises(UserError, match=r"the weight has the shape \[5, 5, 3, 5\]; expected \(3, 3, CI, CO\)"):
        transform_weight(np.zeros((5, 5, 3, 5), "f4"))
