"""The catalogue: names, shapes and operation counts against the paper's table."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from tensorsmith.errors import UserError
from tensorsmith.lang.compare import assert_close, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops, stage_flops
from tensorsmith.ops import catalogue

# MFLOP of the paper's cases at batch 1, in the order of the catalogue, from the evaluation's table.
# It counts the convolution or matmul alone (not the epilogue of ConvLayer, not the softmax of TBS).
# T2D counts the products with the inserted zeros too; by phases there are none: a quarter at stride 2.
# DIL shrinks the result, because the padding is that of the undilated convolution.
MFLOP = {
    "C1D": (6.29, 4.19, 41.94, 50.33),
    "C2D": (236.03, 25.69, 231.21, 231.21),
    "C3D": (13217.56, 411.04, 11098.13, 11098.13),
    "GMM": (4.19, 16.78, 268.44, 2147.48),
    "GRP": (28.90, 6.42, 57.80, 57.80),
    "DIL": (223.55, 25.69, 169.87, 117.96),
    "DEP": (7.23, 3.61, 0.45, 0.90),
    "T2D": (268.44, 268.44, 268.44, 25.17),
    "CAP": (75.50, 75.50, 9.44, 18.87),
    "NRM": (0.13, 0.52, 2.10, 8.39),
    "ConvLayer": (236.03, 115.61, 12.85, 231.21),
    "TBS": (25.17, 33.55, 12.58, 50.33),
}


@pytest.mark.parametrize("batch", [1, 16])
def test_the_papers_cases(batch):
    found = catalogue.cases(batch)
    assert len(found) == 48
    assert {c.operator for c in found.values()} == set(MFLOP) == set(catalogue.OPERATORS)
    for operator, counts in MFLOP.items():
        for number, count in enumerate(counts, 1):
            case = found[f"{operator}-{number}-b{batch}"]
            w = case.workload()
            hot = max(stage_flops(s) for s in w.stages)
            expected = count * batch / (4 if operator == "T2D" else 1)
            assert hot / 1e6 == pytest.approx(expected, abs=0.0051 * batch), case.title
            assert hot <= flops(w) < 1.06 * hot
            assert case.batch == batch
            assert w.inputs[0].shape[0] == batch
            assert len({s.name for s in w.stages}) == len(w.stages)


def test_which_inputs_are_constant():
    for case in catalogue.cases(1).values():
        constant = {b.name for b in case.workload().inputs if b.constant}
        expected = {"GMM": set(), "NRM": set(), "TBS": set(), "ConvLayer": {"weight", "bias", "scale", "shift"}}
        assert constant == expected.get(case.operator, {"weight"})


def test_keys_tell_cases_apart():
    found = catalogue.everything()
    keys = [c.workload().key for c in found.values()]
    assert len(found) == 96 + len(catalogue.memory_bound()) + len(catalogue.small())
    shared = len(keys) - len(set(keys))
    # conv2d 56x56, 1x1 is the same whatever the dilation; norm-4096x1024 is NRM-4
    assert shared == 3


@pytest.mark.parametrize("name", catalogue.small())
def test_small_cases_evaluate(name):
    w = catalogue.get(name).workload()
    inputs = random_inputs(w, 0)
    precise, plain = evaluate(w, inputs, precise=True), evaluate(w, inputs)
    for stage in w.stages:
        assert_close(w, stage.name, plain[stage.name], precise[stage.name])
        assert np.isfinite(precise[stage.name]).all() or "pad" in stage.name
    assert math.prod(w.buffers[w.outputs[0]].shape) < 20_000


def test_memory_bound_cases_have_16_mb_inputs():
    for case in catalogue.memory_bound().values():
        assert case.workload().inputs[0].bytes == 16 << 20


def test_get():
    case = catalogue.get("C2D-3-b16")
    assert case.title == "C2D(16, 14, 14, 256, 256, 3, 1, 1)"
    assert catalogue.get(case.title) == catalogue.get(case.title.replace(" ", "")) == case
    assert [t.shape for t in case.tensors()] == [(16, 14, 14, 256), (3, 3, 256, 256), (16, 14, 14, 256)]
    with pytest.raises(UserError, match=r"no case is called 'C2D-9-b16'; near are .*C2D-\d-b16"):
        catalogue.get("C2D-9-b16")
    with pytest.raises(UserError, match="near are"):
        catalogue.get("")


def test_cases_can_be_sent_to_other_processes():
    for case in catalogue.everything().values():
        assert pickle.loads(pickle.dumps(case)).workload().key == case.workload().key


@pytest.mark.parametrize("name", ["C2D-3-b1", "T2D-1-b1", "GMM-4-b1", "softmax-4096x1024", "DEP-1-b1"])
def test_large_cases_evaluate(name):
    w = catalogue.get(name).workload()
    inputs = random_inputs(w, 1)
    precise, plain = evaluate(w, inputs, precise=True), evaluate(w, inputs)
    for stage in w.stages:
        assert_close(w, stage.name, plain[stage.name], precise[stage.name])
