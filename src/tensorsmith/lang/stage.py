"""Stages: each a tensor computation, and the arrays between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.lang.affine import Bounds
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Axis, Expr, Load, Var, loads, operands_first
from tensorsmith.lang.text import axes_text, show
from tensorsmith.show.line import line, plain, typed


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

    def __repr__(self) -> str:
        return line(self, f"{self.name}: {typed(self.dtype, self.shape)}{', constant' if self.constant else ''}")

    def __str__(self) -> str:
        kind = "constant" if self.constant else "input"
        return plain(f"{self.name}: {kind} {self.dtype}[{', '.join(map(str, self.shape))}]")


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
        return tuple(loads(self.body))

    def bounds(self) -> Bounds:
        return Bounds({a.name: (0, a.extent - 1) for a in self.all_axes})

    def buffer(self) -> Buffer:
        return Buffer(self.name, self.shape, self.dtype)

    def __repr__(self) -> str:
        return line(self, self, f" {self.body.key[:4].hex()}")

    def __str__(self) -> str:
        head = f"{self.name}[{axes_text(self.axes)}]: {self.dtype} ="
        if self.reduction:
            return plain(f"{head} {self.reduction}({show(self.body)}, over {axes_text(self.reduce_axes)})")
        return plain(f"{head} {show(self.body)}")


def renamed(stage: Stage, tensors: Mapping[str, str], axes: Sequence[str]) -> Stage:
    """The stage with other names: those of tensors by their old ones, those of all its axes in order."""
    variables = dict(zip((a.name for a in stage.all_axes), axes, strict=True))
    new: dict[Expr, Expr] = {}
    for e in operands_first(stage.body):
        operands = tuple(new[x] for x in e.operands)
        if isinstance(e, Var):
            new[e] = Var(variables[e.name])
        elif isinstance(e, Load):
            new[e] = Load(tensors[e.tensor], operands, e.dtype)
        else:
            new[e] = e.with_operands(operands)
    own, reduced = (tuple(Axis(variables[a.name], a.extent) for a in group) for group in (stage.axes, stage.reduce_axes))
    return Stage(tensors[stage.name], own, new[stage.body], stage.reduction, reduced)


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
