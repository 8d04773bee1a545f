"""Operators of ONNX Runtime in ONNX files, and blocks of `DequantizeLinear`: weights of 4 and 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tensorsmith as ts
from tensorsmith.errors import UserError


def n_bits(
    bits: int = 4,
    depth: int = 64,
    columns: int = 33,
    block: int = 16,
    zero: str = "",
    bias: bool = False,
    kind: type = np.float32,
    flat: bool = True,
    **attributes: Any,
) -> tuple[ModelProto, tuple[np.ndarray, Any]]:
    """A model of one MatMulNBits, and its weights and bias as they are meant."""
    rng = np.random.default_rng((bits, depth, block))
    blocks = -(-depth // block)
    q = rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    scale = rng.uniform(0.01, 0.1, (columns, blocks)).astype(kind)
    constants, names = {"q": q, "scale": scale.reshape(-1) if flat else scale}, ["x", "q", "scale"]
    off: Any = 1 << (bits - 1)
    if zero == "packed":
        constants["zero"] = rng.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
        packed = constants["zero"]
        unpacked = packed if bits == 8 else np.stack([packed & 15, packed >> 4], axis=-1).reshape(columns, -1)[:, :blocks]
        off = unpacked[..., None].astype(int)
    elif zero == "float":
        constants["zero"] = rng.uniform(0, 16, (columns, blocks)).astype(kind)
        off = constants["zero"][..., None].astype("f8")
    names += ["zero"] if zero else []
    added = 0.0
    if bias:
        constants["bias"] = added = rng.uniform(-1, 1, columns).astype(kind)
        names += [""] * (5 - len(names)) + ["bias"]
    whole = q if bits == 8 else np.stack([q & 15, q >> 4], axis=-1).reshape(columns, blocks, block)
    weights = ((whole.astype("f8") - off) * scale[..., None].astype("f8")).reshape(columns, -1)[:, :depth].T
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model = helper.make_model(
        helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", number, (3, depth))],
            [helper.make_tensor_value_info("y", number, (3, columns))],
            [numpy_helper.from_array(a, name) for name, a in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    return model, (weights, added)


CASES: list[dict[str, Any]] = [
    {}, {"zero": "packed"}, {"zero": "float"}, {"bias": True, "flat": False}, {"depth": 100, "block": 32, "zero": "packed"},
    {"bits": 8}, {"bits": 8, "zero": "packed", "depth": 40, "block": 32}, {"kind": np.float16, "zero": "packed"},
    {"columns": 1, "block": 64}, {"accuracy_level": 1}, {"depth": 48, "zero": "packed"},
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matmul_n_bits(case: dict[str, Any]) -> None:
    """Against NumPy and, in f32, ONNX Runtime."""
    model, (weights, bias) = n_bits(**case)
    kind = case.get("kind", np.float32)
    x = np.random.default_rng(1).uniform(-1, 1, (3, weights.shape[0])).astype(kind)
    want = x.astype("f8") @ weights + bias
    loaded = ts.load(model.SerializeToString())
    share = 2e-3 if kind is np.float16 else 1e-5
    for got in (ts.compile(loaded)(x), loaded.evaluate([x])["y"]):
        assert got.dtype == kind
        np.testing.assert_allclose(got, want, rtol=share, atol=share * np.abs(want).max())
    if kind is np.float32:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-4)


def test_no_more_than_the_bytes_of_the_file_is_kept() -> None:
    model, _ = n_bits(depth=256, columns=128, block=32)
    in_file = sum(len(t.raw_data) for t in model.graph.initializer)
    assert ts.compile(ts.load(model.SerializeToString())).memory.constants < 1.1 * in_file


def test_what_is_not_supported_is_said() -> None:
    model, _ = n_bits()
    model.graph.node[0].input.extend(["", "order"])
    model.graph.initializer.append(numpy_helper.from_array(np.arange(64, dtype=np.int32), "order"))
    with pytest.raises(UserError, match="g_idx, another order of the rows, is not supported"):
        ts.load(model.SerializeToString())
    for change, message in (("bits", "weights of 2 bits"), ("block_size", "block_size is 2; it must be a power of two")):
        model, _ = n_bits()
        next(a for a in model.graph.node[0].attribute if a.name == change).i = 2
        with pytest.raises(UserError, match=message):
            ts.load(model.SerializeToString())
    model, _ = n_bits()
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(5, "f4"), "scale"))
    with pytest.raises(UserError, match=r"the scales have the shape \[5\]; expected \[33, 4\]"):
        ts.load(model.SerializeToString())


def blocked(element: int, low: int, high: int, *, zero: bool = True, transposed: str = "", depth: int = 96) -> Any:
    """A MatMul with a weight out of DequantizeLinear with blocks of 32 along the sum, and the weight as it is meant."""
    rng = np.random.default_rng((high, depth))
    block, columns = 32, 41
    blocks = -(-depth // block)
    parts = [rng.integers(low, high, (depth, columns)), rng.uniform(0.01, 0.1, (blocks, columns)).astype("f4")]
    parts += [rng.integers(low, high, (blocks, columns))] if zero else []
    spread = [np.repeat(p, block, 0)[:depth] for p in parts[1:]]
    weights = (parts[0] - (spread[1] if zero else 0)) * spread[0].astype("f8")
    if transposed:
        parts = [p.T for p in parts]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(p), name)
        if p.dtype == np.float32
        else helper.make_tensor(name, element, p.shape, p.ravel().tolist())
        for name, p in zip("qsz", parts)
    ]
    axis = 1 if transposed else 0
    nodes = [helper.make_node("DequantizeLinear", ["q", "s", *(["z"] if zero else [])], ["w"], axis=axis, block_size=block)]
    if transposed == "node":
        nodes += [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    elif transposed == "gemm":
        nodes += [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)]
    else:
        nodes += [helper.make_node("MatMul", ["x", "w"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, k)) for n, k in (("x", depth), ("y", columns))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), weights


@pytest.mark.parametrize("transposed", ["", "node", "gemm"])
@pytest.mark.parametrize(
    ("element", "low", "high"),
    [(TensorProto.INT4, -8, 8), (TensorProto.UINT4, 0, 16), (TensorProto.INT8, -128, 128), (TensorProto.UINT8, 0, 256)],
)
@pytest.mark.parametrize("zero", [False, True])
def test_blocks_go_into_their_product(element: int, low: int, high: int, zero: bool, transposed: str) -> None:
    model, weights = blocked(element, low, high, zero=zero, transposed=transposed, depth=80)
    loaded = ts.load(model.SerializeToString())
    assert [n.operator for n in loaded.graph.nodes if n.operator != "pad"] == ["block_matmul"]
    packed = max(loaded.graph.constants.values(), key=lambda a: a.size)
    assert packed.nbytes == 96 * 41 // (2 if high <= 16 else 1)
    x = np.random.default_rng(1).uniform(-1, 1, (2, 80)).astype("f4")
    for got in (ts.compile(loaded)(x), loaded.evaluate([x])["y"]):
        np.testing.assert_allclose(got, x @ weights, rtol=1e-4, atol=1e-4)


def test_blocks_that_are_read_otherwise_become_constants() -> None:
    model, weights = blocked(TensorProto.INT8, -128, 128)
    model.graph.node.append(helper.make_node("Relu", ["w"], ["r"]))
    model.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, weights.shape))
    loaded = ts.load(model.SerializeToString())
    assert "dequantize_blocks" not in {n.operator for n in loaded.graph.nodes}
    x = np.ones((2, 96), "f4")
    y, r = ts.compile(loaded)(x)
    np.testing.assert_allclose(y, x @ weights, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(r, np.maximum(weights, 0), rtol=1e-5)
