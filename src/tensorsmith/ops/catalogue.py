"""Named workloads shared by tests and benchmarks.

`cases(batch)`     the operators and subgraphs of the Ansor paper's evaluation, 48 for each batch size
`memory_bound()`   operators limited by memory bandwidth, 16 MB inputs
`small()`          every operator at odd sizes of 7, 13 and 17, for tests

    get("C2D-3-b16").workload()        the same as get("C2D(16, 14, 14, 256, 256, 3, 1, 1)")
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, placeholder
from tensorsmith.lang.define import workload as to_workload
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import conv, elementwise, linalg, norm, pool, reduce, subgraphs, transposed
from tensorsmith.show.line import line

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One named workload. `shape` is what `operator` is built from: the batch first, then as in the paper's tables."""

    name: str
    operator: str
    shape: Shape
    build: Callable[..., list[Tensor]]

    def __repr__(self) -> str:
        return line(self, f"{self.name}: {self.title}")

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def title(self) -> str:
        """`C2D(16, 14, 14, 256, 256, 3, 1, 1)`"""
        return f"{self.operator}({', '.join(map(str, self.shape))})"

    def tensors(self) -> list[Tensor]:
        """The inputs, then the output, made anew."""
        return self.build(*self.shape)

    def workload(self) -> Workload:
        return to_workload(self.tensors())


def _conv1d(n: int, length: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, w = placeholder((n, length, ci), name="x"), placeholder((k, ci, co), name="weight", constant=True)
    return [x, w, conv.conv1d(x, w, stride, pad)]


def _conv2d(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int, dilation: int = 1, groups: int = 1
) -> list[Tensor]:
    x, weight = placeholder((n, h, w, ci), name="x"), _weight(k, k, ci // groups, co)
    return [x, weight, conv.conv2d(x, weight, stride, pad, dilation, groups)]


def _conv3d(n: int, d: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, d, h, w, ci), name="x"), _weight(k, k, k, ci, co)
    return [x, weight, conv.conv3d(x, weight, stride, pad)]


def _matmul(batch: int, n: int, m: int, k: int) -> list[Tensor]:
    a, b = placeholder((batch, n, k), name="a"), placeholder((batch, k, m), name="b")
    return [a, b, linalg.batch_matmul(a, b, name="matmul")]


def _depthwise(n: int, h: int, w: int, c: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, h, w, c), name="x"), _weight(k, k, c)
    return [x, weight, conv.depthwise_conv2d(x, weight, stride, pad)]


def _transposed2d(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, h, w, ci), name="x"), _weight(k, k, ci, co)
    return [x, weight, transposed.transposed_conv2d(x, weight, stride, pad)]


def _capsule(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int, size: int = 4) -> list[Tensor]:
    x, weight = placeholder((n, h, w, size, size, ci), name="x"), _weight(k, k, size, size, ci, co)
    return [x, weight, conv.capsule_conv2d(x, weight, stride, pad)]


def _norm(batch: int, m: int, n: int) -> list[Tensor]:
    x = placeholder((batch, m, n), name="x")
    return [x, norm.matrix_norm(x)]


def _conv_layer(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, h, w, ci), name="x"), _weight(k, k, ci, co)
    bias, scale, shift = (placeholder((co,), name=name, constant=True) for name in ("bias", "scale", "shift"))
    return [x, weight, bias, scale, shift, subgraphs.conv_layer(x, weight, bias, scale, shift, stride, pad)]


def _tbs(batch: int, length: int, heads: int, dim: int) -> list[Tensor]:
    query, key = (placeholder((batch, length, heads, dim), name=name) for name in ("query", "key"))
    return [query, key, subgraphs.tbs(query, key)]


def _weight(*shape: int) -> Tensor:
    return placeholder(shape, name="weight", constant=True)


# Operator: builder, and the four shapes after the batch. Where the printed paper and what was measured disagree
# (GRP 1, NRM 4, ConvLayer 2) these are the measured ones. GRP and DIL end in dilation (and groups).
_PAPER: dict[str, tuple[Callable[..., list[Tensor]], list[Shape]]] = {
    "C1D": (
        _conv1d,
        [(256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2), (32, 512, 512, 3, 1, 1)],
    ),
    "C2D": (
        _conv2d,
        [(224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 64, 1, 1, 0), (14, 14, 256, 256, 3, 1, 1), (7, 7, 512, 512, 3, 1, 1)],
    ),
    "C3D": (
        _conv3d,
        [
            (16, 224, 224, 3, 64, 7, 2, 3),
            (16, 56, 56, 64, 64, 1, 1, 0),
            (16, 14, 14, 256, 256, 3, 1, 1),
            (16, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "GMM": (_matmul, [(128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)]),
    "GRP": (
        _conv2d,
        [
            (56, 56, 64, 128, 3, 2, 1, 1, 4),
            (56, 56, 64, 64, 1, 1, 0, 1, 4),
            (14, 14, 256, 256, 3, 1, 1, 1, 4),
            (7, 7, 512, 512, 3, 1, 1, 1, 4),
        ],
    ),
    "DIL": (
        _conv2d,
        [
            (224, 224, 3, 64, 7, 2, 3, 2),
            (56, 56, 64, 64, 1, 1, 0, 2),
            (14, 14, 256, 256, 3, 1, 1, 2),
            (7, 7, 512, 512, 3, 1, 1, 2),
        ],
    ),
    "DEP": (
        _depthwise,
        [(112, 112, 32, 3, 1, 1), (112, 112, 64, 3, 2, 1), (14, 14, 512, 3, 2, 1), (7, 7, 1024, 3, 1, 1)],
    ),
    "T2D": (
        _transposed2d,
        [(4, 4, 512, 256, 4, 2, 1), (8, 8, 256, 128, 4, 2, 1), (16, 16, 128, 64, 4, 2, 1), (32, 32, 64, 3, 4, 2, 1)],
    ),
    "CAP": (
        _capsule,
        [(16, 16, 32, 32, 3, 2, 1), (8, 8, 32, 32, 3, 1, 1), (16, 16, 8, 16, 3, 2, 1), (8, 8, 16, 16, 3, 1, 1)],
    ),
    "NRM": (_norm, [(256, 256), (512, 512), (1024, 1024), (4096, 1024)]),
    "ConvLayer": (
        _conv_layer,
        [
            (224, 224, 3, 64, 7, 2, 3),
            (56, 56, 64, 128, 3, 2, 1),
            (28, 28, 128, 256, 1, 2, 0),
            (7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "TBS": (_tbs, [(128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)]),
}

OPERATORS = tuple(_PAPER)


def cases(batch: int) -> dict[str, Case]:
    """The paper's 40 operator and 8 subgraph cases at a batch size, by name: `C2D-1-b16` is its first conv2d at 16."""
    found = [
        Case(f"{operator}-{number}-b{batch}", operator, (batch, *shape), build)
        for operator, (build, shapes) in _PAPER.items()
        for number, shape in enumerate(shapes, 1)
    ]
    return {case.name: case for case in found}


def memory_bound() -> dict[str, Case]:
    """Operators limited by memory: each input has 4 Mi elements of f32."""
    rows = (4096, 1024)
    found = [
        Case("add-4M", "add", (4096 * 1024,), _add),
        Case("softmax-4096x1024", "softmax", rows, functools.partial(_rows, norm.softmax)),
        Case("layer_norm-4096x1024", "layer_norm", rows, _layer_norm),
        Case("norm-4096x1024", "NRM", (1, *rows), _norm),
    ]
    return {case.name: case for case in found}


def _add(*shape: int) -> list[Tensor]:
    a, b = placeholder(shape, name="a"), placeholder(shape, name="b")
    return [a, b, elementwise.add(a, b)]


def _rows(operator: Callable[..., Tensor], *shape: int, **options: object) -> list[Tensor]:
    """An operator of one tensor."""
    x = placeholder(shape, name="x")
    return [x, operator(x, **options)]


def _layer_norm(*shape: int) -> list[Tensor]:
    x = placeholder(shape, name="x")
    scale, shift = (placeholder(shape[-1:], name=name, constant=True) for name in ("scale", "shift"))
    return [x, scale, shift, norm.layer_norm(x, scale, shift)]


def _dense(n: int, k: int, m: int) -> list[Tensor]:
    x, weight = placeholder((n, k), name="x"), _weight(k, m)
    bias = placeholder((m,), name="bias", constant=True)
    return [x, weight, bias, elementwise.relu(linalg.dense(x, weight, bias))]


def _matmul2(n: int, m: int, k: int) -> list[Tensor]:
    a, b = placeholder((n, k), name="a"), placeholder((k, m), name="b")
    return [a, b, linalg.matmul(a, b)]


def _integer_matmul(n: int, m: int, k: int) -> list[Tensor]:
    a, b = placeholder((n, k), "i32", name="a"), placeholder((k, m), "i32", name="b")
    return [a, b, linalg.matmul(a, b)]


def _transposed1d(n: int, length: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, length, ci), name="x"), _weight(k, ci, co)
    return [x, weight, transposed.transposed_conv1d(x, weight, stride, pad)]


def _transposed3d(n: int, d: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight = placeholder((n, d, h, w, ci), name="x"), _weight(k, k, k, ci, co)
    return [x, weight, transposed.transposed_conv3d(x, weight, stride, pad)]


_SMALL: dict[str, tuple[Callable[..., list[Tensor]], Shape]] = {
    "C1D": (_conv1d, (2, 17, 7, 13, 3, 2, 1)),
    "C2D": (_conv2d, (2, 13, 17, 7, 13, 3, 2, 1)),
    "C2D-1x1": (_conv2d, (1, 7, 13, 17, 17, 1, 1, 0)),
    "C3D": (_conv3d, (1, 7, 7, 13, 3, 7, 3, 1, 1)),
    "GMM": (_matmul, (2, 13, 17, 7)),
    "matmul": (_matmul2, (17, 13, 7)),
    "matmul-i32": (_integer_matmul, (17, 13, 7)),
    "dense": (_dense, (7, 17, 13)),
    "GRP": (_conv2d, (1, 7, 13, 8, 12, 3, 1, 1, 1, 4)),
    "DIL": (_conv2d, (1, 13, 17, 7, 13, 3, 1, 2, 2)),
    "DEP": (_depthwise, (1, 13, 17, 7, 3, 2, 1)),
    "T1D": (_transposed1d, (1, 13, 7, 17, 4, 2, 1)),
    "T2D": (_transposed2d, (1, 7, 5, 13, 7, 4, 2, 1)),
    "T2D-ragged": (_transposed2d, (1, 7, 5, 7, 13, 3, 2, 1)),
    "T2D-stride3": (_transposed2d, (1, 5, 7, 7, 13, 5, 3, 2)),
    "T3D": (_transposed3d, (1, 3, 5, 4, 7, 3, 4, 2, 1)),
    "CAP": (_capsule, (1, 7, 5, 3, 7, 3, 2, 1)),
    "NRM": (_norm, (3, 13, 17)),
    "ConvLayer": (_conv_layer, (1, 7, 13, 7, 17, 3, 1, 1)),
    "TBS": (_tbs, (2, 13, 3, 7)),
    "add": (_add, (13, 17)),
    "softmax": (functools.partial(_rows, norm.softmax), (13, 17)),
    "log_softmax": (functools.partial(_rows, norm.log_softmax, axis=0), (13, 17)),
    "layer_norm": (_layer_norm, (13, 17)),
    "gelu": (functools.partial(_rows, elementwise.gelu), (7, 13)),
    "silu": (functools.partial(_rows, elementwise.silu), (7, 13)),
    "max_pool": (functools.partial(_rows, pool.max_pool, kernel=3, stride=2, padding=1), (1, 13, 17, 7)),
    "avg_pool": (
        functools.partial(_rows, pool.avg_pool, kernel=3, stride=2, padding=1, count_pad=False),
        (1, 13, 17, 7),
    ),
    "global_avg_pool": (functools.partial(_rows, pool.global_avg_pool), (2, 7, 7, 13)),
    "sum": (functools.partial(_rows, reduce.sum, axes=(0, 2)), (7, 13, 17)),
    "mean": (functools.partial(_rows, reduce.mean, axes=1), (7, 13, 17)),
    "argmax": (functools.partial(_rows, reduce.argmax, axis=-1), (13, 17)),
}


def small() -> dict[str, Case]:
    """Every operator at a tiny, odd size, by names such as `C2D-small`."""
    found = [Case(f"{name}-small", name.split("-")[0], shape, build) for name, (build, shape) in _SMALL.items()]
    return {case.name: case for case in found}


def everything() -> dict[str, Case]:
    """All named cases."""
    return {**cases(1), **cases(16), **memory_bound(), **small()}


def get(name: str) -> Case:
    """The case of a name (`C2D-3-b16`) or title (`C2D(16, 14, 14, ...)`, with or without spaces)."""
    known = everything()
    if name in known:
        return known[name]
    titles = {case.title.replace(" ", ""): case for case in reversed(known.values())}
    if name.replace(" ", "") in titles:
        return titles[name.replace(" ", "")]
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.4) or list(known)[:5]
    raise UserError(f"no case is called {name!r}; near are {', '.join(near)}")
