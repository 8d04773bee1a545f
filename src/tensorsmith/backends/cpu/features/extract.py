"""Features of a whole batch of candidates at once. What they mean is in `schema.py`.

`lower_decisions` gives one loop tree whose counts are arrays; it is walked once, and every quantity has an entry per candidate:

    accesses of each block  ->  what they touch at every loop  ->  what one step of each loop touches, all blocks together
    ->  reuse, traffic, registers, ...  ->  one row of numbers per block and candidate
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorsmith.backends.cpu.features.access import (
    Access,
    Reuse,
    accesses,
    footprints,
    loads_of,
    pages,
    reuse,
    same_set,
    stride_and_lines,
    traffic,
)
from tensorsmith.backends.cpu.features.nest import (
    Array,
    Flag,
    Integer,
    Level,
    Nested,
    Num,
    as_number,
    batch_size,
    both,
    either,
    flag,
    nested_blocks,
    opposite,
    times,
    where,
)
from tensorsmith.backends.cpu.features.operations import KINDS, operations
from tensorsmith.backends.cpu.features.schema import CACHES, CURVE, FEATURES, INDEX, SCHEMA_VERSION, SLOTS
from tensorsmith.backends.cpu.rates import DEFAULT, Machine
from tensorsmith.backends.cpu.target import CpuTarget as Target
from tensorsmith.lang.dtypes import dtype
from tensorsmith.program.ir import Program
from tensorsmith.program.lower import lower_decisions
from tensorsmith.space.sketch.sketch import Sketch

_MAX_LAID_OUT = 16  # the code generator leaves longer loops as loops
_LOG2_E = np.float32(1 / np.log(2))


@dataclass(frozen=True)
class FeatureMatrix:
    """Features of N candidates of one structure: `values[candidate, block, feature]`, float32."""

    values: Array
    blocks: tuple[str, ...]  # the stage of each block, in the order they run
    version: int = SCHEMA_VERSION

    def column(self, name: str) -> Array:
        """A feature as it is stored, shape (candidates, blocks)."""
        return self.values[:, :, INDEX[name]]

    def raw(self, name: str) -> Array:
        """A feature in its unit, scaling undone (to about six digits), float64."""
        values = self.column(name).astype(np.float64)
        return np.exp2(values) - 1.0 if FEATURES[INDEX[name]].scaled else values


@dataclass
class Statement:
    """One block with everything known about it; `values` are unscaled features by name."""

    nested: Nested
    accesses: list[Access]
    values: dict[str, Num] = field(default_factory=dict)
    reuses: dict[int, Reuse] = field(default_factory=dict)  # by access that has a slot
    arithmetic: Num = 0.0  # operations in all
    # bytes of the lines that the whole program touches, then by level those that one step of it does, all statements in it together
    bodies: list[Num] = field(default_factory=list)


def extract(
    program: Program,
    target: Target,
    n: int | None = None,
    decisions: Mapping[str, Integer] | None = None,
    machine: Machine = DEFAULT,
) -> FeatureMatrix:
    """The features of every candidate in a lowered batch, or of one program.

    `n` is the number of candidates where no array in the program tells it. A program does not say how many loops are parallel
    for each candidate of a batch (a loop is marked if it is for any); where that differs, give the `decisions` too.
    """
    size = n if n is not None else batch_size(program)
    statements = analyse(program, target, decisions, machine)
    values = np.zeros((size, len(statements), len(FEATURES)), np.float32)
    for b, statement in enumerate(statements):
        fill(values[:, b].T, statement.values)
    return FeatureMatrix(values, tuple(s.nested.stage for s in statements))


def fill(columns: Array, values: Mapping[str, Num], share: Array | None = None) -> None:
    """Writes features of a statement, those that are not zero: `columns[feature, candidate]`. With `share`, the values are of
    fewer candidates, and it tells which of them is like each."""
    some = None if share is None else np.empty(int(share.max()) + 1, np.float32)
    for name, value in values.items():
        column = columns[INDEX[name]]
        if some is None or share is None or np.ndim(value) == 0:
            _fill(column, value, FEATURES[INDEX[name]].scaled)
        else:
            _fill(some, value, FEATURES[INDEX[name]].scaled)
            some.take(share, out=column, mode="clip")


def _fill(column: Array, value: Num, scaled: bool) -> None:
    """Writes a feature of all candidates, scaled: log2(x + 1)."""
    if isinstance(value, float) or np.ndim(value) == 0:
        if value:
            column.fill(math.log2(float(value) + 1.0) if scaled else float(value))
    elif scaled:
        np.add(value, 1.0, out=column, casting="same_kind")
        np.log(column, out=column)
        np.multiply(column, _LOG2_E, out=column)
    else:
        column[:] = value


def extract_decisions(
    sketch: Sketch, decisions: Mapping[str, Integer], target: Target, machine: Machine = DEFAULT
) -> FeatureMatrix:
    """Lowers a batch of candidates of one sketch (an array or a number per hole) and extracts its features."""
    sizes = {len(v) for v in decisions.values() if isinstance(v, np.ndarray) and v.ndim} or {1}
    return extract(lower_decisions(sketch, decisions), target, max(sizes), decisions, machine)


def analyse(
    program: Program, target: Target, decisions: Mapping[str, Integer] | None = None, machine: Machine = DEFAULT
) -> list[Statement]:
    """The unscaled features of every block, and what they were made from."""
    statements = structure(program, decisions)
    analysis = Analysis(target, machine)
    for s in statements:
        analysis.footprints(s)
    bodies = analysis.bodies(statements)
    for s in statements:
        s.bodies = [bodies[""], *(bodies[level.name] for level in s.nested.levels)]
        analysis.describe(s)
        s.values |= analysis.traffic(s, s.bodies)
    return statements


def structure(
    program: Program, decisions: Mapping[str, Integer] | None = None, only: frozenset[str] | None = None
) -> list[Statement]:
    """Every block, or those of the stages given, with its loops and accesses, before anything is worked out."""
    nests = nested_blocks(program, decisions, only)
    held = frozenset(n.stage for n in nests if n.held)
    by_stage = {n.stage: n for n in nests}
    found = []
    for n in nests:
        assert n.block is not None
        if only is not None and n.stage not in only:
            continue
        statement = Statement(n, accesses(program, n, n.block, held))
        for access in statement.accesses:
            users = program.workload.consumers[access.name] if access.write else (access.name,)
            others = [u for u in users if program.workload.is_stage(u)]
            if others:  # of which some may be in other root nests
                access.shared = float(max(n.shared(by_stage[u]) if u in by_stage else 0 for u in others))
                access.partners = float(len(others))
        found.append(statement)
    return found


class Analysis:
    """Works out the features of statements, step by step: `footprints` of all and their `bodies`; what a statement's own numbers
    tell (`describe`), and what depends on the other statements of its program (`traffic`)."""

    def __init__(self, target: Target, machine: Machine) -> None:
        self.target, self.machine = target, machine
        self.line = float(target.line_bytes)
        self.caches = np.array([[target.l1_bytes], [target.l2_bytes], [target.l3_bytes]], np.float64)

    def footprints(self, s: Statement) -> None:
        for access in s.accesses:
            if not access.held:
                footprints(access, s.nested.levels, self.line)

    def bodies(self, statements: list[Statement]) -> dict[str, Num]:
        """Bytes of the lines touched by one step of each loop, all statements together; "" is the whole program."""
        found: dict[str, dict[str, Num]] = {"": {}}
        for s in statements:
            names = ["", *(level.name for level in s.nested.levels)]
            for access in s.accesses:
                if access.held:
                    continue
                for name, lines in zip(names, access.lines):
                    table = found.setdefault(name, {})
                    table[access.name] = np.maximum(table[access.name], lines) if access.name in table else lines
            for name in names:
                found.setdefault(name, {})
        return {name: times(_sum(list(table.values())), self.line) for name, table in found.items()}

    # -- one statement ---------------------------------------------------------------------------------------------

    def describe(self, s: Statement) -> None:
        """The unscaled features of a statement, from its loops and accesses alone."""
        nested = s.nested
        counts = operations(nested.body)
        per_point = sum(counts[f"{t}_{k}"] * (2 if k == "mad" else 1) for t in ("float", "int") for k in KINDS)
        runs = times(_product([x.trips for x in nested.around]), nested.exists)
        points = times(runs, _product([x.trips for x in nested.levels[nested.outer :]]))
        s.values.update({name: count * points for name, count in counts.items() if count})
        s.values |= {"points": points, "outer_runs": runs, "is_root": as_number(nested.root)}
        s.values["num_loops"] = _sum([as_number(x.several) for x in nested.levels])
        copies = self._copies(nested)
        self._annotations(s, copies)
        self._accesses(s, points)
        touched = self._touched(s)
        self._curve(s, float(per_point), touched)
        self._allocation(s, points)
        self._tile(s, points, runs, counts, copies)
        self._memory(s)
        s.arithmetic = float(per_point) * points
        self._parallel(s)
        self._target(s)

    def _touched(self, s: Statement) -> list[Num]:
        """Bytes of distinct elements by level."""
        live = [a for a in s.accesses if not a.held]
        return [_sum([times(a.elements[i], a.element) for a in live]) for i in range(len(s.nested.levels) + 1)]

    def _copies(self, nested: Nested) -> dict[str, Num]:
        """Steps of each reduction loop that are laid out in a row, as the code generator does it: innermost loops first."""
        budget = nested.unroll
        found: dict[str, Num] = {}
        for level in reversed([x for x in nested.levels if x.kind == "reduce"]):
            count = level.count
            copies = np.minimum(budget, count)
            if level.laid_out is not False:
                copies = where(both(level.laid_out, flag(count <= _MAX_LAID_OUT)), count, copies)
            found[level.name] = copies
            budget = np.maximum(1.0, where(flag(budget >= count), np.floor(budget / count), 1.0))
        return found

    def _annotations(self, s: Statement, copies: dict[str, Num]) -> None:
        levels = s.nested.levels
        laid_out: list[tuple[Level, Num]] = []
        for x in levels:
            if x.kind == "tile":
                laid_out.append((x, x.count))
            elif x.kind == "reduce":
                laid_out.append((x, copies[x.name]))
            elif x.laid_out is not False:
                laid_out.append((x, where(both(x.laid_out, flag(x.count <= _MAX_LAID_OUT)), x.count, 1.0)))
        parallel = [(x, where(x.parallel, x.count, 1.0)) for x in levels if x.parallel is not False]
        self._annotation(s, "vec", [(x, x.count) for x in levels if x.kind == "lanes"])
        self._annotation(s, "unroll", laid_out)
        self._annotation(s, "parallel", parallel)

    def _annotation(self, s: Statement, kind: str, loops: list[tuple[Level, Num]]) -> None:
        total: Num = 0.0
        product: Num = 1.0
        last: Num = 0.0
        at: dict[str, Flag] = {}
        for level, length in loops:
            several = flag(length > 1)
            if several is False:
                continue
            total = total + as_number(several)
            product = times(product, length)
            last = where(several, length, last)
            for position, there in level.positions.items():
                at[position] = either(at.get(position, False), both(several, there))
        some = flag(total > 0)
        mixed = flag(_sum([as_number(v) for v in at.values()]) > 1)
        s.values |= {f"{kind}_num": total, f"{kind}_prod": where(some, product, 0.0), f"{kind}_len": last}
        s.values |= {f"{kind}_none": as_number(opposite(some)), f"{kind}_mixed": as_number(mixed)}
        for position, there in at.items():
            s.values[f"{kind}_{position}"] = as_number(both(there, opposite(mixed)))

    # -- accesses --------------------------------------------------------------------------------------------------

    def _accesses(self, s: Statement, points: Num) -> None:
        nested = s.nested
        levels = nested.levels
        inside: list[Num] = [1.0]
        for level in reversed(levels):
            inside.insert(0, times(inside[0], level.count))
        stored: list[Num] = [1.0]
        for level in reversed(levels):
            stored.insert(0, times(stored[0], s.accesses[0].counted(level)))
        # an access that is not executed in the reduction loops runs once for all their steps
        once = points / _product([x.trips for x in levels if x.name in s.accesses[0].skipped])
        again = nested.again
        touched = self._touched(s)
        for n, (slot, access) in enumerate(zip(SLOTS, s.accesses)):
            if access.held:
                s.values[f"{slot}_{'is_write' if access.write else 'is_read'}"] = 1.0
                continue
            executions = once if access.write else points * float(len(access.flats))
            near = s.reuses[n] = reuse(access, nested, touched, stored if access.write else inside)
            stride, lines = stride_and_lines(access, nested, executions, self.line)
            ways = {
                "bytes": executions * access.element,
                "unique_bytes": times(access.elements[0], access.element),
                "lines": lines,
                "unique_lines": access.lines[0],
            }
            divided = where(flag(near.count > 0.5), 1.0 / np.maximum(near.count, 0.5), 2.0)
            found: dict[str, Num] = {
                **ways,
                **{f"{name}_per_reuse": value * divided for name, value in ways.items()},
                "is_read": float(not access.write),
                "is_write": as_number(opposite(again)) if access.write else 0.0,
                "is_readwrite": as_number(again) if access.write else 0.0,
                "reuse_loop": as_number(near.loop),
                "reuse_serial": as_number(near.serial),
                "reuse_none": as_number(opposite(either(near.loop, near.serial))),
                "reuse_iterations": near.iterations,
                "reuse_count": near.count,
                "stride": stride,
                "packed": as_number(access.packed),
                "set_lines": same_set(access, nested.of_kind("tile"), self.line, self.target.l1_bytes / self.target.l1_ways),
            }
            lane = nested.lanes
            if lane is not None and lane.name not in access.skipped:
                found["lane_stride"] = where(lane.several, access.stride(lane.name), 0.0)
            s.values |= {f"{slot}_{name}": value for name, value in found.items()}

    # -- what depends on other statements --------------------------------------------------------------------------

    def traffic(self, s: Statement, bodies: list[Num], spread: Callable[[Any], Any] = lambda x: x) -> dict[str, Num]:
        """The features for which it matters what all statements of the program touch together. `bodies` may have more
        candidates than the statement, whose numbers `spread` gives to all of them that share these."""
        found: dict[str, Num] = {}
        totals: list[Num] = [0.0, 0.0, 0.0]
        whole, *fits = [self._fits(body) for body in bodies]
        trips = [spread(level.trips) for level in s.nested.levels]
        for n, access in enumerate(s.accesses):
            if access.held:
                continue
            between = _entry(bodies, np.maximum(spread(access.shared), 0.0))
            warm = whole
            if not access.write and between is not bodies[0]:
                warm = whole | self._fits(between)
            lines = _spread_all(access.lines, spread)
            moved = traffic(access, s.nested, fits, warm, trips, lines) * self.line
            totals = [total + (2.0 if access.write else 1.0) * m for total, m in zip(totals, moved)]
            if n in s.reuses:
                near = s.reuses[n]
                found[f"{SLOTS[n]}_reuse_bytes"] = where(spread(near.serial), between, spread(near.bytes))
                found |= {f"{SLOTS[n]}_into_{cache}": m for cache, m in zip(CACHES, moved)}
        arithmetic = spread(s.arithmetic)
        for cache, total in zip(CACHES, totals):
            found[f"into_{cache}"] = total
            found[f"operations_per_{cache}_byte"] = where(flag(total > 0), arithmetic / np.maximum(total, 1.0), 0.0)
        found["program_bytes"] = bodies[0]
        found["program_l2_share"] = np.minimum(1.0, bodies[0] / self.target.l2_bytes)
        found["program_l3_share"] = np.minimum(1.0, bodies[0] / self.target.l3_bytes)
        return found

    def _fits(self, size: Num) -> Array:
        """Which of the caches something fits, shape (3, candidates) or (3, 1)."""
        return np.atleast_1d(size)[None] <= self.caches

    # -- the rest --------------------------------------------------------------------------------------------------

    def _curve(self, s: Statement, arithmetic: float, touched: list[Num]) -> None:
        """Operations per byte over the loops, sampled at tenths of all operations."""
        if not arithmetic:
            return
        levels = s.nested.levels
        done: Num = arithmetic
        ops: list[Num] = [done]
        intensity: list[Num] = [done / np.maximum(touched[-1], 1.0)]
        for i in range(len(levels) - 1, -1, -1):
            if levels[i].several is False:
                continue
            done = times(done, levels[i].trips)
            ops.append(done)
            intensity.append(done / np.maximum(touched[i], 1.0))
        shape = np.broadcast_shapes(*(np.shape(v) for v in (*ops, *intensity)))
        size = shape[0] if shape else 1
        # samples are found by walking outwards: each level answers those that the levels inside have not
        wanted = np.linspace(1 / CURVE, 1.0, CURVE)[:, None] * np.atleast_1d(done)[None]
        limit = wanted * (1 - 1e-9)
        curve = np.broadcast_to(np.asarray(intensity[-1]), (CURVE, size)).copy()
        for k in range(len(ops) - 2, -1, -1):
            below, above = ops[k], ops[k + 1]
            slope = (intensity[k + 1] - intensity[k]) / np.maximum(above - below, 1e-30)
            line = intensity[k] + (wanted - below) * slope
            curve = np.where(limit <= above, line, curve)
        curve = np.where(limit <= ops[0], intensity[0], curve)
        s.values |= {f"intensity_{j + 1}": curve[j] for j in range(CURVE)}

    def _allocation(self, s: Statement, points: Num) -> None:
        nested = s.nested
        made = _product([where(flag(nested.outside > n), x.trips, 1.0) for n, x in enumerate(nested.around)])
        s.values |= {
            "alloc_bytes": times(nested.elements, s.accesses[0].element),
            "alloc_total": times(nested.elements, made),
            "alloc_outer": made,
            "alloc_inner": points / made,
            "alloc_local": as_number(opposite(nested.root)),
            "alloc_held": float(nested.held),
        }

    def _tile(self, s: Statement, points: Num, runs: Num, counts: Mapping[str, float], copies: dict[str, Num]) -> None:
        nested, target = s.nested, self.target
        width = float(target.lanes(dtype(nested.body.dtype).bytes))
        lane = nested.lanes
        tile = nested.of_kind("tile")
        lanes: Num = 1.0 if lane is None else lane.count
        chunks: Num = 1.0 if lane is None else np.ceil(lanes / width)
        useful: Num = 1.0 / width
        if lane is not None:
            length = lane.length
            whole = np.floor(length / lanes)
            useful = length / (width * np.maximum(1.0, whole * chunks + np.ceil((length - whole * lanes) / width)))
        unrolled = _product([x.count for x in tile])
        vectors = times(unrolled, chunks)
        reduction = nested.body.reduction is not None
        across = lane is not None and lane.reduce
        each = sum(counts.values())
        # loads and registers
        kinds: list[Num] = [0.0, 0.0, 0.0, 0.0]
        operands: Num = 0.0
        holds = False
        for n, access in enumerate(s.accesses):
            if access.write:
                if not access.held:
                    step = access.stride(lane.name) if lane is not None else 1.0
                    stores = times(unrolled, where(flag(step == 1.0), chunks, lanes)) if not across else unrolled
                    s.values["store_accesses"] = stores
                continue
            if access.held:
                holds = True
                continue
            *found, live = loads_of(access, nested, lanes, chunks)
            kinds = [a + b for a, b in zip(kinds, found)]
            operands = operands + live
            if n < len(SLOTS):
                s.values[f"{SLOTS[n]}_accesses"] = _sum(found)
        loads = _sum(kinds)
        results = vectors if reduction or holds else 1.0
        plain = reduction and each == counts["float_mad"] + counts["int_mad"] == 1
        used = results + operands + (0.0 if plain else 1.0)
        step_operations = vectors * each
        steps = _product([x.trips for x in nested.of_kind("reduce")])
        useful_points, variants = self._partial(nested)
        pipes = self.machine.fma_latency * self.machine.fma_per_cycle
        laid_out = _product(list(copies.values()))
        around = [x for x in nested.around if x.laid_out is not False]
        outer_laid = _product([where(both(x.laid_out, flag(x.count <= _MAX_LAID_OUT)), x.count, 1.0) for x in around])
        s.values |= {
            "unroll_steps": laid_out if reduction else 0.0,
            "tile_values": times(unrolled, lanes),
            "tile_vectors": vectors,
            "operand_registers": operands,
            "registers_used": used,
            "register_share": np.minimum(1.0, used / target.vector_registers),
            "registers_spilled": np.maximum(0.0, used - target.vector_registers),
            "step_loads": loads,
            "step_operations": step_operations,
            "loads_per_operation": loads / np.maximum(1.0, step_operations),
            "chains": vectors if reduction else 0.0,
            "chain_share": np.minimum(1.0, vectors / pipes) if reduction else 1.0,
            "lanes_useful": useful,
            "points_useful": useful_points,
            "vector_points": points / (useful * width),
            "reduce_steps": steps,
            "steps": times(runs, steps),
            "across_lanes": as_number(lane.several) if across and lane is not None else 0.0,
            "variants": variants,
            "code_size": (step_operations + loads) * times(times(laid_out, outer_laid), variants),
        }
        for name, kind in zip(("vector", "broadcast", "strided", "gathered"), kinds):
            s.values[f"load_share_{name}"] = kind / np.maximum(1.0, loads)
        self._masks(s)

    def _partial(self, nested: Nested) -> tuple[Num, Num]:
        """(useful share of the points of all tiles, variants of the tile's code)."""
        useful: Num = 1.0
        variants: Num = 1.0
        for level in nested.of_kind("tile", "lanes"):
            if level.several is False:
                continue
            length = level.length
            covered = np.ceil(length / level.count) * level.count
            useful = times(useful, length / np.maximum(1.0, covered))
            variants = times(variants, where(flag(covered > length), 2.0, 1.0))
        return useful, variants

    def _masks(self, s: Statement) -> None:
        nested = s.nested
        found: dict[str, Num] = {"lanes": 0.0, "tile": 0.0, "reduce": 0.0}
        for form in nested.masks:
            inner: Flag = False  # it differs already at a kind of loop further inside
            for kind in found:
                here: Flag = False
                for level in nested.of_kind(kind):
                    coefficient = form.get(level.name)
                    if coefficient is not None:
                        here = either(here, both(level.several, flag(coefficient != 0)))
                found[kind] = found[kind] + as_number(both(here, opposite(inner)))
                inner = either(inner, here)
        s.values |= {f"masks_{kind}": value for kind, value in found.items()}

    def _memory(self, s: Statement) -> None:
        nested, target = s.nested, self.target
        live = [(n, a) for n, a in enumerate(s.accesses) if not a.held]
        reductions = len(nested.of_kind("reduce"))
        tile_bytes = times(_sum([a.lines[nested.outer] for _, a in live]), self.line)
        step_bytes = times(_sum([a.lines[nested.outer + reductions] for _, a in live]), self.line)
        rows, with_reduce = nested.of_kind("tile"), nested.of_kind("reduce", "tile")
        way = target.l1_bytes / target.l1_ways
        step_sets: Num = 0.0
        tile_sets: Num = 0.0
        overflow: Num = 0.0
        step_pages: Num = 0.0
        tile_pages: Num = 0.0
        lane = [nested.lanes] if nested.lanes is not None else []
        for n, a in live:
            step_pages = step_pages + pages(a, rows + lane)
            tile_pages = tile_pages + pages(a, rows + lane if a.write else with_reduce + lane)
            if a.write:
                continue
            here = s.values[f"{SLOTS[n]}_set_lines"] if n < len(SLOTS) else same_set(a, rows, self.line, way)
            step_sets = np.maximum(step_sets, here)
            overflow = overflow + np.maximum(0.0, here - target.l1_ways)
            tile_sets = np.maximum(tile_sets, same_set(a, with_reduce, self.line, way))
        s.values |= {
            "step_bytes": step_bytes,
            "tile_bytes": tile_bytes,
            "tile_l1_share": np.minimum(1.0, tile_bytes / target.l1_bytes),
            "tile_l2_share": np.minimum(1.0, tile_bytes / target.l2_bytes),
            "step_set_lines": step_sets,
            "tile_set_lines": tile_sets,
            "set_overflow": overflow,
            "step_pages": step_pages,
            "tile_pages": tile_pages,
        }

    def _parallel(self, s: Statement) -> None:
        steps = _product([where(x.parallel, x.count, 1.0) for x in s.nested.around if x.parallel is not False])
        cores = float(self.target.cores)
        s.values |= {
            "parallel_steps": steps,
            "parallel_balance": steps / (cores * np.ceil(steps / cores)),
            "parallel_work": s.arithmetic / steps,
        }

    def _target(self, s: Statement) -> None:
        t = self.target
        s.values |= {
            "target_lanes": float(t.lanes(dtype(s.nested.body.dtype).bytes)),
            "target_registers": float(t.vector_registers),
            "target_l1": float(t.l1_bytes),
            "target_l2": float(t.l2_bytes),
            "target_l3": float(t.l3_bytes),
            "target_cores": float(t.cores),
        }


def _spread_all(values: list[Num], spread: Callable[[Any], Any]) -> list[Num]:
    """Each value spread, equal neighbours once."""
    found: list[Num] = []
    for n, value in enumerate(values):
        found.append(found[-1] if n and value is values[n - 1] else spread(value))
    return found


def _entry(values: list[Num], index: Num) -> Num:
    """The entry at an index, which may differ between candidates."""
    if not isinstance(index, np.ndarray):
        return values[int(index)]
    first, *others = np.flatnonzero(np.bincount(index.astype(np.int64))).tolist()
    found = values[first]
    for n in others:
        found = np.where(index == n, values[n], found)
    return found


def _sum(values: Sequence[Num]) -> Num:
    total: Num = 0.0
    for v in values:
        total = total + v
    return total


def _product(values: Sequence[Num]) -> Num:
    total: Num = 1.0
    for v in values:
        total = times(total, v)
    return total
