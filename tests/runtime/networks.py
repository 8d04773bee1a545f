"""Small graphs, and the plainest partition there is: a task for every node, a view for every reshape."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tensorsmith.build import build_best
from tensorsmith.graph import operators
from tensorsmith.graph.assemble import assemble
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.memory import View
from tensorsmith.graph.tasks import Call, Partition, Task
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.targets.target import native

RANDOM = np.random.default_rng(3)


def random(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def partition(graph: Graph) -> Partition:
    """Every node a call, so that nothing is fused and every value has to lie somewhere."""
    tasks: dict[str, Task] = {}
    calls, views = [], {}
    for node in graph.nodes:
        if node.operator == "reshape":
            views[node.output.name] = View(node.inputs[0])
            continue
        tensors = [
            placeholder(graph.values[v].shape, graph.values[v].dtype, name=f"in{n}", constant=v in graph.constants)
            for n, v in enumerate(node.inputs)
        ]
        made = operators.define(node.operator, tensors, node.attributes)
        w = workload([*tensors, *made])
        tasks.setdefault(w.key, Task(w, node.operator, 1, True, ()))
        calls.append(Call(list(tasks).index(w.key), node.inputs, tuple(v.name for v in node.outputs)))
    return Partition(graph, tuple(tasks.values()), tuple(calls), views)


def compiled(graph: Graph) -> Executable:
    parts = partition(graph)
    return executable(assemble(parts, [build_best(t.workload, [], native(), t.name) for t in parts.tasks], native()))


def perceptron() -> Graph:
    """Two dense layers, a residual, a reshape, and outputs of every kind."""
    b = Builder("perceptron")
    x = b.input("x", (4, 24), "f32")
    w1, w2 = (b.constant(random(24, 24), name) for name in ("w1", "w2"))
    again = b.constant(b.known(w1).copy(), "again")  # equal weights are kept once
    h = b.add("relu", [b.add("matmul", [x, w1])])
    h = b.add("relu", [b.add("matmul", [h, w2])])
    s = b.add("add", [h, b.add("matmul", [x, again])])
    flat = b.add("reshape", [b.add("tanh", [s])], shape=(2, 48))
    y = b.add("multiply", [b.add("sigmoid", [flat]), flat])
    b.output("y", y)
    b.output("y again", y)
    b.output("flat", flat)
    b.output("x itself", x)
    b.output("weights", b.add("reshape", [w2], shape=(576,)))
    return b.graph()


OPERATORS = ["relu", "tanh", "sigmoid", "add", "multiply", "subtract", "transpose", "reshape", "matmul"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random networks on 6x6 matrices: chains, branches, views, dead ends, outputs anywhere."""
    b = Builder("random")
    weights = np.random.default_rng(0).uniform(-0.3, 0.3, (6, 6)).astype(np.float32)
    values = [b.input("x", (6, 6), "f32"), b.input("y", (6, 6), "f32"), b.constant(weights, "w")]
    for _ in range(draw(st.integers(1, 10))):
        operator = draw(st.sampled_from(OPERATORS))
        pick = st.sampled_from(values[-4:] if draw(st.booleans()) else values)
        if operator in ("relu", "tanh", "sigmoid"):
            value = b.add(operator, [draw(pick)])
        elif operator == "transpose":
            value = b.add(operator, [draw(pick)], order=(1, 0))
        elif operator == "reshape":
            flat = b.add("reshape", [draw(pick)], shape=(36,))
            value = b.add("reshape", [b.add("tanh", [flat]) if draw(st.booleans()) else flat], shape=(6, 6))
        else:
            value = b.add(operator, [draw(pick), draw(pick)])
            value = b.add("tanh", [value])
        values.append(value)
    for n in range(draw(st.integers(1, 3))):
        b.output(f"out{n}", draw(st.sampled_from(values)))
    return b.graph()
