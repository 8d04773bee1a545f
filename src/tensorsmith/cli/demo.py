"""`tensorsmith demo`: layers of real networks compiled, tuned, checked and timed, in about a minute."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from tensorsmith.compile import build, compile
from tensorsmith.lang.compare import Array, difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.peak import measure_peak
from tensorsmith.space.plain import plain_candidate
from tensorsmith.tune import tune

_CASES = ("ConvLayer-3-b1", "GMM-1-b1", "DEP-1-b1")
_TRIALS = 32
_ROUNDS = 20


def demo() -> None:
    """Compiles and tunes a few layers of real networks, checks them against NumPy, and shows the speed-up."""
    console = Console()
    peak = measure_peak()["flops"]
    table = Table("workload", "plain loops", "default schedule", "tuned", "speed-up", "share of FMA peak", "checked")
    first: Executable | None = None
    for name in _CASES:
        workload = catalogue.get(name).workload()
        inputs = random_inputs(workload, 0)
        constants = {b.name: inputs[b.name] for b in workload.inputs if b.constant}
        others = [aligned_copy(inputs[b.name]) for b in workload.inputs if not b.constant]
        console.print(f"tuning {name} with {_TRIALS} trials")
        kernel = tune(workload, trials=_TRIALS).bind(**constants)
        untuned = compile(workload).bind(**constants)
        plain = build(plain_candidate(workload)).bind(**constants)
        problem = difference(workload, workload.outputs[0], np.asarray(kernel(*others)), _want(workload, inputs))
        slow, middle, fast = _side_by_side([plain, untuned, kernel], others)
        share = flops(workload) / fast / peak
        table.add_row(name, _time(slow), _time(middle), _time(fast), f"{slow / fast:.0f}x", f"{share:.0%}", problem or "ok")
        first = first or kernel
    assert first is not None
    console.print("The first layer as a loop program (kernel.program):\n")
    print(first.program)
    console.print(table)


def _side_by_side(kernels: list[Executable], inputs: list[Array]) -> list[float]:
    """The least seconds of each, in turns: what disturbs the machine for a while then disturbs all of them."""
    rounds = [[k.benchmark(*inputs, min_seconds=0.03, rounds=3).best for k in kernels] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds)]


def _want(workload: Workload, inputs: dict[str, Array]) -> Array:
    return evaluate(workload, inputs, precise=True)[workload.outputs[0]]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
