"""Random numbers by a counter: each is a function of a key, the number of the call, and its own place.

The generator is Philox2x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC'11). Nothing is kept
from one number to the next, so they are the same on any number of threads, and in any order of computation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.dtypes import is_float
from tensorsmith.lang.expr import Const, Expr, binary, wrap
from tensorsmith.ops.common import at, compute_named

ROUNDS = 10
MULTIPLIER, STEP = 0xD256D193, 0x9E3779B9  # of a round's product, and of its key: the paper's
DISTRIBUTIONS = ("uniform", "normal", "gumbel")
_WORD = 1 << 32


def philox(key: int, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """Two random words (u32) of a key and two words that count."""
    for n in range(ROUNDS):
        product = define.cast("u64", low) * Const(MULTIPLIER, "u64")
        upper = define.cast("u32", binary("shr", product, Const(32, "u64")))
        mixed = binary("bitxor", binary("bitxor", upper, Const((key + n * STEP) % _WORD, "u32")), high)
        low, high = mixed, define.cast("u32", product)
    return low, high


def draw(call: Tensor, *, key: int, shape: Sequence[int], to: str, distribution: str, name: str) -> Tensor:
    """Numbers of a distribution: uniform in 0..1 without 1, normal (mean 0, variance 1), or Gumbel's standard one.

    The words that count are the place of an element, in the order of memory, and the number of the `call`, a u32 of rank 0.
    """
    if distribution not in DISTRIBUTIONS or not is_float(to):
        raise UserError(f"{name}: there are no random numbers {distribution!r} of {to}")
    if math.prod(shape) > _WORD:
        raise UserError(f"{name}: {math.prod(shape)} random numbers are more than a call can draw, {_WORD}")
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]

    def body(i: Sequence[Expr]) -> Expr:
        place = sum((index * stride for index, stride in zip(i, strides)), wrap(0))
        words = philox(key, define.cast("u32", place), at(call))
        return _BODIES[distribution](*words, to)

    return compute_named(shape, [f"i{d}" for d in range(len(shape))], body, name)


def _fraction(word: Expr, bits: int, to: str) -> Expr:
    """The first bits of a word as a number in 0..1 without 1, exact in a type that has as many."""
    return define.cast(to, binary("shr", word, Const(32 - bits, "u32"))) * Const(2.0**-bits, to)


def _uniform(first: Expr, second: Expr, to: str) -> Expr:
    if to != "f64":
        return _fraction(first, {"f32": 24, "f16": 11, "bf16": 8}[to], to)
    return _fraction(first, 32, to) + define.cast(to, binary("shr", second, Const(11, "u32"))) * Const(2.0**-53, to)


def _normal(first: Expr, second: Expr, to: str) -> Expr:
    """By Box and Muller: a radius, whose square is exponential, and an angle. Narrow types are rounded at the end."""
    kind, bits = ("f64", 32) if to == "f64" else ("f32", 24)
    positive = _fraction(first, bits, kind) + Const(2.0**-bits, kind)
    radius = define.sqrt(define.log(positive) * Const(-2.0, kind))
    return _as(to, radius * define.cos(_fraction(second, bits, kind) * Const(2 * math.pi, kind)))


def _gumbel(first: Expr, second: Expr, to: str) -> Expr:
    """-log(-log(u)) of u in 0..1 without both ends."""
    kind, bits = ("f64", 32) if to == "f64" else ("f32", 23)
    inside = _fraction(first, bits, kind) + Const(2.0 ** -(bits + 1), kind)
    return _as(to, -define.log(-define.log(inside)))


def _as(to: str, e: Expr) -> Expr:
    return e if e.dtype == to else define.cast(to, e)


_BODIES = {"uniform": _uniform, "normal": _normal, "gumbel": _gumbel}
