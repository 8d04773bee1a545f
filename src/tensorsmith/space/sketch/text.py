"""A sketch as readable loops, the open numbers by the names of their holes.

    parallel? i.0 < 512/(D.i.1*D.i.2):
      parallel? j.0 < 512/(D.j.1*D.j.2):
        ...
          tile reduce k.0 < 512 by C.unroll, unroll i.0 < D.i.2, vector j.0 < D.j.2:
            C[i, j] += A[i, k] * B[k, j]

`parallel?` marks the loops of which the first `D.parallel` may run on several threads; `unroll` ones are laid out. A tile need not
divide what it splits: read `/` as division rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorsmith.lang.affine import Affine
from tensorsmith.lang.expr import Axis
from tensorsmith.lang.text import show as show_expr
from tensorsmith.lang.workload import Stage
from tensorsmith.space.sketch.loops import AttachPoint, NestLoop
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.regions import needed
from tensorsmith.space.sketch.sketch import Sketch

Length = int | str  # a number, or a product of holes

_SIGN = {None: "=", "sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


def show(sketch: Sketch, options: Mapping[str, int] | None = None) -> str:
    """Rewrites, choices with the option shown in brackets (the first where `options` has none), then the loops."""
    taken = {c.hole: int((options or {}).get(c.hole, 0)) for c in sketch.choices}
    resolved = sketch.resolve(taken)
    lines = [str(r) for r in resolved.rewrites]
    lines += [_choice(c, taken[c.hole]) for c in sketch.choices]
    if lines:
        lines.append("")
    roots = [s.name for s in resolved.rewritten.stages if resolved.nest(s.name).at is None]
    text = _Text(resolved)
    for name in roots:
        lines += text.nest(resolved.nest(name), 0, 0)
    return "\n".join(lines)


def _choice(choice: Choice, taken: int) -> str:
    of = f" of {', '.join(choice.members)}" if choice.members else ""
    return f"{choice.hole}?{of}: " + " / ".join(f"[{o}]" if n == taken else o for n, o in enumerate(choice.options))


class _Text:
    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.workload = sketch.rewritten
        self.lengths: dict[str, dict[str, Length]] = {}
        for stage in reversed(self.workload.stages):  # readers first: they say how much of a stage is needed
            self.lengths[stage.name] = self._lengths(stage)

    def nest(self, nest: Nest, depth: int, indent: int) -> list[str]:
        """The lines of a nest inside its first `depth` outer loops."""
        pad = "  " * indent
        stage = self.workload.stage(nest.stage)
        if nest.follows is not None:
            return [f"{pad}copy in the order of the loops of {nest.follows}: {_statement(stage)}"]
        attached = [line for n in self.sketch.attached(nest.stage, depth) for line in self.nest(n, 0, indent)] if depth else []
        if depth < len(nest.outer):
            loop = nest.outer[depth]
            mark = nest.loops.bindings.get(loop)
            kind = mark or ("unroll" if loop in nest.unrolled else "parallel?" if self._may_be_parallel(nest, depth) else "for")
            return [*attached, f"{pad}{kind} {self._loop(nest, loop)}:", *self.nest(nest, depth + 1, indent + 1)]
        if not depth:  # no outer loops: what belongs to the tile is attached at depth 0
            attached = [line for n in self.sketch.attached(nest.stage, 0) for line in self.nest(n, 0, indent)]
        tile = self._tile(nest, stage)
        statement = _statement(stage) + "".join(f", {kind} {nest.stage}.{kind}" for kind in nest.also)
        if tile:
            return [*attached, f"{pad}tile {tile}:", f"{pad}  {statement}"]
        return [*attached, f"{pad}{statement}"]

    def _tile(self, nest: Nest, stage: Stage) -> str:
        reduced = {a.name for a in stage.reduce_axes}
        first = [loop for loop in nest.tile if loop.axis in reduced]
        parts = []
        for loop in [*first, *(loop for loop in nest.tile if loop not in first)]:
            plain = nest.loops.bindings.get(loop, "reduce" if loop in first and loop not in nest.unrolled else "unroll")
            plain = "group" if loop == nest.group else plain
            parts.append(f"{'vector' if loop == nest.vector else plain} {self._loop(nest, loop)}")
        if first:
            parts[max(0, len(first) - (1 if nest.group is None else 2))] += f" by {nest.stage}.unroll"
        return ", ".join(parts)

    def _may_be_parallel(self, nest: Nest, depth: int) -> bool:
        reduced = {a.name for a in self.workload.stage(nest.stage).reduce_axes}
        inside = any(self.sketch.attached(nest.stage, d) for d in range(1, depth + 1))
        reducing = any(loop.axis in reduced for loop in nest.outer[: depth + 1])
        return nest.at is None and not nest.loops.bound and not inside and not reducing

    def _loop(self, nest: Nest, loop: NestLoop) -> str:
        if loop.part:
            return f"{loop} < {nest.stage}.{loop}"
        inner: list[Length] = [f"{nest.stage}.{NestLoop(loop.axis, p)}" for p in range(1, nest.parts[loop.axis])]
        length = self.lengths[nest.stage][loop.axis]
        if not inner:
            return f"{loop} < {length}"
        divisor = str(_product(inner))
        dividend = f"({length})" if isinstance(length, str) and " " in length else str(length)
        return f"{loop} < {dividend}/{f'({divisor})' if '*' in divisor else divisor}"

    # -- how much of a stage is needed where it is attached ---------------------------------------------------------

    def _lengths(self, stage: Stage) -> dict[str, Length]:
        whole: dict[str, Length] = {a.name: a.extent for a in stage.all_axes}
        point = self.sketch.nest(stage.name).at
        of_block = self.sketch.nest(stage.name).loops.is_cooperative
        return whole | (needed(self.workload, stage, point.stage, _Texts(self, point, of_block)) if point else {})

    def inside(self, point: AttachPoint) -> dict[str, Length]:
        """How many values the axes of the stage take inside an attach point in its own loops."""
        nest = self.sketch.nest(point.stage)
        lengths = dict(self.lengths[point.stage])
        for axis, parts in nest.parts.items():
            fixed = [loop.part for loop in nest.outer[: point.depth] if loop.axis == axis]
            if fixed:
                lengths[axis] = _product([f"{nest.stage}.{NestLoop(axis, p)}" for p in range(fixed[-1] + 1, parts)])
        return lengths

    def inside_block(self, point: AttachPoint) -> dict[str, Length]:
        """The same for all threads of a block together, as if the loops of threads were not fixed."""
        nest = self.sketch.nest(point.stage)
        if nest.at is None:
            return self.inside(AttachPoint(point.stage, min(point.depth, nest.loops.before_threads)))
        owner = self.sketch.nest(nest.at.stage)
        outside = AttachPoint(owner.stage, min(nest.at.depth, owner.loops.before_threads))
        around = needed(self.workload, self.workload.stage(point.stage), owner.stage, _Texts(self, outside, False))
        fixed = {loop.axis for loop in nest.outer[: point.depth]}
        return {axis: around.get(axis, own) if axis not in fixed else own for axis, own in self.inside(point).items()}


@dataclass(frozen=True)
class _Texts:
    """Lengths as texts, for bound inference inside one attach point."""

    text: _Text
    point: AttachPoint
    of_block: bool

    def whole(self, stage: Stage, axis: Axis) -> Length:
        return axis.extent

    def inside(self, stage: Stage, whole_tiles: bool) -> Mapping[str, Length]:
        return self.text.inside_block(self.point) if self.of_block else self.text.inside(self.point)

    def touched(self, stage: Stage, axis: Axis, index: Affine | None, seen: Mapping[str, Length]) -> Length:
        """`i + k` over 4 and 3 values takes 6."""
        if index is None:
            return axis.extent
        number, texts = 1, []
        for name, coefficient in index.terms.items():
            length = seen[name]
            if isinstance(length, int):
                number += abs(coefficient) * (length - 1)
            else:
                texts.append(length if abs(coefficient) == 1 else f"{abs(coefficient)}*{length}")
                number -= abs(coefficient)
        if not texts:
            return min(number, axis.extent)
        return " + ".join(texts) + (f" {'+' if number > 0 else '-'} {abs(number)}" if number else "")

    def together(self, stage: Stage, axis: Axis, parts: Sequence[Length]) -> Length:
        distinct = list(dict.fromkeys(parts))
        if len(distinct) == 1:
            return distinct[0]
        if all(isinstance(n, int) for n in distinct):
            return max(int(n) for n in distinct)
        return f"max({', '.join(map(str, distinct))})" if axis.extent not in distinct else axis.extent

    def computed(self, stage: Stage, needed: dict[str, Length]) -> dict[str, Length]:
        return needed


def _statement(stage: Stage) -> str:
    axes = ", ".join(a.name for a in stage.axes)
    return f"{stage.name}[{axes}] {_SIGN[stage.reduction]} {show_expr(stage.body)}"


def _product(factors: list[Length]) -> Length:
    return "*".join(map(str, factors)) if factors else 1
