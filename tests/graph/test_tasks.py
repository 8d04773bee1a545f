"""Fusion and tasks: which nodes are one kernel, that equal ones are one task, and that calls compute what the graph does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.networks import NETWORKS, Network, graphs, inputs

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.graph import tasks
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph, Value
from tensorsmith.graph.passes import optimise
from tensorsmith.graph.tasks import Partition, Task, partition
from tensorsmith.lang import evaluate as reference
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.expr import Load, Var, same
from tensorsmith.ops import conv
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.targets.target import native


def agrees(graph: Graph, parts: Partition) -> None:
    """Asserts that a partition is in order and computes what the graph does."""
    given_inputs = inputs(graph)
    want, have = evaluate(graph, given_inputs), tasks.evaluate(parts, given_inputs)
    assert list(want) == list(have)
    for name, array in want.items():
        assert have[name].shape == array.shape
        np.testing.assert_allclose(have[name], array, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(array).max(initial=0))))
    there = {v.name for v in graph.inputs} | set(graph.constants)
    for call in parts.calls:
        workload = parts.tasks[call.task].workload
        assert {parts.views.get(name, name) for name in call.inputs} <= there
        assert [b.shape for b in workload.inputs] == [graph.values[name].shape for name in call.inputs]
        assert [b.constant for b in workload.inputs] == [name in graph.constants for name in call.inputs]
        assert len(call.outputs) == len(workload.outputs)
        there |= set(call.outputs)
    assert sum(t.weight for t in parts.tasks) == len(parts.calls)
    assert len({t.workload for t in parts.tasks}) == len(parts.tasks)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(14))
def test_a_random_graph_is_computed_by_its_calls(graph: Graph) -> None:
    agrees(graph, partition(graph))


@settings(max_examples=50, deadline=None)
@given(graph=graphs(14))
def test_an_optimised_random_graph_is_computed_by_its_calls(graph: Graph) -> None:
    graph = optimise(graph)
    agrees(graph, partition(graph))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_computed_by_its_calls(name: str) -> None:
    graph = optimise(NETWORKS[name]())
    agrees(graph, partition(graph))


def names(parts: Partition) -> list[tuple[int, str]]:
    return [(t.weight, t.workload.operators) for t in parts.tasks]


def test_the_kernels_of_a_residual_network() -> None:
    found = names(partition(optimise(NETWORKS["residual"]())))
    assert found == [
        (1, "conv+add+relu"),  # the stem
        (1, "max_pool"),
        (2, "conv+add+relu"),
        (1, "conv+add+relu"),
        (1, "conv+add+add+relu"),
        (1, "conv+add+relu"),
        (1, "conv+add"),  # the shortcut, added by the other branch
        (1, "conv+add+add+relu"),
        (1, "global_avg_pool"),
        (1, "matmul+add"),
    ]


def test_the_kernels_of_a_transformer() -> None:
    parts = partition(optimise(NETWORKS["transformer"]()))
    assert names(parts) == [
        (6, "matmul+add"),
        (2, "matmul+multiply+add"),
        (2, "softmax"),
        (2, "matmul+transpose"),
        (2, "matmul+add+add"),
        (4, "normalize+multiply+add"),
        (2, "matmul+add+multiply+erf+add+multiply"),
        (2, "matmul+add+add"),
    ]
    assert all(t.tunable for t in parts.tasks)


# -- single rules -----------------------------------------------------------------------------------------------------


def kernels(n: Network, *outputs: Value) -> list[str]:
    graph = n.graph(*outputs)
    parts = partition(graph)
    agrees(graph, parts)
    return [parts.tasks[c.task].workload.operators for c in parts.calls]


def product(n: Network, x: Value) -> Value:
    return n.op("matmul", x, n.constant(x.shape[-1], 8))


def test_a_diamond_behind_a_product_is_one_kernel() -> None:
    n = Network()
    y = product(n, n.input(4, 8))
    assert kernels(n, n.op("multiply", y, n.op("sigmoid", y))) == ["matmul+sigmoid+multiply"]


def test_a_value_needed_elsewhere_ends_the_kernel() -> None:
    n = Network()
    y = n.op("relu", product(n, n.input(4, 8)))
    assert kernels(n, n.op("exp", y), y) == ["matmul+relu", "exp"]


def test_of_two_products_one_takes_the_sum() -> None:
    n = Network()
    x = n.input(4, 8)
    assert kernels(n, n.op("relu", n.op("add", product(n, x), product(n, x)))) == ["matmul", "matmul+add+relu"]


def test_a_sum_that_is_broadcast_is_no_epilogue() -> None:
    n = Network()
    y = n.op("add", product(n, n.input(1, 8)), n.input(4, 8, name="z"))
    assert kernels(n, y) == ["matmul", "add"]


def test_transposes_are_read_through_and_written_through() -> None:
    n = Network()
    a = n.op("transpose", n.input(4, 2, 8), order=(1, 0, 2))
    b = n.op("transpose", n.input(4, 2, 8, name="z"), order=(1, 2, 0))
    y = n.op("transpose", n.op("matmul", a, b), order=(1, 0, 2))
    graph = n.graph(y)
    parts = partition(graph)
    agrees(graph, parts)
    (task,) = parts.tasks
    assert task.name == f"matmul+transpose {graph.values[graph.outputs[0][1]]}"
    assert len(task.workload.stages) == 3
    assert task.workload.stages[-1].reduction == "sum"  # the product is computed in the order of the result


def test_a_transpose_that_moves_the_last_dimension_is_a_kernel_of_its_own() -> None:
    n = Network()
    assert kernels(n, n.op("transpose", product(n, n.input(4, 8)), order=(1, 0))) == ["matmul", "transpose"]


def test_what_follows_a_grouped_convolution_is_computed_with_its_groups() -> None:
    n = Network()
    y = n.op(
        "conv", n.input(1, 6, 6, 8), n.constant(3, 3, 4, 16), stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=2
    )
    graph = n.graph(n.op("relu", n.op("add", y, n.constant(16))))
    parts = partition(graph)
    agrees(graph, parts)
    (task,) = parts.tasks
    *_, product, epilogue, result = task.workload.stages
    assert product.shape == epilogue.shape == (1, 6, 6, 2, 8)
    (read,) = [x for x in epilogue.reads if x.tensor == product.name]
    assert same(read.indices, tuple(Var(a.name) for a in epilogue.axes))
    assert isinstance(result.body, Load)
    check_code(task)


def test_a_slice_of_padding_reads_padding() -> None:
    n = Network()
    padded = n.op("pad", n.input(1, 4), pairs=((0, 1), (0, 0)), value=2.0)
    assert kernels(n, n.op("slice", padded, starts=(1, 0), sizes=(1, 4))) == ["pad+slice"]


def test_a_movement_for_two_products_is_in_both() -> None:
    n = Network()
    t = n.op("transpose", n.input(8, 4), order=(1, 0))
    assert kernels(n, product(n, t), product(n, t)) == ["matmul", "matmul"]


def test_a_movement_that_something_else_needs_is_made_once() -> None:
    n = Network()
    t = n.op("transpose", n.input(8, 4), order=(1, 0))
    assert kernels(n, product(n, t), t) == ["transpose", "matmul"]


def test_reductions_take_what_is_before_and_behind_them() -> None:
    n = Network()
    x = n.op("add", n.op("multiply", n.input(4, 8), n.number(0.5)), n.input(1, 8, name="mask"))
    assert kernels(n, n.op("relu", n.op("softmax", x, axis=-1))) == ["multiply+add+softmax+relu"]


def test_an_expensive_function_stays_out_of_overlapping_windows() -> None:
    window = {"kernel": (3, 3), "stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    for name, expected in (("exp", ["exp", "max_pool"]), ("relu", ["relu+max_pool"])):
        n = Network()
        assert kernels(n, n.op("max_pool", n.op(name, n.input(1, 4, 4, 2)), **window)) == expected


def test_a_reshape_is_a_view_and_no_call() -> None:
    n = Network()
    y = n.op("reshape", n.op("reshape", product(n, n.input(4, 8)), shape=(32,)), shape=(2, 2, 8))
    graph = n.graph(n.op("softmax", y, axis=-1), y)
    parts = partition(graph)
    agrees(graph, parts)
    assert [parts.tasks[c.task].workload.operators for c in parts.calls] == ["matmul", "softmax"]
    assert set(parts.views.values()) == {parts.calls[0].outputs[0]}


def test_two_values_of_one_cell_are_one_kernel() -> None:
    n = Network()
    gates = [n.input(1, 8, name=name) for name in "ifgo"]
    i, f, o = (n.op("sigmoid", gates[k]) for k in (0, 1, 3))
    cell = n.op("add", n.op("multiply", f, n.input(1, 8, name="c")), n.op("multiply", i, n.op("tanh", gates[2])))
    hidden = n.op("multiply", o, n.op("tanh", cell))
    graph = n.graph(hidden, cell)
    parts = partition(graph)
    agrees(graph, parts)
    assert len(parts.calls) == 1 and len(parts.calls[0].outputs) == 2
    assert not parts.tasks[0].tunable


def test_outputs_that_are_inputs_constants_or_twice_the_same_need_no_call() -> None:
    n = Network()
    x = n.input(2, 3)
    y = n.op("relu", x)
    graph = n.graph(x, y, y, n.constant(3), n.op("reshape", x, shape=(6,)))
    parts = partition(graph)
    agrees(graph, parts)
    assert len(parts.calls) == 1


def test_a_single_number_is_in_the_definition() -> None:
    n = Network()
    parts = partition(n.graph(n.op("multiply", n.input(2, 3), n.number(0.25))))
    assert [b.name for b in parts.tasks[0].workload.inputs] == ["x1"]
    assert "0.25" in str(parts.tasks[0].workload)


def test_the_order_of_operands_and_nodes_does_not_make_another_task() -> None:
    n = Network()
    x, z = n.input(4, 8), n.input(4, 8, name="z")
    a = n.op("add", product(n, x), z)
    later = n.op("relu", z)
    b = n.op("add", later, product(n, a))
    parts = partition(n.graph(b))
    assert [t.workload.operators for t in parts.tasks if t.tunable] == ["matmul+add"]


# -- machine code ------------------------------------------------------------------------------------------------------


def check_code(task: Task) -> None:
    """Builds the default schedule itself: it must not be refused."""
    workload = task.workload
    random = np.random.default_rng(3)
    arrays = {b.name: random.standard_normal(b.shape).astype(np.float32) for b in workload.inputs}
    results = build(default_candidate(workload, native()))(*arrays.values())
    want = reference.evaluate(workload, arrays, precise=True)
    for name, have in zip(workload.outputs, results if isinstance(results, Sequence) else [results]):
        np.testing.assert_allclose(have, want[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_default_schedules_of_a_network_compile_and_agree(name: str) -> None:
    for task in partition(optimise(NETWORKS[name]())).tasks:
        check_code(task)


def test_fused_forms_compile_and_agree() -> None:
    n = Network()
    x = n.input(1, 12, 32)
    added = n.op("add", x, n.input(1, 12, 32, name="z"))
    normal = n.op("normalize", added, axes=(-1,), epsilon=1e-5)
    masked = n.op("softmax", n.op("add", n.op("multiply", added, n.number(0.3)), n.input(1, 1, 32, name="mask")), axis=-1)
    pooled = n.op("global_avg_pool", n.op("relu", n.input(1, 6, 5, 20, name="p")))
    for task in partition(n.graph(normal, masked, pooled)).tasks:
        check_code(task)


def convolutions(*channels_and_sizes: tuple[int, int]) -> list[Task]:
    """Tasks of 3 x 3 convolutions."""
    made = []
    for channels, size in channels_and_sizes:
        x = placeholder((1, size, size, channels), name="x")
        weight = placeholder((3, 3, channels, channels), name="weight", constant=True)
        made.append(Task(workload([x, weight, conv.conv(x, weight, 1, 1, 1, 1, name="conv")]), "conv", 2, True, ()))
    return made


def test_larger_constants_stay_within_a_budget():
    """Many channels of a small image give least for the memory of their transformed weights."""
    found = convolutions((32, 64), (64, 16))
    small, large = (f.growth for t in found for f in formulations(t.workload) if f.name == "winograd-4")
    direct, two, all_three = ["direct"], ["direct", "winograd-2"], ["direct", "winograd-4", "winograd-2"]
    by_budget = {
        2 * (small + large): (all_three, all_three),
        2 * (small + large) - 1: (all_three, two),
        2 * small: (all_three, direct),
        0: (direct, direct),
    }
    for budget, wanted in by_budget.items():
        limited = tasks._affordable(found, budget)
        assert tuple([f.name for f in t.formulations] for t in limited) == wanted, budget


def test_equal_ones_are_given_up_together():
    found = convolutions((64, 16), (64, 16))
    growth = max(f.growth for f in formulations(found[0].workload))
    assert [len(t.formulations) for t in tasks._affordable(found, 4 * growth - 1)] == [2, 2]
