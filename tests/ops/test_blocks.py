"""Products with weights quantised in blocks, against NumPy, in every form; in code the weights stay packed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, placeholder
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops.blocks import block_matmul, dequantize_blocks


def taken_apart(q: np.ndarray, bits: int) -> np.ndarray:
    """(blocks, bytes, M) as the integers (blocks, block, M)."""
    if bits == 8:
        return q.astype(np.int64)
    return np.stack([q & 15, q >> 4], axis=2).reshape(q.shape[0], -1, q.shape[2]).astype(np.int64)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("bits", "element"), [(4, "u8"), (8, "u8"), (8, "i8")])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("rows", [(), (1,), (5,), (2, 3)])
def test_block_matmul(kind: str, bits: int, element: str, zero_points: bool, rows: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(rows))
    blocks, block, columns, middle = 3, 16, 37, 8 if bits == 4 else 100
    limits = np.iinfo(dtype(element).numpy)
    q = rng.integers(limits.min, limits.max + 1, (blocks, block * bits // 8, columns)).astype(limits.dtype)
    scale = rng.uniform(0.01, 0.02, (blocks, columns)).astype(dtype(kind).numpy)
    zero = rng.integers(0, 16, (blocks, columns)).astype(limits.dtype)
    x = rng.uniform(-1, 1, (*rows, blocks * block)).astype(dtype(kind).numpy)
    arrays = {"x": x, "q": q, "scale": scale} | ({"zero": zero} if zero_points else {})
    tensors = [placeholder(a.shape, a.dtype, name, constant=name != "x") for name, a in arrays.items()]
    zeros: Tensor | None = tensors[3] if zero_points else None
    product = block_matmul(*tensors[:3], zeros, bits=bits, middle=middle, name="y")
    off = zero[:, None].astype(int) if zero_points else middle
    weights = ((taken_apart(q, bits) - off) * scale[:, None].astype("f8")).reshape(-1, columns)
    want = x.astype("f8") @ weights
    got = ts.compile([*tensors, product])(*arrays.values())
    assert got.dtype == dtype(kind).numpy
    share = 4 * dtype(kind).epsilon if kind != "f32" else 1e-5
    for result in (got, evaluate(ts.workload([*tensors, product]), arrays)["y"]):
        np.testing.assert_allclose(result.astype("f8"), want, rtol=share, atol=share * np.abs(want).max())


def test_packed_weights_are_read_as_they_are() -> None:
    """No stage makes a copy in f32: the only tensors of a program are what it is given and what it gives."""
    x, q, scale = placeholder((1, 64), name="x"), placeholder((2, 16, 40), "u8", "q", True), placeholder((2, 40), "f32", "s", True)
    program = str(ts.compile([x, q, scale, block_matmul(x, q, scale, middle=8, name="y")]).program)
    held = [line for line in program.splitlines() if line.startswith(("constant", "local", "scratch", "input", "output"))]
    assert [line.split()[1].rstrip(":") for line in held] == ["x", "q", "s", "y"]


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantize_blocks(axis: int) -> None:
    rng = np.random.default_rng(0)
    q, block = rng.integers(-8, 8, (10, 13)).astype(np.int8), 4
    shape = tuple(-(-n // block) if d == axis else n for d, n in enumerate(q.shape))
    scale, zero = rng.uniform(0.5, 1, shape).astype("f4"), rng.integers(-3, 3, shape).astype(np.int8)
    tensors = [placeholder(a.shape, a.dtype, n) for n, a in zip("qsz", (q, scale, zero))]
    made = dequantize_blocks(*tensors, axis=axis, block=block, name="w")
    spread = [np.repeat(a, block, axis)[: q.shape[0], : q.shape[1]] for a in (scale, zero)]
    np.testing.assert_allclose(ts.compile([*tensors, made])(q, scale, zero), (q - spread[1]) * spread[0], rtol=1e-6)


def test_mistakes_are_named() -> None:
    x, q, scale = placeholder((1, 64), name="x"), placeholder((2, 16, 40), "u8", "q"), placeholder((2, 40), name="scale")
    with pytest.raises(UserError, match="known are u8 of 4 or 8 bits and i8 of 8"):
        block_matmul(x, q, scale, bits=2)
    with pytest.raises(UserError, match="x \\[1, 64\\] must end in 32, 2 blocks of 16"):
        block_matmul(x, q, scale, bits=8)
    with pytest.raises(UserError, match="scale has the shape \\[3, 40\\]; expected \\[2, 40\\]"):
        block_matmul(x, q, placeholder((3, 40), name="scale"))
    with pytest.raises(UserError, match="blocks of 4 need \\[2, 3\\]"):
        dequantize_blocks(placeholder((8, 3), "i8", "q"), placeholder((3, 3), name="s"), block=4)
