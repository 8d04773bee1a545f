"""Random workloads for the property tests: small DAGs of stages of every kind the language can say.

Everything is drawn from one `random.Random`, which Hypothesis may own (`st.randoms(use_true_random=False)`), so that a
failing workload shrinks. Values stay tame, so that results can be compared: functions with jumps (comparisons, floor,
casts to integers) are only applied to values that every evaluator computes exactly.
"""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np

from tensorsmith.lang import define as ts
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.dtypes import NAMES, dtype
from tensorsmith.lang.expr import Expr, loads
from tensorsmith.lang.workload import Workload

SIZES = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33)  # around every boundary of the vector lengths
FLOATS = ("f32", "f32", "f32", "f64")
INTS = ("i32", "i64", "i8", "u8")
#: types that few computations are made of: drawn by a test of their own
RARE_FLOATS = ("bf16", "bf16", "f16", "f32")
RARE_INTS = ("i16", "u16", "u32", "u64")
COMPARED = "E"  # begins the names of inputs that are read by `==` and `!=` alone
EQUAL_OR_NOT = (0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 0.5)
MAX_POINTS = 6_000  # of one stage, its reduction included
MAX_ELEMENTS = 1_500  # of one tensor


def random_workload(
    rng: Random, stages: int | None = None, floats: tuple[str, ...] = FLOATS, ints: tuple[str, ...] = INTS
) -> Workload:
    """A workload of one to five stages (a softmax counts as one)."""
    build = _Builder(rng, floats, ints)
    for _ in range(stages or rng.choice((1, 1, 2, 2, 3, 4, 5))):
        build.stage()
    return build.workload()


def random_arrays(workload: Workload, seed: int) -> dict[str, np.ndarray]:
    """Inputs of either sign; those used as indices lie in bounds or a little outside; those compared have equal elements."""
    generator = np.random.default_rng(seed)
    limits = _index_extents(workload)
    arrays: dict[str, np.ndarray] = {}
    for b in workload.inputs:
        facts = dtype(b.dtype)
        if facts.kind == "f" and b.name.startswith(COMPARED):
            values = generator.choice(EQUAL_OR_NOT, b.shape)
        elif facts.kind == "f":
            values = generator.uniform(-1, 1, b.shape)
        elif facts.kind == "b":
            values = generator.integers(0, 2, b.shape)
        elif b.name in limits:
            low = 0 if facts.kind == "u" else -2
            values = generator.integers(low, limits[b.name] + 2, b.shape)
        else:
            values = generator.integers(0 if facts.kind == "u" else -8, 9, b.shape)
        arrays[b.name] = np.asarray(values).astype(facts.numpy)
    return arrays


def _index_extents(workload: Workload) -> dict[str, int]:
    found: dict[str, int] = {}
    for stage in workload.stages:
        for read in stage.reads:
            for index, extent in zip(read.indices, workload.buffers[read.tensor].shape):
                for inner in loads(index):
                    found[inner.tensor] = max(extent, found.get(inner.tensor, 0))
    return found


def _reads(t: Tensor) -> set[str]:
    """The tensors that one is computed from directly: through the sums that became stages of their own, too."""
    found: set[str] = set()
    for x in loads(t.stage.body) if t.stage else []:
        inner = x.source
        found |= _reads(inner) if isinstance(inner, Tensor) and inner.stage and inner.name.startswith(f"{t.name}_") else {x.tensor}
    return found


class _Builder:
    def __init__(self, rng: Random, floats: tuple[str, ...], ints: tuple[str, ...]) -> None:
        self.rng, self.floats, self.ints = rng, floats, ints
        self.inputs: list[Tensor] = []
        self.stages: list[Tensor] = []
        self.exact: set[str] = set()  # tensors that every evaluator computes to the last bit
        self.read: set[str] = set()
        self.counter = itertools.count()

    def workload(self) -> Workload:
        outputs = [t for t in self.stages if t.name not in self.read]
        for t in self.stages:
            if t not in outputs and self.rng.random() < 0.12:
                outputs.append(t)
        used = {name for t in self.stages for name in _reads(t)}
        return ts.workload([*(t for t in self.inputs if t.name in used), *outputs])

    # -- tensors -----------------------------------------------------------------------------------------------------

    def fresh(self, shape: tuple[int, ...], kind: str, constant: bool | None = None) -> Tensor:
        if constant is None:
            constant = self.rng.random() < 0.3
        t = ts.placeholder(shape, kind, f"{'W' if constant else 'A'}{next(self.counter)}", constant)
        self.inputs.append(t)
        self.exact.add(t.name)
        return t

    def shape(self, rank: int, limit: int = MAX_ELEMENTS) -> tuple[int, ...]:
        while True:
            shape = tuple(self.rng.choice(SIZES) for _ in range(rank))
            if math.prod(shape) <= limit:
                return shape

    def kind(self) -> str:
        return self.rng.choice(self.floats) if self.rng.random() < 0.75 else self.rng.choice(self.ints)

    def source(self, ranks: tuple[int, ...] = (1, 2, 3, 4), kinds: str = "fiu") -> Tensor:
        """A tensor to read: one that is there already, the later the likelier, or a new input."""
        known = [t for t in self.stages if len(t.shape) in ranks and dtype(t.dtype).kind in kinds]
        if known and self.rng.random() < 0.8:
            t = known[-1] if self.rng.random() < 0.6 else self.rng.choice(known)
        else:
            kind = self.kind()
            while dtype(kind).kind not in kinds:
                kind = self.kind()
            ranks = tuple(r for r in ranks if r) or (1,)
            t = self.fresh(self.shape(self.rng.choice([r for r in ranks if r <= 3])), kind)
        return t

    def emit(self, shape: tuple[int, ...], body, exact: bool) -> Tensor:
        t = ts.compute(shape, body, name=f"T{next(self.counter)}")
        assert t.stage is not None
        self.read |= _reads(t)
        self.stages.append(t)
        if exact or dtype(t.dtype).kind != "f":
            self.exact.add(t.name)
        return t

    def some(self, rank: int) -> list[int]:
        """Dimensions to reduce over; seldom all of them."""
        most = rank if rank == 1 or self.rng.random() < 0.15 else rank - 1
        return sorted(self.rng.sample(range(rank), self.rng.randint(1, most)))

    # -- stages ------------------------------------------------------------------------------------------------------

    def stage(self) -> None:
        makers = [
            (self.elementwise, 4), (self.contraction, 4), (self.convolution, 4), (self.pad, 3), (self.reduce, 4),
            (self.softmax, 1), (self.gather, 2), (self.view, 3), (self.compare, 2), (self.equality, 2), (self.cast, 1),
            (self.iota, 1), (self.two_reads, 1),
        ]  # fmt: skip
        kinds = [m for m, weight in makers for _ in range(weight)]
        while not self.rng.choice(kinds)():
            pass

    def elementwise(self) -> bool:
        first = self.source((0, 1, 2, 3, 4))
        shape = first.shape
        others = [self.partner(first) for _ in range(self.rng.choice((0, 1, 1, 2)))]

        def body(*x):
            e = first[x]
            for other, index in others:
                e = self.combine(e, other[index(x)])
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                e = self.smooth(e)
            return e

        self.emit(shape, body, exact=False)
        return True

    def partner(self, first: Tensor):
        """Another tensor of the same type that broadcasts against `first`, with its index."""
        tame = [t for t in self.stages + self.inputs if not t.name.startswith(COMPARED)]
        same = [t for t in tame if t.shape == first.shape and t.dtype == first.dtype]
        rank = len(first.shape)
        if same and self.rng.random() < 0.5:
            return self.rng.choice(same), lambda x: x
        dims = sorted(self.rng.sample(range(rank), self.rng.randint(0, rank)))
        if self.rng.random() < 0.3:
            self.rng.shuffle(dims)  # a transposed read
        t = self.fresh(tuple(first.shape[d] for d in dims), first.dtype)
        return t, lambda x: tuple(x[d] for d in dims)

    def combine(self, a: Expr, b: Expr) -> Expr:
        choices = [lambda: a + b, lambda: a - b, lambda: a * b, lambda: ts.maximum(a, b), lambda: ts.minimum(a, b)]
        if dtype(a.dtype).kind == "f":
            choices += [lambda: a / (ts.abs(b) + 1.0), lambda: a + b * 0.5]
        else:
            choices += [lambda: a // b, lambda: a % b, lambda: a // 3, lambda: b % 5, lambda: ts.select(a < b, a, b)]
        return self.rng.choice(choices)()

    def smooth(self, e: Expr) -> Expr:
        if dtype(e.dtype).kind != "f":
            return self.rng.choice([lambda: -e, lambda: ts.abs(e), lambda: e * 3, lambda: ts.maximum(e, 0), lambda: e + 1])()
        return self.rng.choice(
            [
                lambda: -e, lambda: ts.abs(e), lambda: ts.maximum(e, 0.0), lambda: e * 0.5 + 1.0, lambda: ts.tanh(e),
                lambda: ts.sigmoid(e), lambda: ts.exp(ts.minimum(e, 1.0)), lambda: ts.sqrt(ts.abs(e) + 1.0),
                lambda: ts.rsqrt(e * e + 1.0), lambda: ts.log(ts.abs(e) + 1.0), lambda: ts.erf(e),
                lambda: ts.log1p(ts.abs(e)), lambda: ts.expm1(ts.minimum(e, 1.0)),
                lambda: ts.sin(ts.minimum(ts.maximum(e, -3.0), 3.0)),
            ]
        )()  # fmt: skip

    def contraction(self) -> bool:
        """A sum of products: each operand has some of the axes, in some order."""
        a = self.source((1, 2, 3))
        rank = len(a.shape)
        reduced = self.some(rank)
        kept = [d for d in range(rank) if d not in reduced]
        new = [self.rng.choice(SIZES) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        batch = [d for d in kept if self.rng.random() < 0.2]
        if math.prod(a.shape) * math.prod(new) > MAX_POINTS:
            return False
        order = [("a", d) for d in batch + reduced] + [("n", d) for d in range(len(new))]
        self.rng.shuffle(order)
        b = self.fresh(tuple(a.shape[d] if w == "a" else new[d] for w, d in order), a.dtype)
        spatial = [("a", d) for d in kept] + [("n", d) for d in range(len(new))]
        if self.rng.random() < 0.4:
            self.rng.shuffle(spatial)
        shape = tuple(a.shape[d] if w == "a" else new[d] for w, d in spatial)
        if math.prod(shape) > MAX_ELEMENTS:
            return False
        axes = {("a", d): ts.reduce_axis(a.shape[d], f"k{d}") for d in reduced}

        def body(*x):
            env = {**dict(zip(spatial, x)), **axes}
            product = a[tuple(env["a", d] for d in range(rank))] * b[tuple(env[w] for w in order)]
            if a.dtype in ("i8", "u8") and self.rng.random() < 0.7:
                product = ts.cast("i32", a[tuple(env["a", d] for d in range(rank))]) * ts.cast(
                    "i32", b[tuple(env[w] for w in order)]
                )
            return ts.sum(product, axis=list(axes.values()))

        self.emit(shape, body, exact=False)
        return True

    def convolution(self) -> bool:
        """Windows over one or two dimensions, with stride and dilation, padded inside of the body or not at all."""
        a = self.source((1, 2, 3))
        rank = len(a.shape)
        dims = sorted(self.rng.sample(range(rank), self.rng.randint(1, min(2, rank))))
        window = {d: (self.rng.choice((1, 2, 3, 3, 5)), self.rng.choice((1, 1, 2, 3)), self.rng.choice((1, 1, 2)))
                  for d in dims}  # fmt: skip
        padding = {d: self.rng.choice((0, 0, 1, 2)) for d in dims}
        extents: dict[int, int] = {}
        for d, (size, stride, dilation) in window.items():
            extents[d] = (a.shape[d] + 2 * padding[d] - (size - 1) * dilation - 1) // stride + 1
            if extents[d] < 1:
                return False
        others = [d for d in range(rank) if d not in dims]
        channel = next((d for d in others if self.rng.random() < 0.6), None)  # summed over, as input channels are
        outputs = [self.rng.choice((1, 3, 8, 9, 17))] if self.rng.random() < 0.6 else []
        spatial = [d for d in range(rank) if d != channel]
        shape = (*(extents.get(d, a.shape[d]) for d in spatial), *outputs)
        points = math.prod(shape) * math.prod(s for s, _, _ in window.values()) * (a.shape[channel] if channel is not None else 1)
        if points > MAX_POINTS or math.prod(shape) > MAX_ELEMENTS:
            return False
        kernel = (*(window[d][0] for d in dims), *([a.shape[channel]] if channel is not None else []), *outputs)
        weight = self.fresh(kernel, a.dtype, constant=self.rng.random() < 0.7)
        operation = self.rng.choice(("sum", "sum", "sum", "max", "min"))
        axes = {d: ts.reduce_axis(window[d][0], f"r{d}") for d in dims}
        if channel is not None:
            axes[channel] = ts.reduce_axis(a.shape[channel], "c")
        zero = 0.0 if dtype(a.dtype).kind == "f" else 0

        def body(*x):
            out = dict(zip(spatial, x))
            index, guards = [], []
            for d in range(rank):
                if d in window:
                    at = out[d] * window[d][1] + axes[d] * window[d][2] - padding[d]
                    if padding[d]:
                        guards += [at >= 0, at < a.shape[d]]
                elif d == channel:
                    at = axes[d]
                else:
                    at = out[d]
                index.append(at)
            value = a[tuple(index)]
            if guards:
                cond = guards[0]
                for g in guards[1:]:
                    cond = cond & g
                value = ts.select(cond, value, zero)
            w = weight[(*(axes[d] for d in dims), *([axes[channel]] if channel is not None else []), *x[len(spatial) :])]
            reduction = {"sum": ts.sum, "max": ts.max, "min": ts.min}[operation]
            return reduction(value * w, axis=list(axes.values()))

        self.emit(shape, body, exact=False)
        return True

    def pad(self) -> bool:
        a = self.source((1, 2, 3))
        rank = len(a.shape)
        before = [self.rng.choice((0, 0, 1, 2, 5)) for _ in range(rank)]
        after = [self.rng.choice((0, 0, 1, 3, 9)) for _ in range(rank)]
        shape = tuple(n + lo + hi for n, lo, hi in zip(a.shape, before, after))
        if math.prod(shape) > MAX_ELEMENTS or not any(before + after):
            return False
        fill = 0.0 if dtype(a.dtype).kind == "f" else 0

        def body(*x):
            cond = None
            for d in range(rank):
                for one in ([x[d] >= before[d]] if before[d] else []) + ([x[d] < before[d] + a.shape[d]] if after[d] else []):
                    cond = one if cond is None else cond & one
            return ts.select(cond, a[tuple(x[d] - before[d] for d in range(rank))], fill)

        self.emit(shape, body, exact=a.name in self.exact)
        return True

    def reduce(self) -> bool:
        a = self.source((1, 2, 3, 4))
        rank = len(a.shape)
        reduced = self.some(rank)
        kept = [d for d in range(rank) if d not in reduced]
        op = self.rng.choice((ts.sum, ts.sum, ts.max, ts.min, ts.prod))
        axes = {d: ts.reduce_axis(a.shape[d], f"k{d}") for d in reduced}
        other = self.partner(a) if self.rng.random() < 0.3 else None
        touch = self.rng.random() < 0.3

        def body(*x):
            env = {**dict(zip(kept, x)), **axes}
            index = tuple(env[d] for d in range(rank))
            e = a[index]
            if other is not None:
                e = self.combine(e, other[0][other[1](index)])
            if touch:
                e = self.smooth(e)
            if op is ts.prod and dtype(e.dtype).kind == "f":
                # products neither vanish nor explode, whatever their length: differences of them must stay exact enough
                e = 1.0 + 0.5 / math.prod(axis.extent for axis in axes.values()) * ts.minimum(ts.maximum(e, -1.0), 1.0)
            return op(e, axis=list(axes.values()))

        self.emit(tuple(a.shape[d] for d in kept), body, exact=False)
        return True

    def softmax(self) -> bool:
        a = self.source((1, 2, 3), kinds="f")
        if len(self.stages) > 4:
            return False
        k = ts.reduce_axis(a.shape[-1], "k")
        lead = a.shape[:-1]
        m = self.emit(lead, lambda *x: ts.max(a[(*x, k)], axis=k), exact=False)
        e = self.emit(a.shape, lambda *x: ts.exp(a[x] - m[x[:-1]]), exact=False)
        s = self.emit(lead, lambda *x: ts.sum(e[(*x, k)], axis=k), exact=False)
        self.emit(a.shape, lambda *x: e[x] / s[x[:-1]], exact=False)
        return True

    def gather(self) -> bool:
        a = self.source((1, 2, 3))
        rank = len(a.shape)
        at = self.rng.randrange(rank)
        count = self.rng.choice(SIZES)
        shape = (*a.shape[:at], count, *a.shape[at + 1 :])
        if math.prod(shape) > MAX_ELEMENTS:
            return False
        index = self.fresh((count,), self.rng.choice(("i32", "i64", "u8")), constant=False)
        form = self.rng.randrange(3)

        def body(*x):
            i: Expr = index[x[at]]
            if form == 1:
                i = ts.cast("i64", i) + x[(at + 1) % rank]
            elif form == 2:
                i = ts.cast("i64", i) // 2
            return a[(*x[:at], i, *x[at + 1 :])]

        self.emit(shape, body, exact=a.name in self.exact)
        return True

    def view(self) -> bool:
        """Reads at other places: flattened, split, reversed, strided, transposed, shifted, joined."""
        form = self.rng.choice(("flatten", "split", "reverse", "stride", "transpose", "concat", "repeat", "wrap"))
        if form == "flatten":
            a = self.source((2,))
            n, m = a.shape
            shape, body = (n * m,), lambda i: a[i // m, i % m]
        elif form == "split":
            a = self.source((1,))
            size = self.rng.choice((1, 2, 3, 4, 8))
            if a.shape[0] < size:
                return False
            shape, body = (a.shape[0] // size, size), lambda i, j: a[i * size + j]
        elif form == "reverse":
            a = self.source((1, 2, 3))
            d = self.rng.randrange(len(a.shape))
            cut = self.rng.randint(0, a.shape[d] - 1)  # only the last ones, so that the region starts past the edge
            shape = (*a.shape[:d], a.shape[d] - cut, *a.shape[d + 1 :])
            body = lambda *x: a[(*x[:d], a.shape[d] - 1 - x[d], *x[d + 1 :])]  # noqa: E731
        elif form == "stride":
            a = self.source((1, 2, 3))
            d, step = self.rng.randrange(len(a.shape)), self.rng.choice((2, 3))
            first = self.rng.randrange(min(step, a.shape[d]))
            shape = (*a.shape[:d], (a.shape[d] - first - 1) // step + 1, *a.shape[d + 1 :])
            body = lambda *x: a[(*x[:d], x[d] * step + first, *x[d + 1 :])]  # noqa: E731
        elif form == "transpose":
            a = self.source((2, 3))
            order = list(range(len(a.shape)))
            self.rng.shuffle(order)
            shape = tuple(a.shape[d] for d in order)
            body = lambda *x: a[tuple(x[order.index(d)] for d in range(len(order)))]  # noqa: E731
        elif form == "concat":
            a = self.source((1, 2))
            b = self.source((len(a.shape),))
            if b.dtype != a.dtype or b.shape[1:] != a.shape[1:] or len(b.shape) != len(a.shape):
                b = self.fresh((self.rng.choice(SIZES), *a.shape[1:]), a.dtype)
            n = a.shape[0]
            shape = (n + b.shape[0], *a.shape[1:])
            body = lambda *x: ts.select(x[0] < n, a[x], b[(x[0] - n, *x[1:])])  # noqa: E731
        elif form == "repeat":
            a = self.source((1, 2))
            times = self.rng.choice((2, 3))
            shape = (*a.shape[:-1], a.shape[-1] * times)
            body = lambda *x: a[(*x[:-1], x[-1] // times)]  # noqa: E731
        else:
            a = self.source((1, 2))
            n = self.rng.choice(SIZES)
            shape = (*a.shape[:-1], n)
            body = lambda *x: a[(*x[:-1], x[-1] % a.shape[-1])]  # noqa: E731
        if math.prod(shape) > MAX_ELEMENTS:
            return False
        self.emit(shape, body, exact=a.name in self.exact and form != "concat")
        return True

    def compare(self) -> bool:
        """A bool result, or a choice by one; only of exact values, where a rounding cannot flip it."""
        exact = [t for t in self.stages + self.inputs if t.name in self.exact and dtype(t.dtype).kind != "b"]
        a = self.rng.choice(exact) if exact and self.rng.random() < 0.6 else self.fresh(self.shape(2), self.kind())
        b, index = self.fresh(a.shape, a.dtype), (lambda x: x)
        word = self.rng.choice(("lt", "le", "eq", "ne", "gt"))
        form = self.rng.randrange(4)

        def body(*x):
            p, q = a[x], b[index(x)]
            cond = {"lt": p < q, "le": p <= q, "eq": p == q, "ne": p != q, "gt": p > q}[word]
            if form == 1:
                cond = cond & ~(q == p + p)
            elif form == 2:
                cond = cond | (p <= -q) if dtype(a.dtype).kind != "u" else cond
            return ts.select(cond, p, q) if form == 3 else cond

        self.emit(a.shape, body, exact=True)
        return True

    def equality(self) -> bool:
        """`==` or `!=` of any type, NaN and both zeros among the elements, with another element or a number; three uses of it."""
        kind = self.rng.choice(NAMES)
        a = ts.placeholder(self.shape(self.rng.choice((1, 2))), kind, f"{COMPARED}{next(self.counter)}")
        b = ts.placeholder(a.shape, kind, f"{COMPARED}{next(self.counter)}")
        self.inputs += [a, b]
        number = {"f": 0.0, "b": True}.get(dtype(kind).kind, 3)
        right = self.rng.choice((lambda x: b[x], lambda x: number))
        differ, form = self.rng.random() < 0.5, self.rng.randrange(4)

        def body(*x):
            cond = a[x] != right(x) if differ else a[x] == right(x)
            if form == 0:
                return cond
            if form == 1:
                return ts.cast(self.rng.choice(("f32", "i32", "f64")), cond)
            if form == 2:
                return ts.select(cond, 7.0, ts.cast("f32", x[-1]))
            return cond == (a[x] != b[x])

        self.emit(a.shape, body, exact=True)
        return True

    def cast(self) -> bool:
        a = self.source((1, 2, 3), kinds="fiub")
        new = self.floats != FLOATS
        to = self.rng.choice((*RARE_FLOATS, *RARE_INTS, "f64") if new else ("f32", "f64", "i32", "i64", "i8", "u8", "bool"))
        if dtype(a.dtype).kind == "f" and dtype(to).kind != "f":
            if a.name not in self.exact:
                return False
            scale = 1.0 if to == "bool" else 32.0 if dtype(a.dtype).is_half else 40.0  # exact, so that nothing is rounded up

            def body(*x):
                e = a[x] * scale
                return ts.cast(to, ts.abs(e) if dtype(to).kind == "u" else e)
        else:

            def body(*x):
                return ts.cast(to, a[x])

        self.emit(a.shape, body, exact=dtype(to).kind != "f" or a.name in self.exact)
        return True

    def iota(self) -> bool:
        """A body that uses its axes as values: triangular masks, positions."""
        a = self.source((2, 3), kinds="f")
        form = self.rng.randrange(3)

        def body(*x):
            if form == 0:
                return ts.select(x[-1] <= x[-2], a[x], 0.0)
            if form == 1:
                return a[x] + ts.cast(a.dtype, x[-1] * 2 - x[-2]) * 0.125
            return ts.select(x[-1] % 3 == x[-2] % 2, a[x], 1.0)

        self.emit(a.shape, body, exact=form != 1 and a.name in self.exact)
        return True

    def two_reads(self) -> bool:
        """A stage that reads another at several shifted places (a stencil), guarded or in bounds."""
        a = self.source((1, 2), kinds="fi")
        n = a.shape[-1]
        shift = self.rng.choice((1, 2, 4))
        if n <= shift:
            return False
        guarded = self.rng.random() < 0.5

        def body(*x):
            lead = x[:-1]
            if guarded:
                zero = 0.0 if dtype(a.dtype).kind == "f" else 0
                left = ts.select(x[-1] >= shift, a[(*lead, x[-1] - shift)], zero)
                return left + a[x]
            return a[(*lead, x[-1] + shift)] - a[(*lead, x[-1])]

        self.emit((*a.shape[:-1], n if guarded else n - shift), body, exact=False)
        return True
