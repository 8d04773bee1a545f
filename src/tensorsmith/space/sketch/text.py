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

from collections.abc import Mapping

from tensorsmith.lang.affine import affine
from tensorsmith.lang.expr import Expr
from tensorsmith.lang.text import show as show_expr
from tensorsmith.lang.workload import Stage
from tensorsmith.space.sketch.sketch import Choice, Nest, Sketch

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
        self.needs: dict[tuple[str, tuple[str, int]], dict[str, Length]] = {}  # what attached readers compute inside a point
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
            kind = "unroll" if loop in nest.unrolled else "parallel?" if self._may_be_parallel(nest, depth) else "for"
            return [*attached, f"{pad}{kind} {self._loop(nest, loop)}:", *self.nest(nest, depth + 1, indent + 1)]
        if not depth:  # no outer loops: what belongs to the tile is attached at depth 0
            attached = [line for n in self.sketch.attached(nest.stage, 0) for line in self.nest(n, 0, indent)]
        tile = self._tile(nest, stage)
        if tile:
            return [*attached, f"{pad}tile {tile}:", f"{pad}  {_statement(stage)}"]
        return [*attached, f"{pad}{_statement(stage)}"]

    def _tile(self, nest: Nest, stage: Stage) -> str:
        reduced = {a.name for a in stage.reduce_axes}
        first = [loop for loop in nest.tile if _axis(loop) in reduced]
        parts = []
        for loop in [*first, *(loop for loop in nest.tile if loop not in first)]:
            plain = "reduce" if loop in first and loop not in nest.unrolled else "unroll"
            parts.append(f"{'vector' if loop == nest.vector else plain} {self._loop(nest, loop)}")
        if first:
            parts[len(first) - 1] += f" by {nest.stage}.unroll"
        return ", ".join(parts)

    def _may_be_parallel(self, nest: Nest, depth: int) -> bool:
        reduced = {a.name for a in self.workload.stage(nest.stage).reduce_axes}
        inside = any(self.sketch.attached(nest.stage, d) for d in range(1, depth + 1))
        return nest.at is None and not inside and not any(_axis(loop) in reduced for loop in nest.outer[: depth + 1])

    def _loop(self, nest: Nest, loop: str) -> str:
        axis, _, part = loop.rpartition(".")
        if part != "0":
            return f"{loop} < {nest.stage}.{loop}"
        inner: list[Length] = [f"{nest.stage}.{axis}.{p}" for p in range(1, nest.parts[axis])]
        length = self.lengths[nest.stage][axis]
        if not inner:
            return f"{loop} < {length}"
        divisor = str(_product(inner))
        dividend = f"({length})" if isinstance(length, str) and " " in length else str(length)
        return f"{loop} < {dividend}/{f'({divisor})' if '*' in divisor else divisor}"

    # -- how much of a stage is needed where it is attached ---------------------------------------------------------

    def _lengths(self, stage: Stage) -> dict[str, Length]:
        whole: dict[str, Length] = {a.name: a.extent for a in stage.all_axes}
        point = self.sketch.nest(stage.name).target
        return whole | (self._needed(stage, point) if point else {})

    def _needed(self, stage: Stage, point: tuple[str, int]) -> dict[str, Length]:
        """How many values of a stage's axes its readers need inside an attach point."""
        found: dict[str, list[Length]] = {a.name: [] for a in stage.axes}
        for reader in map(self.workload.stage, self.workload.consumers[stage.name]):
            seen = self._seen(reader, point)
            for read in (x for x in reader.reads if x.tensor == stage.name):
                for a, index in zip(stage.axes, read.indices):
                    found[a.name].append(_span(index, seen, a.extent))
        return {a.name: _largest(found[a.name], a.extent) for a in stage.axes}

    def _seen(self, reader: Stage, point: tuple[str, int]) -> dict[str, Length]:
        """How many values the axes of a reader take inside an attach point."""
        if reader.name != point[0]:
            if (reader.name, point) not in self.needs:
                self.needs[reader.name, point] = self._needed(reader, point)
            return {a.name: a.extent for a in reader.reduce_axes} | self.needs[reader.name, point]
        nest = self.sketch.nest(reader.name)
        lengths = dict(self.lengths[reader.name])
        for axis, parts in nest.parts.items():
            fixed = [p for p in range(parts) if f"{axis}.{p}" in nest.outer[: point[1]]]
            if fixed:
                lengths[axis] = _product([f"{nest.stage}.{axis}.{p}" for p in range(fixed[-1] + 1, parts)])
        return lengths


def _axis(loop: str) -> str:
    return loop.rpartition(".")[0]


def _statement(stage: Stage) -> str:
    axes = ", ".join(a.name for a in stage.axes)
    return f"{stage.name}[{axes}] {_SIGN[stage.reduction]} {show_expr(stage.body)}"


def _product(factors: list[Length]) -> Length:
    return "*".join(map(str, factors)) if factors else 1


def _span(index: Expr, seen: dict[str, Length], extent: int) -> Length:
    """How many elements an index runs over: `i + k` over 4 and 3 values takes 6."""
    form = affine(index)
    if form is None:
        return extent
    number, texts = 1, []
    for name, coefficient in form.terms.items():
        length = seen[name]
        if isinstance(length, int):
            number += abs(coefficient) * (length - 1)
        else:
            texts.append(length if abs(coefficient) == 1 else f"{abs(coefficient)}*{length}")
            number -= abs(coefficient)
    if not texts:
        return min(number, extent)
    return " + ".join(texts) + (f" {'+' if number > 0 else '-'} {abs(number)}" if number else "")


def _largest(lengths: list[Length], extent: int) -> Length:
    """The largest of the lengths that readers need, never more than there are."""
    distinct = list(dict.fromkeys(lengths))
    if len(distinct) == 1:
        return distinct[0]
    if all(isinstance(n, int) for n in distinct):
        return max(int(n) for n in distinct)
    return f"max({', '.join(map(str, distinct))})" if extent not in distinct else extent
