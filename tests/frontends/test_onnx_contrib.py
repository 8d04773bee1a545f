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


LEVEL_4: list[dict[str, Any]] = [
    {"block": 32}, {"block": 64, "zero": "packed"}, {"block": 128, "depth": 300, "zero": "float", "bias": True},
    {"bits": 8, "block": 32, "zero": "packed"}, {"bits": 8, "block": 256, "depth": 256}, {"kind": np.float16, "block": 32},
]  # fmt: skip


@pytest.mark.parametrize("case", LEVEL_4, ids=str)
def test_matmul_n_bits_in_integers(case: dict[str, Any]) -> None:
    """With accuracy_level 4 the rows are rounded to 8 bits in blocks of 32, and the answer is the exact one of the rounded rows."""
    model, (weights, bias) = n_bits(accuracy_level=4, **case)
    kind, depth = case.get("kind", np.float32), weights.shape[0]
    x = np.random.default_rng(1).uniform(-1, 1, (3, depth)).astype(kind)
    whole = np.pad(x.astype("f4"), ((0, 0), (0, -depth % 32))).reshape(3, -1, 32)
    scale = np.abs(whole).max(-1, keepdims=True) / np.float32(127)
    rounded = (np.rint(whole / np.where(scale == 0, 1, scale)) * scale.astype("f8")).reshape(3, -1)[:, :depth]
    loaded = ts.load(model.SerializeToString())
    share = 2e-3 if kind is np.float16 else 1e-5
    want = rounded @ weights + bias
    got = ts.compile(loaded)(x)
    assert got.dtype == kind
    np.testing.assert_allclose(got, want, rtol=share, atol=share * np.abs(want).max())
    plain = x.astype("f8") @ weights + bias
    for exact in (ts.compile(loaded, integers=False)(x), loaded.evaluate([x])["y"]):
        np.testing.assert_allclose(exact, plain, rtol=share, atol=share * np.abs(plain).max())


def test_level_4_with_short_blocks_stays_in_floats() -> None:
    model, (weights, bias) = n_bits(accuracy_level=4, block=16)
    x = np.random.default_rng(1).uniform(-1, 1, (3, weights.shape[0])).astype("f4")
    np.testing.assert_allclose(ts.compile(ts.load(model.SerializeToString()))(x), x @ weights + bias, rtol=1e-4, atol=1e-4)


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


def of_runtime(kind: str, arrays: dict[str, Any], outputs: int, constants: set[str], **attributes: Any) -> ModelProto:
    """A model of one node of ONNX Runtime's; arrays that are None are left out."""
    node = helper.make_node(
        kind,
        [name if a is not None else "" for name, a in arrays.items()],
        [f"y{n}" for n in range(outputs)],
        domain="com.microsoft",
        name="node",
        **attributes,
    )
    given = {name: a for name, a in arrays.items() if a is not None}
    return helper.make_model(
        helper.make_graph(
            [node],
            "g",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for name, a in given.items()
                if name not in constants
            ],
            [helper.make_empty_tensor_value_info(f"y{n}") for n in range(outputs)],
            [numpy_helper.from_array(a, name) for name, a in given.items() if name in constants],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def both(model: ModelProto, inputs: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the compiled model gives, and what ONNX Runtime gives."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, inputs)
    loaded = ts.load(model)
    mine, reference = ts.compile(loaded).run(inputs), loaded.evaluate(inputs)
    for name, array in mine.items():
        np.testing.assert_allclose(array, reference[name], rtol=1e-4, atol=1e-4)
    return list(zip(mine.values(), theirs))


def some_bytes(kind: type, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(kind)
    return np.random.default_rng((seed, *shape)).integers(limits.min, limits.max + 1, shape).astype(kind)


@pytest.mark.parametrize("quantised", [True, False], ids=["bytes", "floats"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("with_c", [True, False])
@pytest.mark.parametrize("options", [{"transB": 1}, {"alpha": 0.5, "transA": 1}], ids=str)
def test_qgemm(quantised: bool, per_channel: bool, with_c: bool, options: dict[str, Any]) -> None:
    a, b = some_bytes(np.uint8, 5, 12), some_bytes(np.int8, 12, 7)
    arrays = {
        "a": a.T.copy() if options.get("transA") else a,
        "a_scale": np.array(0.02, "f4"),
        "a_zero": np.array(113, "u1"),
        "b": b.T.copy() if options.get("transB") else b,
        "b_scale": np.linspace(0.01, 0.03, 7, dtype="f4") if per_channel else np.array(0.01, "f4"),
        "b_zero": np.zeros(7, "i1") if per_channel else np.array(-3, "i1"),
        "c": np.arange(-3000, 4000, 1000, dtype="i4") if with_c else None,
        "y_scale": np.array(0.6, "f4") if quantised else None,
        "y_zero": np.array(120, "u1") if quantised else None,
    }
    if not quantised:
        del arrays["y_scale"], arrays["y_zero"]
    model = of_runtime("QGemm", arrays, 1, set(arrays) - {"a"}, **options)
    ((mine, theirs),) = both(model, {"a": arrays["a"]})
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(mine.astype("f8"), theirs.astype("f8"), atol=1 if quantised else 1e-4, rtol=1e-5)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_dynamic_quantize_lstm(direction: str, per_channel: bool) -> None:
    ways, steps, batch, inputs, hidden = (2 if direction == "bidirectional" else 1), 3, 2, 6, 4
    rng = np.random.default_rng(3)
    kind = np.int8 if per_channel else np.uint8
    shape = (ways, 4 * hidden) if per_channel else (ways,)
    zero = np.zeros(shape, kind) if per_channel else np.full(shape, 121, kind)
    arrays: dict[str, Any] = {
        "x": rng.uniform(-1, 1, (steps, batch, inputs)).astype("f4"),
        "w": some_bytes(kind, ways, inputs, 4 * hidden),
        "r": some_bytes(kind, ways, hidden, 4 * hidden, seed=1),
        "b": rng.uniform(-1, 1, (ways, 8 * hidden)).astype("f4"),
        "lengths": None,
        "h": rng.uniform(-1, 1, (ways, batch, hidden)).astype("f4"),
        "c": rng.uniform(-1, 1, (ways, batch, hidden)).astype("f4"),
        "p": None,
        "w_scale": rng.uniform(0.004, 0.008, shape).astype("f4"),
        "w_zero": zero,
        "r_scale": rng.uniform(0.004, 0.008, shape).astype("f4"),
        "r_zero": zero,
    }
    model = of_runtime("DynamicQuantizeLSTM", arrays, 3, set(arrays) - {"x"}, hidden_size=hidden, direction=direction)
    for mine, theirs in both(model, {"x": arrays["x"]}):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, atol=1e-3, rtol=1e-3)
