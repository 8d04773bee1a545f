"""One candidate through all evaluators: the comparison that the property tests and the directed ones share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import numpy as np
from tests.property.definitions import random_arrays

from tensorsmith.build import build
from tensorsmith.lang.compare import difference, tolerance
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.program.interpret import interpret
from tensorsmith.program.ir import Loop, Node
from tensorsmith.program.lower import lower
from tensorsmith.runtime.executable import Executable
from tensorsmith.space.sketch.sketch import Candidate

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


def answers(executable: Executable, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the code computes in memory that holds neither zeros nor an answer: code that does not write is noticed."""
    prepared = executable.prepare(**arrays)
    prepared.poison()
    prepared.repeat(1)
    return prepared.outputs


def disagreements(
    workload: Workload, candidate: Candidate, seed: int = 0, arrays: dict[str, np.ndarray] | None = None
) -> list[str]:
    """Everything that is wrong with one candidate; raises `Refusal` where it cannot be built."""
    arrays = arrays or random_arrays(workload, seed)
    want = evaluate(workload, arrays, precise=True)
    program = lower(candidate)
    executable = build(candidate)
    found = []
    if blocks_run(program.body) <= MAX_BLOCKS:
        results = interpret(program, arrays)
        for name, inner in zip(workload.outputs, program.workload.outputs):
            found.append(("interpreter", name, results[inner].reshape(want[name].shape)))
    for name, result in zip(workload.outputs, answers(executable, arrays)):
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
