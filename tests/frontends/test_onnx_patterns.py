"""What exporters write around the operators that people mean loads, and computes what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_onnxruntime
from tests.frontends.onnx_patterns import PATTERNS, Pattern

import tensorsmith as ts

CASES = [pytest.param(p, opset, id=f"{p.name}-{opset}") for p in PATTERNS for opset in p.opsets]


@pytest.mark.parametrize(("pattern", "opset"), CASES)
def test_patterns_of_exporters(pattern: Pattern, opset: int) -> None:
    proto = pattern.model(opset)
    want = by_onnxruntime(proto, pattern.inputs)
    got = list(ts.compile(ts.load(proto)).run(pattern.inputs).values())
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind in "iub":
            off = np.abs(mine.astype(int) - theirs.astype(int))
            assert off.max(initial=0) <= (theirs.dtype.itemsize == 1)  # where quantised numbers are rounded, they may differ by one
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_there_are_patterns_of_every_exporter() -> None:
    assert len(PATTERNS) >= 60
    assert {p.exporter.split()[0].strip(",") for p in PATTERNS} >= {
        "tf2onnx", "jax2tf", "paddle2onnx", "keras2onnx", "keras", "torch", "skl2onnx", "onnxruntime", "optimum"
    }  # fmt: skip
