"""One verb: search for a fast program of a computation or of whole networks, within a budget, and give it.

Everything measured is stored at once, so a run can be stopped at any moment and continued: what is in the database is told to the
policy first, and the search never measures it again; only the best of it is checked, before the search goes on. Ctrl-C keeps
everything and gives the best so far; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from tensorsmith.compile import as_workload, compile_model, compile_workload, database_path, usual_cache
from tensorsmith.errors import OutOfMemory, UserError
from tensorsmith.graph.model import Model
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.workload import Workload
from tensorsmith.records.keys import Timing
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.objectives import Objective, named
from tensorsmith.search.scheduler import Schedule
from tensorsmith.search.trial import Cache, check_cache
from tensorsmith.targets.host import memory_bytes
from tensorsmith.targets.target import Target, given_or_native
from tensorsmith.tuning.budget import Budget, Clock
from tensorsmith.tuning.journal import Journal
from tensorsmith.tuning.network_progress import NetworkProgress
from tensorsmith.tuning.network_task import NetworkTask, together
from tensorsmith.tuning.progress import Progress
from tensorsmith.tuning.reporting import Reporter, make_reporter

__all__ = ["NetworkProgress", "Progress", "tune"]

_SETTLING = 0.15  # of the seconds of networks: each of their tasks has a final of its own
_PER_TASK = 0.25  # of an effort's trials, for each task of a network: tasks are many, and their results help each other


@overload
def tune(
    computation: Model,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | str | None = None,
    seed: int = 0,
    cache: Cache | None = None,
    objective: str | Objective = "sum",
    schedule: str | Schedule = "gradient",
    verbose: bool = False,
    on_progress: Callable[[NetworkProgress], None] | None = None,
) -> Executable: ...


@overload
def tune(
    computation: Sequence[Model],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | str | None = None,
    seed: int = 0,
    cache: Cache | None = None,
    objective: str | Objective = "sum",
    schedule: str | Schedule = "gradient",
    verbose: bool = False,
    on_progress: Callable[[NetworkProgress], None] | None = None,
) -> list[Executable]: ...


@overload
def tune(
    computation: Workload | Sequence[Tensor],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | str | None = None,
    seed: int = 0,
    cache: Cache | None = None,
    verbose: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Executable: ...


def tune(
    computation: Workload | Sequence[Tensor] | Model | Sequence[Model],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | str | None = None,
    seed: int = 0,
    cache: Cache | None = None,
    objective: str | Objective | None = None,
    schedule: str | Schedule | None = None,
    verbose: bool = False,
    on_progress: Callable[[Any], None] | None = None,
) -> Executable | list[Executable]:
    """Searches for a fast program, and gives it.

    The run ends after `trials` candidates, after `seconds`, or after `patience` trials in a row that did not improve the best by
    more than 1 %, whichever comes first. `effort` presets trials and patience: "quick" (64, the default), "normal" (256, patience
    128) or "thorough" (1000, patience 300), for networks a quarter of that per task; what is given besides wins, and `patience=0`
    means none. With `seconds` alone, trials are not limited.

    With a `database` file everything is stored, and what is there already is built upon. The `cache` is what measured runs
    find in the caches: "warm", everything; "streamed", all but their constants; "cold", nothing. By default it is "warm", and
    "streamed" for networks whose constants do not fit the last-level cache. A progress line is printed, with `verbose` also where
    the time went; with `on_progress` that is called instead, and nothing is printed.

    A `Model`, or a list of them, is tuned task by task. The `objective` is what the latencies of the networks should be good for:
    "sum", "geomean" (of their speed-ups), one of `tensorsmith.search.objectives`, or a function of the list of latencies in
    seconds, to be minimised. The `schedule` says which task gets the next trials: "gradient", "round-robin", or a `Schedule` of
    `tensorsmith.search.scheduler`. A list of models gives a list of executables.
    """
    if cache is not None:
        check_cache(cache)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed is {seed!r}; give a whole number, 0 or more")
    if on_progress is not None and not callable(on_progress):
        raise UserError(f"on_progress is {on_progress!r}; give a function of one argument, the progress")
    target = given_or_native(target)
    models = _models(computation)
    if models is not None:
        budget = Budget.of(effort, trials, seconds, patience, tasks=_PER_TASK * max(1, len(_tunable(models))))
        how = schedule if isinstance(schedule, Schedule) else Schedule(schedule or "gradient")  # type: ignore[arg-type]
        _check_memory(task.workload for task in _tunable(models))
        reporter = make_reporter(on_progress)
        cache = cache or usual_cache(models, target)
        built = _tune_models(models, budget, database, target, seed, cache, named(objective or "sum"), how, verbose, reporter)
        return built[0] if isinstance(computation, Model) else built
    if objective is not None or schedule is not None:
        raise UserError("objective and schedule are for models: they say how trials are shared among the tasks of networks")
    workload = as_workload(computation)  # type: ignore[arg-type]
    _check_memory([workload])
    budget = Budget.of(effort, trials, seconds, patience)
    return _tune_workload(workload, budget, database, target, seed, cache or "warm", verbose, make_reporter(on_progress))


def _check_memory(workloads: Iterable[Workload]) -> None:
    """Raises `OutOfMemory` unless the machine holds all tensors of each workload: candidates are checked against all of them."""
    for workload in workloads:
        total = sum(b.bytes for b in workload.buffers.values())
        if total > memory_bytes():
            largest = max(workload.buffers.values(), key=lambda b: b.bytes)
            raise OutOfMemory(
                f"tuning with {largest.name} {largest.dtype}{list(largest.shape)} and all other tensors at once", total
            )


def _models(computation: Any) -> list[Model] | None:
    """The models to tune; None if it is a workload."""
    if isinstance(computation, Model):
        return [computation]
    if isinstance(computation, Workload) or not isinstance(computation, Sequence):
        return None
    found = [m for m in computation if isinstance(m, Model)]
    if found and len(found) < len(computation):
        other = next(m for m in computation if not isinstance(m, Model))
        raise UserError(f"a list of models to tune has a {type(other).__name__} in it; give models only")
    return found or None


def _tunable(models: Sequence[Model]) -> list[NetworkTask]:
    """The workloads that are worth tuning, each with its name and shape, its formulations, and how often each model runs it."""
    names: dict[Workload, str] = {}
    weights: dict[Workload, list[int]] = {}
    options: dict[Workload, list[Any]] = {}
    for n, model in enumerate(models):
        for task in model.tasks():
            if task.tunable:
                result = task.workload.buffers[task.workload.outputs[0]]
                names.setdefault(task.workload, f"{task.name} {list(result.shape)}")
                weights.setdefault(task.workload, [0] * len(models))[n] += task.weight
                options.setdefault(task.workload, []).append(task.formulations)
    return [NetworkTask(name, w, tuple(weights[w]), together(options[w])) for w, name in names.items()]


def _tune_workload(
    workload: Workload,
    budget: Budget,
    database: str | Path | None,
    target: Target,
    seed: int,
    cache: Cache,
    verbose: bool,
    reporter: Reporter,
) -> Executable:
    clock = Clock(budget.seconds)
    try:
        with Journal(database_path(database)) as journal:
            winner = None
            if budget.trials != 0 and not clock.over and not _is_empty(workload):
                results = (workload.buffers[name] for name in workload.outputs)
                reporter.say(f"tuning {', '.join(f'{b.name} {b.dtype}{list(b.shape)}' for b in results)}: deriving sketches")
                from tensorsmith.tuning.run import Run  # the search is loaded by those who search, not by every worker and program

                run = Run(workload, target, journal, budget, clock, reporter)
                run.go(cache, seed, verbose)
                winner = run.winner
            return compile_workload(workload, journal, target, Timing(cache, target.cores), winner=winner)
    finally:
        reporter.close()


def _is_empty(workload: Workload) -> bool:
    """Whether a stage loops over nothing: no schedule is faster than another, and costs of nothing cannot be compared."""
    return any(a.extent == 0 for s in workload.stages for a in s.all_axes)


def _tune_models(
    models: Sequence[Model],
    budget: Budget,
    database: str | Path | None,
    target: Target,
    seed: int,
    cache: Cache,
    objective: Objective,
    schedule: Schedule,
    verbose: bool,
    reporter: Reporter,
) -> list[Executable]:
    clock = Clock(budget.seconds, most_settling=math.inf, settling=_SETTLING)
    try:
        with Journal(database_path(database)) as journal:
            wanted = budget.trials != 0 and not clock.over
            if wanted:
                reporter.say(f"tuning {', '.join(m.name for m in models)}: deriving tasks and sketches")
            if wanted and (tasks := _tunable(models)):
                from tensorsmith.tuning.in_network import settle
                from tensorsmith.tuning.network import NetworkRun

                run = NetworkRun(
                    [m.name for m in models],
                    tasks,
                    target,
                    journal,
                    budget,
                    clock,
                    reporter,
                    objective=objective,
                    schedule=schedule,
                    cache=cache,
                    seed=seed,
                )
                run.go(verbose)
                if not run.ctrl_c.came:
                    try:
                        for model in models:
                            settle(model, journal, target, Timing(cache, target.cores))
                    except UserError as problem:  # of the machine: no room for files, no process
                        reporter.warn(f"the best programs were not compared in their network: {problem}")
                    if (lost := journal.finish()) is not None:
                        reporter.warn(lost)
            return [compile_model(m, journal, target, Timing(cache, target.cores)) for m in models]
    finally:
        reporter.close()
