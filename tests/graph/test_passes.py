"""Every pass keeps what a graph computes, and does what it is there for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.networks import NETWORKS, TO_FIRST, TO_LAST, Network, graphs, inputs

from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.passes import PASSES, algebra, layout, normalisation, optimise, reshape, scale

Pass = Callable[[Graph], Graph]


def same(before: Graph, after: Graph) -> None:
    """Asserts that both graphs compute the same, up to the rounding of another order of operations."""
    given_inputs = inputs(before)
    want, have = evaluate(before, given_inputs), evaluate(after, given_inputs)
    assert list(want) == list(have)
    for name, array in want.items():
        assert have[name].shape == array.shape and have[name].dtype == array.dtype
        scale_of = max(1.0, float(np.abs(array[np.isfinite(array)]).max(initial=0)))
        np.testing.assert_allclose(have[name], array, rtol=1e-4, atol=1e-5 * scale_of)


def operators(graph: Graph) -> list[str]:
    return [node.operator for node in graph.nodes]


@pytest.mark.parametrize("run", PASSES, ids=lambda f: f.__module__.rpartition(".")[2])
@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_a_pass_keeps_what_a_random_graph_computes(run: Pass, graph: Graph) -> None:
    same(graph, run(graph))


@settings(max_examples=80, deadline=None)
@given(graph=graphs(16))
def test_all_passes_keep_what_a_random_graph_computes(graph: Graph) -> None:
    same(graph, optimise(graph))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_the_same(name: str) -> None:
    graph = NETWORKS[name]()
    same(graph, optimise(graph))


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_optimising_again_changes_nothing(graph: Graph) -> None:
    once = optimise(graph)
    assert operators(optimise(once)) == operators(once)


@pytest.mark.parametrize(("name", "left"), [("residual", 1), ("mobile", 2), ("patches", 2)])
def test_transposes_are_left_at_inputs_and_outputs_only(name: str, left: int) -> None:
    graph = optimise(NETWORKS[name]())
    ends = {v.name for v in graph.inputs} | graph.returned
    turns = [n for n in graph.nodes if n.operator == "transpose"]
    assert len(turns) == left
    assert all(n.inputs[0] in ends or n.output.name in ends for n in turns)


@pytest.mark.parametrize("name", ["residual", "mobile"])
def test_batch_norm_disappears(name: str) -> None:
    found = operators(optimise(NETWORKS[name]()))
    kept = {"residual": 0, "mobile": 2}[name]  # the excitation, and x * sigmoid(x)
    assert found.count("multiply") == kept


def test_layer_norm_is_recognised() -> None:
    found = operators(optimise(NETWORKS["transformer"]()))
    assert found.count("normalize") == 4
    assert not {"sqrt", "reduce_mean", "power", "divide"} & set(found)


# -- layout -----------------------------------------------------------------------------------------------------------


def test_a_lower_rank_operand_moves_with_the_transpose() -> None:
    n = Network()
    x = n.op("transpose", n.input(2, 4, 5, 3), order=TO_FIRST)
    y = n.op("transpose", n.op("multiply", n.constant(3, 1, 1), n.op("add", x, n.constant(4, 5))), order=TO_LAST)
    graph = n.graph(y)
    after = layout.run(graph)
    assert operators(after) == ["add", "multiply"]
    assert {after.values[m.inputs[k]].shape for m in after.nodes for k in (0, 1)} == {(2, 4, 5, 3), (3,), (4, 5, 1)}
    same(graph, after)


def test_an_operand_that_would_have_to_be_transposed_keeps_the_transpose_where_it_is() -> None:
    n = Network()
    graph = n.graph(n.op("add", n.op("transpose", n.input(1, 4, 5, 3), order=TO_FIRST), n.input(1, 3, 4, 5, name="z")))
    assert operators(layout.run(graph)) == ["transpose", "add"]


def test_two_transposes_into_one_sum_become_one_behind_it() -> None:
    n = Network()
    a, b = (n.op("transpose", n.input(1, 4, 5, 3, name=name), order=TO_FIRST) for name in "ab")
    graph = n.graph(n.op("add", a, b))
    assert operators(layout.run(graph)) == ["add", "transpose"]


def test_moving_dimensions_of_extent_one_is_a_reshape() -> None:
    n = Network()
    graph = n.graph(n.op("transpose", n.input(1, 1, 1, 7), order=TO_FIRST))
    assert operators(layout.run(graph)) == ["reshape"]


@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_take_the_dimensions_they_reduce_along(keepdims: bool) -> None:
    n = Network()
    x = n.op("transpose", n.input(2, 4, 5, 3), order=TO_FIRST)
    graph = n.graph(n.op("reduce_sum", x, axes=(1, 3), keepdims=keepdims), n.op("reduce_max", x, axes=(-1,), keepdims=keepdims))
    after = layout.run(graph)
    assert [m.attributes["axes"] for m in after.nodes if m.operator.startswith("reduce")] == [(2, 3), (2,)]
    same(graph, after)


def test_what_prepares_an_input_gets_behind_its_transpose_and_into_the_convolution() -> None:
    n = Network()
    x = n.op("pad", n.op("divide", n.input(1, 3, 8, 8), n.number(255)), pairs=((0, 0), (0, 0), (0, 1), (0, 1)))
    graph = n.graph(n.conv(x, 4))
    after = optimise(graph)
    assert operators(after) == ["transpose", "conv", "transpose"]
    same(graph, after)


def test_a_shuffle_of_channels_takes_one_transpose() -> None:
    n = Network()
    y = n.op("reshape", n.conv(n.input(1, 8, 5, 5), 8), shape=(1, 2, 4, 5, 5))
    y = n.op("reshape", n.op("transpose", y, order=(0, 2, 1, 3, 4)), shape=(1, 8, 5, 5))
    graph = n.graph(n.conv(y, 8))
    after = optimise(graph)
    assert [o for o in operators(after) if o != "reshape"] == ["transpose", "conv", "transpose", "conv", "transpose"]
    same(graph, after)


def test_softmax_along_rows_keeps_its_rows() -> None:
    n = Network()
    graph = n.graph(n.op("softmax", n.op("transpose", n.input(4, 5), order=(1, 0)), axis=-1))
    assert operators(layout.run(graph)) == ["transpose", "softmax"]


# -- scale, algebra, reshape -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_scaling_before_and_behind_a_convolution_goes_into_its_weights(groups: int) -> None:
    n = Network()
    x = n.op("add", n.op("multiply", n.input(1, 8, 5, 5), n.constant(8, 1, 1)), n.constant(8, 1, 1))
    graph = n.graph(n.batch_norm(n.conv(x, 8 if groups == 8 else 16, groups=groups)))
    after = optimise(graph)
    assert [o for o in operators(after) if o != "transpose"] == ["depthwise_conv" if groups == 8 else "conv", "add"]
    same(graph, after)


def test_an_addition_before_a_padded_convolution_stays() -> None:
    n = Network()
    graph = n.graph(n.conv(n.op("add", n.input(1, 4, 5, 5), n.constant(4, 1, 1)), 4, 3))
    after = optimise(graph)
    assert [o for o in operators(after) if o != "transpose"] == ["add", "conv"]
    same(graph, after)


def test_weights_stay_where_the_unscaled_result_is_needed_too() -> None:
    n = Network()
    y = n.conv(n.input(1, 4, 5, 5), 4)
    graph = n.graph(n.batch_norm(y), y)
    after = optimise(graph)
    assert operators(after).count("multiply") == 1
    same(graph, after)


def test_a_transposed_convolution_is_scaled() -> None:
    n = Network()
    x = n.input(1, 4, 4, 6)
    attributes = {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "output_padding": (0, 0)}
    y = n.op("transposed_conv", x, n.constant(2, 2, 6, 5), **attributes)
    graph = n.graph(n.op("multiply", y, n.constant(5)))
    after = scale.run(graph)
    assert operators(after) == ["transposed_conv"]
    same(graph, after)


def test_the_scale_of_attention_reaches_the_weights_of_the_projection() -> None:
    n = Network()
    q = n.op("transpose", n.op("reshape", n.dense(n.input(6, 8), 8), shape=(6, 2, 4)), order=(1, 0, 2))
    graph = n.graph(n.op("multiply", q, n.number(0.5)))
    after = scale.run(graph)
    assert "multiply" not in operators(after)
    same(graph, after)


def test_a_number_before_a_matmul_gets_behind_it() -> None:
    n = Network()
    q = n.op("transpose", n.op("slice", n.op("multiply", n.input(6, 4), n.number(0.5)), starts=(0, 0), sizes=(5, 4)), order=(1, 0))
    graph = n.graph(n.op("matmul", n.input(3, 4, name="z"), q))
    after = scale.run(graph)
    assert operators(after) == ["slice", "transpose", "matmul", "multiply"]
    same(graph, after)


def test_nodes_that_do_nothing_go() -> None:
    n = Network()
    x = n.input(2, 3)
    y = n.op("add", n.op("multiply", n.number(1), x), n.number(0))
    y = n.op("slice", n.op("cast", y, to="f32"), starts=(0, 0), sizes=(2, 3))
    y = n.op("relu", n.op("relu", n.op("power", n.op("pad", y, pairs=((0, 0), (0, 0))), n.number(1))))
    assert operators(algebra.run(n.graph(y))) == ["relu"]


def test_zero_that_makes_the_result_larger_is_no_zero() -> None:
    n = Network()
    graph = n.graph(n.op("add", n.input(3), n.builder.constant(np.zeros((2, 3), np.float32))))
    assert operators(algebra.run(graph)) == ["add"]


def test_division_by_zero_stays_a_division() -> None:
    n = Network()
    graph = n.graph(n.op("divide", n.input(2), n.builder.constant(np.array([2, 0], np.float32))))
    assert operators(algebra.run(graph)) == ["divide"]


def test_rms_norm_is_a_normalisation_without_centre() -> None:
    n = Network()
    x = n.input(4, 8)
    mean = n.op("reduce_mean", n.op("multiply", x, x), axes=(1,), keepdims=True)
    y = n.op("multiply", x, n.op("reciprocal", n.op("sqrt", n.op("add", mean, n.number(1e-6)))))
    graph = n.graph(y)
    after = normalisation.run(graph)
    assert [(m.operator, m.attributes["centre"]) for m in after.nodes] == [("normalize", False)]
    same(graph, after)


def test_a_mean_along_other_dimensions_is_no_normalisation() -> None:
    n = Network()
    x = n.input(4, 8)
    off = n.op("subtract", x, n.op("reduce_mean", x, axes=(0,), keepdims=True))
    variance = n.op("reduce_mean", n.op("square", off), axes=(1,), keepdims=True)
    graph = n.graph(n.op("divide", off, n.op("sqrt", n.op("add", variance, n.number(1e-5)))))
    after = normalisation.run(graph)
    assert [m.attributes.get("centre") for m in after.nodes if m.operator == "normalize"] == [False]  # of what is left of x
    same(graph, after)


def test_reshapes_sink_below_what_follows_a_product() -> None:
    n = Network()
    x = n.input(1, 6, 8)
    graph = n.graph(n.op("relu", n.op("add", n.dense(x, 8), x)))
    after = reshape.run(graph)
    assert operators(after) == ["reshape", "matmul", "add", "add", "relu", "reshape"]
    same(graph, after)
