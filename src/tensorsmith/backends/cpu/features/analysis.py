"""Works out the features of statements: what they touch, in which cache it is found, what their loops and tiles come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorsmith.backends.cpu.features.access import footprints, pages, reuse, same_set, stride_and_lines, traffic
from tensorsmith.backends.cpu.features.numbers import Array, Num, as_number, product, times, total
from tensorsmith.backends.cpu.features.operations import KINDS, operations
from tensorsmith.backends.cpu.features.schema import CACHES, CURVE, SLOTS
from tensorsmith.backends.cpu.features.statement import Statement
from tensorsmith.backends.cpu.features.tile import annotated, masks, steps_written, tile
from tensorsmith.backends.cpu.rates import Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.program.flags import either, flag, opposite, where


class Analysis:
    """Works out the features of statements, step by step: `footprints` of all and their `bodies`; what a statement's own numbers
    tell (`describe`), and what depends on the other statements of its program (`traffic`)."""

    def __init__(self, target: CpuTarget, machine: Machine) -> None:
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
        return {name: times(total(list(table.values())), self.line) for name, table in found.items()}

    # -- one statement ---------------------------------------------------------------------------------------------

    def describe(self, s: Statement) -> None:
        """The unscaled features of a statement, from its loops and accesses alone."""
        nested = s.nested
        counts = operations(nested.body, nested.group_steps)
        per_point = sum(counts[f"{t}_{k}"] * (2 if k == "mad" else 1) for t in ("float", "int") for k in KINDS)
        runs = times(product([x.trips for x in nested.around]), nested.exists)
        points = times(runs, product([x.trips for x in nested.levels[nested.outer :]]))
        s.values.update({name: count * points for name, count in counts.items() if count})
        s.values |= {"points": points, "outer_runs": runs, "is_root": as_number(nested.root)}
        s.values["num_loops"] = total([as_number(x.several) for x in nested.levels])
        in_a_row = steps_written(nested)
        s.values |= annotated(s, in_a_row)
        self._accesses(s, points)
        touched = self._touched(s)
        self._curve(s, float(per_point), touched)
        self._allocation(s, points)
        s.values |= tile(s, points, runs, counts, in_a_row, self.target, self.machine)
        s.values |= masks(nested)
        self._memory(s)
        s.arithmetic = float(per_point) * points
        self._parallel(s)
        self._target(s)

    def _touched(self, s: Statement) -> list[Num]:
        """Bytes of distinct elements by level."""
        live = [a for a in s.accesses if not a.held]
        return [total([times(a.elements[i], a.element) for a in live]) for i in range(len(s.nested.levels) + 1)]

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
        once = points / product([x.trips for x in levels if x.name in s.accesses[0].skipped])
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
            totals = [t + (2.0 if access.write else 1.0) * m for t, m in zip(totals, moved)]
            if n in s.reuses:
                near = s.reuses[n]
                found[f"{SLOTS[n]}_reuse_bytes"] = where(spread(near.serial), between, spread(near.bytes))
                found |= {f"{SLOTS[n]}_into_{cache}": m for cache, m in zip(CACHES, moved)}
        arithmetic = spread(s.arithmetic)
        for cache, size in zip(CACHES, totals):
            found[f"into_{cache}"] = size
            found[f"operations_per_{cache}_byte"] = where(flag(size > 0), arithmetic / np.maximum(size, 1.0), 0.0)
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
        made = product([where(flag(nested.outside > n), x.trips, 1.0) for n, x in enumerate(nested.around)])
        s.values |= {
            "alloc_bytes": times(nested.elements, s.accesses[0].element),
            "alloc_total": times(nested.elements, made),
            "alloc_outer": made,
            "alloc_inner": points / made,
            "alloc_local": as_number(opposite(nested.root)),
            "alloc_held": float(nested.held),
        }

    def _memory(self, s: Statement) -> None:
        nested, target = s.nested, self.target
        live = [(n, a) for n, a in enumerate(s.accesses) if not a.held]
        reductions = len(nested.of_kind("reduce"))
        tile_bytes = times(total([a.lines[nested.outer] for _, a in live]), self.line)
        step_bytes = times(total([a.lines[nested.outer + reductions] for _, a in live]), self.line)
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
        steps = product([where(x.parallel, x.count, 1.0) for x in s.nested.around if x.parallel is not False])
        cores = float(self.target.cores)
        s.values |= {
            "parallel_steps": steps,
            "parallel_balance": steps / (cores * np.ceil(steps / cores)),
            "parallel_work": s.arithmetic / steps,
        }

    def _target(self, s: Statement) -> None:
        t = self.target
        s.values |= {
            "target_lanes": float(t.lanes(s.nested.lane_bytes)),
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
