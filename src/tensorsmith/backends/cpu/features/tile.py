"""Features of the code itself: which loops are written out, in lanes or shared among threads; the register tile and its steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorsmith.backends.cpu.features.access import loads_of
from tensorsmith.backends.cpu.features.nest import Level, Nested
from tensorsmith.backends.cpu.features.numbers import Num, as_number, number, product, times, total
from tensorsmith.backends.cpu.features.schema import SLOTS
from tensorsmith.backends.cpu.features.statement import Statement
from tensorsmith.backends.cpu.rates import Machine
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.program.flags import Flag, both, either, flag, opposite, where
from tensorsmith.program.tails import is_partial, variants
from tensorsmith.program.unrolling import is_laid_out, is_written_whole, steps_in_a_row


def steps_written(nested: Nested) -> dict[str, Num]:
    """Steps of each reduction loop that are written in a row: those of one round, or all."""
    loops = nested.of_kind("reduce")
    in_a_row = steps_in_a_row([x.count for x in loops], nested.unroll)
    return {x.name: where(is_written_whole(x.laid_out, x.count, n), x.count, n) for x, n in zip(loops, in_a_row)}


def annotated(s: Statement, in_a_row: Mapping[str, Num]) -> dict[str, Num]:
    """Which loops are in lanes, written out or shared among threads, and over which axes they run."""
    levels = s.nested.levels
    laid_out: list[tuple[Level, Num]] = []
    for x in levels:
        if x.kind == "tile":
            laid_out.append((x, x.count))
        elif x.kind == "reduce":
            laid_out.append((x, in_a_row[x.name]))
        elif x.laid_out is not False:
            laid_out.append((x, where(is_laid_out(x.laid_out, x.count), x.count, 1.0)))
    parallel = [(x, where(x.parallel, x.count, 1.0)) for x in levels if x.parallel is not False]
    lanes = [(x, x.count) for x in levels if x.kind == "lanes"]
    return _annotation("vec", lanes) | _annotation("unroll", laid_out) | _annotation("parallel", parallel)


def _annotation(kind: str, loops: list[tuple[Level, Num]]) -> dict[str, Num]:
    count: Num = 0.0
    steps: Num = 1.0
    last: Num = 0.0
    at: dict[str, Flag] = {}
    for level, length in loops:
        several = flag(length > 1)
        if several is False:
            continue
        count = count + as_number(several)
        steps = times(steps, length)
        last = where(several, length, last)
        for position, there in level.positions.items():
            at[position] = either(at.get(position, False), both(several, there))
    some = flag(count > 0)
    mixed = flag(total(as_number(v) for v in at.values()) > 1)
    values = {f"{kind}_num": count, f"{kind}_prod": where(some, steps, 0.0), f"{kind}_len": last}
    values |= {f"{kind}_none": as_number(opposite(some)), f"{kind}_mixed": as_number(mixed)}
    for position, there in at.items():
        values[f"{kind}_{position}"] = as_number(both(there, opposite(mixed)))
    return values


def tile(
    s: Statement,
    points: Num,
    runs: Num,
    counts: Mapping[str, float],
    in_a_row: Mapping[str, Num],
    target: CpuTarget,
    machine: Machine,
) -> dict[str, Num]:
    """The register tile of a statement: its values and operands in registers, what a step loads and computes, partial tiles."""
    nested = s.nested
    values: dict[str, Num] = {}
    width = float(target.lanes(nested.lane_bytes))
    lane = nested.lanes
    unrolled_loops = nested.of_kind("tile")
    lanes: Num = 1.0 if lane is None else lane.count
    chunks: Num = 1.0 if lane is None else np.ceil(lanes / width)
    useful: Num = 1.0 / width
    if lane is not None:
        length = lane.length
        whole = np.floor(length / lanes)
        useful = length / (width * np.maximum(1.0, whole * chunks + np.ceil((length - whole * lanes) / width)))
    unrolled = product(x.count for x in unrolled_loops)
    vectors = times(unrolled, chunks)
    reduction = nested.body.reduction is not None
    across = lane is not None and lane.reduce
    each = sum(counts.values()) * max(1, nested.group_steps)  # a step takes a whole group
    # loads and registers
    kinds: list[Num] = [0.0, 0.0, 0.0, 0.0]
    operands: Num = 0.0
    holds = False
    for n, access in enumerate(s.accesses):
        if access.write:
            if not access.held:
                step = access.stride(lane.name) if lane is not None else 1.0
                stores = times(unrolled, where(flag(step == 1.0), chunks, lanes)) if not across else unrolled
                values["store_accesses"] = stores
            continue
        if access.held:
            holds = True
            continue
        *found, live = loads_of(access, nested, lanes, chunks)
        kinds = [a + b for a, b in zip(kinds, found)]
        operands = operands + live
        if n < len(SLOTS):
            values[f"{SLOTS[n]}_accesses"] = total(found)
    loads = total(kinds)
    results = vectors if reduction or holds else 1.0
    plain = reduction and (nested.group is not None or each == counts["float_mad"] + counts["int_mad"] == 1)
    used = results + operands + (0.0 if plain else 1.0)
    step_operations = vectors * each
    steps = product(x.trips for x in nested.of_kind("reduce"))
    useful_points, written = _partial(nested)
    pipes = machine.fma_latency * machine.fma_per_cycle
    laid_out = product(in_a_row.values())
    around = [x for x in nested.around if x.laid_out is not False]
    outer_laid = product(where(is_laid_out(x.laid_out, x.count), x.count, 1.0) for x in around)
    values |= {
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
        "variants": written,
        "code_size": (step_operations + loads) * times(times(laid_out, outer_laid), written),
    }
    for name, kind in zip(("vector", "broadcast", "strided", "gathered"), kinds):
        values[f"load_share_{name}"] = kind / np.maximum(1.0, loads)
    return values


def _partial(nested: Nested) -> tuple[Num, Num]:
    """(useful share of the points of all tiles, variants of the tile's code)."""
    useful: Num = 1.0
    written: Num = 1.0
    for level in nested.of_kind("tile", "lanes"):
        if level.several is False:
            continue
        length = level.length
        covered = np.ceil(length / level.count) * level.count
        useful = times(useful, length / np.maximum(1.0, covered))
        written = times(written, number(variants(is_partial(length, level.count))))
    return useful, written


def masks(nested: Nested) -> dict[str, Num]:
    """Affine conditions of the body, by the innermost kind of loop at which they differ."""
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
    return {f"masks_{kind}": value for kind, value in found.items()}
