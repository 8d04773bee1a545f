"""Loop counts of a whole population at once, whatever structure each of its rows has.

Lowering works on rows of one structure; sampling and repair look at thousands of rows in many structures and need only numbers:
how long the region of a stage is where it is computed, and how often its loops run. Regions follow by the bound inference that
lowering uses too (`space/sketch/regions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensorsmith.lang.affine import Affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Axis
from tensorsmith.lang.workload import Stage
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.sketch.copies import followed
from tensorsmith.space.sketch.loops import AttachPoint, NestLoop
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.regions import needed
from tensorsmith.space.sketch.rewrite import apply_rewrites
from tensorsmith.space.sketch.sketch import Sketch


@dataclass(frozen=True)
class Place:
    """One of the places where a stage may be computed: `option` of the choice `column` (None: always there)."""

    option: int | None
    inline: bool = False
    at: AttachPoint | None = None  # None is the root, unless inlined


@dataclass
class Measured:
    """The numbers of a population. Arrays have an entry per row; counts are listed by part, outermost first."""

    rows: int
    lengths: dict[str, dict[str, Array]] = field(default_factory=dict)  # by stage and axis: of the region that is computed
    counts: dict[str, dict[str, list[Array]]] = field(default_factory=dict)
    at_root: dict[str, Array] = field(default_factory=dict)
    inlined: dict[str, Array] = field(default_factory=dict)
    tails: dict[tuple[str, bool], dict[str, Array]] = field(default_factory=dict)  # see `Geometry.inside`

    def loop(self, stage: str, loop: NestLoop) -> Array:
        """How often a loop runs."""
        return self.counts[stage][loop.axis][loop.part]

    def region_bytes(self, stage: Stage) -> Array:
        """Memory for the part of a stage that is computed at its place."""
        total = np.full(self.rows, float(dtype(stage.dtype).bytes))
        for a in stage.axes:
            total *= self.lengths[stage.name][a.name]
        return total


class Geometry:
    """What follows from a sketch alone; `measure` adds a population."""

    def __init__(self, sketch: Sketch, columns: Mapping[str, int]) -> None:
        self.sketch, self.columns = sketch, columns
        self.workload = sketch.rewritten
        self.stages = {s.name: s for s in self.workload.stages}
        self._drafts = [(columns[c.hole], [sketch.draft({c.hole: n}) for n in range(len(c.options))]) for c in sketch.choices]
        self.extents = self._extents()  # by stage and axis: the column that decides, and what its values mean
        orders = {name: self._orders(name) for name in self.stages}
        self.orders = {name: found for name, (_, found) in orders.items()}  # the nest with each of its loop orders
        self._order_columns = {name: column for name, (column, _) in orders.items()}
        self.places = {name: self._places(name) for name in self.stages}  # the column that decides, and what its values mean
        self.fixed = {name: self._fixed(name) for name in self.stages}  # by axis: [order, depth], its parts among the outer loops

    def _orders(self, stage: str) -> tuple[int | None, tuple[Nest, ...]]:
        nest = self.sketch.nest(stage)
        for column, drafts in self._drafts:
            if any(d.nests[stage].loops != nest.loops for d in drafts):
                return column, tuple(replace(nest, loops=d.nests[stage].loops) for d in drafts)
        return None, (nest,)

    def order(self, stage: str, matrix: Matrix) -> Array:
        """The number of each row's loop order."""
        column = self._order_columns[stage]
        return np.zeros(len(matrix), np.int32) if column is None else matrix[:, column]

    def _places(self, stage: str) -> tuple[int | None, tuple[Place, ...]]:
        fixed = Place(None, at=self.sketch.nest(stage).at)
        for column, drafts in self._drafts:
            found = [Place(n, stage in d.inlined, d.nests[stage].at) for n, d in enumerate(drafts)]
            if any((p.inline, p.at) != (fixed.inline, fixed.at) for p in found):
                return column, tuple(found)
        return None, (fixed,)

    def _fixed(self, stage: str) -> dict[str, Array]:
        depths = range(len(self.orders[stage][0].outer) + 1)
        loops = [[loop.axis for loop in o.outer] for o in self.orders[stage]]
        axes = [a.name for a in self.stages[stage].all_axes]
        return {a: np.array([[outer[:d].count(a) for d in depths] for outer in loops]) for a in axes}

    def extent(self, stage: str, axis: str, matrix: Matrix) -> Array:
        """Of an axis; that of a partial reduction depends on the factor."""
        column, table = self.extents[stage][axis]
        return np.full(len(matrix), table[0], np.int64) if column is None else table[matrix[:, column]]

    def most(self, stage: str, axis: str) -> int:
        """The longest that an axis can be."""
        return int(self.extents[stage][axis][1].max())

    def _extents(self) -> dict[str, dict[str, tuple[int | None, Array]]]:
        found: dict[str, dict[str, tuple[int | None, Array]]] = {}
        for s in self.workload.stages:
            found[s.name] = {a.name: (None, np.array([a.extent], np.int64)) for a in s.all_axes}
        for column, drafts in self._drafts:
            if all(tuple(d.rewrites) == self.sketch.rewrites for d in drafts):
                continue
            made = [apply_rewrites(self.sketch.workload, d.rewrites) for d in drafts]
            for s in self.workload.stages:
                tables = {a.name: np.array([w.stage(s.name).axis(a.name).extent for w in made], np.int64) for a in s.all_axes}
                for axis, table in tables.items():
                    if (table != s.axis(axis).extent).any():
                        found[s.name][axis] = column, table
        return found

    # -- a population ----------------------------------------------------------------------------------------------

    def measure(self, matrix: Matrix) -> Measured:
        """Region lengths and loop counts of every row."""
        found = Measured(len(matrix))
        for stage in reversed(self.workload.stages):  # consumers first: they tell what producers must give
            name = stage.name
            column, places = self.places[name]
            options = np.zeros(len(matrix), np.int32) if column is None else matrix[:, column]
            found.at_root[name] = np.array([p.at is None and not p.inline for p in places])[options]
            found.inlined[name] = np.array([p.inline for p in places])[options]
            lengths = {a.name: self.extent(name, a.name, matrix) for a in stage.all_axes}
            for owner in dict.fromkeys(p.at.stage for p in places if p.at is not None):
                depths = np.array([p.at.depth if p.at is not None and p.at.stage == owner else -1 for p in places])[options]
                here = depths >= 0
                if here.any():
                    for axis, length in self.needed(stage, owner, np.maximum(depths, 0), matrix, found).items():
                        lengths[axis] = np.where(here, np.minimum(length, lengths[axis]), lengths[axis])
            found.lengths[name] = lengths
            found.counts[name] = self._counts(stage, lengths, matrix, found)
        return found

    def _counts(self, stage: Stage, lengths: dict[str, Array], matrix: Matrix, found: Measured) -> dict[str, list[Array]]:
        nest = self.sketch.nest(stage.name)
        if nest.follows is not None:
            loops = followed(self.workload, self.sketch.by_stage, nest)
            return {axis: [found.loop(*one) for one in mine] for axis, mine in loops.items()}
        counts: dict[str, list[Array]] = {}
        for axis, parts in nest.parts.items():
            left = lengths[axis]
            here: list[Array] = []
            for p in reversed(range(1, parts)):
                size = np.maximum(1, np.minimum(matrix[:, self.columns[f"{stage.name}.{axis}.{p}"]], left))
                here.insert(0, size)
                left = -(-left // size)
            counts[axis] = [left, *here]
        return counts

    def needed(self, stage: Stage, owner: str, depths: Array, matrix: Matrix, found: Measured) -> dict[str, Array]:
        """How much of a stage its readers need inside the first `depths` outer loops of a nest."""
        of_block = self.sketch.nest(stage.name).loops.is_cooperative
        return needed(self.workload, stage, owner, _Arrays(self, depths, matrix, found, of_block))

    def inside(self, stage: str, depths: Array, matrix: Matrix, found: Measured, whole: bool = False) -> dict[str, Array]:
        """How far the axes of a nest run inside its first `depths` outer loops; with `whole` tiles, beyond their ends too."""
        order = self.order(stage, matrix)
        lines = np.arange(len(matrix))
        result: dict[str, Array] = {}
        for axis, tails in self._tails(stage, found, whole).items():
            fixed = self.fixed[stage][axis][order, depths]  # how many parts of the axis are around
            result[axis] = tails[fixed, lines]
        return result

    def inside_block(self, stage: str, depths: Array, matrix: Matrix, found: Measured) -> dict[str, Array]:
        """How far the axes of a nest run inside its first `depths` outer loops, for all threads of a block together: as if the
        loops of threads, around it or its own, were not fixed."""
        nest = self.sketch.nest(stage)
        first = nest.loops.before_threads
        result = self.inside(stage, np.minimum(depths, first), matrix, found)
        if (depths > first).any():  # each thread has a whole tile
            all_ = self.inside(stage, np.minimum(depths, first), matrix, found, whole=True)
            result = {axis: np.where(depths > first, all_[axis], length) for axis, length in result.items()}
        if nest.at is not None:
            own = self.inside(stage, depths, matrix, found)
            first = self.sketch.nest(nest.at.stage).loops.before_threads
            arrays = _Arrays(self, np.full(len(matrix), min(nest.at.depth, first)), matrix, found, False, nest.at.depth > first)
            around = needed(self.workload, self.stages[stage], nest.at.stage, arrays)
            fixed = {loop.axis for loop in nest.outer[: int(depths.max(initial=0))]}
            result = {axis: around[axis] if axis in around and axis not in fixed else own[axis] for axis in own}
        return result

    def _tails(self, stage: str, found: Measured, whole: bool = False) -> dict[str, Array]:
        """By axis: [parts, rows], how far it runs inside so many of its parts."""
        if (stage, whole) not in found.tails:
            here: dict[str, Array] = {}
            found.tails[stage, whole] = here
            for axis, counts in found.counts[stage].items():
                tails = here[axis] = np.empty((len(counts) + 1, found.rows), np.int64)
                length = tails[0] = found.lengths[stage][axis]
                stride = np.ones(found.rows, np.int64)
                for part in range(len(counts), 0, -1):
                    tails[part] = stride if whole else np.minimum(length, stride)
                    stride = stride * counts[part - 1]
        return found.tails[stage, whole]

    def outer_counts(self, stage: str, matrix: Matrix, found: Measured) -> Array:
        """[rows, loops]: the counts of the outer loops in each row's order, reduction loops as 0."""
        orders, order = self.orders[stage], self.order(stage, matrix)
        reduce = {a.name for a in self.stages[stage].reduce_axes}
        result = np.zeros((len(matrix), len(orders[0].outer)), np.int64)
        for n, nest in enumerate(orders):
            here = order == n
            if here.any():
                for depth, loop in enumerate(nest.outer):
                    if loop.axis not in reduce:
                        result[here, depth] = found.loop(stage, loop)[here]
        return result

    def parallel_limit(self, stage: str, matrix: Matrix, counts: Array) -> Array:
        """Outer loops that threads can share: spatial ones, as far as nothing is attached among them."""
        limit = np.cumprod(counts > 0, axis=1).sum(axis=1)
        for other in self.stages:
            column, places = self.places[other]
            for place in places:
                if place.at is not None and place.at.stage == stage and place.at.depth < counts.shape[1]:
                    here = slice(None) if column is None else matrix[:, column] == place.option
                    limit[here] = np.minimum(limit[here], place.at.depth)
        return limit


@dataclass(frozen=True)
class _Arrays:
    """Lengths with an entry per row, for bound inference inside the first `depths` outer loops of a nest."""

    geometry: Geometry
    depths: Array
    matrix: Matrix
    found: Measured
    of_block: bool  # for all threads of a block
    tiles: bool = False  # that are whole

    def whole(self, stage: Stage, axis: Axis) -> Array:
        return self.geometry.extent(stage.name, axis.name, self.matrix)

    def inside(self, stage: Stage, whole_tiles: bool) -> Mapping[str, Array]:
        if self.of_block:
            return self.geometry.inside_block(stage.name, self.depths, self.matrix, self.found)
        return self.geometry.inside(stage.name, self.depths, self.matrix, self.found, self.tiles)

    def touched(self, stage: Stage, axis: Axis, index: Affine | None, seen: Mapping[str, Array]) -> Array:
        return self.whole(stage, axis) if index is None else reach(index, seen, len(self.matrix))

    def together(self, stage: Stage, axis: Axis, parts: Sequence[Array]) -> Array:
        most = np.ones(len(self.matrix), np.int64)
        for length in parts:
            most = np.maximum(most, length)
        return most

    def computed(self, stage: Stage, needed: dict[str, Array]) -> dict[str, Array]:
        return needed


def reach(index: Affine, seen: Mapping[str, Array], rows: int) -> Array:
    """How many elements an index touches while its axes run through what is seen of them."""
    if len(index.terms) == 1:
        ((name, coefficient),) = index.terms.items()
        if abs(coefficient) == 1:
            return seen[name]
    length = np.ones(rows, np.int64)
    for name, coefficient in index.terms.items():
        length = length + abs(coefficient) * (seen[name] - 1)
    return length
