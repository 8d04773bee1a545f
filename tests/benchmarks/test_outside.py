"""Halide and TVM themselves as peers: what our definitions say is what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from frameworks import Unavailable, require
from peers import peers_for
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue

CASES = ("GMM-small", "C1D-small", "DEP-small", "NRM-small", "TBS-small", "dense-small", "softmax-small")


@pytest.mark.outside
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("framework", ["halide-wheel", "tvm-wheel"])
def test_they_compute_what_the_definition_says(name: str, framework: str) -> None:
    case = catalogue.get(name)
    workload = case.workload()
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    peers, notes = peers_for(case, [inputs[b.name] for b in workload.inputs], 2, [framework], trials=4)
    assert not notes and [peer.name for peer in peers] == [framework]
    assert difference(workload, workload.outputs[0], np.asarray(peers[0].output()), want, 4.0) is None


def test_who_is_not_there_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="halide is not installed"):
        require("halide-wheel")
    case = catalogue.get("GMM-small")
    found, notes = peers_for(case, [], 2, ["halide-wheel", "tvm-wheel"])
    assert not found and notes == {"halide-wheel": "halide is not installed", "tvm-wheel": "tvm is not installed"}
