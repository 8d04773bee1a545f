"""Sizes of open dimensions that the inputs of a command tell: `run model.onnx --input x.npy` needs no `--shape`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.cli.arrays import read_all
from tensorsmith.cli.computation import Loading, is_model, parse_shapes


def with_told_sizes(file: str, given: Loading, inputs: Sequence[str]) -> Loading:
    """How to load a model whose open dimensions have the sizes of the `inputs`, where `--shape` does not name them. Sizes that do
    not agree are left to the loading, which says so."""
    if not is_model(file) or not inputs:
        return given
    from tensorsmith.frontends.onnx.inputs import declared_shape  # an executable runs without onnx
    from tensorsmith.frontends.onnx.read import read_model

    graph = read_model(file)[0].graph
    weights = {tensor.name for tensor in graph.initializer}
    declared = {v.name: declared_shape(v) or () for v in graph.input if v.name not in weights}
    named = parse_shapes(given.shapes)
    told: dict[str, str] = {}
    for name, (array, _) in read_all(inputs, list(declared)).items():
        dims = declared.get(name, ())
        if name in named or len(dims) != array.ndim:
            continue
        if None in dims:
            told[name] = f"{name}={'x'.join(map(str, array.shape))}"
            continue
        told |= {d: f"{d}={n}" for d, n in zip(dims, array.shape) if isinstance(d, str) and d not in named and d not in told}
    return replace(given, shapes=(*given.shapes, *told.values()))
