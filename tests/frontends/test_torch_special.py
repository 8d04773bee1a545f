"""Elementwise operators at special values, against eager PyTorch: by definition, and by the code generated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.frontends.special_values import Function, Mask, floats, found, integers, pairs

import tensorsmith as ts
from tensorsmith.frontends.torch.types import array_of, tensor_of

pytestmark = pytest.mark.peers

NAN = float("nan")

UNARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            "abs", "neg", "relu", "sign", "sgn", "ceil", "floor", "trunc", "round", "acos", "acosh", "asin", "asinh", "atan",
            "atanh", "cos", "cosh", "erf", "exp", "expm1", "log", "log1p", "reciprocal", "sigmoid", "sin", "sinh", "sqrt", "tan",
            "tanh", "rsqrt", "log2", "log10", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "square", "frac",
            "nan_to_num", "deg2rad", "rad2deg", "logit", "logical_not", "positive",
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            "silu", "mish", "hardswish", "gelu", "leaky_relu", "elu", "selu", "hardtanh", "hardsigmoid", "softplus", "relu6",
            "logsigmoid", "softsign", "tanhshrink", "hardshrink", "softshrink",
        )
    },
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu_2": lambda x: F.elu(x, 2.0),
    "celu_2": lambda x: F.celu(x, 2.0),
    "leaky_relu_negative": lambda x: F.leaky_relu(x, -0.5),
    "softplus_2": lambda x: F.softplus(x, 2.0, 5.0),
    "threshold": lambda x: F.threshold(x, 0.5, -1.0),
    "round_2": lambda x: torch.round(x, decimals=2),
    "round_-1": lambda x: torch.round(x, decimals=-1),
    **{f"pow_{p}": lambda x, p=p: x**p for p in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 2.5)},
    **{f"{p}_pow": lambda x, p=p: p**x for p in (2, 0.5, -2.0, 0.0, 1.0)},
    "clamp": lambda x: torch.clamp(x, -1, 2),
    "clamp_min": lambda x: torch.clamp(x, min=0.5),
    "clamp_max": lambda x: torch.clamp(x, max=0.5),
    "clamp_nan": lambda x: torch.clamp(x, min=NAN),
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "float": lambda x: x.float(),
    "double": lambda x: x.double(),
    "bool": lambda x: x.bool(),
    "add_0.1": lambda x: x + 0.1,
    "sub_0.1": lambda x: x - 0.1,
    "0.1_sub": lambda x: 0.1 - x,
    "mul_0.1": lambda x: x * 0.1,
    "div_3": lambda x: x / 3,
    "div_0": lambda x: x / 0,
    "1_div": lambda x: 1 / x,
    "0_div": lambda x: 0 / x,
    "floordiv_3": lambda x: x // 3,
    "floordiv_-0.5": lambda x: x // -0.5,
    "remainder_3": lambda x: x % 3,
    "fmod_2.5": lambda x: torch.fmod(x, 2.5),
}  # fmt: skip

BINARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "maximum", "minimum", "pow", "atan2", "eq", "ne",
            "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor", "heaviside", "xlogy", "isclose",
        )
    },
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "clamp_both": lambda a, b: torch.clamp(a, b, b + 1),
    "clamp_low": lambda a, b: torch.clamp(a, min=b),
    "where": lambda a, b: torch.where(a > b, a, b),
    "prelu": lambda a, b: torch.where(a > 0, a, a * b),
}  # fmt: skip


def _zeros(got: torch.Tensor, want: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
    return (got == 0) & (want == 0)


def _vanishes(got: torch.Tensor, want: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
    """PyTorch has 0, with or without a sign, for a number close to the end of the range of f32, in which it computes."""
    return (want == 0) & (got.abs() < torch.finfo(torch.float32).smallest_normal)


def _nearly(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    return (got.double() - want.double()).abs() <= 1e-6


def _overflows(got: torch.Tensor, want: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return want.isnan() & (a / b).isinf() & a.isfinite() & (b != 0)


def _is_root_of(got: torch.Tensor, want: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (x == -torch.inf) | (x == 0)


def _by_one(got: torch.Tensor, want: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
    return (got - want).abs() == 1


#: what may differ, with the reason
EXCEPTED: dict[str, tuple[str, Mask]] = {
    "relu": ("the larger of two zeros: PyTorch's code for vectors and that for single elements differ", _zeros),
    "relu6": ("as relu", _zeros),
    "maximum": ("as relu", _zeros),
    "minimum": ("as relu", _zeros),
    "clamp_low": ("as relu", _zeros),
    "clamp_both": ("as relu", _zeros),
    "remainder": (
        "a remainder of zero has the sign of the divisor, as in Python, PyTorch's has the dividend's; NaN as fmod's",
        lambda g, w, a, b: _zeros(g, w) | _overflows(g, w, a, b),
    ),
    "remainder_3": ("as remainder", _zeros),
    "leaky_relu_negative": ("zeros are not multiplied by the slope", _zeros),
    "softshrink": ("PyTorch's own decomposition differs from its kernel", _zeros),
    "log1p": ("PyTorch loses subnormals", _vanishes),
    "sigmoid": ("PyTorch loses results that are subnormal in f32", _vanishes),
    "silu": ("as sigmoid", _vanishes),
    "erf": ("PyTorch's has few digits, or none, of the smallest numbers of f16 and bf16", lambda g, w, x: x.abs() < 1e-4),
    "hardswish": ("x times 6 overflows in PyTorch, ours is x", lambda g, w, x: w.isinf() & (g == x.relu())),
    "gelu": (
        "PyTorch has several kernels: some overflow at the end of the range, are NaN at infinity, or have few digits below -2",
        lambda g, w, x: _vanishes(g, w) | (x == torch.inf) | w.isinf() & (g == x) | (x <= -2) & _nearly(g, w),
    ),
    "gelu_tanh": (
        "below -2 PyTorch's 1 + tanh(y) has few digits left, or none; ours is a sigmoid, which has them all",
        lambda g, w, x: (x <= -2) & _nearly(g, w) | _vanishes(g, w),
    ),
    "tanhshrink": ("a difference of two numbers that are almost the same", lambda g, w, x: x.abs() < 0.5),
    "atan2": ("PyTorch loses subnormals", _vanishes),
    "fmod": ("PyTorch's is NaN where the quotient overflows, though the remainder is exact", _overflows),
}  # fmt: skip

#: the same, of one type
EXCEPTED_OF: dict[tuple[str, torch.dtype], tuple[str, Mask]] = {
    ("pow_0.5", torch.float16): ("PyTorch's is a power in f16, a root in f32 and bf16", _is_root_of),
    ("pow_-0.5", torch.float16): ("as pow_0.5", _is_root_of),
    ("floor_divide", torch.float16): ("PyTorch rounds the difference to f16 before it divides", _by_one),
    ("div_floor", torch.float16): ("as floor_divide", _by_one),
}  # fmt: skip
#: units in the last place: of f32 what the language's functions are off by, and PyTorch's besides; of the others, one rounding
UNITS = {torch.float32: 8.0, torch.float16: 1.0, torch.bfloat16: 1.0, torch.float64: 16.0}
#: gelu by erf is off by 1e-7 of x (`ops.gelu`)
UNITS_OF = {"gelu": 64.0, "mish": 16.0, "logit": 16.0}


def _compared(functions: Mapping[str, Function], args: Sequence[torch.Tensor], units: float) -> list[str]:
    """All functions as one model, which is much faster to export and to compile than one by one."""

    def together(*given: torch.Tensor) -> Any:
        return tuple(f(*given) for f in functions.values())

    model = ts.from_torch(together, tuple(args))
    wanted = [f(*args) for f in functions.values()]
    arrays = model.evaluate([array_of(x) for x in args]).values()
    by_definition = model.convention.structured([tensor_of(array) for array in arrays])  # type: ignore[attr-defined]
    generated = ts.compile(model)(*args)
    problems = []
    for results in (by_definition, generated):
        assert len(results) == len(wanted)
        for name, got, want in zip(functions, results, wanted):
            entries = (EXCEPTED.get(name), EXCEPTED_OF.get((name, args[0].dtype)))
            excepted = [entry[1] for entry in entries if entry is not None]
            problems += found(name, torch.as_tensor(got), want, args, max(units, UNITS_OF.get(name, 0.0)), excepted)
    return problems


@pytest.mark.parametrize("dtype", UNITS, ids=str)
def test_functions_of_one_tensor(dtype: torch.dtype) -> None:
    assert _compared(UNARY, [floats(dtype)], UNITS[dtype]) == []


@pytest.mark.parametrize("dtype", UNITS, ids=str)
def test_functions_of_two_tensors(dtype: torch.dtype) -> None:
    assert _compared(BINARY, pairs(floats(dtype)), UNITS[dtype]) == []


WHOLE_UNARY: dict[str, Function] = {
    **{name: getattr(torch, name) for name in ("abs", "neg", "sign", "square", "bitwise_not", "logical_not", "ceil", "relu")},
    "pow_3": lambda x: x**3,
    "clamp": lambda x: torch.clamp(x, 1, 5),
    "div_3": lambda x: x / 3,
    "floordiv_3": lambda x: x // 3,
    "remainder_3": lambda x: x % 3,
    "fmod_3": lambda x: torch.fmod(x, 3),
    **{str(to): lambda x, to=to: x.to(to) for to in (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64)},
    **{str(to): lambda x, to=to: x.to(to) for to in (torch.float16, torch.bfloat16, torch.float32, torch.float64)},
}
WHOLE_BINARY: dict[str, Function] = {
    name: getattr(torch, name)
    for name in (
        "add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "gt", "le", "ge", "bitwise_and", "bitwise_or", "bitwise_xor",
        "logical_and", "logical_or", "logical_xor",
    )
}  # fmt: skip
DIVISIONS: dict[str, Function] = {
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
}
WHOLE = (torch.uint8, torch.int8, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_functions_of_whole_numbers(dtype: torch.dtype) -> None:
    x = integers(dtype)
    assert _compared(WHOLE_UNARY, [x if dtype.is_signed else x[x >= 0]], 1.0) == []
    assert _compared(WHOLE_BINARY, pairs(x), 1.0) == []
    bits = torch.arange(torch.iinfo(dtype).bits, dtype=dtype)
    a, by = (t.contiguous() for t in torch.meshgrid(x, bits, indexing="ij"))
    shifts = {"left": lambda a, b: torch.bitwise_left_shift(a, b), "right": lambda a, b: torch.bitwise_right_shift(a, b)}
    assert _compared(shifts, [a, by], 1.0) == []


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_divisions_of_whole_numbers(dtype: torch.dtype) -> None:
    """Without a division by zero, and without the one quotient that overflows: PyTorch raises an error, or is killed."""
    a, b = pairs(integers(dtype))
    defined = (b != 0) & ~((b == -1) & (a == torch.iinfo(dtype).min) if dtype.is_signed else b == 0)
    assert _compared(DIVISIONS, [a[defined], b[defined]], 1.0) == []


SORTS: dict[str, Function] = {
    "sort": lambda x: torch.sort(x, stable=True)[0],
    "falling": lambda x: torch.sort(x, stable=True, descending=True)[0],
    "argsort": lambda x: torch.argsort(x, stable=True),
    "argsort_falling": lambda x: torch.argsort(x, stable=True, descending=True),
    "msort": torch.msort,
    "max": lambda x: torch.max(x, 0)[0],
    "min": lambda x: torch.min(x, 0)[0],
    "argmax": lambda x: torch.argmax(x, 0),
    "argmin": lambda x: torch.argmin(x, 0),
    "topk": lambda x: torch.topk(x, 7)[0],
    "least": lambda x: torch.topk(x, 7, largest=False)[0],
}


@pytest.mark.parametrize("dtype", UNITS, ids=str)
def test_orders_have_nan_for_the_largest(dtype: torch.dtype) -> None:
    given = [3.0, NAN, -1.0, 2.0, -0.0, 0.0, torch.inf, NAN, -torch.inf, 2.0, NAN, 1.5]
    x = torch.tensor(given, dtype=dtype)
    model = ts.from_torch(lambda x: tuple(f(x) for f in SORTS.values()), (x,))
    for name, got, f in zip(SORTS, ts.compile(model)(x), SORTS.values()):
        torch.testing.assert_close(torch.as_tensor(got), f(x), rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("order", [0.5, 3, 5, 6, -2])
def test_norms_of_any_order(order: float, dtype: torch.dtype) -> None:
    """Powers of f16 overflow: 8 to the sixth is 262144."""
    x = torch.cat([torch.full((2, 8), 4.0), torch.full((1, 8), 8.0), torch.linspace(-3, 3, 24).reshape(3, 8)]).to(dtype)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order, dim=1)

    units = 1.0 if dtype is not torch.float32 else 16.0
    assert found("norm", torch.as_tensor(ts.compile(ts.from_torch(norm, (x,)))(x)), norm(x), [x[:, 0]], units, []) == []


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("channels", [3, 5])  # PyTorch has code of its own for up to 4
def test_images_of_bytes_are_resized_to_the_last_bit(mode: str, channels: int) -> None:
    x = torch.randint(0, 256, (2, channels, 7, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    how: list[dict[str, Any]] = [
        {"size": (11, 13)},
        {"size": (4, 5)},
        {"size": (7, 20)},
        {"scale_factor": 2.0},
        {"scale_factor": (0.7, 1.7)},
        {"size": (11, 13), "align_corners": True},
    ]

    def resized(x: torch.Tensor) -> Any:
        return tuple(F.interpolate(x, mode=mode, **given) for given in how)

    for got, want in zip(ts.compile(ts.from_torch(resized, (x,)))(x), resized(x)):
        assert torch.equal(torch.as_tensor(got), want)
