"""Programs that Ansor measured on an A100: reading the file, and what our features say of each.

The file has matrix products in Ansor's SSSRRSRS structure, a program a line, by its tile sizes. There is no program of ours
behind it, so `described` says in numbers what such a kernel does, as `backends/gpu/features` does from our programs; everything
after that, columns and prior, is what the search uses.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.backends.gpu.features.access import WIDEST
from tensorsmith.backends.gpu.features.columns import columns
from tensorsmith.backends.gpu.features.registers import OTHER_REGISTERS, operand_registers, spilled_share
from tensorsmith.backends.gpu.features.schema import SCHEMA
from tensorsmith.backends.gpu.features.warp import lanes_of, sectors, wavefronts
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.learn.features.rows import FeatureMatrix

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Search:
    """The programs of one search, in the order in which they were measured."""

    name: str
    dtype: str
    columns: dict[str, Array]
    seconds: Array  # NaN: it failed

    def first(self, count: int) -> Search:
        """Those that were measured first, as far as they ran."""
        return self.where((self.columns["order"] < count) & np.isfinite(self.seconds))

    def where(self, chosen: Array) -> Search:
        return Search(self.name, self.dtype, {n: c[chosen] for n, c in self.columns.items()}, self.seconds[chosen])


def read(path: str | Path) -> list[Search]:
    """The searches of a file, plain or gzip."""
    data = Path(path).read_bytes()
    text = gzip.decompress(data).decode() if data[:2] == b"\x1f\x8b" else data.decode()
    by_search: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        by_search.setdefault(f"{row['dtype']} {row['m']}x{row['n']}x{row['k']}", []).append(row)
    found = []
    for name, rows in by_search.items():
        numbers = {c: np.array([int(r[c]) for r in rows]) for c in rows[0] if c not in ("dtype", "seconds")}
        seconds = np.array([float(r["seconds"] or "nan") for r in rows])
        found.append(Search(name, rows[0]["dtype"], numbers, seconds))
    return found


def matrix(search: Search, target: GpuTarget) -> FeatureMatrix:
    """The features of all programs of a search: one kernel each."""
    told = described(search, target)
    return FeatureMatrix(columns(told, len(search.seconds), target)[:, None, :], ("C",), SCHEMA)


def described(search: Search, target: GpuTarget) -> dict[str, Array]:
    """What each program's kernel does.

    A thread computes `vthread` x `inner1` x `inner2` results along each axis. In each round, a block's threads fetch tiles of A
    and B (by vectors), then each passes over the tile: k.1, i.3, j.3, k.2, i.4, j.4 from outside to inside, virtual threads
    innermost.
    """
    c = search.columns
    size = 2 if search.dtype == "f16" else 4
    m, n, k = c["m"], c["n"], c["k"]
    v_i, t_i, i3, i4 = (c[f"i_{x}"] for x in ("vthread", "thread", "inner1", "inner2"))
    v_j, t_j, j3, j4 = (c[f"j_{x}"] for x in ("vthread", "thread", "inner1", "inner2"))
    k1, k2 = c["k_inner1"], c["k_inner2"]
    threads, deep = t_i * t_j, k1 * k2
    high, wide = v_i * t_i * i3 * i4, v_j * t_j * j3 * j4  # of a block
    blocks = -(-m // high) * -(-n // wide)
    warps = -(-threads // target.warp)
    rounds = -(-k // deep)
    mine_i, mine_j = v_i * i3 * i4, v_j * j3 * j4
    results = mine_i * mine_j
    laid_out, steps = _laid_out(c["unroll_max"], v_i * v_j, (j4, i4, k2, j3, i3, k1))
    rows = np.where(laid_out[2] | (results * k2 <= target.registers_per_thread), k2, 1)  # steps of k that are laid out
    other = operand_registers((mine_i + mine_j) * size / 4, rows) + OTHER_REGISTERS
    registers = results * size / 4 + other
    fits = registers <= target.registers_per_thread
    whole = fits | (laid_out[3] & laid_out[4])  # the tile is written out: operands are loaded once for all results
    spilled = np.where(whole, spilled_share(results * size / 4, other, target.registers_of(warps * target.warp)), 1.0)
    passes = np.ceil(threads / 8) * 8 * results * k / np.where(v_i * v_j * i4 * j4 < target.registers_per_thread, k2, 1)
    steps = np.maximum(steps, np.where(fits, results, 1))

    lane = np.arange(target.warp)[None, :]
    there = lanes_of(threads, target.warp)
    row, column = lane // t_j[:, None], lane % t_j[:, None]
    widest = WIDEST // size
    vector_a = np.gcd(rows, widest)
    vector_b = np.gcd(np.where(whole, j3 * j4, j4), widest)
    loads_a = k * np.where(whole, mine_i, mine_i * j3) / vector_a
    loads_b = k * np.where(whole, mine_j, mine_j * i3) / vector_b
    fronts_a = wavefronts(row * (i3 * i4 * deep * size)[:, None], there, vector_a * size, target.shared_banks)
    fronts_b = wavefronts(column * (j3 * j4 * size)[:, None], there, vector_b * size, target.shared_banks)
    fetches = [
        _fetch(high, deep, k, c["fetch_vector_a"], threads, size, target),
        _fetch(deep, wide, n, c["fetch_vector_b"], threads, size, target),
    ]
    stores = warps * results
    at = (row * (i3 * i4 * n)[:, None] + column * (j3 * j4)[:, None]) * size
    stored = stores * sectors(at, there, np.full(len(m), size), target.sector_bytes)
    return {
        "blocks": blocks,
        "threads": threads,
        "virtual_threads": v_i * v_j,
        "registers": registers,
        "shared_bytes": size * deep * (high + wide),
        "spilled_share": spilled,
        "spill_bytes": 8 * passes * spilled,
        "multiply_adds": warps * results * k,
        "results": results,
        "reduce_steps": k,
        "loop_rounds": warps * k * results / np.minimum(results * deep, steps),
        "rounds": rounds,
        "barriers": 2 * rounds,
        "shared_loads": warps * (loads_a + loads_b),
        "shared_stores": rounds * sum(f["stores"] for f in fetches),
        "shared_wavefronts": warps * (loads_a * fronts_a + loads_b * fronts_b) + rounds * sum(f["wavefronts"] for f in fetches),
        "global_loads": rounds * sum(f["loads"] for f in fetches),
        "global_load_sectors": rounds * sum(f["sectors"] for f in fetches),
        "global_load_bytes": rounds * size * deep * (high + wide),
        "global_stores": stores,
        "global_store_sectors": stored,
        "new_share": np.minimum(1.0, np.maximum(deep, deep * n) * size / target.sector_bytes),
        "memory_bytes": (m * k + k * n + m * n) * size,
        "far_bytes": rounds * sum(f["sectors"] for f in fetches) * target.sector_bytes,
        "read_bytes": (m * k + k * n) * size,  # they fit in the second cache
    }


def _laid_out(most: Array, inside: Array, extents: tuple[Array, ...]) -> tuple[list[Array], Array]:
    """Which loops are unrolled, from the innermost on, while no more than `most` steps are written; and how many are."""
    found, steps, still = [], inside, np.ones(len(most), bool)
    for extent in extents:
        still = still & ((steps * extent <= most) | (extent == 1))
        steps = np.where(still, steps * extent, steps)
        found.append(still)
    return found, steps


def _fetch(
    rows: Array, width: Array, pitch: Array, vector: Array, threads: Array, size: int, target: GpuTarget
) -> dict[str, Array]:
    """One round of bringing a tile of `rows` x `width` elements, `pitch` apart in memory, to shared memory: the threads of a
    block take `vector` neighbours each, in turns."""
    lane = np.arange(target.warp)[None, :]
    there = lanes_of(threads, target.warp)
    elements = rows * width
    turns = -(-elements // (threads * vector)) * -(-threads // target.warp)
    pieces = -(-vector * size // WIDEST)  # instructions for a vector
    piece = np.minimum(vector, WIDEST // size) * size
    element = np.minimum(lane * vector[:, None], elements[:, None] - 1)
    at = (element // width[:, None] * pitch[:, None] + element % width[:, None]) * size
    return {
        "loads": turns * pieces,
        "stores": turns * pieces,
        "sectors": turns * pieces * sectors(at, there, piece, target.sector_bytes),
        "wavefronts": turns * pieces * wavefronts(element * size, there, piece, target.shared_banks),
    }
