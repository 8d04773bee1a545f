"""Operators that draw at random, in every call anew. They need a seed: without one they are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorsmith.errors import Parameter, UserError
from tensorsmith.frontends.common.values import LARGEST_MADE, as_type, reshaped, scalar
from tensorsmith.frontends.onnx.read import type_of
from tensorsmith.frontends.onnx.shape import checked_size
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_float, is_int

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def _drawn(node: OnnxNode, shape: Sequence[int], to: str, distribution: str) -> Value:
    own = node.attribute("seed")
    if node.draws is None:
        needed = Parameter("seed", "0", of="load")
        raise UserError(f"{node} draws at random in every call; give the model a seed, ", needed, ", or make its result an input")
    return node.draws.numbers(checked_size(node, list(shape), LARGEST_MADE), to, distribution, own)


def _type(node: OnnxNode, like: Value | None) -> str:
    """Of the result: what the attribute says, or what the input has."""
    number = node.attribute("dtype")
    to = type_of(number, f"{node}: the result") if number is not None else like.dtype if like is not None else "f32"
    if not is_float(to):
        raise UserError(f"{node}: random numbers are drawn as floats, not as {to}")
    return to


Scaled = Callable[[OnnxNode, Builder, Value], Value]


def _normal(node: OnnxNode, b: Builder, z: Value) -> Value:
    mean, scale = float(node.attribute("mean", 0.0)), float(node.attribute("scale", 1.0))
    z = z if scale == 1 else b.add("multiply", [z, scalar(b, scale, z)])
    return z if mean == 0 else b.add("add", [z, scalar(b, mean, z)])


def _uniform(node: OnnxNode, b: Builder, u: Value) -> Value:
    low, high = float(node.attribute("low", 0.0)), float(node.attribute("high", 1.0))
    u = u if high - low == 1 else b.add("multiply", [u, scalar(b, high - low, u)])
    return u if low == 0 else b.add("add", [u, scalar(b, low, u)])


def _registered(kind: str, distribution: str, scaled: Scaled) -> None:
    @onnx_operator(kind)
    def of_shape(node: OnnxNode, b: Builder) -> Value:
        return scaled(node, b, _drawn(node, node.needed("shape"), _type(node, None), distribution))

    @onnx_operator(f"{kind}Like")
    def like(node: OnnxNode, b: Builder) -> Value:
        x = node.required(0)
        return scaled(node, b, _drawn(node, x.shape, _type(node, x), distribution))


_registered("RandomNormal", "normal", _normal)
_registered("RandomUniform", "uniform", _uniform)


@onnx_operator("Bernoulli")
def bernoulli(node: OnnxNode, b: Builder) -> Value:
    """1 with the probability that the input has at that place, else 0."""
    p, number = node.required(0), node.attribute("dtype")
    to = p.dtype if number is None else type_of(number, f"{node}: the result")
    return as_type(b, b.add("less", [_drawn(node, p.shape, p.dtype, "uniform"), p]), to)


@onnx_operator("Multinomial")
def multinomial(node: OnnxNode, b: Builder) -> Value:
    """Classes, by the logarithms of their probabilities, up to a term: the largest sum of one and Gumbel's noise."""
    logits, count = node.required(0), int(node.attribute("sample_size", 1))
    number = node.attribute("dtype", 6)
    to = type_of(number, f"{node}: the result")
    if len(logits.shape) != 2 or count < 1 or not is_int(to) or not logits.shape[1]:
        raise UserError(f"{node}: {count} classes of {logits} as {to} cannot be drawn; expected batch, classes, and integers")
    batch, classes = logits.shape
    noise = _drawn(node, (batch, count, classes), logits.dtype, "gumbel")
    noisy = b.add("add", [noise, reshaped(b, logits, (batch, 1, classes))])
    return as_type(b, b.add("argmax", [noisy], axis=2, keepdims=False), to)
