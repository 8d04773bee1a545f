"""Calls as users make them; nothing depends on how long they take."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.measure.small import candidate, matmul

from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.measure.bench import Bench
from tensorsmith.measure.calls import Calls, of_a_caller
from tensorsmith.measure.conditions import Condition, deciding
from tensorsmith.measure.timing import Plan
from tensorsmith.runtime.buffers import PAGE
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import shared
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

PLAN = Plan(rounds=1, round_seconds=1e-5, timing_seconds=0.0, most_seconds=0.5)


def bench(constant: bool = True) -> Bench:
    """Of a product, whose second operand is a constant; or of a sum of two inputs."""
    made_of = matmul()
    if not constant:
        a, b = placeholder((8, 8), name="A"), placeholder((8, 8), name="B")
        made_of = workload([a, b, compute((8, 8), lambda i, j: a[i, j] + b[i, j], name="C")])
    reference = evaluate(made_of, random_inputs(made_of, 5), precise=True)
    made = Bench(made_of, native(), seed=5, threads=2, reference={"C": reference["C"]})
    one = candidate(made_of, 4) if constant else plain_candidate(made_of)
    made.build(1, json.dumps(one.sketch.to_json()), one.decisions)
    return made


class Executed:
    """Looks like an executable of two inputs, and writes down how it is called."""

    inputs = (type("Argument", (), {"name": "A"}), type("Argument", (), {"name": "B"}))

    def __init__(self) -> None:
        self.seen: list[tuple[tuple, dict, int]] = []
        self.results: list[np.ndarray] = []

    def __call__(self, *args: object, **named: object) -> np.ndarray:
        self.seen.append((args, named, shared().threads))
        self.results.append(np.full(3, len(self.seen)))
        return self.results[-1]


def test_it_is_called_with_the_arrays_alone_and_allocates_its_results() -> None:
    ticks = iter([10.0, 16.0])
    called, a, b = Executed(), np.zeros(2), np.ones(2)
    calls = Calls(called, {"B": b, "A": a}, 1, lambda: next(ticks))  # type: ignore[arg-type]
    assert calls.seconds(3) == 2.0
    assert all(args[0] is a and args[1] is b and not named and threads == 1 for args, named, threads in called.seen)
    assert len(called.seen) == 3 and calls.outputs[0] is called.results[-1]


def test_inputs_lie_where_numpy_puts_large_arrays() -> None:
    array = np.arange(5000, dtype=np.float32).reshape(50, 100)
    copy = of_a_caller(array)
    assert np.array_equal(copy, array) and copy.flags.carray and copy.ctypes.data % PAGE == 16


@pytest.mark.parametrize("condition", deciding(tuple(Condition)))
@pytest.mark.parametrize("constant", [False, True])
def test_conditions_of_callers_are_calls_of_the_bound_executable(
    condition: Condition, constant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the inputs that are left, and without an array for the result."""
    made, seen = bench(constant), []
    call = Executable.__call__

    def watched(self: Executable, *args: np.ndarray, **named: object) -> object:
        if [a.name for a in self.outputs] == ["C"]:  # not what sweeps the caches
            seen.append((len(args), named))
        return call(self, *args, **named)

    monkeypatch.setattr(Executable, "__call__", watched)
    assert made.check(1) is None and not seen
    assert made.time(1, PLAN, Condition.ALONE)[1] is None and not seen
    rounds, problem = made.time(1, PLAN, condition)
    assert seen and {n for n, _ in seen} == {1 if constant else 2} and not any(named for _, named in seen)
    assert problem is None and len(rounds.times) == 1


def test_the_answer_of_a_call_is_checked() -> None:
    made = bench()
    assert made.check(1) is None
    assert made.time(1, PLAN, Condition.PAUSED)[1] is None
    made._callers_inputs["A"] += 1  # where the calls read it, and nothing else
    assert "elements are wrong" in str(made.time(1, PLAN, Condition.PAUSED)[1])
    assert made.time(1, PLAN, Condition.ALONE)[1] is None
