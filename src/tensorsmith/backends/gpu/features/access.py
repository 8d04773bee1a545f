"""One access of a kernel: where each lane of a warp goes, and what that costs, for many candidates at once."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.warp import Array, lanes_of, sectors, wavefronts
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.program.linear import Linear

WIDEST = 16  # bytes of one load or store of a thread


@dataclass(frozen=True)
class Lanes:
    """How the lanes of a block's first warp are told apart: the step of each loop that they are on, `[candidates, lanes]`."""

    steps: Mapping[str, Array]
    there: Array


def digits(loops: Sequence[tuple[str, Any]], threads: Array, count: int, warp: int, run: Any = 1) -> Lanes:
    """The threads of a block are the steps of loops, fused to one number, the last the fastest; or each is the first of a `run` of
    steps."""
    lane = np.arange(warp)[None, :] * np.broadcast_to(np.asarray(run, np.int64), count)[:, None]
    found: dict[str, Array] = {}
    stride = np.ones(count, np.int64)
    for name, steps in reversed(loops):
        steps = np.broadcast_to(np.asarray(steps, np.int64), count)
        found[name] = lane // stride[:, None] % steps[:, None]
        stride = np.minimum(stride * steps, 1 << 40)
    return Lanes(found, lanes_of(threads, warp))


def pattern(
    forms: Sequence[Linear | None],
    shape: Sequence[Any],
    size: int,
    runs: Mapping[str, Array],
    steps: Mapping[str, Array],
    counts: Mapping[str, Array],
    lanes: Lanes,
    count: int,
    target: GpuTarget,
    widest: int,
) -> Access:
    """The access at a position of each dimension of an array, of elements of `size` bytes.

    `runs` are the spatial loops that a thread has laid out, `steps` those of a reduction as far as they are: so many neighbours
    along one of them can be taken at once. `counts` are all loops of the block.
    """
    terms: dict[str, Array] = {}
    stride: Any = np.ones(count, np.int64)
    irregular = any(form is None for form in forms)
    offset = np.zeros(count, np.int64)
    for form, extent in zip(reversed(forms), reversed(shape)):
        for name, coefficient in ({} if form is None else form.terms).items():
            terms[name] = terms.get(name, 0) + np.asarray(coefficient, np.int64) * stride
        offset = offset + (0 if form is None else np.asarray(form.offset, np.int64) * stride)
        stride = stride * np.asarray(extent, np.int64)
    terms = {name: np.broadcast_to(value, count) for name, value in terms.items()}
    width = _width(terms, offset, {**runs, **steps}, counts, widest // size, irregular)
    still = {name: steps <= 1 for name, steps in counts.items()}
    return Access(terms, size, width, lanes, target, irregular, count, offset, still)


def _width(
    terms: Mapping[str, Array], offset: Array, runs: Mapping[str, Array], counts: Mapping[str, Array], most: int, irregular: bool
) -> Array:
    """Neighbours that one instruction takes: a power of two, at whose multiples every access begins."""
    best = np.ones(len(offset), np.int64)
    if irregular:
        return best
    for name, run in runs.items():
        if name not in terms:
            continue
        along = np.where(terms[name] == 1, np.gcd(run.astype(np.int64), most), 1)
        for other, coefficient in terms.items():
            if other != name:
                moves = counts[other] > 1 if other in counts else np.ones(len(best), bool)
                along = np.where(moves, np.gcd(along, coefficient), along)
        whole = counts.get(name, run)
        along = np.gcd(np.gcd(along, offset), np.where(whole % np.maximum(1, along) == 0, most, 1))
        best = np.maximum(best, along)
    return best


@dataclass(frozen=True)
class Access:
    """`terms`: how many elements further each step of a loop goes. `width`: elements that one instruction takes."""

    terms: Mapping[str, Array]
    bytes: int
    width: Array
    lanes: Lanes
    target: GpuTarget
    irregular: bool  # it depends on data: nothing is known of where lanes go
    count: int
    offset: Array  # in elements
    still: Mapping[str, Array]  # by loop: whether it has one step alone

    def in_rows(self, neighbours: Mapping[str, int], length: int) -> Array:
        """Whether so many elements are neighbours, by how far the steps of some loops go, and begin at a multiple of the length."""
        holds = (self.offset % length == 0) & (not self.irregular) & all(name in self.terms for name in neighbours)
        for name, step in self.terms.items():
            right = step == neighbours[name] if name in neighbours else step % length == 0
            holds &= right | self.still.get(name, False)
        return holds

    def moves(self, loop: str) -> Array:
        """Whether steps of a loop go elsewhere."""
        return self.terms[loop] != 0 if loop in self.terms else np.full(self.count, self.irregular)

    @functools.cached_property
    def start(self) -> Array:
        """Where each lane begins, in bytes."""
        found: Array = np.zeros(self.lanes.there.shape, np.int64)
        if self.irregular:
            found += np.arange(self.target.warp) * self.target.sector_bytes
            return found
        for name, step in self.lanes.steps.items():
            if name in self.terms:
                found += self.terms[name][:, None] * step
        return found * self.bytes

    def wavefronts(self) -> Array:
        return wavefronts(self.start, self.lanes.there, self.width * self.bytes, self.target.shared_banks)

    def sectors(self) -> Array:
        return sectors(self.start, self.lanes.there, self.width * self.bytes, self.target.sector_bytes)

    def new_share(self, loop: str) -> Array:
        """Share of a loop's steps that begin another sector."""
        if loop not in self.terms:
            return np.full(self.count, float(self.irregular))
        return np.minimum(1.0, np.abs(self.terms[loop]) * self.bytes / self.target.sector_bytes)
