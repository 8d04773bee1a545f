"""One verb: search for a fast program of a computation, within a budget, and give it.

Everything measured is stored at once, so a run can be stopped at any moment and continued: what is in the database is told to the
policy first and never measured again. Ctrl-C keeps everything and gives the best so far; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from tensorsmith.compile import as_workload, build_kernel, compile
from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.formulations import formulations
from tensorsmith.records.keys import CACHES, Timing
from tensorsmith.runtime.executable import Executable
from tensorsmith.target import Target, native
from tensorsmith.tuning.budget import Budget, Clock
from tensorsmith.tuning.journal import Journal
from tensorsmith.tuning.progress import Progress
from tensorsmith.tuning.reporting import make_reporter

__all__ = ["Progress", "tune"]


def tune(
    computation: Workload | Sequence[Tensor],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | None = None,
    seed: int = 0,
    cache: Literal["warm", "cold"] = "warm",
    verbose: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Executable:
    """Searches for a fast program, and gives it.

    The run ends after `trials` candidates, after `seconds`, or after `patience` trials in a row that did not improve the best by
    more than 1 %, whichever comes first. `effort` presets trials and patience: "quick" (64, the default), "normal" (256, patience
    128) or "thorough" (1000, patience 300); what is given besides wins, and `patience=0` means none. With `seconds` alone,
    trials are not limited.

    With a `database` file everything is stored, and what is there already is built upon. `cache="cold"` measures runs that find
    nothing in the caches. A progress line is printed, with `verbose` also where the time went; with `on_progress` that is called
    instead, and nothing is printed.
    """
    budget = Budget.of(effort, trials, seconds, patience)
    if cache not in CACHES:
        raise UserError(f'cache is "warm" or "cold", {cache!r} given')
    workload, target = as_workload(computation), target or native()
    clock = Clock(budget.seconds)
    with Journal(database) as journal:
        if budget.trials != 0 and not clock.over:
            from tensorsmith.tuning.run import Run  # the search is loaded by those who search, not by every worker and program

            reporter = make_reporter(on_progress)
            try:
                Run(workload, target, journal, budget, clock, reporter).go(cache, seed, verbose)
            finally:
                reporter.close()
        timing = Timing(cache, target.cores)
        found = [(r, f) for f in formulations(workload) for r in journal.top(f.workload, target, timing, 1)]
    if not found:
        return compile(workload, target=target)
    best, formulation = min(found, key=lambda x: x[0].seconds or math.inf)
    return build_kernel(best.candidate, target, formulation=formulation).executable()
