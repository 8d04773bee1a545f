"""Small weights: which numbers they are, and that definitions which multiply by them are recognised."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.lang import define as ts
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Select
from tensorsmith.lang.flops import flops
from tensorsmith.lang.small import HIGH, LOW, are_small, kept_if_small, small, small_load

BYTES = np.arange(-128, 128).astype(np.int8)


def test_what_is_not_small_counts_as_zero():
    w = ts.placeholder((256,), "i8", name="w")
    workload = ts.workload([w, ts.compute((256,), lambda i: small(w[i]), name="y")])
    wanted = [n if -64 <= n <= 63 else 0 for n in range(-128, 128)]
    np.testing.assert_array_equal(evaluate(workload, {"w": BYTES})["y"], wanted)
    np.testing.assert_array_equal(kept_if_small(BYTES), wanted)
    assert kept_if_small(BYTES).dtype == np.int8


def test_two_products_of_small_bytes_fit_in_16_bits():
    assert 255 * 2 * LOW >= -(2**15) and 255 * 2 * HIGH < 2**15
    assert 255 * 2 * (HIGH + 2) >= 2**15  # there is no room for a bit more


@pytest.mark.parametrize("values, wanted", [((-64, 63), True), ((64,), False), ((-65,), False), ((), True), ((0, 127), False)])
def test_arrays_of_small_numbers(values, wanted):
    assert are_small(np.array(values, np.int8)) is wanted


def test_only_small_loads_are_small():
    w = ts.placeholder((4,), "i8", name="w")
    assert small_load(small(w[1])) is w[1]
    condition, zero = small(w[1]).cond, small(w[1]).b
    others = [w[1], small(w[1] + 1), Select(w[1] >= LOW, w[1], zero), Select(condition, w[2], zero), Select(condition, w[1], w[2])]
    assert [small_load(e) for e in others] == [None] * len(others)


def test_looking_at_a_weight_is_no_work():
    x, w, k = ts.placeholder((8, 8), "u8", name="x"), ts.placeholder((8, 8), "i8", name="w"), ts.reduce_axis(8, "k")

    def product(of):
        return ts.compute((8, 8), lambda i, j: ts.sum(ts.cast("i32", x[i, k]) * ts.cast("i32", of(w[k, j])), axis=k), name="y")

    assert flops(ts.workload([x, w, product(small)])) == flops(ts.workload([x, w, product(lambda e: e)])) == 2 * 8**3
