"""Loads at a computed place whose lanes are neighbours in memory: one vector, and the same values as lane by lane."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.property.guarded import check

import tensorsmith as ts
from tensorsmith.backends import backend_of, space_of
from tensorsmith.backends.cpu.device import why_not
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import workload as to_workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import Expr
from tensorsmith.program.lower import lower
from tensorsmith.targets.target import Target, native

LANE_BY_LANE = ("vinsertps", "vpinsr", "vunpcklps", "gather")


def enlarged(channels: int) -> list[Any]:
    """An image, and one that is enlarged by repetition."""
    a, b = ts.placeholder((1, 12, 10, channels), name="A"), ts.placeholder((1, 6, 5, channels), name="B")
    return [a, b, ts.compute((1, 12, 10, channels), lambda n, h, w, c: a[n, h, w, c] + b[n, h // 2, w // 2, c], name="C")]


def enlarged_in_two_stages(channels: int) -> list[Any]:
    """Rows first, of which a stage keeps those that are asked for; then columns."""
    a, b = ts.placeholder((1, 12, 10, channels), name="A"), ts.placeholder((1, 6, 5, channels), name="B")
    rows = ts.compute((1, 12, 5, channels), lambda n, h, w, c: b[n, h // 2, w, c] * 2.0, name="R")
    return [a, b, ts.compute((1, 12, 10, channels), lambda n, h, w, c: a[n, h, w, c] + rows[n, h, w // 2, c], name="C")]


def looked_up(channels: int) -> list[Any]:
    """Rows of a table, by numbers that may be beyond its edges."""
    table, at = ts.placeholder((7, channels), name="T"), ts.placeholder((9,), "i32", name="I")
    return [table, at, ts.compute((9, channels), lambda n, c: table[at[n], c], name="C")]


def put_together(channels: int) -> list[Any]:
    """Side by side: a lane reads one or the other."""
    a, b = ts.placeholder((6, channels), name="A"), ts.placeholder((12, channels), name="B")

    def one(h: Expr, c: Expr) -> Expr:
        return ts.select(c < channels, a[h // 2, c], b[h, c - channels])

    return [a, b, ts.compute((12, 2 * channels), one, name="C")]


def pyramid(channels: int) -> list[Any]:
    """Images of four sizes, the smaller ones enlarged, side by side."""
    images = [ts.placeholder((16 // n, 16 // n, channels), name=f"A{n}") for n in (1, 2, 4, 8)]

    def one(h: Expr, w: Expr, c: Expr) -> Expr:
        found = images[3][h // 8, w // 8, c - 3 * channels] * 2.0
        for n, image in reversed(list(enumerate(images[:3]))):
            found = ts.select(c < (n + 1) * channels, image[h // (1 << n), w // (1 << n), c - n * channels] + 1.0, found)
        return found

    return [*images, ts.compute((16, 16, 4 * channels), one, name="C")]


DEFINITIONS = [enlarged, enlarged_in_two_stages, looked_up, put_together, pyramid]


@pytest.mark.parametrize("channels", [1, 5, 16, 24, 33, 64])
@pytest.mark.parametrize("define", DEFINITIONS)
@pytest.mark.parametrize("target", ["x86-64-v3", None])
def test_they_are_right(define: Callable[[int], list[Any]], channels: int, target: str | None) -> None:
    where = native() if target is None else Target.named(target)
    if why_not(where) is not None:
        pytest.skip(f"this machine cannot run code for {target}")
    tensors = define(channels)
    exe, workload = ts.compile(tensors, target=where), to_workload(tensors)
    inputs = random_inputs(workload, 3)
    if "I" in inputs:
        inputs["I"] = np.array([0, 6, 3, -1, 7, 100, -100, 2, 5], "i4")
    np.testing.assert_array_equal(exe(**inputs), evaluate(workload, inputs)["C"])


@pytest.mark.parametrize("define", DEFINITIONS)
def test_they_are_loaded_as_vectors(define: Callable[[int], list[Any]]) -> None:
    found = ts.compile(define(64), target="x86-64-v3").assembly
    assert not any(word in found for word in LANE_BY_LANE)


@pytest.mark.parametrize("define", [put_together, pyramid])
def test_vectors_that_read_one_tensor_know_it(define: Callable[[int], list[Any]]) -> None:
    """Where they begin is known when the code is written: nothing is read under a mask, and nothing is chosen."""
    found = ts.compile(define(64), target="x86-64-v3").assembly
    assert not any(word in found for word in ("vmaskmov", "vblend", "vandps"))


def test_rows_are_shared_and_what_is_chosen_is_not() -> None:
    """And the search has such programs, too."""
    workload, target = to_workload(pyramid(24)), Target.named("znver4", cores=2)
    candidate = backend_of(target).default_candidate(workload, target)
    assert space_of(workload, target).find(candidate) is not None
    assert "unroll C.c.0 <" in str(lower(candidate)) and candidate.decisions["C.parallel"] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="pages that may not be read are made by Linux's mmap")
@pytest.mark.parametrize("channels", [5, 24, 33])
@pytest.mark.parametrize("define", DEFINITIONS)
def test_nothing_beyond_an_array_is_read(define: Callable[[int], list[Any]], channels: int) -> None:
    workload = to_workload(define(channels))
    check(workload, backend_of(native()).default_candidate(workload, native()), random_inputs(workload, 3))
