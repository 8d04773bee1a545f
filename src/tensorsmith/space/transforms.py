"""Transforms: stages that choose among expressions by a short index, and products between two of them (Winograd's convolution).

    data[u, v, ty, tx, ci] = select(v == 0, ...)                                 a transform of tiles of the input
    gemm[u, v, ty, tx, co] = sum(data[u, v, ty, tx, ci] * w[u, v, ci, co])       the product
    blocks[ty, y, tx, z, co] = select(z == 0, ...)                               a transform back

All three run through the tiles in step, so some rows of tiles, a *slice*, can go through all of them before the next: the
transformed values of a slice stay in a cache, where those of the whole image would not, and need far less memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.lang.expr import Const, Var
from tensorsmith.lang.workload import Axis, Stage, Workload
from tensorsmith.space.analysis import elementwise_match, needs_tiling, selecting_axes


def is_transform(workload: Workload, stage: Stage) -> bool:
    """Whether a stage chooses by an index, or reads one that does element by element: what follows a transform on its tile."""
    if selecting_axes(stage):
        return True
    sources = [x.tensor for x in stage.reads if workload.is_stage(x.tensor) and selecting_axes(workload.stage(x.tensor))]
    return stage.reduction is None and any(elementwise_match(workload, source, stage.name) for source in sources)


def transform_axes(workload: Workload, stage: Stage) -> frozenset[str]:
    """The axes of the transformed tile, of a stage that chooses by an index.

    They are the one it chooses by, those along which its reader picks elements by number, those by which the stage before chose.
    """
    found = set(selecting_axes(stage))
    for name in workload.consumers[stage.name]:
        for read in workload.stage(name).reads:
            if read.tensor == stage.name:
                found |= {a.name for a, index in zip(stage.axes, read.indices) if isinstance(index, Const) and a.extent > 1}
    for read in stage.reads:
        if workload.is_stage(read.tensor):
            before = workload.stage(read.tensor)
            chosen = selecting_axes(before)
            if not selecting_axes(stage) and chosen:
                chosen = transform_axes(workload, before)
            found |= {i.name for a, i in zip(before.axes, read.indices) if a.name in chosen and isinstance(i, Var)}
    return frozenset(found)


@dataclass(frozen=True, eq=False)
class Slices:
    """How the last stage of a chain of transforms is cut, and what is computed for one slice at a time."""

    product: str
    data: str  # the transform that the product reads
    lead: tuple[Axis, ...]  # axes of the last stage around the one that is cut
    axis: Axis
    along: str  # the axis of the product that moves with that one

    @property
    def members(self) -> tuple[str, ...]:
        return self.product, self.data

    @property
    def depth(self) -> int:
        """How many outer loops of the last stage are around a slice."""
        return len(self.lead) + 1

    def values_bytes(self, workload: Workload) -> int:
        """Of what the members compute for the whole image."""
        return sum(workload.buffers[m].bytes for m in self.members)

    def constants_bytes(self, workload: Workload) -> int:
        """Of what every slice reads as a whole."""
        read = {x.tensor for x in workload.stage(self.product).reads}
        return sum(workload.buffers[t].bytes for t in read if workload.buffers[t].constant)

    def loops(self, others: tuple[Axis, ...]) -> str:
        """The outer loops of the last stage; `others` are the axes not named here."""
        names = [*(f"{a.name}.0" for a in self.lead), f"{self.axis.name}.0", f"{self.axis.name}.1"]
        return " ".join([*names, *(f"{a.name}.0" for a in others)])


def slices(workload: Workload, last: Stage) -> Slices | None:
    """How a chain of transforms that ends with a stage can be cut, if it is one: along the last but one axis of the tiles."""
    inside, product = {last.name}, last
    while product is last or not product.reduction:
        if not is_transform(workload, product):
            return None
        sources = [x.tensor for x in product.reads if workload.is_stage(x.tensor)]
        if len(set(sources)) != 1 or not set(workload.consumers[sources[0]]) <= inside:
            return None
        product = workload.stage(sources[0])
        inside.add(product.name)
    data = [x.tensor for x in product.reads if workload.is_stage(x.tensor)]
    if not needs_tiling(product) or len(data) != 1 or workload.consumers[data[0]] != (product.name,):
        return None
    if not is_transform(workload, workload.stage(data[0])):
        return None
    of_product = _in_step(workload, product.name, last)
    moving = set(of_product.values()) & set(_in_step(workload, data[0], last).values())
    tiles = [a for a in last.axes if a.name in moving]
    if len(tiles) < 2 or tiles[-2].extent == 1:
        return None
    along = next(product.axes[n].name for n, name in of_product.items() if name == tiles[-2].name)
    return Slices(product.name, data[0], tuple(tiles[:-2]), tiles[-2], along)


def _in_step(workload: Workload, producer: str, last: Stage) -> dict[int, str]:
    """The dimensions of a producer, by number, whose index is just an axis of the last stage, on all ways there."""
    if producer == last.name:
        return {n: a.name for n, a in enumerate(last.axes)}
    found: dict[int, str] | None = None
    for reader in workload.consumers[producer]:
        stage = workload.stage(reader)
        names = {stage.axes[n].name: axis for n, axis in _in_step(workload, reader, last).items()}
        for read in stage.reads:
            if read.tensor == producer:
                here = {n: names[i.name] for n, i in enumerate(read.indices) if isinstance(i, Var) and i.name in names}
                found = here if found is None else {n: a for n, a in found.items() if here.get(n) == a}
    return found or {}
