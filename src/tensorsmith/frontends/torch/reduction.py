"""ATen's reductions over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type, reshaped, scalar
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype
from tensorsmith.ops.common import normal_axis


def axes_of(node: AtenNode, x: Value, name: str = "dim") -> tuple[int, ...]:
    """The dimensions to reduce over; none given are all. A number has one dimension to name."""
    given = node.plain(name) if node.given(name) else None
    dims = [given] if isinstance(given, int) else list(given or range(len(x.shape)))
    return tuple(sorted({normal_axis(d, max(len(x.shape), 1), str(node)) for d in dims}))


def _reduced(node: AtenNode, b: Builder, operator: str, x: Value, name: str = "dim", number: int = 0) -> Value:
    """x reduced over the dimensions that an argument names, in the shape of a result."""
    axes = axes_of(node, x, name)
    node.ignore("keepdim")  # the result's shape says it
    shape = node.results[number][0]
    if not x.shape:
        return reshaped(b, b.add(operator, [reshaped(b, x, (1,))], axes=(0,)), shape)
    keep = len(shape) == len(x.shape)
    return b.add(operator, [x], axes=axes, keepdims=keep)


def _simple(operator: str, *names: str) -> None:
    """A reduction in the type of its result."""

    @aten_operator(*names)
    def handler(node: AtenNode, b: Builder) -> Value:
        node.ignore("dtype")
        return _reduced(node, b, operator, as_type(b, node.value("self"), node.result[1]))


_simple("reduce_sum", "sum", "sum.dim_IntList")
_simple("reduce_mean", "mean", "mean.dim")
_simple("reduce_prod", "prod", "prod.dim_int")
_simple("reduce_max", "amax", "max")
_simple("reduce_min", "amin", "min")


@aten_operator("logsumexp")
def logsumexp(node: AtenNode, b: Builder) -> Value:
    return _reduced(node, b, "reduce_log_sum_exp", as_type(b, node.value("self"), node.result[1]))


@aten_operator("any", "any.dim", "any.dims")
def any_(node: AtenNode, b: Builder) -> Value:
    """Whether any element is not 0."""
    x = as_type(b, node.value("self"), "bool")
    if 0 in (x.shape[d] for d in axes_of(node, x) if x.shape):
        raise UserError(f"{node}: {x} has no elements to look at")
    return as_type(b, _reduced(node, b, "reduce_max", x), node.result[1])


def _extreme(name: str, best: str, position: str) -> None:
    @aten_operator(f"{name}.dim")
    def both(node: AtenNode, b: Builder) -> Sequence[Value]:
        """The largest, or smallest, element and where it is."""
        x = node.value("self")
        (axis,) = axes_of(node, x)
        return [_reduced(node, b, best, x), _placed(node, b, position, x, axis, node.results[1][0])]

    @aten_operator(f"arg{name}")
    def place(node: AtenNode, b: Builder) -> Value:
        x = node.value("self")
        node.ignore("keepdim")
        if node.given("dim"):
            (axis,) = axes_of(node, x)
        else:
            node.ignore("dim")
            x, axis = reshaped(b, x, (x.elements,)), 0
        return _placed(node, b, position, x, axis, node.result[0])


def _placed(node: AtenNode, b: Builder, operator: str, x: Value, axis: int, shape: tuple[int, ...]) -> Value:
    if x.dtype == "bool":
        x = as_type(b, x, "u8")
    x = x if x.shape else reshaped(b, x, (1,))
    return reshaped(b, b.add(operator, [x], axis=axis, keepdims=False), shape)


_extreme("max", "reduce_max", "argmax")
_extreme("min", "reduce_min", "argmin")


@aten_operator("linalg_vector_norm")
def vector_norm(node: AtenNode, b: Builder) -> Value:
    """The sum of the powers of absolute values, to the root; of the order infinity the largest of them."""
    node.ignore("dtype")  # the result's type says it
    x, order = as_type(b, node.value("self"), node.result[1]), node.number("ord")
    if order in (1, 2):
        return _reduced(node, b, f"reduce_l{int(order)}", x)
    size = b.add("absolute", [x])
    if abs(order) == inf:
        return _reduced(node, b, "reduce_max" if order > 0 else "reduce_min", size)
    if order == 0:
        raise UserError(f"{node}: the norm of the order 0 is not supported")
    wide = as_type(b, size, "f32") if dtype(x.dtype).is_half else size  # in f16, powers of 4 and their sums overflow soon
    total = _reduced(node, b, "reduce_sum", b.add("power", [wide, scalar(b, order, wide)]))
    return as_type(b, b.add("power", [total, scalar(b, 1 / order, wide)]), x.dtype)


@aten_operator("var.correction")
def variance(node: AtenNode, b: Builder) -> Value:
    return reshaped(b, _moments(node, b)[0], node.result[0])


@aten_operator("var_mean.correction")
def variance_and_mean(node: AtenNode, b: Builder) -> Sequence[Value]:
    return [reshaped(b, v, shape) for v, (shape, _) in zip(_moments(node, b), node.results)]


def _moments(node: AtenNode, b: Builder) -> tuple[Value, Value]:
    """Variance and mean, all dimensions kept. A correction, 1 where it is left out, is taken off the number of elements."""
    x = node.value("self")
    x = x if x.shape else reshaped(b, x, (1,))
    axes = axes_of(node, x)
    node.ignore("keepdim")  # the result's shape says it
    correction = node.number("correction") if node.given("correction") else 1
    node.ignore("correction")
    count = max(prod(x.shape[d] for d in axes) - correction, 0)
    mean = b.add("reduce_mean", [x], axes=axes, keepdims=True)
    squares = b.add("square", [b.add("subtract", [x, mean])])
    total = b.add("reduce_sum", [squares], axes=axes, keepdims=True)
    return b.add("divide", [total, scalar(b, count, total)]), mean
