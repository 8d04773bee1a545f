"""Code in which values are used again: it grows with the number of operations, not with the number of ways to them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.backends.cpu.machines import target
from tests.lang.reuse import KINDS, either_branch, guarded_inside, guarded_outside, silu
from tests.property.agreement import disagreements
from tests.property.guarded import check

from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import random_inputs
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

TARGET = target(vector_bytes=32, registers=16)  # the same code on every machine
SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40)


def lines(workload):
    """How long the code of the default schedule is."""
    return generate(lower(default_candidate(workload, TARGET)), TARGET).ir.count("\n")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_code_grows_with_the_operations(kind):
    few, some, many = (lines(kind(n)) for n in (8, 16, 32))
    assert some - few < 400 * 8
    assert many - some < 3 * (some - few)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("n", [2, 20])
def test_all_evaluators_agree(kind, n):
    w = kind(n)
    assert disagreements(w, default_candidate(w, native())) == []
    assert disagreements(w, plain_candidate(w)) == []


def test_many_silu_are_right():
    w = silu(64)
    assert disagreements(w, default_candidate(w, native())) == []


def test_a_function_that_is_used_again_is_called_once():
    a = ts.placeholder((8,), name="A")
    w = ts.workload([a, ts.compute((8,), lambda i: ts.erf(a[i]) * ts.erf(a[i]) + ts.erf(a[i]), name="T")])
    code = generate(lower(default_candidate(w, native())), native()).ir
    once = ts.workload([a, ts.compute((8,), lambda i: ts.erf(a[i]) * 2.0 + 1.0, name="T")])
    assert code.count("call ") == generate(lower(default_candidate(once, native())), native()).ir.count("call ")


def gathered(n, size):
    """As `either_branch`, with an index that is read under the condition too."""
    a, places = ts.placeholder((size,), name="A"), ts.placeholder((size,), "i32", name="P")

    def body(i):
        value = a[places[i - 1]] + a[i - 1]
        for k in range(n):
            value = ts.select(i % (k + 2) < 1, value * 0.5, value + 1.0)
        return ts.select(i >= 1, value, 0.5)

    return ts.workload([a, places, ts.compute((size,), body, name="Y")])


def behind_the_end(n, size):
    """The other end, and two axes."""
    a = ts.placeholder((3, size), name="A")

    def body(i, j):
        value = a[i, j + 2]
        for k in range(n):
            value = ts.select((j + k) % 3 < 1, value * 0.5, value + 1.0)
        return ts.select(j + 2 < size, value, 0.5)

    return ts.workload([a, ts.compute((3, size), body, name="Y")])


def check_all_guarded():
    """Runs in a process of its own: the memory around each array may not be touched."""
    for kind in (guarded_outside, either_branch, guarded_inside, gathered, behind_the_end):
        for size in SIZES:
            w = kind(4, size)
            print(kind.__name__, size, flush=True)
            for candidate in (default_candidate(w, native()), plain_candidate(w)):
                check(w, candidate, random_inputs(w))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mmap and mprotect")
def test_what_is_wanted_under_several_conditions_reads_only_what_is_there():
    code = "from tests.backends.cpu.codegen.test_reuse import check_all_guarded; check_all_guarded()"
    environment = {**os.environ, "TENSORSMITH_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, f"after {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
    assert len(done.stdout.splitlines()) == 5 * len(SIZES)


def test_a_shared_product_in_a_sum():
    a = ts.placeholder((5, 40), name="A")
    k = ts.reduce_axis(40, name="k")

    def body(i):
        value = a[i, k]
        for _ in range(20):
            value = value * 0.5 + value * value * 0.25
        return ts.sum(value * value, axis=k)

    w = ts.workload([a, ts.compute((5,), body, name="S")])
    for candidate in (default_candidate(w, native()), plain_candidate(w)):
        assert disagreements(w, candidate) == []
