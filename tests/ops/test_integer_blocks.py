"""Products with weights in blocks as files have them: each format against NumPy and against `gguf`, integers exactly."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, placeholder
from tensorsmith.lang.dtypes import Array
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops.block_formats import FORMATS, Format, format_of
from tensorsmith.ops.integer_blocks import integer_block_matmul, quantize_blocks

SCALES = {"q4_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}  # bytes at which a block has numbers of f16; else 0


def rows_of(kind: Format, rows: int, depth: int, seed: int = 0) -> Array:
    """Random rows of bytes, whose scales are numbers."""
    rng = np.random.default_rng(seed)
    blocks = depth // kind.weights
    raw = rng.integers(0, 256, (rows, blocks, kind.bytes)).astype(np.uint8)
    for start in SCALES.get(kind.name, (0,)):
        raw[..., start : start + 2] = rng.uniform(0.001, 0.1, (rows, blocks, 1)).astype(np.float16).view(np.uint8)
    return raw.reshape(rows, -1)


def f16(raw: Array, start: int) -> Array:
    return np.ascontiguousarray(raw[..., start : start + 2]).view(np.float16).astype("f8")


def halves(s: Array) -> Array:
    """The lower halves of bytes, then the upper ones."""
    return np.concatenate([s & 15, s >> 4], -1).astype("i8")


def in_parts(kind: Format, raw: Array) -> tuple[Array, Array, Array]:
    """The integers of every part (rows, parts of a row, weights of a part), each part's factor, and what is added to its weights.

    Written from the table of layouts, weight by weight in the order of a row.
    """
    rows = raw.shape[0]
    raw = raw.reshape(rows, -1, kind.bytes)
    d, none = f16(raw, 0), np.zeros((*raw.shape[:2], 1))
    if kind.name == "q8_0":
        found = raw[..., 2:].view(np.int8).astype("i8"), d, none
    elif kind.name == "q4_0":
        found = halves(raw[..., 2:]) - 8, d, none
    elif kind.name == "q4_1":
        found = halves(raw[..., 4:]), d, f16(raw, 2)
    elif kind.name == "q5_0":
        bits = np.ascontiguousarray(raw[..., 2:6]).view("<u4") >> np.arange(32) & 1
        found = halves(raw[..., 6:]) + 16 * bits.astype("i8") - 16, d, none
    elif kind.name in ("q4_k", "q5_k"):
        t, s = raw[..., 4:16].astype("i8"), raw[..., -128:].reshape(rows, -1, 4, 32)
        n = np.stack([s & 15, s >> 4], -2).reshape(rows, -1, 8, 32).astype("i8")
        if kind.name == "q5_k":
            n = n + 16 * (raw[..., None, 16:48] >> np.arange(8)[:, None] & 1)
        k = np.arange(4)
        a = np.concatenate([t[..., k] & 63, (t[..., 8 + k] & 15) | (t[..., k] >> 6) << 4], -1)
        b = np.concatenate([t[..., 4 + k] & 63, (t[..., 8 + k] >> 4) | (t[..., 4 + k] >> 6) << 4], -1)
        found = n, d * a, -f16(raw, 2) * b
    else:
        lows, highs = raw[..., :128].reshape(rows, -1, 2, 64), raw[..., 128:192].reshape(rows, -1, 2, 32)
        n = np.empty((*lows.shape[:3], 128), "i8")
        for m in range(4):
            low = lows[..., 32 * (m & 1) : 32 * (m & 1) + 32]
            n[..., 32 * m : 32 * m + 32] = (low & 15 if m < 2 else low >> 4) | (highs >> 2 * m & 3) << 4
        scales = raw[..., 192:208].view(np.int8)
        found = n - 32, f16(raw, 208) * scales, np.zeros((*raw.shape[:2], 16))
    n, factor, least = found
    return n.reshape(rows, factor.shape[-1] * factor.shape[1], -1), factor.reshape(rows, -1), least.reshape(rows, -1)


def weights_of(kind: Format, raw: Array) -> Array:
    n, factor, least = in_parts(kind, raw)
    return (n * factor[..., None] + least[..., None]).reshape(raw.shape[0], -1)


def quantised(x: Array) -> Mapping[str, Array]:
    """A row of activations by the reference evaluator."""
    tensor = placeholder(x.shape, x.dtype, name="x")
    made = quantize_blocks(tensor, "x_blocks")
    results = evaluate(ts.workload([tensor, *made]), {"x": x})
    return {name: results[t.name] for name, t in zip(("q", "scale", "sums"), made)}


def product(kind: Format, raw: Array, given: Mapping[str, Array]) -> tuple[list[Tensor], list[Array]]:
    """The tensors of a product, its result last, and the arrays for all but that."""
    arrays = {**given, **dict(zip((f"w_{n}" for n in kind.fields), kind.split(raw)))}
    tensors = [placeholder(a.shape, a.dtype, n, constant=n.startswith("w_")) for n, a in arrays.items()]
    return [*tensors, integer_block_matmul(*tensors, format=kind.name, name="y")], list(arrays.values())


@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3)], ids=str)
def test_product(kind: Format, lead: tuple[int, ...]) -> None:
    """The answer is that of the weights as the layout says, times the activations as they were quantised."""
    depth, columns = 2 * kind.weights, 37
    raw = rows_of(kind, columns, depth, len(lead))
    x = np.random.default_rng(1).normal(size=(*lead, depth)).astype(np.float32)
    given = quantised(x)
    tensors, arrays = product(kind, raw, given)
    want = (given["q"].astype("f8") * given["scale"][..., None]).reshape(x.shape) @ weights_of(kind, raw).T
    for got in (ts.compile(tensors)(*arrays), evaluate(ts.workload(tensors), dict(zip([t.name for t in tensors], arrays)))["y"]):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS)
def test_sums_of_a_part_are_exact(kind: Format) -> None:
    """Whole numbers of the largest size: what a part gives is exact, to the last unit of an f32 that holds it."""
    depth = kind.weights
    raw = rows_of(kind, 16, depth)
    blocks = depth // 32
    q = np.random.default_rng(2).choice([-127, 127], (1, blocks, 32)).astype(np.int8)
    for part in range(blocks):
        scale = np.zeros((1, blocks), np.float32)
        scale[0, part] = 1
        given = {"q": q, "scale": scale, "sums": q.reshape(1, blocks, 2, 16).sum(-1, dtype=np.int32)}
        tensors, arrays = product(kind, raw, given)
        n, factor, least = in_parts(kind, raw)
        exact = (n * q.reshape(1, n.shape[1], -1)).sum(-1)
        sums = q.reshape(n.shape[1], -1).sum(-1, dtype=int)
        per = n.shape[1] // blocks
        here = slice(part * per, part * per + per)
        want = (exact * factor + sums * least)[:, here].sum(-1)
        got = ts.compile(tensors)(*arrays)[0]
        size = np.abs(exact * factor)[:, here].sum(-1) + np.abs(sums * least)[:, here].sum(-1)
        assert (np.abs(got - want) <= 2**-22 * size).all()


@pytest.mark.peers
@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS)
def test_layouts_are_those_of_gguf(kind: Format) -> None:
    gguf = importlib.import_module("gguf")
    raw = rows_of(kind, 9, 3 * kind.weights, 7)
    theirs = gguf.quants.dequantize(raw, getattr(gguf.GGMLQuantizationType, kind.name.upper()))
    np.testing.assert_allclose(weights_of(kind, raw), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_activations(dtype: str) -> None:
    """Each block's largest number is 127 or -127 steps, all others are the nearest steps; zeros stay zeros."""
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(3, 96)) * np.repeat([1e-3, 1, 0, 30, 1, 5, 2, 1e-2, 1], 32).reshape(3, 96)).astype(dtype)
    tensor = placeholder(x.shape, x.dtype, name="x")
    made = quantize_blocks(tensor, "blocks")
    blocks = x.reshape(3, 3, 32).astype(np.float32)
    scale = np.abs(blocks).max(-1) / np.float32(127)
    q = np.rint(np.divide(blocks, scale[..., None], out=np.zeros_like(blocks), where=scale[..., None] > 0)).astype(np.int8)
    want = q, scale, q.reshape(3, 3, 2, 16).sum(-1, dtype=np.int32)
    computed = ts.compile([tensor, *made])(x)
    results = evaluate(ts.workload([tensor, *made]), {"x": x})
    for tensor_, got, array in zip(made, computed, want):
        np.testing.assert_array_equal(got, array)
        np.testing.assert_array_equal(results[tensor_.name], array)


def test_fields_are_views_of_the_file() -> None:
    """Weights are not copied when a matrix is taken apart."""
    for kind in FORMATS.values():
        raw = rows_of(kind, 4, kind.weights)
        fields = dict(zip(kind.fields, kind.split(raw)))
        assert np.shares_memory(fields["q"], raw) and np.shares_memory(fields["d"], raw)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="no format 'q9' of weights in blocks; known are q8_0, q4_0"):
        format_of("q9")
    with pytest.raises(UserError, match=r"rows are whole blocks of 18 bytes; got uint8\[2, 19\]"):
        format_of("q4_0").split(np.zeros((2, 19), np.uint8))
    with pytest.raises(UserError, match=r"x \[3, 33\] must end in a multiple of 32"):
        quantize_blocks(placeholder((3, 33), name="x"))
    q, scale, sums = placeholder((1, 2, 32), "i8", "q"), placeholder((1, 2), name="s"), placeholder((1, 2, 2), "i32", "t")
    n, d = placeholder((5, 2, 16), "u8", "n"), placeholder((5, 2), "f16", "d")
    with pytest.raises(UserError, match="q4_0 has the fields q, d; got 1 tensors"):
        integer_block_matmul(q, scale, sums, n, format="q4_0")
    with pytest.raises(UserError, match=r"d is f32\[5, 2\]; field d of q4_0 is f16\[5, 2\]"):
        integer_block_matmul(q, scale, sums, n, placeholder((5, 2), name="d"), format="q4_0")
    with pytest.raises(UserError, match=r"s is f32\[1, 3\]; 2 blocks of 32 weights need f32\[1, 2\]"):
        integer_block_matmul(q, placeholder((1, 3), name="s"), sums, n, d, format="q4_0")
