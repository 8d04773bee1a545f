"""Axes that go together become one where a tensor is turned over; what is computed stays the same, element by element in memory."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from tests.random_draws import SOURCES, many

from tensorsmith.compile import compile
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.merging import merged
from tensorsmith.graph.model import Model
from tensorsmith.graph.tasks import evaluate as evaluate_calls
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.dtypes import canonical
from tensorsmith.lang.evaluate import evaluate


def same(workload):
    """The workload with axes merged, which gives the same from the same memory."""
    after = merged(workload).check()
    arrays = random_inputs(workload)
    want = evaluate(workload, arrays)
    got = evaluate(after, {b.name: arrays[b.name].reshape(b.shape) for b in after.inputs})
    for name in workload.outputs:
        assert np.array_equal(got[name].ravel(), want[name].ravel())
    return after


def transposing(shape, order, more=lambda value, i: value, beside=()):
    """y = x transposed, and `more` of it and of the place in y."""
    x = ts.placeholder(shape, name="x")

    def at(*i):
        return more(x[tuple(i[order.index(d)] for d in range(len(order)))], i)

    return ts.workload([x, *beside, ts.compute(tuple(shape[d] for d in order), at, name="y")])


def runs(shape, order):
    """The extents of y where dimensions that follow each other in both tensors are one, and those of extent 1 none; by hand."""
    moving = [d for d in order if shape[d] != 1]
    places = {d: n for n, d in enumerate(d for d in range(len(shape)) if shape[d] != 1)}
    found: list[list[int]] = []
    for d in moving:
        if found and places[d] == places[found[-1][-1]] + 1:
            found[-1].append(d)
        else:
            found.append([d])
    return tuple(math.prod(shape[d] for d in run) for run in found)


@pytest.mark.parametrize("source", SOURCES)
def test_random_transposes(source):
    @given(SOURCES[source])
    @many(80, repeatable=True)
    def run(rng: Random):
        rank = rng.randint(1, 6)
        shape = tuple(rng.choice([1, 1, 2, 3, 5]) for _ in range(rank))
        order = tuple(rng.sample(range(rank), rank))
        before = transposing(shape, order)
        after = same(before)
        turned = [d for d in order if shape[d] != 1]
        if turned and turned[-1] != max(turned):
            assert after.stages[0].shape == runs(shape, order)
        else:
            assert after == before

    run()


@pytest.mark.parametrize("source", SOURCES)
def test_random_stages_of_several_operands(source):
    """Operands in any order of dimensions, some broadcast; the positions themselves; parts of tensors."""

    @given(SOURCES[source])
    @many(80, repeatable=True)
    def run(rng: Random):
        rank = rng.randint(2, 5)
        shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rank))
        reads = []
        for n in range(rng.randint(1, 3)):
            first = rng.randrange(rank)
            around = [*range(first, rank), *range(first)]  # all of them, and many go together
            used = around if rng.random() < 0.6 else rng.sample(range(rank), rng.randint(1, rank))
            larger = [shape[d] + rng.choice([0, 0, 0, 1]) for d in used]
            reads.append((ts.placeholder(tuple(larger), name=f"x{n}"), used))
        position = rng.choice([None, rng.randrange(rank)])

        def body(*i):
            total = sum(x[tuple(i[d] for d in used)] for x, used in reads[1:]) + reads[0][0][tuple(i[d] for d in reads[0][1])]
            return total if position is None else total * ts.cast("f32", i[position])

        same(ts.workload([*(x for x, _ in reads), ts.compute(shape, body, name="y")]))

    run()


def test_an_image_becomes_a_matrix():
    assert same(transposing((1, 5, 7, 6), (0, 2, 3, 1))).stages[0].shape == (42, 5)
    assert same(transposing((2, 5, 7, 6), (0, 2, 3, 1))).stages[0].shape == (2, 42, 5)


def test_what_is_broadcast_along_merged_axes_stays():
    scale = ts.placeholder((5,), name="scale")
    after = same(transposing((1, 5, 7, 6), (0, 2, 3, 1), lambda value, i: value * scale[i[3]], [scale]))
    assert after.stages[0].shape == (42, 5)


def test_an_operand_along_one_of_the_axes_keeps_them_apart():
    mask = ts.placeholder((6,), name="mask")
    after = same(transposing((1, 5, 7, 6), (0, 2, 3, 1), lambda value, i: value * mask[i[2]], [mask]))
    assert after.stages[0].shape == (7, 6, 5)


def test_positions_keep_axes_apart():
    after = same(transposing((5, 7, 6), (1, 2, 0), lambda value, i: value * ts.cast("f32", i[1])))
    assert after.stages[0].shape == (7, 6, 5)


def test_a_part_of_the_rows_keeps_axes_apart():
    x = ts.placeholder((5, 7, 8), name="x")
    assert same(ts.workload([x, ts.compute((7, 6, 5), lambda h, w, c: x[c, h, w], name="y")])).stages[0].shape == (7, 6, 5)


def test_a_tensor_that_is_read_in_two_ways_keeps_its_dimensions():
    x = ts.placeholder((4, 4, 4), name="x")
    y = ts.compute((4, 4, 4), lambda i, j, k: x[k, i, j] + x[i, k, j], name="y")
    assert same(ts.workload([x, y])).stages[0].shape == (4, 4, 4)


def test_what_goes_along_rows_is_left_alone():
    for order in [(0, 1, 2, 3), (0, 2, 1, 3)]:
        workload = transposing((2, 3, 4, 5), order)
        assert merged(workload) == workload
    x = ts.placeholder((3, 4, 5), name="x")
    k = ts.reduce_axis(3, "k")
    workload = ts.workload([x, ts.compute((5, 4), lambda i, j: ts.sum(x[k, j, i], axis=k), name="y")])
    assert merged(workload) == workload


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_networks_with_transposes_at_their_edges(dtype):
    """Values of the network keep their shapes; calls have others of the same elements."""
    x = (np.random.default_rng(0).random((2, 3, 4, 5)) * 20).astype(dtype)
    for order in itertools.islice(itertools.permutations(range(4)), 1, None, 3):
        builder = Builder("edges")
        given_x = builder.input("x", x.shape, canonical(x.dtype))
        larger = builder.add("maximum", [given_x, builder.constant(np.asarray(7, dtype))])
        builder.output("y", builder.add("transpose", [larger], order=order))
        model = Model.from_graph(builder.graph())
        want = np.maximum(x, 7).transpose(order)
        assert np.array_equal(evaluate_calls(model.partition, {"x": x})["y"], want)
        got = compile(model)(x)
        assert got.shape == want.shape and np.array_equal(got, want)
