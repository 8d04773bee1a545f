"""One-node ONNX models: imported, evaluated, and compared with a peer."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tensorsmith.compile import compile as build
from tensorsmith.frontends.onnx.importer import load_onnx
from tensorsmith.graph import operators
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph
from tensorsmith.lang.define import placeholder


def model_of(kind, arrays, outputs=1, opset=18, constants=(), **attributes):
    """A model of one node. None among the arrays is an input left out; those numbered in `constants` are initializers."""
    names = [f"x{n}" if a is not None else "" for n, a in enumerate(arrays)]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(kind, names, results, name="node", **attributes)
    given = {n: (name, a) for n, (name, a) in enumerate(zip(names, arrays)) if a is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, (name, a) in given.items()
        if n not in constants
    ]
    graph = helper.make_graph(
        [node],
        "one",
        inputs,
        [helper.make_empty_tensor_value_info(r) for r in results],
        [numpy_helper.from_array(a, name) for n, (name, a) in given.items() if n in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, {name: a for n, (name, a) in given.items() if n not in constants}


def by_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def by_reference(model, inputs):
    return ReferenceEvaluator(model).run(None, inputs)


def check(kind, arrays, peer=by_onnxruntime, compiled=False, rtol=1e-4, atol=1e-5, **options):
    """Imports a one-node model, compares its outputs with a peer's, and gives its graph.

    With `compiled`, the code generated for each node is run too.
    """
    model, inputs = model_of(kind, arrays, **options)
    graph = load_onnx(model)
    want = peer(model, inputs)
    runs = [evaluate(graph, inputs)]
    if compiled:
        runs.append(run_compiled(graph, inputs))
    for got in runs:
        assert len(got) == len(want)
        for mine, theirs in zip(got.values(), want):
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)
    return graph


def run_compiled(graph: Graph, inputs):
    """What `evaluate` gives, each node by the code generated for its definition alone."""
    arrays = {**inputs, **graph.constants}
    for node in graph.nodes:
        given = [arrays[name] for name in node.inputs]
        tensors = [placeholder(a.shape, a.dtype, name=f"in{n}") for n, a in enumerate(given)]
        made = operators.define(node.operator, tensors, node.attributes)
        kernel = build([*tensors, *made])
        results = kernel(*given)
        results = results if isinstance(results, (tuple, list)) else [results]
        arrays |= {v.name: a for v, a in zip(node.outputs, results)}
    return {outside: arrays[name] for outside, name in graph.outputs}


def kinds(graph: Graph) -> list[str]:
    """The operators of a graph, in order."""
    return [node.operator for node in graph.nodes]


def random(*shape, seed=0):
    """Floats in -1..1."""
    return np.random.default_rng((seed, *shape)).uniform(-1, 1, shape).astype("f4")
