"""Operations on the bits of integers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.compile import compile as build
from tensorsmith.errors import UserError
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import BITS, binary
from tensorsmith.lang.workload import Workload

NUMPY = dict(zip(BITS, (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)))


@pytest.mark.parametrize("kind", ["u8", "i8", "i32", "i64"])
@pytest.mark.parametrize("op", BITS)
def test_as_numpy_has_them(op: str, kind: str) -> None:
    a, b = placeholder((37,), kind, name="a"), placeholder((37,), kind, name="b")
    out = compute((37,), lambda i: binary(op, a[i], b[i]), name="out")
    limits = np.iinfo(np.dtype(a.dtype.replace("i", "int").replace("u", "uint")))
    x = np.random.default_rng(1).integers(limits.min, limits.max, 37, limits.dtype, endpoint=True)
    y = x[::-1].copy() if op.startswith("bit") else (np.arange(37) % limits.bits).astype(limits.dtype)
    want = NUMPY[op](x, y)
    whole = workload([a, b, out])
    np.testing.assert_array_equal(evaluate(whole, {"a": x, "b": y})["out"], want)
    np.testing.assert_array_equal(build([a, b, out])(x, y), want)
    assert Workload.from_json(whole.to_json()) == whole


def test_of_integers_only() -> None:
    a = placeholder((4,), "f32", name="a")
    with pytest.raises(UserError, match="needs integers, not f32"):
        compute((4,), lambda i: binary("bitand", a[i], a[i]), name="out")
