"""Whose program a run gives: what the policy found, the default schedule, or a record of an earlier run.

Whoever compares policies must not compare the default schedule with itself, so a run says it, and `fallback=False` leaves only the
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorsmith.build import Found
from tensorsmith.errors import Parameter, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.runtime.executable import Executable
from tensorsmith.show.line import many
from tensorsmith.show.units import time

_OURS = "tensorsmith"


def _hint(policy: str) -> str:
    """For whoever chose a policy to look at it."""
    return "" if policy == _OURS else ". fallback=False (--policy-only) gives the policy's own best"


def check_found(policy: str, tasks: Mapping[Workload, str], found: Mapping[Workload, Found], trials: int) -> None:
    """Raises `UserError` unless the policy found a program for every one of the tasks, which are given with their names."""
    missing = [name for workload, name in tasks.items() if workload not in found]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            f"policy {policy} found no program that runs for {', '.join(missing[:3])}{more}, in {many(trials, 'trial')}; "
            "give it more trials or time, or leave out ",
            Parameter("fallback"),
            ": the default schedule stands in then",
        )


def whose_program(policy: str, proposed: bool, default_won: bool, own: float | None, default: float | None) -> str:
    """Of one workload. `proposed`: the policy did so in this run; `own` and `default`: seconds alone of its best and of the default
    schedule, where they are known."""
    if default_won:
        times = (
            "" if own is None or default is None else f"; alone, its best takes {time(own)}, the default schedule {time(default)}"
        )
        return f"the default schedule is the best found: {policy} found nothing surely faster as it is called{times}{_hint(policy)}"
    if proposed:
        return f"the answer is a program that {policy} found in this run"
    return f"the answer is a record of an earlier run: {policy} found nothing faster{_hint(policy)}"


def whose_programs(executables: Sequence[Executable], policy: str) -> str:
    """Of networks: how many of their kernels are records, of this run or of earlier ones, and how many default schedules."""
    kernels = [kernel for executable in executables for kernel in executable.network.kernels]
    tuned = sum(kernel.schedule == "record" for kernel in kernels)
    rest = f"; {len(kernels) - tuned} have the default schedule" if tuned < len(kernels) else ""
    return f"of {many(len(kernels), 'kernel')} {tuned} are programs that {policy}, or an earlier run, found{rest}{_hint(policy)}"
