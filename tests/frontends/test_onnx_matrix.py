"""MatMul and Gemm against ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.frontends.onnx_nodes import check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 6, 3, 4), (4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((2, 6, 3, 4), (1, 1, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((1, 3, 4), (2, 1, 4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((4,), (2, 4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4,)),
        ((1, 4), (4, 1)),
    ],
)
def test_matmul(left, right, constants):
    check("MatMul", [random(*left), random(*right, seed=1)], constants=constants)


def test_one_matrix_on_the_right_is_one_product_of_all_rows():
    graph = check("MatMul", [random(2, 6, 3, 4), random(4, 5, seed=1)], constants=(1,))
    assert kinds(graph) == ["reshape", "matmul", "reshape"]
    (node,) = [n for n in graph.nodes if n.operator == "matmul"]
    assert node.output.shape == (36, 5)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_other_types(kind):
    a, b = (np.random.default_rng(n).integers(-50, 50, (4, 4)).astype(kind) for n in (0, 1))
    check("MatMul", [a, b])


@pytest.mark.parametrize(("trans_a", "trans_b", "alpha", "beta"), list(itertools.product((0, 1), (0, 1), (1.0, 0.5), (1.0, 0.25))))
@pytest.mark.parametrize("constants", [(), (1, 2)])
def test_gemm(trans_a, trans_b, alpha, beta, constants):
    a, b = random(*((4, 3) if trans_a else (3, 4))), random(*((5, 4) if trans_b else (4, 5)), seed=1)
    options = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta, "constants": constants}
    for shape in [(5,), (1, 5), (3, 1), (3, 5), (1,), ()]:
        check("Gemm", [a, b, random(*shape, seed=2)], **options)
    check("Gemm", [a, b], **options)


def test_factors_and_transposes_of_constants_are_done_when_the_model_is_read():
    graph = check("Gemm", [random(3, 4), random(5, 4), random(5)], constants=(1, 2), transB=1, alpha=0.5, beta=2.0)
    assert kinds(graph) == ["matmul", "add"]
    assert not graph.nodes[0].attributes["transpose_b"]


def test_generated_code():
    check("MatMul", [random(2, 7, 19), random(19, 33, seed=1)], constants=(1,), compiled=True)
    check("MatMul", [random(2, 3, 7, 19), random(2, 3, 19, 9, seed=1)], compiled=True)
    check("Gemm", [random(1, 19), random(33, 19, seed=1), random(33)], transB=1, compiled=True)


def test_refusals():
    for arrays, message in [
        ([random(3, 4), random(5, 6)], "must agree in the depth"),
        ([random(), random(5, 6)], "numbers are no matrices"),
    ]:
        model, _ = model_of("MatMul", arrays)
        with pytest.raises(UserError, match=message):
            load_onnx(model)
    whole = np.ones((2, 2), np.int32)
    model, _ = model_of("Gemm", [whole, whole], alpha=0.5)
    with pytest.raises(UserError, match="must be 1 for i32"):
        load_onnx(model)
