"""Fusion and tasks: which nodes are one kernel, that equal ones are one task, and that calls compute what the graph does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.networks import NETWORKS, Network, graphs, inputs

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.build import build
from tensorsmith.compile import compile as compile_model
from tensorsmith.graph import tasks
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph, Value
from tensorsmith.graph.memory import View
from tensorsmith.graph.model import Model
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
    written = {name for call in parts.calls for name in call.outputs}

    def writers(name: str) -> set[str]:
        """What must be there before a value can be read: what calls write of the memory that it shows."""
        if name in written or name not in parts.views:
            return {name} if name in written or name in there else pieces(name, 0, graph.values[name].bytes)
        view = parts.views[name]
        if view.base in written or view.base in there:
            return {view.base}
        return pieces(view.base, view.offset, view.offset + graph.values[name].bytes)

    def pieces(base: str, start: int, end: int) -> set[str]:
        own = {n: v.offset for n, v in parts.views.items() if v.base == base and n in written}
        found = {n for n, at in own.items() if at < end and start < at + graph.values[n].bytes}
        assert sum(graph.values[n].bytes for n in own) == graph.values[base].bytes
        return found

    for call in parts.calls:
        workload = parts.tasks[call.task].workload
        assert {name for read in call.inputs for name in writers(read)} <= there
        assert [b.bytes for b in workload.inputs] == [graph.values[name].bytes for name in call.inputs]
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
    assert set(parts.views.values()) == {View(parts.calls[0].outputs[0])}


def test_a_slice_that_is_one_piece_of_memory_is_a_view_and_no_call() -> None:
    n = Network()
    y = product(n, n.input(4, 8))
    upper, odd = n.op("slice", y, starts=(2, 0), sizes=(2, 8)), n.op("slice", y, starts=(1, 0), sizes=(2, 8), steps=(2, 1))
    left = n.op("slice", y, starts=(0, 0), sizes=(4, 4))
    graph = n.graph(n.op("softmax", upper, axis=-1), n.op("softmax", left, axis=-1), n.op("softmax", odd, axis=-1))
    parts = partition(graph)
    agrees(graph, parts)
    product_, *softmaxes = parts.calls
    assert parts.views == {upper.name: View(product_.outputs[0], 2 * 8 * 4)}
    assert sorted(c.inputs for c in softmaxes) == sorted([(upper.name,), product_.outputs, product_.outputs])
    assert graph.values[upper.name].shape == (2, 8)


def test_a_slice_of_what_is_computed_on_the_way_is_read_through() -> None:
    """It would be written to memory for the slice's sake alone."""
    n = Network()
    x = n.op("relu", n.input(4, 8))
    assert kernels(n, n.op("tanh", n.op("slice", x, starts=(2, 0), sizes=(2, 8)))) == ["relu+slice+tanh"]


def test_products_write_straight_to_their_part_of_a_concat() -> None:
    n = Network()
    parts_of = [product(n, n.input(k, 8, name=f"x{k}")) for k in (2, 3)]
    joined = n.op("concat", *parts_of, axis=0)
    graph = n.graph(n.op("softmax", joined, axis=-1), n.op("relu", parts_of[1]))
    parts = partition(graph)
    agrees(graph, parts)
    assert sorted(parts.tasks[c.task].workload.operators for c in parts.calls) == ["matmul", "matmul", "relu", "softmax"]
    assert parts.views == {parts_of[0].name: View(joined.name), parts_of[1].name: View(joined.name, 2 * 8 * 4)}


def test_a_part_that_cannot_lie_in_the_concat_takes_a_kernel() -> None:
    """An input, a constant, a value that is in it twice, and one that lies in another concat."""
    for other in ("input", "constant", "itself", "taken"):
        n = Network()
        y = product(n, n.input(2, 8))
        more = {"input": n.input(2, 8, name="z"), "constant": n.constant(2, 8), "itself": y, "taken": y}[other]
        outputs = [n.op("concat", y, product(n, y), axis=0)] if other == "taken" else []
        joined = n.op("concat", more, y if other == "itself" else product(n, n.op("relu", y)), axis=0)
        graph = n.graph(*outputs, joined)
        parts = partition(graph)
        agrees(graph, parts)
        assert sum("concat" in parts.tasks[c.task].workload.operators for c in parts.calls) == 1


def unrolled(steps: int, batch: int, axis: int, count: bool = False) -> Graph:
    """h = tanh(x[.., step] @ u + h @ w), all states along an axis; if they `count`, weighed by the number of the step."""
    n = Network()
    x = n.input(*(steps, batch, 4) if axis == 0 else (batch, steps, 4))
    u, w, h = n.constant(4, 8), n.constant(8, 8), n.input(batch, 8, name="h")
    states = []
    for step in range(steps):
        starts, sizes = ((step, 0, 0), (1, batch, 4)) if axis == 0 else ((0, step, 0), (batch, 1, 4))
        own = n.op("reshape", n.op("slice", x, starts=starts, sizes=sizes), shape=(batch, 4))
        h = n.op("tanh", n.op("add", n.op("matmul", own, u), n.op("matmul", h, w)))
        h = n.op("multiply", h, n.number(1 + step / 100)) if count else h
        states.append(n.op("reshape", h, shape=(1, batch, 8) if axis == 0 else (batch, 1, 8)))
    return n.graph(n.op("concat", *states, axis=axis), h)


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(("batch", "axis"), [(1, 0), (3, 0), (1, 1), (3, 1)])
def test_steps_of_a_loop_are_calls_of_the_same_kernels(batch: int, axis: int, count: bool) -> None:
    """However many steps there are, along whichever axis, and if they count."""
    found = []
    for steps in (20, 40):
        graph = optimise(unrolled(steps, batch, axis, count))
        parts = partition(graph)
        agrees(graph, parts)
        found.append({t.workload for t in parts.tasks})
        assert len(parts.tasks) <= 5 and not any("concat" in t.workload.operators for t in parts.tasks)
    steps_of = [{w for w in tasks_ if w.buffers[w.outputs[0]].shape == (batch, 8)} for tasks_ in found]
    assert steps_of[0] == steps_of[1]


def test_the_state_before_the_first_step_is_copied_with_all_others() -> None:
    """What collects the state that each step begins with has a part that no step writes."""
    for first in ("input", "constant"):
        n = Network()
        x, w = n.input(4, 8), n.constant(8, 8)
        states = [x if first == "input" else n.constant(4, 8)]
        x = n.op("matmul", x, w)
        for _ in range(30):
            states.append(x)
            x = n.op("tanh", n.op("matmul", x, w))
        graph = optimise(n.graph(n.op("concat", *states, axis=0), x))
        parts = partition(graph)
        agrees(graph, parts)
        assert len(parts.tasks) <= 3
        assert [
            len(parts.tasks[c.task].workload.inputs) for c in parts.calls if "concat" in parts.tasks[c.task].workload.operators
        ] == [2]


def test_few_numbers_are_in_the_definitions() -> None:
    """A product with a number is faster than one with a value that is read; only where many differ is a kernel each too dear."""
    for count, tasks_ in ((4, 4), (40, 1)):
        n = Network()
        x = n.input(4, 8)
        graph = n.graph(*(n.op("softmax", n.op("multiply", x, n.number(1.5 + k)), axis=-1) for k in range(count)))
        parts = partition(graph)
        agrees(graph, parts)
        assert len(parts.tasks) == tasks_


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


@pytest.mark.parametrize("small", [False, True])
def test_bytes_that_are_stored_as_pairs_count(small, monkeypatch):
    """A machine that multiplies pairs of i16 stores a weight of bytes in twice their number; if it is small, it stays bytes."""
    b, rng = Builder("mixed"), np.random.default_rng(0)
    image, row = b.input("image", (1, 16, 16, 64), "f32"), b.input("row", (4, 256), "u8")
    weight = b.constant(rng.integers(-50, 50, (256, 128)).astype(np.int8), "weight")
    window = b.constant(rng.standard_normal((3, 3, 64, 64)).astype(np.float32), "window")
    product = b.add("integer_matmul", [row, weight], small_weight=small)
    b.output("products", product)
    b.output("windows", b.add("conv", [image, window], stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1)))
    graph = b.graph()
    (growth,) = {f.growth for t in partition(graph).tasks for f in formulations(t.workload) if f.name == "winograd-4"}

    def offered(budget: int, pairs: bool) -> bool:
        monkeypatch.setattr(tasks, "_LEAST_GROWTH", budget)
        return any(f.name == "winograd-4" for t in partition(graph, pairs).tasks for f in t.formulations)

    more = 0 if small else 256 * 128
    assert offered(growth, False) and not offered(growth - 1, False)
    assert offered(growth + more, True) and not offered(growth + more - 1, True)


def test_outputs_that_are_pieces_of_one_value_last_until_they_are_copied() -> None:
    """The keys and values that a step of a language model gives are pieces of one product, which nobody reads later."""
    b = Builder("pieces")
    x, value = b.input("x", (1, 8), "f32"), None
    for n in range(4):
        value = b.add("matmul", [x if value is None else value, b.constant(np.full((8, 24), 0.1 * (n + 1), "f4"), f"w{n}")])
        parts = [b.add("slice", [value], starts=(0, 8 * k), sizes=(1, 8)) for k in range(3)]
        for k in (1, 2):
            b.output(f"y{n}{k}", b.add("reshape", [parts[k]], shape=(8,)))
        value = b.add("relu", [b.add("add", [parts[0], x])])
    model = Model.from_graph(b.graph())
    row = np.arange(8, dtype="f4").reshape(1, 8) / 8
    for got, want in zip(compile_model(model)(row), model.evaluate([row]).values()):
        np.testing.assert_allclose(got, want, rtol=1e-5)
