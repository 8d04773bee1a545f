"""A workload: a DAG of stages, each a tensor computation, between inputs and outputs.

A workload is closed and self-contained: loads name tensors, axes are named per stage, shapes are numbers. It prints
readably, round-trips through JSON, and has a stable content key. `Workload.check` proves every load in bounds.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.dtypes import canonical, dtype
from tensorsmith.lang.expr import (
    REDUCTIONS,
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
    children,
    depth,
    distinct,
    loads,
    parts,
    walk,
    wrap,
)
from tensorsmith.lang.in_bounds import out_of_bounds
from tensorsmith.lang.text import axes_text, show

FORMAT = 1  # version of the JSON form
DEEPEST = 256  # nodes of a body that stand inside each other: what goes through it calls itself for each


@dataclass(frozen=True)
class Buffer:
    """A named array. `constant` inputs may be re-laid out once, when an executable is made."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: bool = False

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * dtype(self.dtype).bytes

    def __str__(self) -> str:
        kind = "constant" if self.constant else "input"
        return f"{self.name}: {kind} {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Stage:
    """One tensor computation: over every point of `axes`, `body`, combined by `reduction` over `reduce_axes` if any.

    Two stages are equal if they compute the same in the same words.
    """

    name: str
    axes: tuple[Axis, ...]
    body: Expr
    reduction: str | None = None
    reduce_axes: tuple[Axis, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Stage) and self._content == other._content)

    def __hash__(self) -> int:
        return hash(self._content)

    @functools.cached_property
    def _content(self) -> tuple[object, ...]:
        axes, reduce_axes = (tuple((a.name, a.extent) for a in group) for group in (self.axes, self.reduce_axes))
        return (self.name, axes, self.body.key, self.reduction, reduce_axes)

    @property
    def dtype(self) -> str:
        return self.body.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(a.extent for a in self.axes)

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        return self.axes + self.reduce_axes

    def axis(self, name: str) -> Axis:
        return next(a for a in self.all_axes if a.name == name)

    @functools.cached_property
    def reads(self) -> tuple[Load, ...]:
        """Every distinct load of the body, in order of first use."""
        return distinct(loads(self.body))

    def bounds(self) -> Bounds:
        return Bounds({a.name: (0, a.extent - 1) for a in self.all_axes})

    def buffer(self) -> Buffer:
        return Buffer(self.name, self.shape, self.dtype)

    def __str__(self) -> str:
        head = f"{self.name}[{axes_text(self.axes)}]: {self.dtype} ="
        if self.reduction:
            return f"{head} {self.reduction}({show(self.body)}, over {axes_text(self.reduce_axes)})"
        return f"{head} {show(self.body)}"


@dataclass(frozen=True)
class Workload:
    """Stages in an order in which each comes after those it reads."""

    inputs: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]

    @functools.cached_property
    def buffers(self) -> dict[str, Buffer]:
        """Every tensor by name: inputs, then stages."""
        return {b.name: b for b in (*self.inputs, *(s.buffer() for s in self.stages))}

    def stage(self, name: str) -> Stage:
        return self._stages[name]

    def is_stage(self, name: str) -> bool:
        return name in self._stages

    @functools.cached_property
    def _stages(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    @functools.cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """The stages that read each tensor, in order."""
        found: dict[str, list[str]] = {name: [] for name in self.buffers}
        for stage in self.stages:
            for name in dict.fromkeys(x.tensor for x in stage.reads):
                found[name].append(stage.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @functools.cached_property
    def key(self) -> str:
        """A stable identity of the content: 16 hex digits over structure, shapes, types and constants."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        lines = [*(str(b) for b in self.inputs), *(str(s) for s in self.stages), f"return {', '.join(self.outputs)}"]
        return "\n".join(lines)

    def check(self) -> Workload:
        """Raises `UserError` where names clash or a load is out of bounds, of the wrong rank or type; gives itself."""
        _check_names(self)
        for stage in self.stages:
            _check_stage(self, stage)
        for name in self.outputs:
            if name not in self._stages:
                raise UserError(f"output {name!r} is not computed by any stage")
            if self.outputs.count(name) > 1:
                raise UserError(f"{name!r} is an output more than once; give each output once")
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "inputs": [[b.name, list(b.shape), b.dtype, *(["constant"] if b.constant else [])] for b in self.inputs],
            "stages": [
                {
                    "name": s.name,
                    "axes": [[a.name, a.extent] for a in s.axes],
                    **({"reduce": [s.reduction, [[a.name, a.extent] for a in s.reduce_axes]]} if s.reduction else {}),
                    **_body_to_json(s.body),
                }
                for s in self.stages
            ],
            "outputs": list(self.outputs),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Workload:
        """The workload of a JSON form; raises `UserError` on anything malformed. Safe on data from strangers."""
        try:
            if data["format"] != FORMAT:
                raise UserError(f"workload format {data['format']!r} is not known; this version reads {FORMAT}")
            inputs = tuple(
                Buffer(str(name), tuple(map(_whole, shape)), canonical(kind), "constant" in rest)
                for name, shape, kind, *rest in data["inputs"]
            )
            stages = []
            for s in data["stages"]:
                reduction, reduce_axes = s.get("reduce", (None, []))
                stages.append(
                    Stage(
                        str(s["name"]),
                        tuple(Axis(str(n), _whole(e)) for n, e in s["axes"]),
                        _body_from_json(s),
                        reduction,
                        tuple(Axis(str(n), _whole(e)) for n, e in reduce_axes),
                    )
                )
            return Workload(inputs, tuple(stages), tuple(map(str, data["outputs"]))).check()
        except UserError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as problem:
            raise UserError(f"malformed workload: {type(problem).__name__}: {problem}") from problem


def _body_to_json(body: Expr) -> dict[str, Any]:
    """Nested lists; parts that are used again, and would make them too long, are in a list before."""
    places: dict[Expr, int] = {}
    written = []
    for part in parts(body):
        written.append(expr_to_json(part, places))
        places[part] = len(places)
    return {**({"parts": written} if written else {}), "body": expr_to_json(body, places)}


def _body_from_json(data: Mapping[str, Any]) -> Expr:
    known: list[Expr] = []
    for part in data.get("parts", []):
        known.append(expr_from_json(part, known))
    return expr_from_json(data["body"], known)


def expr_to_json(e: Expr, places: Mapping[Expr, int] = MappingProxyType({})) -> Any:
    """Nested lists, the node kind first; for a part of an expression its place in the list of them."""
    if e in places:
        return ["part", places[e]]
    if isinstance(e, Const):
        value = e.value if not isinstance(e.value, float) or math.isfinite(e.value) else repr(e.value)
        return ["const", value, e.dtype]
    if isinstance(e, Var):
        return ["var", e.name]
    if isinstance(e, Load):
        return ["load", e.tensor, e.dtype, *(expr_to_json(i, places) for i in e.indices)]
    if isinstance(e, Cast):
        return ["cast", e.dtype, expr_to_json(e.a, places)]
    if isinstance(e, Select):
        return ["select", *(expr_to_json(c, places) for c in children(e))]
    if isinstance(e, (Unary, Binary)):
        return [e.op, *(expr_to_json(c, places) for c in children(e))]
    raise UserError(f"a {type(e).__name__} cannot stand inside a stage's body")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"malformed workload: {value!r} is not a whole number")
    return value


def expr_from_json(data: Any, known: Sequence[Expr] = ()) -> Expr:
    """The inverse of `expr_to_json`, re-checking types; `known` are the parts so far."""
    from tensorsmith.lang import expr as x

    kind, *rest = data
    if kind == "part":
        place = _whole(rest[0])
        if not 0 <= place < len(known):
            raise UserError(f"malformed workload: part {place} of {len(known)}")
        return known[place]
    if kind == "const":
        value, name = rest
        name = canonical(name)
        if dtype(name).kind == "f":
            return Const(float(value), name)
        return Const(bool(value), name) if name == "bool" else wrap(_whole(value), name)
    if kind == "var":
        return Var(str(rest[0]))
    if kind == "load":
        return Load(str(rest[0]), tuple(expr_from_json(i, known) for i in rest[2:]), canonical(rest[1]))
    if kind == "cast":
        return Cast(canonical(rest[0]), expr_from_json(rest[1], known))
    operands = [expr_from_json(r, known) for r in rest]
    if kind == "select":
        cond, a, b = operands
        if cond.dtype != "bool" or a.dtype != b.dtype:
            raise UserError(f"select of {cond.dtype}, {a.dtype}, {b.dtype}")
        return Select(cond, a, b)
    if kind in x.UNARY and len(operands) == 1:
        return x.unary(kind, operands[0])
    if kind in (*x.ARITHMETIC, *x.COMPARISONS, *x.LOGIC, *x.BITS) and len(operands) == 2:
        return x.binary(kind, *operands)
    raise UserError(f"unknown expression {kind!r}")


def _check_names(workload: Workload) -> None:
    seen: set[str] = set()
    for buffer in (*workload.inputs, *(s.buffer() for s in workload.stages)):
        if buffer.name in seen:
            raise UserError(f"two tensors are called {buffer.name!r}; give each a name of its own")
        seen.add(buffer.name)
        if any(n < 0 for n in buffer.shape):
            raise UserError(f"{buffer.name} has a negative extent: {list(buffer.shape)}")
    seen = {b.name for b in workload.inputs}
    for stage in workload.stages:
        for read in stage.reads:
            if read.tensor not in seen and workload.is_stage(read.tensor):
                raise UserError(f"stage {stage.name} reads {read.tensor}, which is not computed before it")
        seen.add(stage.name)


def _check_stage(workload: Workload, stage: Stage) -> None:
    if stage.reduction not in (None, *REDUCTIONS):
        raise UserError(f"stage {stage.name}: unknown reduction {stage.reduction!r}; known are {', '.join(REDUCTIONS)}")
    if bool(stage.reduction) != bool(stage.reduce_axes):
        raise UserError(f"stage {stage.name}: a reduction needs reduce axes, and they a reduction")
    names = [a.name for a in stage.all_axes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"stage {stage.name}: the axis name {name!r} is used twice; give the reduce axis another name")
    for a in stage.all_axes:
        if a.extent < 0:
            raise UserError(f"stage {stage.name}: axis {a.name} has the negative extent {a.extent}")
    if stage.reduction and dtype(stage.dtype).kind == "b":
        raise UserError(f"stage {stage.name}: cannot reduce bool by {stage.reduction}; cast to i32 first")
    if any(a.extent == 0 for a in stage.all_axes):
        return  # nothing is ever read
    for e in walk(stage.body):
        _check_node(workload, stage, e)
    check_depth(stage.name, stage.body)
    problem = out_of_bounds(stage.body, stage.bounds(), {name: b.shape for name, b in workload.buffers.items()})
    if problem is not None:
        e, position, low, high = problem
        last = workload.buffers[e.tensor].shape[position] - 1
        raise UserError(
            f"stage {stage.name}: `{e}` reads dimension {position} of {e.tensor} at `{e.indices[position]}`, which takes values "
            f"{low}..{high}; allowed are 0..{last}. Guard it with select(), or mend the shape"
        )


def _check_node(workload: Workload, stage: Stage, e: Expr) -> None:
    if isinstance(e, Reduce):
        raise UserError(f"stage {stage.name}: a reduction must be the whole body; put `{e}` in a stage of its own")
    axes = [a.name for a in stage.all_axes]
    if isinstance(e, Var) and e.name not in axes:
        raise UserError(f"stage {stage.name}: unknown axis {e.name!r}; this stage has {', '.join(axes) or 'none'}")
    if isinstance(e, Load):
        _check_load(workload, stage, e)


def _check_load(workload: Workload, stage: Stage, e: Load) -> None:
    buffer = workload.buffers.get(e.tensor)
    if buffer is None:
        raise UserError(f"stage {stage.name} reads {e.tensor!r}, which is neither an input nor a stage")
    if len(e.indices) != len(buffer.shape):
        raise UserError(
            f"stage {stage.name}: `{e}` has {len(e.indices)} indices; "
            f"{e.tensor} has {len(buffer.shape)} dimensions {list(buffer.shape)}"
        )
    if e.dtype != buffer.dtype:
        raise UserError(f"stage {stage.name}: `{e}` is read as {e.dtype}, {e.tensor} is {buffer.dtype}")


def check_depth(name: str, body: Expr) -> None:
    """Raises `UserError` where a body is too deep to be worked with."""
    if depth(body) > DEEPEST:
        raise UserError(
            f"stage {name}: {depth(body)} operations of its body stand inside each other, at most {DEEPEST} may; "
            "put some of them in a stage of their own"
        )


def topological(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Stages ordered so that each follows what it reads (a stable depth-first order)."""
    by_name = {s.name: s for s in stages}
    done: dict[str, Stage] = {}
    todo = [(stage, False) for stage in reversed(by_name.values())]
    while todo:
        stage, visited = todo.pop()  # visited: what it reads is done
        if visited:
            done[stage.name] = stage
        elif stage.name not in done:
            todo.append((stage, True))
            todo.extend((by_name[x.tensor], False) for x in reversed(stage.reads) if x.tensor in by_name)
    return tuple(done.values())
