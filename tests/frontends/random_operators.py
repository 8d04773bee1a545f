"""The operators that random ONNX graphs are made of: each function adds a node, or a few, to a graph in the making."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tests.frontends.random_graphs import Maker, Refused, Tensor

# -- products --------------------------------------------------------------------------------------------------------


def conv(m: Maker) -> None:
    x = m.pick_float(3, 4, 5)
    _finite(x)
    channels, extents = x.shape[1], x.shape[2:]
    group = m.rng.choice([1, 1, 1, channels, *(g for g in (2, 3, 4) if channels % g == 0)])
    outputs = group * m.rng.choice((1, 1, 2, 3, 5, 8)) if group > 1 else m.size()
    kernel = [m.rng.choice((1, 1, 2, 3, 3, 5, 7)) for _ in extents]
    weight = m.weight([outputs, channels // group, *kernel], 2 / math.sqrt(channels // group * math.prod(kernel)))
    bias = m.weight([outputs]) if m.coin() else None
    options = _window(m, extents, kernel)
    if m.coin():
        options["kernel_shape"] = kernel
    (y,) = m.add("Conv", [x, weight, bias][: 3 if bias else 2], group=group, **options)
    if m.coin(0.3):
        y = _batch_norm(m, y)
    if m.coin(0.4):
        _activation(m, y)


def _window(m: Maker, extents: Sequence[int], kernel: list[int], dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window that is no longer than the padded input: ONNX Runtime computes something even then."""
    rank = len(kernel)
    options: dict[str, Any] = {}
    if m.coin(0.4):
        options["strides"] = [m.rng.choice((1, 2, 3)) for _ in range(rank)]
    if dilated and m.coin(0.25):
        options["dilations"] = [m.rng.choice((1, 2, 3)) for _ in range(rank)]
    way = m.rng.random()
    if way < 0.35:
        options["pads"] = [(k - 1) // 2 for k in kernel] * 2
    elif way < 0.6:
        options["pads"] = [m.rng.randint(0, k - 1) for k in (*kernel, *kernel)]
    elif way < 0.75 and "dilations" not in options:
        options["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    pads, dilations = options.get("pads", [0] * 2 * rank), options.get("dilations", [1] * rank)
    if not options.get("auto_pad", "").startswith("SAME"):
        for n, k, d, before, after in zip(extents, kernel, dilations, pads, pads[rank:]):
            if d * (k - 1) + 1 > n + before + after:
                raise Refused("the window does not fit")
    return options


def conv_transpose(m: Maker) -> None:
    x = m.pick_float(3, 4, 5)
    _finite(x)
    channels, extents = x.shape[1], x.shape[2:]
    group = m.rng.choice([1, 1, channels, *(g for g in (2, 3) if channels % g == 0)])
    each = m.rng.choice((1, 2, 3, 8))
    kernel = [m.rng.choice((1, 2, 3, 4)) for _ in extents]
    weight = m.weight([channels, each, *kernel], 2 / math.sqrt(channels * math.prod(kernel)))
    options: dict[str, Any] = {"strides": [m.rng.choice((1, 2, 3)) for _ in extents]}
    if m.coin(0.2):
        options["dilations"] = [m.rng.choice((1, 2)) for _ in extents]
    way = m.rng.random()
    if way < 0.4:
        options["pads"] = [m.rng.randint(0, k - 1) for k in (*kernel, *kernel)]
    elif way < 0.5 and all(
        k >= s for k, s in zip(kernel, options["strides"])
    ):  # else ONNX Runtime gives less than the standard says
        options["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if m.coin(0.3):
        options["output_padding"] = [m.rng.randrange(s) for s in options["strides"]]
    inputs = [x, weight] + ([m.weight([group * each])] if m.coin() else [])
    m.add("ConvTranspose", inputs, group=group, **options)


def matmul(m: Maker) -> None:
    x = m.pick(lambda t: t.kind == "float32" and t.rank >= 1)
    _finite(x)
    depth = x.shape[-1]
    fitting = [t for t in m.tensors.values() if t.kind == "float32" and t.rank >= 1 and t.shape[-2 if t.rank > 1 else 0] == depth]
    if fitting and m.coin(0.3):
        y = m.rng.choice(fitting)
        _finite(y)
    else:
        shape = [depth, m.size()] if m.coin(0.9) else [depth]
        if len(shape) > 1 and x.rank > 2 and m.coin(0.4):
            shape = [1 if m.coin() else n for n in x.shape[:-2]][m.rng.randint(0, x.rank - 2) :] + shape
        y = m.weight(shape, 2 / math.sqrt(depth))
    m.add("MatMul", [x, y])


def attention(m: Maker) -> None:
    """softmax(q kT * scale + mask) v with q, k and v from one tensor, as exporters write it."""
    x = m.pick(lambda t: t.kind == "float32" and t.rank == 3 and t.shape[-1] > 1)
    _finite(x)
    batch, length, width = x.shape
    heads = m.rng.choice([h for h in (1, 2, 4, 8) if width % h == 0])
    parts = []
    for turn in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        (y,) = m.add("MatMul", [x, m.weight([width, width], 2 / math.sqrt(width))])
        if m.coin():
            (y,) = m.add("Add", [y, m.weight([width])])
        (y,) = m.add("Reshape", [y, m.integers(batch, length, heads, width // heads)], exact=True)
        parts += m.add("Transpose", [y], exact=True, perm=list(turn))
    (scores,) = m.add("MatMul", parts[:2])
    (scores,) = m.add(m.rng.choice(("Mul", "Div")), [scores, m.constant(np.array(0.7, np.float32))])
    if m.coin():
        (scores,) = m.add("Add", [scores, m.weight([m.rng.choice((1, batch)), 1, m.rng.choice((1, length)), length])])
    (shares,) = m.add("Softmax", [scores], axis=3)
    (mixed,) = m.add("MatMul", [shares, parts[2]])
    (mixed,) = m.add("Transpose", [mixed], exact=True, perm=[0, 2, 1, 3])
    m.add("Reshape", [mixed, m.integers(0, 0, width)], exact=True)


def gemm(m: Maker) -> None:
    x = m.pick_float(2)
    _finite(x)
    flip_left, flip_right, outputs = int(m.coin(0.3)), int(m.coin()), m.size()
    rows, depth = x.shape[::-1] if flip_left else x.shape
    inputs = [x, m.weight([outputs, depth] if flip_right else [depth, outputs], 2 / math.sqrt(depth))]
    if m.coin(0.7):
        inputs.append(m.weight(m.rng.choice(([outputs], [1], [], [rows, 1], [rows, outputs], [1, outputs]))))
    options = {"alpha": 0.5, "beta": m.rng.choice((2.0, 0.0, 1.0))} if m.coin(0.3) else {}
    m.add("Gemm", inputs, transA=flip_left, transB=flip_right, **options)


def einsum(m: Maker) -> None:
    if m.opset < 12:
        raise Refused("no Einsum yet")
    x = m.pick_float(2, 3, 4)
    _finite(x)
    if x.rank == 2:
        m.add("Einsum", [x, m.weight([x.shape[1], m.size()])], equation=m.rng.choice(("ij,jk->ki", "ij,jk", "ij,jk->ik")))
    elif x.rank == 3:
        m.add("Einsum", [x, m.weight([x.shape[0], x.shape[2], 5])], equation="bij,bjk->bik")
    else:
        m.add("Einsum", [x, x], equation=m.rng.choice(("bhij,bhkj->bhik", "abcd,abcd->ab")))


def recurrent(m: Maker) -> None:
    x = m.pick_float(3)
    _finite(x)
    kind = m.rng.choice(("LSTM", "GRU", "RNN"))
    steps, batch, width = x.shape
    if steps > 9:
        raise Refused("long")
    hidden, gates = m.rng.choice((1, 3, 8, 9)), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    direction = m.rng.choice(("forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    shapes = ([count, gates * hidden, width], [count, gates * hidden, hidden], [count, 2 * gates * hidden])
    inputs: list[Tensor | None] = [x, *(m.constant(m.array(s, scale=0.5) * 1.0) for s in shapes[: m.rng.choice((2, 3))])]
    _finite(*inputs[1:])
    if m.coin(0.3):
        inputs += [None] * (5 - len(inputs)) + [m.weight([count, batch, hidden])]
    options: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" and m.coin() else {}
    results = m.add(
        kind, inputs, outputs=m.rng.choice((1, 2, 3 if kind == "LSTM" else 2)), hidden_size=hidden, direction=direction, **options
    )
    if m.coin(0.7):  # (steps, directions, batch, hidden): back to a sequence
        (y,) = m.add("Transpose", [results[0]], exact=True, perm=[0, 2, 1, 3])
        m.add("Reshape", [y, m.integers(0, 0, -1)], exact=True)


# -- pooling and normalisation -----------------------------------------------------------------------------------------


def pool(m: Maker) -> None:
    x = m.pick_float(3, 4, 5)
    _finite(x)
    kind = m.rng.choice(("MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"))
    if kind.startswith("Global"):
        m.add(kind, [x], exact=kind == "GlobalMaxPool")
        return
    kernel = [m.rng.choice((1, 2, 2, 3, 3, 5)) for _ in x.shape[2:]]
    options = _window(m, x.shape[2:], kernel, dilated=kind == "MaxPool" or m.opset >= 19)
    if m.coin(0.4) and "auto_pad" not in options and (kind != "LpPool" or m.opset >= 18):
        options["ceil_mode"] = 1
    if kind == "AveragePool" and m.coin():
        options["count_include_pad"] = 1
    outputs = 2 if kind == "MaxPool" and m.coin(0.1) else 1
    m.add(kind, [x], outputs, exact=kind == "MaxPool", kernel_shape=kernel, **options)


def batch_norm(m: Maker) -> None:
    _batch_norm(m, m.pick_float(2, 3, 4, 5))


def _batch_norm(m: Maker, x: Tensor) -> Tensor:
    channels = x.shape[1]
    mean, variance = m.array([channels]), m.data.uniform(0.2, 2, channels).astype(np.float32)
    parts = [m.weight([channels]), m.weight([channels]), m.constant(np.nan_to_num(mean)), m.constant(variance)]
    return m.add("BatchNormalization", [x, *parts], epsilon=m.rng.choice((1e-5, 1e-3)))[0]


def norm(m: Maker) -> None:
    kind = m.rng.choice(("LayerNormalization", "InstanceNormalization", "LRN", "LpNormalization", "GroupNormalization", "Written"))
    if kind == "LayerNormalization":
        x = m.pick_float(1, 2, 3, 4)
        _finite(x)
        axis = m.axis(x.rank)
        shape = list(x.shape[axis % x.rank :])
        inputs = [x, m.weight(shape), *([m.weight(shape)] if m.coin(0.7) else [])]
        m.add(kind, inputs, axis=axis, epsilon=1e-3)
    elif kind == "InstanceNormalization":
        x = m.pick_float(3, 4, 5)
        _finite(x)
        m.add(kind, [x, m.weight([x.shape[1]]), m.weight([x.shape[1]])], epsilon=1e-3)
    elif kind == "GroupNormalization":
        x = m.pick_float(3, 4)
        _finite(x)
        groups = m.rng.choice([g for g in (1, 2, 4, x.shape[1]) if x.shape[1] % g == 0])
        each = x.shape[1] if m.opset >= 21 else groups
        m.add(kind, [x, m.weight([each]), m.weight([each])], num_groups=groups, epsilon=1e-3)
    elif kind == "LRN":
        x = m.pick_float(4)
        _finite(x)
        m.add(kind, [x], size=m.rng.choice((1, 3, 5)), alpha=0.1)
    elif kind == "LpNormalization":
        x = m.pick_float(1, 2, 3)
        _finite(x)
        m.add(kind, [x], axis=m.axis(x.rank), p=m.rng.choice((1, 2)))
    else:
        _written_layer_norm(m)


def _written_layer_norm(m: Maker) -> None:
    """A layer normalisation in single operators, as older exporters write it."""
    x = m.pick_float(2, 3)
    _finite(x)
    (mean,) = _reduced(m, "ReduceMean", x, [-1], 1)
    (off,) = m.add("Sub", [x, mean])
    (square,) = m.add("Pow", [off, m.constant(np.array(2, np.float32))]) if m.coin() else m.add("Mul", [off, off])
    (variance,) = _reduced(m, "ReduceMean", square, [-1], 1)
    (safe,) = m.add("Add", [variance, m.constant(np.array(1e-2, np.float32))])
    (root,) = m.add("Sqrt", [safe])
    (normal,) = m.add("Div", [off, root])
    (scaled,) = m.add("Mul", [normal, m.weight([x.shape[-1]])])
    m.add("Add", [scaled, m.weight([x.shape[-1]])])


def softmax(m: Maker) -> None:
    x = m.pick_float()
    _finite(x)
    m.add(m.rng.choice(("Softmax", "Softmax", "LogSoftmax")), [x], axis=m.axis(x.rank))


# -- elementwise -------------------------------------------------------------------------------------------------------

_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf",
    "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
    "Tanh", "Identity",
)  # fmt: skip
_EXACT = {"Abs", "Neg", "Relu", "Identity", "Ceil", "Floor", "Round", "Sign", "Clip"}
_ACTIVATIONS = (
    "Relu", "Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign",
    "HardSigmoid", "HardSwish", "Gelu", "Mish", "Clip", "PRelu", "Silu", "ThresholdedRelu", "Celu", "Shrink",
    "WrittenGelu",
)  # fmt: skip


def unary(m: Maker) -> None:
    kind = m.rng.choice(_UNARY)
    x = m.pick(lambda t: t.is_float or kind in ("Abs", "Neg", "Identity", "Sign"))
    m.add(kind, [x], exact=kind in _EXACT)


def activation(m: Maker) -> None:
    _activation(m, m.pick(lambda t: t.kind == "float32" or (t.kind == "float64" and m.coin(0.2))))


def _activation(m: Maker, x: Tensor) -> None:
    kind = m.rng.choice(_ACTIVATIONS)
    if kind == "Clip":
        low, high = (m.constant(np.array(v, x.value.dtype)) if m.coin(0.8) else None for v in (-0.4, 0.6))
        m.add("Clip", [x, low, high][: 3 if high else 2 if low else 1], exact=True)
    elif kind == "PRelu":
        slope = m.rng.choice(([1], [x.shape[1], *[1] * (x.rank - 2)] if x.rank > 1 else [1], list(x.shape)))
        m.add("PRelu", [x, m.weight(slope, kind=x.kind)])
    elif kind == "Silu":
        (gate,) = m.add("Sigmoid", [x])
        m.add("Mul", [x, gate] if m.coin() else [gate, x])
    elif kind == "WrittenGelu":
        (inner,) = m.add("Div", [x, m.constant(np.array(1.4142135, x.value.dtype))])
        (erf,) = m.add("Erf", [inner])
        (more,) = m.add("Add", [erf, m.constant(np.array(1, x.value.dtype))])
        (whole,) = m.add("Mul", [x, more])
        m.add("Mul", [whole, m.constant(np.array(0.5, x.value.dtype))])
    elif kind == "Gelu" and x.value.size and x.value.max() < -2:
        raise Refused("one and an error function near minus one: the twins cannot see what is lost inside the node")
    else:
        options = {"alpha": 0.3} if kind in ("LeakyRelu", "Elu", "HardSigmoid", "Celu") and m.coin() else {}
        if kind in ("LeakyRelu", "Relu"):
            m.add(kind, [x], exact=kind == "Relu", **options)
        else:
            m.add(kind, [x], **options)


def binary(m: Maker) -> None:
    x = m.pick(lambda t: t.kind != "bool")
    y = m.partner(x)
    kind = m.rng.choice(("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow", "Mod"))
    if kind == "Pow":
        y = m.constant(np.array(m.rng.choice((0.5, 1, 2, 3, -1, -0.5, 1.7)), x.value.dtype))
    if kind in ("Div", "Mod") and not y.is_float and (y.value == 0).any():
        raise Refused("division by zero")
    if kind in ("Max", "Min"):
        _finite(x, y)
    options = {"fmod": 1} if kind == "Mod" and (x.is_float or m.coin()) else {}
    pair = [x, y] if m.coin(0.7) or kind in ("Pow", "Div", "Mod") else [y, x]
    m.add(kind, pair, exact=kind in ("Max", "Min"), **options)


def residual(m: Maker) -> None:
    """Two results of the same shape added."""
    x = m.pick_float()
    others = [t for t in m.tensors.values() if t.shape == x.shape and t.kind == x.kind and t is not x]
    if not others:
        raise Refused("none of that shape")
    m.add(m.rng.choice(("Add", "Add", "Mul", "Sub")), [x, m.rng.choice(others)])


def several(m: Maker) -> None:
    x = m.pick_float()
    kind = m.rng.choice(("Sum", "Max", "Min", "Mean"))
    parts = [x, *(m.partner(x) for _ in range(m.rng.randint(0, 3)))]
    if kind in ("Max", "Min"):
        _finite(*parts)
    m.add(kind, parts, exact=kind in ("Max", "Min"))


def compare(m: Maker) -> None:
    x = m.pick(lambda t: t.kind != "bool")
    y = m.partner(x)
    kind = m.rng.choice(("Equal", "Less", "Greater", *(("LessOrEqual", "GreaterOrEqual") if m.opset >= 12 else ())))
    m.add(kind, [x, y], exact=True)


def logic(m: Maker) -> None:
    x = m.pick(lambda t: t.kind == "bool")
    if m.coin(0.3):
        m.add("Not", [x])
    else:
        m.add(m.rng.choice(("And", "Or", "Xor")), [x, m.partner(x)])


def where(m: Maker) -> None:
    x = m.pick(lambda t: t.kind != "bool")
    y = m.partner(x)
    conditions = [t for t in m.tensors.values() if t.kind == "bool" and _fits(t, x)]
    condition = (
        m.rng.choice(conditions)
        if conditions and m.coin(0.8)
        else m.weight([1 if m.coin(0.3) else n for n in x.shape], kind="bool")
    )
    m.add("Where", [condition, x, y], exact=True)


def cast(m: Maker) -> None:
    x = m.pick()
    to = m.rng.choice(("FLOAT", "FLOAT", "INT64", "INT32", "BOOL", "DOUBLE", "UINT8", "INT8", "FLOAT16"))
    if x.is_float and to not in ("FLOAT", "DOUBLE", "BOOL", "FLOAT16"):
        _finite(x)
        if to == "UINT8" and (x.value < 0).any():
            raise Refused("a negative number has no defined unsigned value")
    (y,) = m.add("Cast", [x], exact=to != "FLOAT16", to=getattr(TensorProto, to))
    if to == "FLOAT16":
        m.add("Cast", [y], exact=True, to=TensorProto.FLOAT)


def tests_of_floats(m: Maker) -> None:
    x = m.pick(lambda t: t.kind == "float32")
    m.add(m.rng.choice(("IsNaN", "IsInf")), [x], exact=True)


# -- reductions --------------------------------------------------------------------------------------------------------


_REDUCTIONS = (
    "ReduceSum", "ReduceSum", "ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum",
)  # fmt: skip


def reduce(m: Maker) -> None:
    kind = m.rng.choice(_REDUCTIONS)
    x = m.pick(lambda t: t.kind == "float32" or (t.kind in ("int32", "int64") and "Log" not in kind and m.coin(0.3)))
    _finite(x)
    axes = None if m.coin(0.15) else m.axes(x.rank)
    _reduced(m, kind, x, axes, int(m.coin()))


def _reduced(m: Maker, kind: str, x: Tensor, axes: list[int] | None, keepdims: int) -> list[Tensor]:
    exact = kind in ("ReduceMax", "ReduceMin")
    if m.opset >= (13 if kind == "ReduceSum" else 18):
        inputs = [x] if axes is None else [x, m.integers(*axes)]
        return m.add(kind, inputs, exact=exact, keepdims=keepdims)
    options = {} if axes is None else {"axes": axes}
    return m.add(kind, [x], exact=exact, keepdims=keepdims, **options)


def positions(m: Maker) -> None:
    x = m.pick(lambda t: t.kind in ("float32", "int32") and t.rank > 0)
    _finite(x)
    way = m.rng.random()
    if way < 0.5:
        options = {"select_last_index": 1} if m.opset >= 12 and m.coin(0.3) else {}
        m.add(m.rng.choice(("ArgMax", "ArgMin")), [x], exact=True, axis=m.axis(x.rank), keepdims=int(m.coin()), **options)
    elif way < 0.8:
        axis = m.axis(x.rank)
        k = m.integers(m.rng.randint(1, min(4, x.shape[axis])))
        m.add("TopK", [x, k], 2, exact=True, axis=axis, largest=int(m.coin(0.7)))
    else:
        m.add("Hardmax", [x], exact=True, axis=m.axis(x.rank))


def cumulative(m: Maker) -> None:
    x = m.pick(lambda t: t.kind in ("float32", "int32", "int64") and t.rank > 0)
    _finite(x)
    axis = m.constant(np.array(m.axis(x.rank), np.int64))
    m.add("CumSum", [x, axis], exclusive=int(m.coin(0.3)), reverse=int(m.coin(0.3)))


# -- movement ----------------------------------------------------------------------------------------------------------


def reshape(m: Maker) -> None:
    x = m.pick()
    factors = [p for n in x.shape for p in _primes(n)]
    m.rng.shuffle(factors)
    shape = [1] * m.rng.randint(1, 4)
    for p in factors:
        shape[m.rng.randrange(len(shape))] *= p
    way = m.rng.random()
    if way < 0.3:
        shape[m.rng.randrange(len(shape))] = -1
    elif way < 0.5 and x.rank:
        shape = [0, -1]
    (y,) = m.add("Reshape", [x, m.integers(*shape)], exact=True)
    if y.value.size != x.value.size:
        raise Refused("another size")


def reshape_like_exporters(m: Maker) -> None:
    """The shape computed from that of the tensor."""
    x = m.pick(lambda t: t.rank >= 2)
    (shape,) = m.add("Shape", [x])
    if m.coin():
        (first,) = m.add("Gather", [shape, m.constant(np.array(0, np.int64))], axis=0)
        (first,) = m.add("Unsqueeze", [first, m.integers(0)]) if m.opset >= 13 else m.add("Unsqueeze", [first], axes=[0])
    else:
        (first,) = m.add("Slice", [shape, m.integers(0), m.integers(1)])
    (wanted,) = m.add("Concat", [first, m.integers(-1)], axis=0)
    m.add("Reshape", [x, wanted], exact=True)


def _primes(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


def transpose(m: Maker) -> None:
    x = m.pick(lambda t: t.rank >= 2)
    perm = list(range(x.rank))
    m.rng.shuffle(perm)
    if m.coin(0.3):
        perm = [*perm[:-2], perm[-1], perm[-2]]
    m.add("Transpose", [x], exact=True, **({"perm": perm} if m.coin(0.9) else {}))


def dimensions_of_one(m: Maker) -> None:
    x = m.pick()
    way = m.rng.random()
    if way < 0.4:
        count = m.rng.randint(1, 2)
        if x.rank + count > 6:
            raise Refused("too many dimensions")
        axes = m.rng.sample(range(x.rank + count), count)
        axes = [d - x.rank - count if m.coin(0.3) else d for d in axes]
        _ = (
            m.add("Unsqueeze", [x, m.integers(*axes)], exact=True)
            if m.opset >= 13
            else m.add("Unsqueeze", [x], exact=True, axes=axes)
        )
    elif way < 0.8:
        ones = [d for d, n in enumerate(x.shape) if n == 1]
        axes = [m.rng.choice((d, d - x.rank)) for d in ones if m.coin(0.7)]
        if not axes:
            m.add("Squeeze", [x], exact=True)
        else:
            _ = (
                m.add("Squeeze", [x, m.integers(*axes)], exact=True)
                if m.opset >= 13
                else m.add("Squeeze", [x], exact=True, axes=axes)
            )
    else:
        m.add("Flatten", [x], exact=True, axis=m.rng.randint(-x.rank, x.rank))


def concat(m: Maker) -> None:
    x = m.pick(lambda t: t.rank > 0)
    axis = m.axis(x.rank)
    d = axis % x.rank
    fitting = [t for t in m.tensors.values() if t.kind == x.kind and t.rank == x.rank and _without(t, d) == _without(x, d)]
    parts = [m.rng.choice(fitting) for _ in range(m.rng.randint(1, 3))]
    if m.coin(0.4):
        parts.append(m.weight([m.rng.choice((1, 3, 8)) if n == d else size for n, size in enumerate(x.shape)], kind=x.kind))
    m.add("Concat", [x, *parts], exact=True, axis=axis)


def split(m: Maker) -> None:
    x = m.pick(lambda t: t.rank > 0 and max(t.shape) > 1)
    axis = m.rng.choice([d for d, n in enumerate(x.shape) if n > 1])
    extent = x.shape[axis]
    if m.coin(0.3) and (m.opset >= 18 or extent % 2 == 0):
        options = {"num_outputs": 2} if m.opset >= 18 else {}
        m.add("Split", [x], 2, exact=True, axis=axis, **options)
        return
    first = m.rng.randint(1, extent - 1)
    sizes = [first, extent - first]
    if m.coin(0.3) and sizes[1] > 1:
        sizes = [first, 1, extent - first - 1]
    axis = axis - x.rank if m.coin(0.3) else axis
    if m.opset >= 13:
        m.add("Split", [x, m.integers(*sizes)], len(sizes), exact=True, axis=axis)
    else:
        m.add("Split", [x], len(sizes), exact=True, axis=axis, split=sizes)


def slice_(m: Maker) -> None:
    x = m.pick(lambda t: t.rank > 0)
    axes = m.axes(x.rank)[:2]
    starts, ends, steps = [], [], []
    for axis in axes:
        n = x.shape[axis]
        if m.coin(0.3):
            starts.append(m.rng.choice((n - 1, -1, n + 5, m.rng.randrange(n))))
            ends.append(m.rng.choice((-n - 1, -(2**31), -1 - m.rng.randrange(n), -(2**62))))
            steps.append(m.rng.choice((-1, -1, -2, -3)))
        else:
            starts.append(m.rng.choice((0, m.rng.randrange(n), -m.rng.randint(1, n + 1))))
            ends.append(m.rng.choice((n, 2**31 - 1, 2**63 - 1, -1, m.rng.randint(1, n))))
            steps.append(m.rng.choice((1, 1, 2, 3)))
    m.add("Slice", [x, *(m.integers(*numbers) for numbers in (starts, ends, axes, steps))], exact=True)


def pad(m: Maker) -> None:
    x = m.pick(lambda t: t.rank > 0 and t.kind in ("float32", "int32", "int64", "float64"))
    mode = m.rng.choice(("constant", "constant", "edge", "reflect", *(("wrap",) if m.opset >= 19 else ())))
    low = -1 if mode == "constant" and m.coin(0.2) else 0
    pads = [m.rng.choice((0, 0, 1, 2, 3, low)) for _ in range(2 * x.rank)]
    if mode in ("reflect", "wrap"):
        pads = [min(p, x.shape[n % x.rank] - (mode == "reflect")) for n, p in enumerate(pads)]
    inputs = [x, m.integers(*pads)]
    if mode == "constant" and m.coin():
        inputs.append(m.constant(np.array(2, x.value.dtype)))
    m.add("Pad", inputs, exact=True, mode=mode)


def gather(m: Maker) -> None:
    x = m.pick(lambda t: t.rank > 0)
    way, axis = m.rng.random(), m.axis(x.rank)
    n = x.shape[axis]
    if way < 0.6:
        shape = m.rng.choice(([], [3], [2, 2], [1], [8]))
        computed = [
            t
            for t in m.tensors.values()
            if t.kind in ("int64", "int32") and t.value.min() >= -n and t.value.max() < n and t.rank < 3
        ]
        if computed and m.coin(0.4):
            indices = m.rng.choice(computed)
        else:
            indices = m.constant(np.asarray(m.data.integers(-n, n, shape), m.rng.choice(("int64", "int32"))))
        m.add("Gather", [x, indices], exact=True, axis=axis)
    elif way < 0.8:
        indices = m.data.integers(-n, n, [m.rng.randint(1, 3) if d == axis % x.rank else size for d, size in enumerate(x.shape)])
        m.add("GatherElements", [x, m.constant(indices)], exact=True, axis=axis)
    elif way < 0.9:
        depth = m.rng.randint(1, x.rank)
        indices = np.stack([m.data.integers(-e, e, [3]) for e in x.shape[:depth]], axis=-1)
        m.add("GatherND", [x, m.constant(indices)], exact=True)
    else:
        (indices, updates) = _scattered(m, x)
        m.add("ScatterND", [x, indices, updates], exact=True)


def _scattered(m: Maker, x: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows of x, and what to write there."""
    count = m.rng.randint(1, min(4, x.shape[0]))
    rows = m.data.permutation(x.shape[0])[:count].reshape(-1, 1).astype(np.int64)
    return m.constant(rows), m.weight([count, *x.shape[1:]], kind=x.kind)


def repeat(m: Maker) -> None:
    x = m.pick(lambda t: 0 < t.rank < 5)
    if m.coin():
        shape = [m.rng.choice((2, 3, 8)) if n == 1 and m.coin(0.7) else n for n in x.shape]
        shape = [m.rng.choice((1, 2)), *shape] if m.coin(0.3) else [1 if m.coin(0.2) else n for n in shape]
        m.add("Expand", [x, m.integers(*shape)], exact=True)
    else:
        m.add("Tile", [x, m.integers(*(m.rng.choice((1, 1, 2, 3)) for _ in x.shape))], exact=True)


def resize(m: Maker) -> None:
    x = m.pick_float(3, 4)
    _finite(x)
    mode = m.rng.choice(("nearest", "nearest", "linear", "cubic"))
    if mode == "cubic" and x.rank != 4:
        raise Refused("ONNX Runtime has cubic images only")
    coordinates = m.rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        options["nearest_mode"] = m.rng.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    empty = m.constant(np.zeros(0, np.float32)) if m.opset < 13 else None
    if m.coin():
        # ONNX and its Runtime do not agree on the coordinates where an extent times its factor is not a whole number
        factors = [1.0, 1.0, *(m.rng.choice((1.0 if n % 2 else 0.5, 1.0, 2.0, 3.0)) for n in x.shape[2:])]
        m.add("Resize", [x, empty, m.constant(np.array(factors, np.float32))], exact=mode == "nearest", **options)
    else:
        sizes = [*x.shape[:2], *(m.rng.choice((n, 2 * n, n + 1, 3, 8)) for n in x.shape[2:])]
        m.add("Resize", [x, empty, empty, m.integers(*sizes)], exact=mode == "nearest", **options)


def blocks(m: Maker) -> None:
    x = m.pick_float(4)
    size = m.rng.choice((2, 3))
    if x.shape[1] % (size * size) == 0:
        m.add("DepthToSpace", [x], exact=True, blocksize=size, mode=m.rng.choice(("DCR", "CRD")))
    elif x.shape[2] % size == 0 and x.shape[3] % size == 0:
        m.add("SpaceToDepth", [x], exact=True, blocksize=size)
    else:
        raise Refused("no blocks")


def triangle(m: Maker) -> None:
    if m.opset < 14:
        raise Refused("no Trilu yet")
    x = m.pick(lambda t: t.rank >= 2 and t.kind in ("float32", "int64"))
    m.add("Trilu", [x, m.constant(np.array(m.rng.randint(-2, 2), np.int64))], exact=True, upper=int(m.coin()))


def one_hot(m: Maker) -> None:
    x = m.pick(lambda t: t.kind in ("int64", "int32") and t.rank < 4)
    m.add(
        "OneHot",
        [x, m.integers(m.rng.choice((1, 3, 8))), m.constant(np.array([0, 1], np.float32))],
        exact=True,
        axis=m.axis(x.rank + 1),
    )


def shape_arithmetic(m: Maker) -> None:
    """Numbers that only depend on shapes, used as values."""
    x = m.pick(lambda t: t.rank > 0)
    (shape,) = m.add("Shape", [x])
    (shape,) = m.add("Cast", [shape], to=TensorProto.FLOAT)
    (root,) = m.add("Sqrt", [shape])
    (first,) = m.add("Gather", [root, m.integers(0)], axis=0)
    y = m.pick_float()
    m.add("Div", [y, first])


def again(m: Maker) -> None:
    """A node once more, or one that changes nothing, or one that nobody reads."""
    way = m.rng.random()
    if way < 0.4:
        x = m.pick()
        for _ in range(m.rng.randint(1, 3)):
            (x,) = m.add("Identity", [x], exact=True)
    elif way < 0.6:
        m.add("Dropout", [m.pick_float()], exact=True)
    else:
        nodes = [
            n
            for n in m.nodes
            if n.op_type in ("Conv", "MatMul", "Relu", "Add", "Softmax", "Transpose", "Reshape", "ReduceMean", "Mul")
        ]
        if not nodes:
            raise Refused("nothing to repeat")
        node = m.rng.choice(nodes)
        inputs = [m.tensors[name] if name else None for name in node.input]
        m.add(node.op_type, inputs, len(node.output), **{a.name: helper.get_attribute_value(a) for a in node.attribute})


# ----------------------------------------------------------------------------------------------------------------------


def _finite(*tensors: Tensor | None) -> None:
    """Operators whose results with infinities and NaN nobody agrees on do not get them."""
    for t in tensors:
        if t is not None and t.is_float and not np.isfinite(t.value).all():
            raise Refused("not finite")


def _fits(t: Tensor, x: Tensor) -> bool:
    return t.rank <= x.rank and all(m in (1, n) for m, n in zip(t.shape[::-1], x.shape[::-1]))


def _without(t: Tensor, d: int) -> tuple[int, ...]:
    return t.shape[:d] + t.shape[d + 1 :]


#: each operator with how often it is wanted
OPERATORS = (
    (6, conv), (1.5, conv_transpose), (3, matmul), (2, gemm), (0.5, einsum), (0.7, attention), (0.5, recurrent),
    (3, pool), (1.5, batch_norm), (2, norm), (2, softmax), (3, unary), (5, activation), (5, binary), (3, residual), (1, several),
    (1.5, compare), (1, logic), (2, where), (2, cast), (0.3, tests_of_floats), (3, reduce), (1, positions), (0.7, cumulative),
    (2, reshape), (1, reshape_like_exporters), (3, transpose), (2, dimensions_of_one), (3, concat), (2, split), (2, slice_),
    (2, pad), (2, gather), (1.5, repeat), (1.5, resize), (0.7, blocks), (0.5, triangle), (0.3, one_hot),
    (0.5, shape_arithmetic), (1, again),
)  # fmt: skip
