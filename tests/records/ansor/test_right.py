"""Placed programs compute what they should: at small sizes, on this CPU and in the interpreter of kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.backends.gpu.drawn import problems
from tests.backends.gpu.test_kernels import results
from tests.records.ansor.shrunk import shrunk
from tests.records.ansor.test_log import LOGS

from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.build import build
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.program.lower import lower
from tensorsmith.records import ansor


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.jsonl")), ids=lambda p: p.stem)
def test_a_program_is_right(path: Path) -> None:
    rng = np.random.default_rng(3)
    records = ansor.read(path).records
    for record in (records[0], records[-1]):
        placed = shrunk(record, rng)
        assert placed is not None
        candidate = placed.candidate(0)
        workload = candidate.sketch.workload
        inputs = random_inputs(workload, 0)
        if record.kind == "gpu":
            got = results(kernels(lower(candidate)), workload, inputs)
        else:
            found = build(candidate)(*(inputs[b.name] for b in workload.inputs))
            got = list(found) if isinstance(found, tuple) else [found]
        assert problems(workload, evaluate(workload, inputs, precise=True), got) == []
