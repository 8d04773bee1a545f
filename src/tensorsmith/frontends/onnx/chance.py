"""Operators that draw at random are refused.

Drawn once when the model is compiled, the numbers would be the same in every call: no model means that.
"""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def refused(node: OnnxNode, b: Builder) -> Value:
    raise UserError(f"{node} draws at random in every call, which is not supported: make its result an input of the model")


for _kind in RANDOM:
    onnx_operator(_kind)(refused)
