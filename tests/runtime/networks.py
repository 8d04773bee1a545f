"""Small graphs, and the plainest partition there is: a task for every node, a view for every reshape."""

from __future__ import annotations

import numpy as np

from tensorsmith.assemble import assemble
from tensorsmith.compile import build_best
from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.tasks import Call, Partition, Task
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.runtime.network import NetworkExecutable
from tensorsmith.target import native

RANDOM = np.random.default_rng(3)


def random(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def partition(graph: Graph) -> Partition:
    """Every node a call, so that nothing is fused and every value has to lie somewhere."""
    tasks: dict[str, Task] = {}
    calls, views = [], {}
    for node in graph.nodes:
        if node.operator == "reshape":
            views[node.output.name] = node.inputs[0]
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


def compiled(graph: Graph) -> NetworkExecutable:
    parts = partition(graph)
    built = [build_best(t.workload, [], native(), t.name) for t in parts.tasks]
    return assemble(parts, [b.kernel for b in built], [b.packers for b in built])


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
