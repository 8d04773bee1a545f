"""`run`: an operator on arrays, through the reference evaluator."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload


def run_operator(operator, *arrays, **options):
    """The result of `operator` on the arrays; its workload also has to survive JSON."""
    tensors = [placeholder(a.shape, a.dtype, name=f"x{n}") for n, a in enumerate(arrays)]
    out = operator(*tensors, **options)
    w = workload([*tensors, out])
    assert Workload.from_json(json.loads(json.dumps(w.to_json()))) == w
    result = evaluate(w, {t.name: a for t, a in zip(tensors, arrays)}, precise=True)[out.name]
    assert result.shape == out.shape
    return result


@pytest.fixture
def run():
    return run_operator


@pytest.fixture
def random():
    """random(2, 3): floats in -1..1 of a shape."""
    generator = np.random.default_rng(7)
    return lambda *shape: generator.uniform(-1, 1, shape).astype("f4")


@pytest.fixture
def same():
    def check(got, want):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)

    return check
