"""Other formulations of a workload compute the same outputs."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build, build_kernel, kernel_alone
from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import compute as compute_tensor
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue, conv, elementwise
from tensorsmith.rewrites.formulations import ALL, DIRECT, allowed, chosen, formulations, likely
from tensorsmith.runtime.executable import executable
from tensorsmith.targets.target import native


def conv_layer(shape, weight_shape, padding=1, stride=1, dilation=1, groups=1, epilogue=True, constant=True):
    x = placeholder(shape, name="x")
    weight = placeholder(weight_shape, name="weight", constant=constant)
    y = conv.conv(x, weight, stride, padding, dilation, groups, name="conv")
    if not epilogue:
        return workload([x, weight, y])
    bias = placeholder(y.shape[-1:], name="bias", constant=True)
    other = placeholder(y.shape, name="other")
    total = elementwise.add(elementwise.bias_add(y, bias), other)
    return workload([x, weight, bias, other, elementwise.relu(total)])


SAME = {
    "square": conv_layer((1, 16, 16, 16), (3, 3, 16, 12)),
    "hanging over": conv_layer((2, 9, 13, 17), (3, 3, 17, 8)),
    "not padded": conv_layer((1, 16, 15, 16), (3, 3, 16, 4), padding=0),
    "uneven padding": conv_layer((1, 13, 14, 16), (3, 3, 16, 4), padding=((0, 2), (1, 0))),
    "output": conv_layer((1, 12, 16, 16), (3, 3, 16, 8), epilogue=False),
    "three dimensions": conv_layer((1, 4, 8, 9, 16), (3, 3, 3, 16, 8)),
    "deep kernel": conv_layer((1, 6, 8, 8, 16), (5, 3, 3, 16, 8), padding=((2, 2), (1, 1), (1, 1))),
}


@pytest.mark.parametrize("name", SAME)
def test_all_give_the_same(name):
    original = SAME[name]
    found = formulations(original)
    assert [f.name for f in found] == [DIRECT, "winograd-4", "winograd-2"]
    assert found[0].workload is original
    inputs = random_inputs(original, 1)
    (output,) = original.outputs
    want = evaluate(original, inputs, precise=True)[output]
    for f in found[1:]:
        changed = {n: f.transforms[n](a) if n in f.transforms else a for n, a in inputs.items()}
        assert [(b.name, b.shape) for b in f.workload.inputs] == [(n, a.shape) for n, a in changed.items()]
        got = evaluate(f.workload, changed, precise=True)[output]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
        run = build(default_candidate(f.workload, native()))(*changed.values())
        np.testing.assert_allclose(run, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_a_kernel_of_another_formulation_takes_the_original_inputs():
    original = SAME["square"]
    inputs = random_inputs(original, 1)
    want = evaluate(original, inputs, precise=True)[original.outputs[0]]
    for f in formulations(original):
        kernel = executable(kernel_alone(original, build_kernel(default_candidate(f.workload, native()), native(), formulation=f)))
        assert [(a.name, a.shape) for a in kernel.inputs] == [(b.name, b.shape) for b in original.inputs]
        for run in (kernel, kernel.bind(weight=inputs["weight"])):
            got = run(**{a.name: inputs[a.name] for a in run.inputs})
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_without_records_many_tiles_are_transformed():
    assert likely(conv_layer((1, 16, 16, 16), (3, 3, 16, 12))).name == "winograd-4"
    assert likely(conv_layer((1, 8, 8, 16), (3, 3, 16, 12))).name == DIRECT  # too few tiles of 4
    assert likely(conv_layer((1, 4, 4, 16), (3, 3, 16, 12))).name == DIRECT
    assert "conv_gemm" in compile(conv_layer((1, 16, 16, 16), (3, 3, 16, 12))).program


def test_how_much_constants_grow():
    direct, four, two = formulations(SAME["square"])
    plain = 3 * 3 * 16 * 12 * 4
    assert (direct.growth, four.growth, two.growth) == (0, plain * 36 // 9 - plain, plain * 16 // 9 - plain)
    assert likely(SAME["square"], [direct, two]) is two
    assert likely(SAME["square"], [direct]) is direct


def test_what_only_places_tiles_is_no_stage_of_its_own():
    for name in ("square", "hanging over"):
        assert all("conv" not in f.workload.buffers for f in formulations(SAME[name])[1:])
    assert all(f.workload.is_stage("conv") for f in formulations(SAME["output"]))


@pytest.mark.parametrize(
    "original",
    [
        conv_layer((1, 8, 8, 16), (3, 3, 16, 12), stride=2),
        conv_layer((1, 8, 8, 16), (3, 3, 16, 12), dilation=2),
        conv_layer((1, 8, 8, 32), (3, 3, 16, 12), groups=2),
        conv_layer((1, 8, 8, 16), (5, 5, 16, 12)),
        conv_layer((1, 8, 8, 4), (3, 3, 4, 12)),
        conv_layer((1, 8, 8, 16), (3, 3, 16, 12), constant=False),
        conv_layer((1, 2, 2, 16), (3, 3, 16, 12)),
        catalogue.small()["GMM-small"].workload(),
    ],
    ids=["stride", "dilation", "groups", "5x5", "few channels", "weight not constant", "one tile", "matmul"],
)
def test_what_has_none(original):
    assert [f.name for f in formulations(original)] == [DIRECT]


@pytest.mark.parametrize(
    "which, names",
    [
        (ALL, ["direct", "winograd-4", "winograd-2"]),
        ("direct", ["direct"]),
        ("winograd-2", ["direct", "winograd-2"]),
        ("winograd-2, winograd-4", ["direct", "winograd-4", "winograd-2"]),
    ],
)
def test_only_what_is_allowed(which, names):
    found = allowed(SAME["square"], which)
    assert [f.name for f in found] == names
    assert chosen(formulations(SAME["square"]), which) == found
    assert likely(SAME["square"], found).name == (names[1] if len(names) > 1 else DIRECT)


def test_names_do_not_matter():
    """The same convolution by someone who calls everything otherwise has the same formulations, and so the same records."""
    original = SAME["square"]
    other = original.with_names(
        [f"n{n}" for n in range(len(original.buffers))], [[f"a{n}" for n in range(len(s.all_axes))] for s in original.stages]
    )
    assert [(f.name, f.workload.canonical_key) for f in formulations(other)] == [
        (f.name, f.workload.canonical_key) for f in formulations(original)
    ]


def test_a_formulation_that_is_not_there():
    with pytest.raises(UserError, match="no formulation 'winograd-6'; known are all, direct, winograd-4, winograd-2"):
        allowed(SAME["square"], "direct,winograd-6")


def test_names_that_are_taken_are_left_alone():
    x = placeholder((1, 14, 14, 16), name="x")
    weight = placeholder((3, 3, 16, 16), name="weight", constant=True)
    doubled = compute_tensor((1, 14, 14, 16), lambda n, h, w, c: 2 * x[n, h, w, c], name="conv_rows")
    original = workload([x, weight, conv.conv(doubled, weight, 1, 1, 1, 1, name="conv")])
    direct, *others = formulations(original)
    assert direct.workload == original
    assert others
    assert all("conv_rows" in f.workload.buffers and "conv_winograd_rows" in f.workload.buffers for f in others)
