"""Why a candidate should be fast or slow, in words: the features and the prior, for people."""

from __future__ import annotations

import numpy as np

from tensorsmith.backends.cpu.features.extract import analyse, extract
from tensorsmith.backends.cpu.features.nest import Level
from tensorsmith.backends.cpu.features.numbers import Num
from tensorsmith.backends.cpu.features.statement import Statement
from tensorsmith.backends.cpu.prior import Estimate, estimate
from tensorsmith.backends.cpu.rates import Machine, rates_of
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.program.lower import lower
from tensorsmith.space.sketch.sketch import Candidate


def explain(candidate: Candidate, target: CpuTarget) -> str:
    """What every statement of a candidate does to the machine, and what it is expected to cost."""
    program, machine = lower(candidate), rates_of(target)
    statements = analyse(program, target, machine=machine)
    matrix = extract(program, target, machine=machine)
    guess = estimate(matrix, target, machine)
    total = float(guess.seconds.sum())
    lines = [f"expected: {_time(total)} on {target.cores} cores ({len(statements)} statements)"]
    for n, statement in enumerate(statements):
        lines += ["", *_statement(statement, guess, n, total, target, machine)]
    return "\n".join(lines)


def _statement(s: Statement, guess: Estimate, n: int, total: float, target: CpuTarget, machine: Machine) -> list[str]:
    def v(name: str) -> float:
        return _one(s.values.get(name, 0.0))

    share = float(guess.seconds[0, n]) / total if total else 0.0
    lines = [f"{s.nested.stage}: {_time(float(guess.seconds[0, n]))}, {share:.0%} of it; bound by {guess.tightest(0, n)}"]

    def say(what: str, text: str) -> None:
        lines.append(f"  {what:<10} {text}")

    tile = [x for x in s.nested.levels if x.kind in ("tile", "lanes") and _one(x.count) > 1]
    shape = " x ".join(f"{_count(x.count)} {x.axis}{' (lanes)' if x.kind == 'lanes' else ''}" for x in tile) or "one value"
    often = f"computed {_count(v('outer_runs'))} times, {_count(v('reduce_steps'))} steps each"
    say("tile", f"{shape}: {v('tile_vectors'):.0f} vectors, {often}")
    over = f", {v('registers_spilled'):.0f} spilled" if v("registers_spilled") else ""
    say("registers", f"{v('registers_used'):.0f} of {target.vector_registers}{over}")
    kinds = [(k, v(f"load_share_{k}") * v("step_loads")) for k in ("vector", "broadcast", "strided", "gathered")]
    loads = ", ".join(f"{count:.0f} {kind}" for kind, count in kinds if count)
    say("a step", f"{v('step_operations'):.0f} vector operations, {v('step_loads'):.0f} loads{f' ({loads})' if loads else ''}")
    if v("chains"):
        wanted = machine.fma_latency * machine.fma_per_cycle
        enough = "enough" if v("chains") >= wanted else "too few"
        say("chains", f"{v('chains'):.0f} independent results, {enough} to hide the latency ({wanted:.0f} wanted)")
    say("useful", f"{v('lanes_useful'):.0%} of the lanes, {v('points_useful'):.0%} of the points of whole tiles")
    if v("set_overflow"):
        say("conflicts", f"{v('step_set_lines'):.0f} lines of a step in one L1 set of {target.l1_ways} ways")
    if v("step_pages") > 16:
        say("pages", f"{v('step_pages'):.0f} in a step")
    for x, body in zip(s.nested.levels, s.bodies[1:]):
        if x.kind in ("outer", "reduce") and _one(x.count) > 1:
            say("loop", f"{x.name} x {_count(x.count)}{_how(x)}: a step touches {_bytes(_one(body))}, {_fits(_one(body), target)}")
    say("traffic", ", ".join(f"{_bytes(v(f'into_{c}'))} into {c.upper()}" for c in ("l1", "l2", "l3")))
    if v("parallel_steps") > 1:
        say("parallel", f"{v('parallel_steps'):.0f} steps on {target.cores} cores, {v('parallel_balance'):.0%} of their time used")
    else:
        say("parallel", "no")
    causes = {**guess.bounds, **guess.overheads}
    largest = sorted(causes, key=lambda k: -float(causes[k][0, n]))[:4]
    say("cycles", ", ".join(f"{name} {_count(float(causes[name][0, n]))}" for name in largest if float(causes[name][0, n]) >= 1))
    return lines


def _one(value: Num) -> float:
    return float(np.asarray(value).reshape(-1)[0])


def _how(level: Level) -> str:
    if bool(np.all(level.parallel)):
        return " (parallel)"
    return " (laid out)" if level.laid_out else ""


def _count(value: Num) -> str:
    number = _one(value)
    return f"{number:,.0f}" if number == round(number) or number >= 100 else f"{number:.1f}"


def _bytes(value: float) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _fits(size: float, target: CpuTarget) -> str:
    for name, room in (("L1", target.l1_bytes), ("L2", target.l2_bytes), ("L3", target.l3_bytes)):
        if size <= room:
            return f"fits {name}"
    return "fits no cache"
