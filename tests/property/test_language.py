"""Bits and positions: machine code, interpreter and evaluator agree on random expressions, and a search can work with them."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.property.agreement import describe, disagreements
from tests.property.definitions import SIZES
from tests.property.schedules import random_candidate
from tests.random_draws import SOURCES, many

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.dtypes import NAMES, dtype, is_int
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower
from tensorsmith.space.population.sampling import sample
from tensorsmith.targets.target import given_or_native

INTS = tuple(name for name in NAMES if is_int(name))
TIED = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5)


def bits_of(rng: Random, leaves: list[Expr], depth: int) -> Expr:
    """An expression of operators on bits; shifts by data go beyond the number of bits."""
    if depth == 0:
        return rng.choice(leaves)
    a, b = (bits_of(rng, leaves, depth - 1) for _ in range(2))
    number = rng.randrange(100)
    few = rng.randrange(dtype(a.dtype).bytes * 8)
    return rng.choice(
        [a & b, a | b, a ^ b, ~a, a << b, a >> b, a << few, a >> few, a & number, number | b, number ^ b, a + b, a * 3]
    )


def random_bits(rng: Random) -> Workload:
    shape, kind = tuple(rng.choice(SIZES) for _ in range(rng.choice((1, 2)))), rng.choice(INTS)
    a, b = ts.placeholder(shape, kind, name="a"), ts.placeholder(shape, kind, name="b")
    first = ts.compute(shape, lambda *i: bits_of(rng, [a[i], b[i]], 2), name="first")
    second = ts.compute(shape, lambda *i: bits_of(rng, [a[i], first[i]], 2), name="second")
    return ts.workload([a, b, first, second])


def random_position(rng: Random) -> Workload:
    """A position along one or two axes, of what is read or computed."""
    kind, rank = rng.choice(NAMES), rng.choice((1, 2, 2, 3))
    shape = tuple(rng.choice(SIZES) for _ in range(rank))
    while math.prod(shape) > 1500:
        shape = tuple(rng.choice(SIZES) for _ in range(rank))
    a: Tensor = ts.placeholder(shape, kind, name="a")
    over = sorted(rng.sample(range(rank), rng.randint(1, min(2, rank))))
    axes = {d: ts.reduce_axis(shape[d], name=f"k{d}") for d in over}
    word, computed = rng.choice((ts.argmax, ts.argmin)), rng.random() < 0.5

    def body(*i: Expr) -> Expr:
        left = iter(i)
        element = a[tuple(axes[d] if d in axes else next(left) for d in range(rank))]
        if computed and kind != "bool":
            element = ts.maximum(element, a[(0,) * rank])
        return word(element, axis=list(axes.values()))

    where = ts.compute([n for d, n in enumerate(shape) if d not in axes], body, name="where")
    return ts.workload([a, where])


def arrays_of(workload: Workload, seed: int) -> dict[str, np.ndarray]:
    """Integers of the whole range and small ones; floats with ties, NaN and infinities."""
    generator = np.random.default_rng(seed)
    found = {}
    for b in workload.inputs:
        facts = dtype(b.dtype)
        if facts.kind == "f":
            found[b.name] = generator.choice(TIED, b.shape).astype(facts.numpy)
        elif facts.kind == "b":
            found[b.name] = generator.random(b.shape) < 0.2
        else:
            limits = np.iinfo(facts.numpy)
            whole = generator.integers(limits.min, limits.max, b.shape, facts.numpy, endpoint=True)
            found[b.name] = np.where(generator.random(b.shape) < 0.5, whole, generator.integers(0, 9, b.shape)).astype(facts.numpy)
    return found


@pytest.mark.parametrize(("draw", "examples"), [(random_bits, 20), (random_position, 30)])
def test_all_evaluators_agree(draw, examples: int) -> None:
    outcomes: Counter[str] = Counter()

    @many(examples, repeatable=True)
    @given(SOURCES["seeded"], st.integers(0, 1000))
    def check(rng: Random, seed: int) -> None:
        workload = draw(rng)
        candidate = random_candidate(workload, rng)
        note(describe(workload, candidate))
        try:
            problems = disagreements(workload, candidate, arrays=arrays_of(workload, seed))
        except Refusal as refusal:
            outcomes[refusal.cause] += 1
            return
        outcomes["ok"] += 1
        assert not problems, "\n".join(problems)

    check()
    assert outcomes["ok"] >= 0.8 * sum(outcomes.values()), f"too many refusals: {dict(outcomes)}"


def test_a_search_can_draw_and_describe_them() -> None:
    """Pairs, reductions apart, several results: each has sketches whose candidates have features."""
    a, k = ts.placeholder((64, 300), name="a"), ts.reduce_axis(300)
    target = given_or_native("znver3")
    near, where = ts.compute(
        64,
        lambda i: (ts.argmin(ts.square(a[i, k] - a[i, 0]), axis=k), ts.argmax(a[i, k], axis=k)),
        name=("near", "where"),
    )
    space = space_of(ts.workload([a, near, where]), target)
    drawn = list(space.candidates(sample(space, 12, np.random.default_rng(0))))
    assert len(drawn) >= 12
    for candidate in drawn[:12]:
        assert np.isfinite(extract(lower(candidate), target).values).all()
