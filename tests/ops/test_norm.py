"""Norms, softmax and the paper's subgraphs against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.ops import conv, norm, subgraphs


def softmax(x, axis=-1):
    e = np.exp(x.astype("f8") - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 1, 7)])
def test_matrix_norm(run, random, same, shape):
    x = random(*shape)
    same(run(norm.matrix_norm, x), np.asarray(np.sqrt((x.astype("f8") ** 2).sum((-2, -1)))))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(run, random, same, axis):
    x = random(3, 4, 17) * 50
    same(run(norm.softmax, x, axis=axis), softmax(x, axis))
    got = run(norm.log_softmax, x, axis=axis)
    largest = x.max(axis, keepdims=True).astype("f8")
    want = x - largest - np.log(np.exp(x - largest).sum(axis, keepdims=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("affine", ["", "scale", "shift", "scale shift"])
def test_layer_norm(run, random, same, axis, affine):
    x = random(3, 4, 5)
    dims = tuple(range(axis % 3, 3))
    names = affine.split()
    extra = {name: random(*x.shape[dims[0] :]) for name in names}
    want = (x - x.mean(dims, keepdims=True, dtype="f8")) / np.sqrt(x.var(dims, keepdims=True, dtype="f8") + 1e-5)
    want = want * extra.get("scale", 1) + extra.get("shift", 0)
    got = run(lambda t, *rest: norm.layer_norm(t, **dict(zip(names, rest)), axis=axis), x, *extra.values())
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [(1,), (0, 2), (-1,), (0, 1, 2)])
def test_normalize(run, random, axes):
    x = random(3, 4, 5) * 3 + 2
    mean, variance = x.mean(axes, keepdims=True, dtype="f8"), x.var(axes, keepdims=True, dtype="f8")
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(run(norm.normalize, x, axes=axes, epsilon=0.1), (x - mean) / np.sqrt(variance + 0.1), **close)
    squares = (x.astype("f8") ** 2).mean(axes, keepdims=True)
    np.testing.assert_allclose(run(norm.normalize, x, axes=axes, centre=False), x / np.sqrt(squares + 1e-5), **close)
    for n, want in enumerate((mean, 1 / np.sqrt(variance + 1e-5))):
        np.testing.assert_allclose(run(lambda t, n=n: norm.moments(t, axes)[n], x), want, **close)


def test_halves_are_normalised_in_single_precision(run):
    x = (np.random.default_rng(0).uniform(-1, 1, (4, 300)) + 200).astype(np.float16)  # the sum overflows f16
    got = run(norm.normalize, x, axes=(1,))
    wide = x.astype("f8")
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_norm(run, random, size):
    x = random(2, 3, 7) * 4
    squares = np.zeros(x.shape)
    for c in range(7):
        squares[..., c] = (x[..., max(0, c - (size - 1) // 2) : c + size // 2 + 1].astype("f8") ** 2).sum(-1)
    want = x / (2 + 0.3 / size * squares) ** 0.6
    np.testing.assert_allclose(run(norm.local_response_norm, x, size=size, alpha=0.3, beta=0.6, bias=2.0), want, rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_normalize(run, random, p):
    x = random(3, 4, 5)
    x[:, :, 1] = 0
    length = (np.abs(x.astype("f8")) ** p).sum(1, keepdims=True) ** (1 / p)
    want = np.divide(x, length, out=np.zeros_like(x, "f8"), where=length != 0)
    np.testing.assert_allclose(run(norm.lp_normalize, x, axis=1, p=p), want, rtol=1e-5, atol=1e-6)


def test_rows_that_are_masked_throughout(run):
    x = np.array([[0, 1, -np.inf], [-np.inf] * 3], "f4")
    got = run(norm.softmax, x, masked=True)
    np.testing.assert_allclose(got, [[0.26894142, 0.73105858, 0], [0, 0, 0]], rtol=1e-6)
    assert np.isnan(run(norm.softmax, x)[1]).all()


def test_batch_norm(run, random, same):
    x, scale, shift = random(2, 3, 4), random(4), random(4)
    same(run(norm.batch_norm, x, scale, shift), x * scale + shift)


def test_conv_layer(run, random, same):
    x, w, bias, scale, shift = random(2, 7, 7, 3), random(3, 3, 3, 5), random(5), random(5), random(5)
    product = run(conv.conv2d, x, w, stride=2, padding=1)
    want = np.maximum((product + bias) * scale + shift, 0)
    same(run(subgraphs.conv_layer, x, w, bias, scale, shift, stride=2, padding=1), want)


def test_tbs(run, random, same):
    query, key = random(2, 5, 3, 4), random(2, 6, 3, 4)
    scores = np.einsum("bihd,bjhd->bhij", query, key)
    same(run(subgraphs.tbm, query, key), scores)
    same(run(subgraphs.tbs, query, key), softmax(scores))


def test_stages():
    q, k = placeholder((2, 5, 3, 4), name="q"), placeholder((2, 5, 3, 4), name="k")
    names = [s.name for s in workload([q, k, subgraphs.tbs(q, k, name="a")]).stages]
    assert names == ["a_scores_query", "a_scores_key", "a_scores", "a_max", "a_exp", "a_sum", "a"]


def test_refusals():
    x = placeholder((3, 4), name="x")
    with pytest.raises(UserError, match=r"s has the shape \[3\]; expected \[4\]"):
        norm.layer_norm(x, placeholder((3,), name="s"))
    with pytest.raises(UserError, match="x has 4 channels"):
        norm.batch_norm(x, placeholder((3,), name="s"), placeholder((4,), name="t"))
    with pytest.raises(UserError, match="differ in more than length"):
        subgraphs.tbs(placeholder((1, 2, 3, 4), name="q"), placeholder((1, 2, 5, 4), name="k"))
