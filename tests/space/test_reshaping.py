"""Outputs that take the shape of the reduction they work on element by element."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, note
from tests.property.agreement import describe, disagreements
from tests.random_draws import SOURCES, many

import tensorsmith as ts
from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.errors import Refusal
from tensorsmith.lang.define import workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Axis, Expr
from tensorsmith.lang.inline import inline
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.common import at, compute_named
from tensorsmith.ops.transposed import transposed_conv2d
from tensorsmith.space.reshaping import parts_of, reshaped_source
from tensorsmith.space.sketch.rewrite import Reshape


def layer(image: int, channels: int, results: int, kernel: int = 2, padding: int = 0) -> Workload:
    """A transposed convolution with a bias and what follows it, in one stage as in networks."""
    x = ts.placeholder((1, image, image + 1, channels), name="x")
    weight = ts.placeholder((kernel, kernel, channels, results), name="w", constant=True)
    bias = ts.placeholder((results,), name="b", constant=True)
    made = transposed_conv2d(x, weight, 2, padding)
    other = ts.placeholder(made.shape, name="o")
    after = ts.compute(made.shape, lambda n, h, w, c: made[n, h, w, c] + bias[c] * other[n, h, w, c], name="y")
    whole = workload([x, weight, bias, other, after])
    return inline(whole, whole.stages[-2].name)


def in_parts(rng: Random) -> Workload:
    """A sum over random dimensions, and an output that has some of them together."""
    groups = [[rng.randint(1, 4) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))]
    shape = [n for group in groups for n in group]
    a, k = ts.placeholder((*shape, 5), name="a"), ts.reduce_axis(5, "k")
    axes = [f"p{n}" for n in range(len(shape))]
    total = compute_named(shape, axes, lambda i: ts.sum(at(a, *i, k), axis=k), "s")
    whole = [math.prod(group) for group in groups]
    other = ts.placeholder(tuple(whole), name="o")

    def one(i: tuple[Expr, ...]) -> Expr:
        place: list[Expr] = []
        for e, group in zip(i, groups):
            for n in range(len(group)):
                inner = math.prod(group[n + 1 :])
                piece = e // inner if inner > 1 else e
                place.append(piece % group[n] if n and group[n] > 1 else piece if not n else 0 * e)
        return at(total, *place) * 2.0 + at(other, *i)

    names = [f"i{n}" for n in range(len(groups))]
    return workload([a, other, compute_named(whole, names, one, "y")])


@pytest.mark.parametrize("source, examples", [("shrinking", 30), ("seeded", 60)])
def test_reshaped_outputs_have_the_same_elements(source: str, examples: int) -> None:
    done = 0

    @many(examples, True)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        nonlocal done
        w = in_parts(rng)
        arrays = {t.name: np.random.default_rng(1).random(t.shape, np.float32) for t in w.inputs}
        try:
            new = Reshape("y").apply(w).check()
        except Refusal:
            assert reshaped_source(w, w.stage("y")) is None
            return
        done += 1
        want, got = evaluate(w, arrays)["y"], evaluate(new, arrays)["y.reshaped"]
        assert got.shape == new.stage("s").shape and np.array_equal(got.reshape(want.shape), want)

    check()
    assert done > examples // 4


def test_parts() -> None:
    def parts(axes: list[int], of: list[int]) -> list[str] | None:
        found = parts_of([Axis(f"i{n}", e) for n, e in enumerate(axes)], [Axis(f"p{n}", e) for n, e in enumerate(of)])
        return None if found is None else [str(e) for e in found.values()]

    assert parts([6, 5], [3, 2, 5]) == ["p0 * 2 + p1", "p2"]
    assert parts([1, 6], [3, 2]) == ["0", "p0 * 2 + p1"]
    assert parts([24], [2, 1, 3, 4]) == ["(p0 * 3 + p2) * 4 + p3"]
    assert parts([3, 2], [6]) is None and parts([4, 3], [2, 6]) is None and parts([2], [2, 2]) is None


def test_what_is_read_twice_or_in_another_order_is_not_reshaped() -> None:
    a, k = ts.placeholder((4, 6, 5), name="a"), ts.reduce_axis(5, "k")
    total = ts.compute((4, 6), lambda i, j: ts.sum(a[i, j, k], axis=k), name="s")
    turned = ts.compute((24,), lambda n: total[n % 4, n // 4] + 1.0, name="y")
    with pytest.raises(Refusal, match="cannot reshape"):
        Reshape("y").apply(workload([a, turned]))
    shifted = ts.compute((24,), lambda n: total[n // 6, n % 6] + total[0, 0], name="y")
    with pytest.raises(Refusal, match="cannot reshape"):
        Reshape("y").apply(workload([a, shifted]))
    flat = ts.compute((24,), lambda n: total[n // 6, n % 6] + 1.0, name="y")
    again = ts.compute((24,), lambda n: flat[n] * 2.0, name="z")
    with pytest.raises(Refusal, match="cannot reshape"):
        Reshape("y").apply(workload([a, flat, again]))
    with pytest.raises(Refusal, match="cannot reshape"):
        Reshape("s").apply(workload([a, total]))


@pytest.mark.parametrize("target, results, reshaped", [("znver4", 24, True), ("znver4", 3, False), ("znver3", 24, True)])
def test_the_default_schedule_computes_what_follows_on_the_tiles(target: str, results: int, reshaped: bool) -> None:
    """Where lanes run along the channels; few channels are reduced along lanes, and their reader has long rows in its own shape."""
    candidate = default_candidate(layer(16, 24, results), ts.Target.named(target))
    assert (Reshape("y") in candidate.sketch.rewrites) == reshaped
    assert any(n.at is not None for n in candidate.sketch.nests) == reshaped


def test_both_shapes_are_in_the_space() -> None:
    plans = space_of(layer(16, 24, 24), ts.Target.named("znver4")).plans
    assert {Reshape("y") in plan.sketch.rewrites for plan in plans} == {True, False}


@pytest.mark.parametrize("source, examples", [("shrinking", 12), ("seeded", 20)])
def test_default_schedules_agree_with_the_definition(source: str, examples: int) -> None:
    @many(examples, True)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        kernel = rng.choice([2, 3, 4])
        w = layer(rng.randint(2, 9), rng.randint(1, 20), rng.randint(1, 40), kernel, rng.randint(0, kernel - 2))
        candidate = default_candidate(w, ts.Target.native())
        note(describe(w, candidate))
        assert not disagreements(w, candidate, rng.randint(0, 99))

    check()
