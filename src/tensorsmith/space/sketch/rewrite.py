"""Rewrites of a workload's DAG that a sketch may ask for before its nests apply: one class each.

Each is pure: `apply` takes a workload and gives one that computes the same outputs.

    Inline("B")               B[i] = A[i] + 1; C[i] = B[i] * 2    ->  C[i] = (A[i] + 1) * 2
    CacheWrite("C")           C[i, j] = sum(...)                  ->  C.cache[i, j] = sum(...); C[i, j] = C.cache[i, j]
    Rfactor("C", "k", n)      C[i] = sum(A[i, k], over k<n*m)     ->  C.rf[i, k_f] = sum(A[i, k_f * m + k], over k<m)
                                                                      C[i] = sum(C.rf[i, k_f], over k_f<n)
    Alias("R")                R[i] = C[i // 4, i % 4], C otherwise unread  ->  C is the output: the same bytes under another shape
    Reshape("R")              R[i] = max(C[i // 4, i % 4], 0)     ->  R.reshaped[g, j] = max(C[g, j], 0) is the output
    CacheRead("C", "B")       C[i, j] = sum(A[i, k] * B[k, j])    ->  B.pack[k, j] = B[k, j]; C[i, j] = sum(A[i, k] * B.pack[k, j])
    Fetch("C", "A")           C[i] = sum(A[i + k])                ->  C.A[d0] = A[d0]; C[i] = sum(C.A[i + k])
    Widen("C")                C[i] = sum(i32(A[k]) * i32(W[k, i]))  ->  C.A[d0] = i16(A[d0]); C[i] = sum(i32(C.A[k]) * i32(W[k, i]))
                              of bytes, W a constant                  where W is of i16

The JSON form of a rewrite is the list of its name and its fields, `["rfactor", "C", "k", 4, true]`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang import evaluate
from tensorsmith.lang.dtypes import dtype, is_float
from tensorsmith.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Var, loads, operands_first, substitute, transform
from tensorsmith.lang.inline import inline
from tensorsmith.lang.workload import Buffer, Stage, Workload
from tensorsmith.program.grouping import factors
from tensorsmith.space.analysis import is_reshape
from tensorsmith.space.reshaping import parts_of, reshaped_source


@dataclass(frozen=True)
class Rewrite(ABC):
    """One change of the DAG at one stage."""

    name: ClassVar[str]  # in texts and in JSON
    stage: str

    @abstractmethod
    def apply(self, workload: Workload) -> Workload:
        """The workload after this rewrite; `stage` is one of its stages."""

    def fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in dataclasses.fields(self))

    def to_json(self) -> list[Any]:
        return [self.name, *self.fields()]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.fields()))})"


@dataclass(frozen=True)
class Inline(Rewrite):
    """A stage is computed where it is read."""

    name = "inline"

    def apply(self, workload: Workload) -> Workload:
        return inline(workload, self.stage)


@dataclass(frozen=True)
class CacheWrite(Rewrite):
    """A stage is computed into a buffer of its own, which is then copied to the stage."""

    name = "cache_write"

    @property
    def cache(self) -> str:
        """The stage that computes."""
        return f"{self.stage}.cache"

    def apply(self, workload: Workload) -> Workload:
        stage = workload.stage(self.stage)
        copy = Stage(stage.name, stage.axes, Load(self.cache, tuple(Var(a.name) for a in stage.axes), stage.dtype))
        return _replaced(workload, stage.name, [replace(stage, name=self.cache), copy])


@dataclass(frozen=True)
class Rfactor(Rewrite):
    """A reduction becomes `factor` partial ones over an axis that becomes spatial, and a small final one.

    With `inner` the partial results take neighbouring elements (element k goes to k % factor), for lanes; else contiguous blocks,
    for threads.
    """

    name = "rfactor"
    axis: str  # the reduction axis
    factor: int
    inner: bool = False

    @property
    def partial(self) -> str:
        """The stage that computes the partial results."""
        return f"{self.stage}.rf"

    def apply(self, workload: Workload) -> Workload:
        stage = workload.stage(self.stage)
        if not stage.reduction or self.axis not in {a.name for a in stage.reduce_axes}:
            raise Refusal("rfactor of no reduction", f"{self.stage}.{self.axis}")
        total = stage.axis(self.axis).extent
        factor = max(1, min(self.factor, total))
        length = -(-total // factor)
        factored = Axis(f"{self.axis}_f", factor)
        rest = Axis(self.axis, length)
        k: Expr = Var(rest.name) * factor + Var(factored.name) if self.inner else Var(factored.name) * length + Var(rest.name)
        body = substitute(stage.body, {self.axis: k})
        if factor * length != total:  # a partial result whose elements ran out adds nothing
            body = Select(Binary("lt", k, Const(total, "i64")), body, identity(stage.reduction, stage.dtype))
        partial = Stage(
            self.partial,
            (*stage.axes, factored),
            body,
            stage.reduction,
            tuple(rest if a.name == self.axis else a for a in stage.reduce_axes),
        )
        indices = (*(Var(a.name) for a in stage.axes), Var(factored.name))
        final = Stage(stage.name, stage.axes, Load(partial.name, indices, stage.dtype), stage.reduction, (factored,))
        return _replaced(workload, stage.name, [partial, final])

    def __str__(self) -> str:
        return f"rfactor({self.stage}, {self.axis}, {self.factor}{', inner' if self.inner else ''})"


@dataclass(frozen=True)
class CacheRead(Rewrite):
    """A stage reads a tensor through a copy, which can then be laid out as the stage's loops want it."""

    name = "cache_read"
    tensor: str

    @property
    def copy(self) -> str:
        """The stage that copies."""
        return f"{self.tensor}.pack"

    def apply(self, workload: Workload) -> Workload:
        stage = workload.stage(self.stage)
        reads = [x for x in stage.reads if x.tensor == self.tensor]
        if len(reads) != 1 or any(not isinstance(i, Var) for i in reads[0].indices):
            raise Refusal("cannot pack", f"{self.stage} must read {self.tensor} once, at plain axes")
        (read,) = reads
        names = [i.name for i in read.indices if isinstance(i, Var)]
        if len(set(names)) != len(names):
            raise Refusal("cannot pack", f"{self.stage} reads a diagonal of {self.tensor}")
        shape = workload.buffers[self.tensor].shape
        copy = Stage(self.copy, tuple(Axis(n, e) for n, e in zip(names, shape)), read)

        def from_copy(e: Expr) -> Expr | None:
            return Load(copy.name, e.indices, e.dtype) if isinstance(e, Load) and e.tensor == self.tensor else None

        return _replaced(workload, self.stage, [copy, replace(stage, body=transform(stage.body, from_copy))])


@dataclass(frozen=True)
class Fetch(Rewrite):
    """A stage reads a tensor through a copy of the same shape, of which only what is needed at a time is made."""

    name = "fetch"
    tensor: str

    @property
    def copy(self) -> str:
        """The stage that copies."""
        return f"{self.stage}.{self.tensor}"

    def apply(self, workload: Workload) -> Workload:
        stage, source = workload.stage(self.stage), workload.buffers[self.tensor]
        if self.tensor not in {x.tensor for x in stage.reads}:
            raise Refusal("cannot fetch", f"{self.stage} does not read {self.tensor}")
        copy = Stage(self.copy, *_all_of(source))
        new: dict[Expr, Expr] = {}
        for e in operands_first(stage.body):
            operands = tuple(new[x] for x in e.operands)
            fetched = isinstance(e, Load) and e.tensor == self.tensor
            new[e] = Load(copy.name, operands, e.dtype) if fetched else e.with_operands(operands) if operands else e
        return _replaced(workload, self.stage, [copy, replace(stage, body=new[stage.body])])


@dataclass(frozen=True)
class Widen(Rewrite):
    """The factors of a sum of products of bytes are stored as i16, for machines that multiply pairs of those.

    A constant changes its type: whoever packs it writes i16. Any other tensor is read through a copy of the same shape.
    """

    name = "widen"
    TYPE: ClassVar[str] = "i16"  # has every value of i8 and of u8

    def copy(self, tensor: str) -> str:
        """The stage that copies a tensor."""
        return f"{self.stage}.{tensor}"

    def copies(self, workload: Workload) -> tuple[str, ...]:
        """All of them, in a workload that is yet to be rewritten."""
        return tuple(self.copy(t) for t in _read_by(workload.stage(self.stage)) if not workload.buffers[t].constant)

    def apply(self, workload: Workload) -> Workload:
        stage, buffers = workload.stage(self.stage), workload.buffers
        both = factors(stage)
        if both is None or any(dtype(e.dtype).bytes != 1 for e in both):
            raise Refusal("cannot widen", f"{self.stage} is no sum of products of bytes")
        tensors = _read_by(stage)
        for t in tensors:
            if buffers[t].constant and sum(x.tensor == t for s in workload.stages for x in s.reads) > 1:
                raise Refusal("cannot widen", f"{t} is read elsewhere too, as bytes")
        found: set[Load] = set()

        def wide(e: Expr) -> Expr:
            if isinstance(e, Load):
                found.add(e)
                return Load(e.tensor if buffers[e.tensor].constant else self.copy(e.tensor), e.indices, self.TYPE)
            if isinstance(e, Const):
                return Const(e.value, self.TYPE)
            if isinstance(e, Select) and not loads(e.cond):
                return Select(e.cond, wide(e.a), wide(e.b))
            raise Refusal("cannot widen", f"{self.stage} computes its factors")

        a, b = (Cast("i32", wide(e)) for e in both)
        if found != set(stage.reads):
            raise Refusal("cannot widen", f"{self.stage} reads numbers that tell where its factors are")
        copies = []
        for t in tensors:
            if not buffers[t].constant:
                axes, whole = _all_of(buffers[t])
                copies.append(Stage(self.copy(t), axes, Cast(self.TYPE, whole)))
        inputs = tuple(replace(i, dtype=self.TYPE) if i.constant and i.name in tensors else i for i in workload.inputs)
        new = _replaced(workload, self.stage, [*copies, replace(stage, body=Binary("mul", a, b))])
        return Workload(inputs, new.stages, new.outputs)


@dataclass(frozen=True)
class Alias(Rewrite):
    """An output that is only a reshape of a stage is dropped: that stage is written to the output's memory at once.

    The outputs keep their places; the one in question bears the other stage's name and shape from here on.
    """

    name = "alias"

    def apply(self, workload: Workload) -> Workload:
        name = self.stage
        source = is_reshape(workload, workload.stage(name))
        if name not in workload.outputs or workload.consumers[name] or source is None or not workload.is_stage(source):
            raise Refusal("cannot alias", f"{name} must be an output that only reshapes a stage")
        if source in workload.outputs:
            raise Refusal("cannot alias", f"{source} is an output itself")
        outputs = tuple(source if n == name else n for n in workload.outputs)
        return Workload(workload.inputs, tuple(s for s in workload.stages if s.name != name), outputs)


@dataclass(frozen=True)
class Reshape(Rewrite):
    """An output that works element by element on a stage of another shape takes that shape: it can then be computed on its tiles.

    Memory holds the same elements in the same order. Only if the stage's dimensions are parts of the output's: indices into other
    tensors stay sums of axes then.
    """

    name = "reshape"

    @property
    def reshaped(self) -> str:
        """The stage in its new shape."""
        return f"{self.stage}.reshaped"

    def apply(self, workload: Workload) -> Workload:
        stage = workload.stage(self.stage)
        source = reshaped_source(workload, stage)
        if source is None:
            raise Refusal(
                "cannot reshape", f"{self.stage} must be an output in the order of a stage whose dimensions are parts of its own"
            )
        values = parts_of(stage.axes, source.axes)
        assert values is not None
        here = Load(source.name, tuple(Var(a.name) for a in source.axes), source.dtype)

        def moved(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.tensor == source.name:
                return here
            return values.get(e.name) if isinstance(e, Var) else None

        if self.reshaped in workload.buffers:
            raise Refusal("name taken", f"{self.reshaped}: the stage was rewritten in this way before")
        new = Stage(self.reshaped, source.axes, transform(stage.body, moved))
        stages = tuple(new if s.name == stage.name else s for s in workload.stages)
        outputs = tuple(new.name if n == stage.name else n for n in workload.outputs)
        return Workload(workload.inputs, stages, outputs)


_KINDS: dict[str, type[Rewrite]] = {r.name: r for r in (Inline, CacheWrite, Rfactor, CacheRead, Fetch, Widen, Alias, Reshape)}


def rewrite_from_json(data: Sequence[Any]) -> Rewrite:
    """A rewrite of its JSON form: a name, then strings, numbers and flags as the class has them."""
    name, *given = data
    if name not in _KINDS:
        raise UserError(f"unknown rewrite {name!r}; known are {', '.join(_KINDS)}")
    kind = _KINDS[name]
    types = {"str": str, "int": int, "bool": bool}
    fields = dataclasses.fields(kind)
    if len(given) != len(fields):
        raise ValueError(f"{name} has {len(fields)} fields, got {given}")
    return kind(*(types[str(f.type)](value) for f, value in zip(fields, given)))


def apply_rewrites(workload: Workload, rewrites: Sequence[Rewrite]) -> Workload:
    """The workload after all rewrites, in order."""
    for r in rewrites:
        if not workload.is_stage(r.stage):
            raise UserError(f"{r}: the workload has no stage {r.stage!r}")
        workload = r.apply(workload)
    return workload


def identity(reduction: str, dtype_name: str) -> Const:
    """The value that a reduction starts from, as an expression."""
    number = evaluate.identity(reduction, dtype_name)
    return Const(float(number) if is_float(dtype_name) else number, dtype_name)


def _read_by(stage: Stage) -> list[str]:
    """The tensors that a stage reads, each once."""
    return list(dict.fromkeys(x.tensor for x in stage.reads))


def _all_of(buffer: Buffer) -> tuple[tuple[Axis, ...], Load]:
    """Axes over all of a tensor, and what is read there."""
    axes = tuple(Axis(f"d{n}", extent) for n, extent in enumerate(buffer.shape))
    return axes, Load(buffer.name, tuple(Var(a.name) for a in axes), buffer.dtype)


def _replaced(workload: Workload, name: str, new: list[Stage]) -> Workload:
    names = [a.name for a in new[0].all_axes]
    if any(s.name in workload.buffers for s in new[:-1]) or len(set(names)) != len(names):
        raise Refusal("name taken", f"{new[0].name} over {', '.join(names)}: the stage was rewritten in this way before")
    stages: list[Stage] = []
    for s in workload.stages:
        stages.extend(new if s.name == name else [s])
    return Workload(workload.inputs, tuple(stages), workload.outputs)
