"""Large graphs in which values are read again: groups of bounded size, and work that grows with the number of nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.graph.networks import Network, inputs

from tensorsmith import compile as compile_
from tensorsmith import load
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.model import Model
from tensorsmith.graph.passes import optimise
from tensorsmith.graph.tasks import partition
from tensorsmith.lang.expr import walk, written_out
from tensorsmith.program.lower import lower
from tensorsmith.targets.target import native


def doubled(n: int) -> Graph:
    net = Network()
    x = net.input(4, 16)
    for _ in range(n // 2):
        x = net.op("multiply", net.op("add", x, x), net.number(0.5))
    return net.graph(x)


def silu(n: int) -> Graph:
    net = Network()
    x = net.input(4, 16)
    for _ in range(n // 2):
        x = net.op("multiply", x, net.op("sigmoid", x))
    return net.graph(x)


def mesh(n: int) -> Graph:
    """No node but the last is on all ways to the end."""
    net = Network()
    a = b = net.input(4, 16)
    for _ in range(n // 2):
        a, b = net.op("maximum", a, b), net.op("subtract", b, a)
    return net.graph(net.op("add", a, b))


def recurrence(n: int) -> Graph:
    """Steps that each take a row of the input, and give one of the result."""
    net = Network()
    x, w, h = net.input(n // 5, 4, 16), net.constant(16, 16), net.input(4, 16, name="h")
    states = []
    for step in range(n // 5):
        own = net.op("reshape", net.op("slice", x, starts=(step, 0, 0), sizes=(1, 4, 16)), shape=(4, 16))
        h = net.op("tanh", net.op("add", net.op("matmul", h, w), own))
        states.append(h)
    return net.graph(net.op("concat", *states, axis=0))


def far_apart(n: int) -> Graph:
    """Each value is read at once, and some of them again much later."""
    net = Network()
    values = [net.input(4, 16)]
    for k in range(n):
        values.append(net.op("maximum" if k % 3 else "subtract", values[-1], values[max(0, k - k * 7 % 200)]))
    return net.graph(values[-1])


def products(n: int) -> Graph:
    net = Network()
    x = net.input(8, 8)
    for _ in range(n // 3):
        x = net.op("multiply", net.op("tanh", net.op("matmul", x, x)), x)
    return net.graph(x)


GRAPHS = (doubled, silu, mesh, far_apart, products, recurrence)


def right(graph: Graph) -> None:
    given = inputs(graph)
    want = evaluate(graph, given)
    executable = compile_(Model.from_graph(graph))
    results = executable(**given)
    for got, array in zip(results if isinstance(results, tuple) else (results,), want.values()):
        np.testing.assert_allclose(got, array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("n", [20, 200])
def test_results_are_right(make: Callable[[int], Graph], n: int) -> None:
    right(make(n))


@pytest.mark.parametrize("make", GRAPHS)
def test_groups_and_bodies_are_bounded(make: Callable[[int], Graph]) -> None:
    parts = partition(optimise(make(300)))
    for task in parts.tasks:
        assert len(task.workload.stages) <= 48 and len(task.workload.outputs) <= 4
        for stage in task.workload.stages:
            assert written_out(stage.body) <= 1000 and len(list(walk(stage.body))) <= 256


def steps(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def call(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", GRAPHS)
def test_twice_the_nodes_are_twice_the_work(make: Callable[[int], Graph]) -> None:
    partition(optimise(make(100)))  # what is remembered of each operator is there now
    half, whole = make(600), make(1200)
    few, many = steps(lambda: partition(optimise(half))), steps(lambda: partition(optimise(whole)))
    assert many < 2.6 * few
    assert many < 4000 * 1200


@pytest.mark.parametrize("make", GRAPHS)
def test_code_of_a_repeating_graph_does_not_grow(make: Callable[[int], Graph]) -> None:
    def lines(graph: Graph) -> int:
        tasks = partition(optimise(graph)).tasks
        return sum(generate(lower(default_candidate(t.workload, native())), native()).ir.count("\n") for t in tasks)

    assert lines(make(1200)) < 1.5 * lines(make(600))


def test_alike_groups_differ_in_their_numbers() -> None:
    """A constant with one element is a number of the definition, and 0.0 is not -0.0."""
    net = Network()
    x = net.input(2, 4)
    outputs = []
    for number in (0.0, -0.0, 2.0, float("nan")):
        y = net.op("divide", net.op("exp", x), net.number(number))
        outputs.append(net.op("exp", y))
    graph = net.graph(*outputs)
    assert len(partition(graph).tasks) == 4
    given = inputs(graph)
    for got, want in zip(compile_(Model.from_graph(graph))(**given), evaluate(graph, given).values()):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_alike_groups_read_their_own_values() -> None:
    """Equal groups whose operands come in another order, or twice."""
    net = Network()
    a, b, w = net.input(3, 5, name="a"), net.input(3, 5, name="b"), net.constant(3, 5)
    outputs = [net.op("tanh", net.op("subtract", p, q)) for p in (a, b, w) for q in (a, b, w) if not p is q is w]
    outputs += [net.op("tanh", net.op("subtract", net.number(2.0), p)) for p in (a, b)]  # a number is no input
    right(net.graph(*outputs))


def onnx_file(path: Path, kind: str, n: int) -> Path:
    nodes, value = [], "x"
    for k in range(n):
        if kind == "Add":
            nodes.append(helper.make_node("Add", [value, value], [f"v{k}"]))
        else:
            nodes.append(helper.make_node("Sigmoid", [value], [f"s{k}"]))
            nodes.append(helper.make_node("Mul", [value, f"s{k}"], [f"v{k}"]))
        value = f"v{k}"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, 7)) for name in ("x", value))
    graph = helper.make_graph(nodes, "reuse", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("n", [20, 60])
def test_a_file_of_additions(n: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    got = compile_(load(onnx_file(tmp_path / "adds.onnx", "Add", n)))(x)
    np.testing.assert_array_equal(got, x * np.float32(2) ** n)


@pytest.mark.parametrize("n", [16, 64])
def test_a_file_of_silu(n: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 9, (3, 7)).astype(np.float32)
    got = compile_(load(onnx_file(tmp_path / "silu.onnx", "SiLU", n)))(x)
    want = x.astype(np.float64)
    for _ in range(n):
        want = want / (1 + np.exp(-want))
    np.testing.assert_allclose(got, want, rtol=1e-4)
