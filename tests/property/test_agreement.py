"""Machine code, the interpreter of loop programs and the evaluator of definitions agree, on random workloads and schedules."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tensorsmith.compile import build
from tensorsmith.errors import Refusal
from tensorsmith.lang.compare import difference, tolerance
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.ir import Loop, Node
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch import Candidate
from tests.property.definitions import random_arrays, random_workload
from tests.property.schedules import random_candidate

MAX_BLOCKS = 1_500  # the interpreter takes about a tenth of a millisecond for each


def blocks_run(nodes: Iterable[Node], times: int = 1) -> int:
    """How many blocks a program runs."""
    total = 0
    for node in nodes:
        if isinstance(node, Loop):
            total += blocks_run(node.body, times * int(node.var.count))
        else:
            total += times + blocks_run(node.before, times)
    return total


def problem(workload: Workload, name: str, got: np.ndarray, want: np.ndarray) -> str | None:
    """What is wrong with a result. Random definitions cancel, so floats may also be off by a share of 1."""
    found = difference(workload, name, got, want)
    if found is None or dtype(workload.buffers[name].dtype).kind != "f" or got.shape != want.shape:
        return found
    share = tolerance(workload, name)
    scale = np.abs(want) + max(1.0, math.sqrt(np.mean(np.square(want, dtype=np.float64))))
    return None if np.all(np.abs(got.astype(np.float64) - want) <= share * scale) else found


def disagreements(workload: Workload, candidate: Candidate, seed: int) -> list[str]:
    """Everything that is wrong with one candidate; raises `Refusal` where it cannot be built."""
    arrays = random_arrays(workload, seed)
    want = evaluate(workload, arrays, precise=True)
    program = lower(candidate)
    executable = build(candidate)
    found = []
    if blocks_run(program.body) <= MAX_BLOCKS:
        results = interpret(program, arrays)
        for name, inner in zip(workload.outputs, program.workload.outputs):
            found.append(("interpreter", name, results[inner].reshape(want[name].shape)))
    results = executable(**arrays)
    for name, result in zip(workload.outputs, results if isinstance(results, tuple) else (results,)):
        found.append(("machine code", name, result))
    problems = [(who, problem(workload, name, got, want[name])) for who, name, got in found]
    return [f"{who}: {text}" for who, text in problems if text]


def describe(workload: Workload, candidate: Candidate) -> str:
    """All that is needed to reproduce a failure."""
    try:
        program = str(lower(candidate))
    except Exception as failure:  # the description must not hide the failure it describes
        program = f"not lowered: {failure!r}"
    data = json.dumps({"workload": workload.to_json(), "candidate": candidate.to_json()})
    return f"{workload}\n\n{candidate.sketch}\n\n{data}\n\n{program}"


def run(examples: int, seed: int | None) -> Counter[str]:
    """Checks random candidates; gives how often each outcome came up. The same ones every time if there is a seed."""
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(st.randoms(use_true_random=False), st.integers(0, 1000))
    def check(rng: Random, data_seed: int) -> None:
        workload = random_workload(rng)
        candidate = random_candidate(workload, rng)
        note(describe(workload, candidate))
        try:
            problems = disagreements(workload, candidate, data_seed)
        except Refusal as refusal:
            outcomes[refusal.cause] += 1
            return
        outcomes["ok"] += 1
        assert not problems, "\n".join(problems)

    check()
    return outcomes


def assert_few_refusals(outcomes: Counter[str]) -> None:
    print(dict(outcomes))
    total = sum(outcomes.values())
    assert outcomes["ok"] >= 0.9 * total, f"too many refusals: {dict(outcomes)}"


def test_machine_code_interpreter_and_evaluator_agree():
    assert_few_refusals(run(300, None))


@pytest.mark.long
def test_they_agree_on_many():
    assert_few_refusals(run(3000, 1))
