"""What one kernel of a loop program does, in numbers: the part of the features that is told (`schema.py`, `TOLD`).

A kernel is a nest at the root. Every count may be a number or an array with an entry per candidate, so one walk over the tree
serves a whole population. What is counted is what one thread executes; a warp's instruction counts once, whatever its lanes do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.backends.cpu.features.operations import KINDS, operations
from tensorsmith.backends.gpu.features import matrix
from tensorsmith.backends.gpu.features.access import WIDEST, Access, Lanes, digits, pattern
from tensorsmith.backends.gpu.features.occupancy import beyond, resident_blocks
from tensorsmith.backends.gpu.features.registers import (
    OTHER_REGISTERS,
    PLAIN_REGISTERS,
    SUMMING_REGISTERS,
    operand_registers,
    spilled_share,
)
from tensorsmith.backends.gpu.loops import grid_loops
from tensorsmith.backends.gpu.simt.blocks import WIDTHS
from tensorsmith.backends.gpu.simt.make import PLAIN_THREADS
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.dtypes import dtype
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, ProgramBuffer, blocks, own_block
from tensorsmith.program.linear import Linear
from tensorsmith.program.positions import read_at, stored_at
from tensorsmith.program.unrolling import steps_in_a_row
from tensorsmith.space.sketch.loops import BLOCK, THREAD, VTHREAD

Array = np.ndarray[Any, np.dtype[Any]]

L2_KEEPS = 0.7  # share of the second cache that one array may fill and stay there
#: statements of nested loops that nvcc unrolls of its own accord; the same where its input has unrolled some; of inner loops alone
COMPILER_UNROLLS, COMPILER_UNROLLS_SOME, COMPILER_UNROLLS_INNER = 250, 350, 1024

_CHEAP = tuple(k for k in KINDS if k not in ("mad", "divmod", "mathfunc"))


@dataclass(frozen=True)
class Where:
    """Where the walk is: how often each thread comes here, and by which virtual threads it is `played` then. `lanes` is how threads
    are told apart there, `warps` how many warps take part, `inner` the loop around that runs fastest."""

    around: Array
    lanes: Lanes
    warps: Array
    played: tuple[LoopVar, ...] = ()
    cooperative: bool = False
    inner: str = ""
    rounds: Any = 1  # of fetching, where threads of a block do it together
    whole: tuple[LoopVar, ...] = ()  # loops over results in registers, all of whose steps are written


@dataclass(frozen=True)
class Fetched:
    """What the threads of a block fetch together of a tensor, in all rounds."""

    tensor: str
    bytes: Array
    touched: Array  # bytes of the sectors that its loads touch
    rounds: Array
    new_share: Array  # of the rounds that begin a sector which no earlier one has touched
    moves: list[tuple[Array, Array]]  # of each loop over blocks: steps, and whether they go elsewhere


@dataclass
class Told:
    """The counts of one kernel; those that add up begin at 0."""

    program: Program
    root: Node
    count: int  # of candidates
    target: GpuTarget
    laid_out: Mapping[str, Any] = field(default_factory=dict)  # by stage: statements that the compiler was asked to lay out at most
    sums: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stage = own_block(self.root).stage
        self.own = _own_loops(self.root)
        self.copies: dict[str, Array] = {}  # by stage: virtual threads that have values of their own
        self.fetched: list[Fetched] = []
        self.together = False  # whether the threads of a block compute something together
        for name in ("rounds", "new_share", "operands"):
            self.sums[name] = np.zeros(self.count)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def full(self, value: Any) -> Array:
        return np.broadcast_to(np.asarray(value, np.float64), self.count)

    def add(self, name: str, value: Any) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + self.full(value)

    def at_least(self, name: str, value: Any) -> None:
        self.sums[name] = np.maximum(self.sums.get(name, 0.0), self.full(value))

    def product(self, loops: list[LoopVar]) -> Array:
        total = np.ones(self.count)
        for v in loops:
            total = total * self.full(v.count)
        return total

    # -- the whole -----------------------------------------------------------------------------------------------------

    def told(self) -> Mapping[str, Array]:
        leading = grid_loops(self.root, self.own)
        threads_of = [v for v in self.own if v.bound == THREAD]
        threads = np.maximum(1, self.product(threads_of))
        grid = self.product([v for v in self.own if v.bound == BLOCK])
        if leading:
            threads = self.full(self.program.decisions.get(f"{self.stage.name}.threads", PLAIN_THREADS))
            grid = np.ceil(self.product(leading) / threads)
            threads_of = leading
        self.dealt_own = f"{self.stage.name}.threads" in self.program.decisions and not leading
        if self.dealt_own:  # the steps of its reduction, to as many threads as are given
            threads = self.full(self.program.decisions[f"{self.stage.name}.threads"])
        self.threads, self.dealt_out = threads, {v.name for v in leading}
        warps = np.ceil(threads / self.target.warp)
        lanes = digits([(v.name, v.count) for v in threads_of], threads, self.count, self.target.warp)
        one = np.ones(self.count)
        self._visit(self.root, Where(one, lanes, warps))
        sums = self.sums
        sums |= {"blocks": grid, "threads": threads}
        sums["virtual_threads"] = self.product([v for v in self.own if v.bound == VTHREAD])
        sums["shared_bytes"] = self._shared_bytes() + sums.pop("partial_bytes", 0.0)
        results = self._results()
        plain = SUMMING_REGISTERS if any(b.stage.reduction for b in self._inside()) else PLAIN_REGISTERS
        other = sums.pop("operands") + (OTHER_REGISTERS if self.together else plain)
        most = self.target.registers_of(warps * self.target.warp)
        rolled = sums.pop("rolled", np.zeros(self.count)) > 0
        registers = np.where(rolled, 0, results) + other
        share = spilled_share(results, other, most)
        sums |= {"results": results, "registers": registers}
        sums["spilled_share"] = np.where(rolled, 1.0, share)
        sums["spill_bytes"] = 8 * sums.setdefault("passes", np.zeros(self.count)) * sums["spilled_share"]
        sums["reduce_steps"] = sums.pop("steps", np.zeros(self.count)) / np.maximum(1, results)
        sums["rounds"] = np.maximum(1, sums["rounds"])
        sums["memory_bytes"] = self.full(sum(_bytes(self.program.buffers[name]) for name in self._global()))
        resident = np.maximum(1, resident_blocks(threads, np.minimum(registers, 1e6), sums["shared_bytes"], self.target))
        self._read(grid, resident, sums["shared_bytes"])
        return sums

    def _read(self, grid: Array, resident: Array, shared_bytes: Array) -> None:
        """Bytes that a block brings into the first cache (`far_bytes`), and all bytes that come from device memory (`read_bytes`).

        What the blocks that run at once read comes once for all of them, and again for those after them where the second cache is
        too small to keep it. A sector of which a round uses a part is there for the next round if a cache holds those of all
        blocks until then."""
        total, far = np.zeros(self.count), np.zeros(self.count)
        wave = np.minimum(grid, resident * self.target.multiprocessors)
        waves = np.ceil(grid / wave)
        here = np.minimum(resident, np.ceil(grid / self.target.multiprocessors))
        window = sum((f.touched / f.rounds for f in self.fetched), np.zeros(self.count))
        lost = beyond(self.target.first_cache_room(here * shared_bytes), here * window)
        at_once = sum((f.touched / f.rounds * _distinct(f.moves, wave) for f in self.fetched), np.zeros(self.count))
        lost_again = lost * beyond(self.target.l2_bytes, at_once)
        for f in self.fetched:
            far = far + f.touched * (f.new_share + (1 - f.new_share) * lost)
            whole = self.full(_bytes(self.program.buffers[f.tensor]))
            read = f.bytes * _distinct(f.moves, wave)
            again = np.clip(waves * np.minimum(read, whole), whole, None)
            once = np.where(whole <= self.target.l2_bytes * L2_KEEPS, whole, again)
            parts = waves * f.touched * _distinct(f.moves, wave)
            total = total + once + np.maximum(0.0, parts - once) * lost_again * (1 - f.new_share)
        others = self._global() - {self.stage.name} - {f.tensor for f in self.fetched}
        self.sums["read_bytes"] = total + self.full(sum(_bytes(self.program.buffers[n]) for n in others))
        self.sums["far_bytes"] = far + self.sums.pop("direct_bytes", 0.0)

    def _inside(self) -> list[Block]:
        return list(blocks(self.root))

    def _global(self) -> set[str]:
        """Tensors in device memory that are read or written."""
        names = {x.tensor for b in self._inside() for x in b.stage.reads} | {self.stage.name}
        return {n for n in names if self.program.buffers[n].kind not in ("local", "shared")}

    def _shared_bytes(self) -> Array:
        total = np.zeros(self.count)
        for b in self._inside():
            buffer = self.program.buffers[b.stage.name]
            if buffer.kind == "shared":
                size, turns = self.full(_bytes(buffer)), self.full(buffer.buffers)
                aligned = np.where(turns > 1, 16 * dtype(buffer.dtype).bytes, 16)  # of places that are used in turn
                total = total + turns * np.ceil(size / aligned) * aligned
        return total

    def _results(self) -> Array:
        """Registers of values that a thread keeps: arrays of its own, or the tile of a reduction."""
        total = np.zeros(self.count)
        for b in self._inside():
            buffer = self.program.buffers[b.stage.name]
            if buffer.kind == "local":
                total = total + self.full(_bytes(buffer)) / 4 * self.copies.get(b.stage.name, 1)
            elif b.stage.reduction:
                total = total + self.product(list(b.tile)) * dtype(b.stage.dtype).bytes / 4
        return np.maximum(total, 1)

    # -- the walk ------------------------------------------------------------------------------------------------------

    def _visit(self, node: Node, at: Where) -> None:
        if isinstance(node, Block):
            for attached in node.before:
                self._enter(attached, at)
            self._block(node, at)
            return
        v, steps = node.var, self.full(node.var.count)
        around, played, inner, whole = at.around, at.played, at.inner, at.whole
        if v.bound == VTHREAD:
            played = (*played, v)
        elif v.bound == "" and v.name not in self.dealt_out:
            around, inner = around * steps, v.name
            private = self.program.buffers[own_block(node).stage.name].kind == "local"
            if private and not v.reduce:
                whole = (*whole, v)
            if not (node.unrolled or (private and not v.reduce)):
                self.add("loop_rounds", around * at.warps * (steps > 1))
        below = Where(around, at.lanes, at.warps, played, at.cooperative, inner, at.rounds, whole)
        for child in node.body:
            if own_block(child).stage is own_block(node).stage:
                self._visit(child, below)
            else:
                self._enter(child, below)

    def _enter(self, node: Node, at: Where) -> None:
        """A nest that is attached here: computed by each thread for itself, or by all of a block together."""
        loops, inside = [], node
        while isinstance(inside, Loop) and inside.var.bound == THREAD:
            loops.append(inside.var)
            inside = inside.body[-1]
        if not loops:
            self.copies[own_block(node).stage.name] = self.product(list(at.played))
            self._visit(node, at)
            return
        self.together = True
        run = self.full(self.program.decisions.get(f"{own_block(node).stage.name}.run", 1))
        steps = np.ceil(self.product(loops) / run)  # a thread takes so many in a row
        lanes = digits([(v.name, v.count) for v in loops], np.minimum(steps, self.threads), self.count, self.target.warp, run)
        turns = np.ceil(steps / self.threads)
        warps = np.ceil(steps / self.target.warp) / turns
        self.at_least("rounds", at.around)
        ahead = (self.full(self.program.buffers[own_block(node).stage.name].buffers) > 1) & self.target.fetches_ahead
        self.at_least("fetched_apart", ahead & self.target.copies_apart)
        self.add("barriers", np.where(ahead, 1, 2) * at.around / max(1, self._fetches()))
        self.add("loop_rounds", at.around * (turns > 1) * turns * warps)
        self._visit(inside, Where(at.around * turns * run, lanes, warps, (), True, at.inner, at.around))

    def _fetches(self) -> int:
        """Nests that the threads of a block compute together: those at one place share their barriers."""
        return sum(self.program.buffers[b.stage.name].kind == "shared" for b in self._inside())

    def _block(self, block: Block, at: Where) -> None:
        warps, stage = at.warps, block.stage
        if f"{stage.name}.matrix" in self.program.decisions:
            matrix.count(self, block, at)
            return
        points = self.product(list(block.tile))
        serial = [v for v in block.reduce if v.bound != THREAD]
        shared = [v for v in block.reduce if v.bound == THREAD]
        if shared and (stage is not self.stage or self.dealt_own):  # dealt out to all threads
            parts = np.ceil(self.product(shared) / self.threads)
        else:
            parts = np.ones(self.count)
        steps = self.product(serial) * parts
        executed = at.around * self.product(list(at.played)) * points * steps
        counts = operations(stage)
        fused = counts["float_mad"] + counts["int_mad"]
        self.add("multiply_adds", warps * executed * fused)
        others = sum(counts[f"{t}_{k}"] for t in ("float", "int") for k in _CHEAP) + counts["bool_op"] + counts["select_op"]
        self.add("other_operations", warps * executed * others)
        functions = sum(counts[f"{t}_{k}"] for t in ("float", "int") for k in ("divmod", "mathfunc"))
        self.add("functions", warps * executed * functions)
        rows = steps_in_a_row([v.count for v in serial], block.unroll)
        rounds, in_a_row = np.ones(self.count), {}
        for v, row in zip(serial, rows):
            whole = v.name in block.laid_out
            in_a_row[v.name] = self.full(v.count if whole else row)
            rounds = rounds * np.ceil(self.full(v.count) / np.maximum(1, in_a_row[v.name]))
        if serial:
            self.add("loop_rounds", warps * at.around * rounds * parts * (rounds * parts > 1))
        if stage.reduction:
            self.add("steps", executed)
            self.at_least("rolled", self._rolled(block, at))
            held = points * self.product(list(at.played)) <= self.target.registers_per_thread - OTHER_REGISTERS
            together = self.target.sector_bytes // 4  # threads whose results lie side by side
            self.add("passes", np.ceil(self.threads / together) * together * executed / np.where(held, steps / parts, 1))
        if shared:
            lanes = self.product(shared) if stage is self.stage and not self.dealt_own else self.threads
            self._combined(block, at, points, lanes)
        self._loads(block, at, serial, in_a_row, at.around * rounds * parts, parts)
        self._store(block, at, points)

    def _combined(self, block: Block, at: Where, points: Array, lanes: Array) -> None:
        """Partial results of threads become one, in halves, each behind a barrier."""
        halvings = np.ceil(np.log2(np.maximum(1, lanes)))
        often = at.around * points * at.warps
        self.add("barriers", at.around * points * (halvings + 1))
        self.add("shared_loads", often * 2 * halvings)
        self.add("shared_stores", often * (halvings + 1))
        self.add("shared_wavefronts", often * (3 * halvings + 1))
        self.add("partial_bytes", np.ceil(self.threads * dtype(block.stage.dtype).bytes / 16) * 16)

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _loads(
        self, block: Block, at: Where, serial: list[LoopVar], in_a_row: Mapping[str, Array], rounds: Array, parts: Array
    ) -> None:
        operands = np.zeros(self.count)
        for load in dict.fromkeys(block.stage.reads):
            buffer = self.program.buffers[load.tensor]
            if buffer.kind == "local":
                continue
            forms = read_at(load, block, buffer)
            access = self.access(buffer, forms, block, in_a_row if buffer.kind == "shared" else None, at)
            often = np.ones(self.count)
            for v in (*at.played, *block.tile):
                often = often * np.where(access.moves(v.name), self.full(v.count), 1)
            operands = operands + often * access.bytes / 4
            moving = np.zeros(self.count, bool)
            for v in reversed(serial):
                moving = moving | access.moves(v.name)
                often = often * np.where(moving, self.full(v.count), 1)
            kept = self._kept(block, at, access, often)
            executed = at.warps * at.around * often * parts / access.width / kept
            kind = "shared" if buffer.kind == "shared" else "global"
            self.add(f"{kind}_loads", executed)
            if kind == "shared":
                self.add("shared_wavefronts", executed * access.wavefronts())
            else:
                self.add("global_load_sectors", executed * access.sectors())
                self.add("global_load_bytes", executed * access.width * access.bytes * np.minimum(self.target.warp, self.threads))
                self.at_least("rounds", 0 if at.cooperative else np.minimum(rounds, executed / at.warps))
                touched = executed * access.sectors() * self.target.sector_bytes
                new = access.new_share(at.inner if at.cooperative or not serial else serial[-1].name)
                if at.cooperative:
                    loops = [(self.full(v.count), access.moves(v.name)) for v in self.own if v.bound == BLOCK]
                    lanes = np.minimum(self.target.warp, self.threads)
                    loaded = executed * access.width * access.bytes * lanes
                    self.fetched.append(Fetched(load.tensor, loaded, touched, np.maximum(1, at.rounds), new, loops))
                else:
                    self.add("direct_bytes", touched)
                self.at_least("new_share", new)
        rows = np.ones(self.count)
        for n in in_a_row.values():
            rows = rows * n
        self.at_least("operands", operand_registers(operands, rows))

    def _kept(self, block: Block, at: Where, access: Access, loads: Array) -> Array:
        """For how many steps of the loops over results an operand that was loaded stays in registers, if there are enough."""
        again, points = np.ones(self.count), np.ones(self.count)
        for v in at.whole:
            again = again * np.where(access.moves(v.name), 1, self.full(v.count))
            points = points * self.full(v.count)
        if not at.whole:
            return again
        results = points * self.product(list(at.played)) * self.product(list(block.tile))
        live = results + loads * access.bytes / 4
        fits = live <= self.target.registers_of(at.warps * self.target.warp)
        return np.where(fits & ~self._rolled(block, at), again, 1)

    def _rolled(self, block: Block, at: Where) -> Array:
        """Whether results are kept in an array in memory, because a compiler has not laid out all loops around them."""
        if block.stage.name not in self.laid_out:
            return np.zeros(self.count, bool)
        around = self.product(list(at.whole))
        statements = around * self.product([*at.played, *block.tile, *(v for v in block.reduce if v.bound != THREAD)])
        asked = np.asarray(self.laid_out[block.stage.name])
        nested = np.where(asked > 0, COMPILER_UNROLLS_SOME, COMPILER_UNROLLS)
        return statements > np.maximum(asked, np.where(around > 1, nested, COMPILER_UNROLLS_INNER))

    def _store(self, block: Block, at: Where, points: Array) -> None:
        buffer = self.program.buffers[block.stage.name]
        if buffer.kind == "local":
            return
        access = self.access(buffer, list(stored_at(block, buffer)), block, None, at)
        executed = at.warps * at.around * self.product(list(at.played)) * points / access.width
        kind = "shared" if buffer.kind == "shared" else "global"
        self.add(f"{kind}_stores", executed)
        if kind == "shared":
            self.add("shared_wavefronts", executed * access.wavefronts())
            return
        self.add("global_store_sectors", executed * access.sectors())
        passes = self.product([v for v in block.outer_reduce if v.bound == ""])
        again = executed * (passes > 1)  # what earlier passes have stored is read back
        self.add("global_loads", again)
        self.add("global_load_sectors", again * access.sectors())

    def access(
        self, buffer: ProgramBuffer, forms: list[Linear | None], block: Block, in_a_row: Mapping[str, Array] | None, at: Where
    ) -> Access:
        """`in_a_row` is None where only the loop in lanes moves several elements at once; else the compiler finds neighbours among
        all that is laid out."""
        dims = buffer.packed.shape if buffer.packed else buffer.shape
        size = dtype(buffer.dtype).bytes
        counts = {v.name: self.full(v.count) for v in (*block.tile, *block.reduce)}
        runs = {v.name: counts[v.name] for v in block.tile}
        if in_a_row is None:
            runs = {name: np.where(np.isin(n, WIDTHS), n, 1) for name, n in runs.items() if name == block.vector}
        return pattern(forms, dims, size, runs, in_a_row or {}, counts, at.lanes, self.count, self.target, WIDEST)


def _distinct(loops: list[tuple[Array, Array]], wave: Array) -> Array:
    """How many different steps of the loops that move an access there are among so many blocks in a row."""
    found, inside = np.ones(len(wave)), np.ones(len(wave))
    for steps, moves in reversed(loops):
        found = found * np.where(moves, np.clip(np.ceil(wave / inside), 1, steps), 1)
        inside = inside * steps
    return found


def _own_loops(root: Node) -> list[LoopVar]:
    """The root nest's own loops, outermost first."""
    found, node = [], root
    while isinstance(node, Loop):
        found.append(node.var)
        node = node.body[-1]
    return [*found, *node.tile, *node.reduce]


def _bytes(buffer: ProgramBuffer) -> Any:
    total: Any = dtype(buffer.dtype).bytes
    for n in buffer.packed.shape if buffer.packed else buffer.shape:
        total = total * np.asarray(n, np.float64)
    return total
