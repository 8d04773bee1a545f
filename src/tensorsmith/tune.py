"""One verb: search for a fast program of a computation or of whole networks, within a budget, and give it.

Everything measured is stored at once, so a run can be stopped at any moment and continued: what is in the database is told to the
policy first, and the search never measures it again; only the best of it is checked, before the search goes on. Ctrl-C keeps
everything and gives the best so far; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from tensorsmith.compile import (
    as_workload,
    builder,
    compile_chosen,
    compile_model,
    compile_workload,
    database_path,
    stored,
    usual_cache,
)
from tensorsmith.errors import OutOfMemory, Parameter, UserError, whole_number
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.graph.varying import open_executable
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.workload import Workload
from tensorsmith.rewrites.formulations import Options, allowed
from tensorsmith.runtime.constants import Constants
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.search.objectives import Objective, named
from tensorsmith.search.policy import MakePolicy, Preset
from tensorsmith.search.scheduler import Schedule
from tensorsmith.search.trial import Cache, check_cache
from tensorsmith.targets.emulator import emulator
from tensorsmith.targets.host import memory_bytes
from tensorsmith.targets.target import Target, on_threads
from tensorsmith.tuning.answer import check_found, whose_programs
from tensorsmith.tuning.budget import Budget, Clock
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.progress.network import UNCHANGED, NetworkProgress, Settled
from tensorsmith.tuning.progress.reporter import Reporter, make_reporter
from tensorsmith.tuning.progress.workload import Progress
from tensorsmith.tuning.tasks.tuned import TunedTask, together

if TYPE_CHECKING:  # the search is loaded by those who search, not by every worker and program
    from typing_extensions import Unpack

    from tensorsmith.learn.models.registry import GivenModel
    from tensorsmith.tuning.options import GivenRules, GivenRunner, Plugins, RunOptions

__all__ = ["NetworkProgress", "Progress", "tune"]

_SETTLING = 0.15  # of the seconds of networks: each of their tasks has a final of its own
_LITTLE = 10.0  # seconds: where no more is left, what was not done was not done for want of time
_PER_TASK = 0.25  # of an effort's trials, for each task of a network: tasks are many, and their results help each other


class _Options(TypedDict, total=False):
    """What every call may be given; `tune` says what it means."""

    trials: int | None
    seconds: float | None
    patience: int | None
    effort: Literal["quick", "normal", "thorough"] | None
    database: str | Path | None
    target: Target | str | None
    seed: int
    cache: Cache | None
    policy: str | Preset | MakePolicy
    rules: GivenRules | None
    model: GivenModel | None
    formulations: str | None
    fallback: bool
    runner: GivenRunner
    early_stop: bool
    weights: str | None
    threads: int | None
    verbose: bool


class _WorkloadOptions(_Options, total=False):
    on_progress: Callable[[Progress], None] | None


class _NetworkOptions(_Options, total=False):
    objective: str | Objective
    schedule: str | Schedule
    on_progress: Callable[[NetworkProgress], None] | None


@overload
def tune(computation: Model, **options: Unpack[_NetworkOptions]) -> Executable: ...


@overload
def tune(computation: OpenModel, **options: Unpack[_NetworkOptions]) -> OpenExecutable: ...


@overload
def tune(computation: Sequence[Model], **options: Unpack[_NetworkOptions]) -> list[Executable]: ...


@overload
def tune(computation: Workload | Sequence[Tensor], **options: Unpack[_WorkloadOptions]) -> Executable: ...


def tune(
    computation: Workload | Sequence[Tensor] | Model | OpenModel | Sequence[Model],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    effort: Literal["quick", "normal", "thorough"] | None = None,
    database: str | Path | None = None,
    target: Target | str | None = None,
    seed: int = 0,
    cache: Cache | None = None,
    policy: str | Preset | MakePolicy = "tensorsmith",
    rules: GivenRules | None = None,
    model: GivenModel | None = None,
    formulations: str | None = None,
    fallback: bool = True,
    runner: GivenRunner = "local",
    weights: str | None = None,
    threads: int | None = None,
    objective: str | Objective | None = None,
    schedule: str | Schedule | None = None,
    early_stop: bool = True,
    verbose: bool = False,
    on_progress: Callable[[Any], None] | None = None,
) -> Executable | OpenExecutable | list[Executable]:
    """Searches for a fast program of a `computation`, and gives it: of a list of inputs and outputs, `[A, B, D]`, of a `Workload`,
    of a `Model`, or of several models.

    The run ends after `trials` candidates, after `seconds`, or after `patience` trials in a row that did not improve the best by
    more than 1 %, whichever comes first. `effort` presets trials and patience: "quick" (64, the default), "normal" (256, patience
    128) or "thorough" (1000, patience 300), for networks a quarter of that per task; what is given besides wins, and `patience=0`
    means none. With `seconds` alone, trials are not limited. A search also ends when its best is within 3 % of what this machine
    allows, by the operations and bytes that every program of the computation needs, and says so; not with `early_stop=False`.

    With a `database` file everything is stored, and what is there already is built upon. The `cache` is what measured runs
    find in the caches: "warm", everything; "streamed", all but their constants; "cold", nothing. By default it is "warm", and
    "streamed" for networks whose constants do not fit the last-level cache. A progress line is printed, in a notebook a bar is
    shown, with `verbose` also where the time went; with `on_progress` that is called instead, and nothing is printed.

    Who searches, where and by which model can be chosen: `policy` is "tensorsmith" or another name of docs/policies.md, or a
    class or function that makes a policy (`tensorsmith.search.policy`); `rules` the name of a set, "default" or "ansor", to which
    registered rules are added, or a list of rules; `model` a name ("trees", "mlp", "prior"), the file of a saved model, or a cost
    model (`tensorsmith.learn.models.model`). All three may be places, as in "my_module:MyPolicy". Without rules or a model, the
    policy's own are used. With `formulations` "direct" everything is computed as it is written, with "all" also by other
    definitions (Winograd's) where those are faster; without, as the policy has it: ours all, those of other systems "direct". The
    `weights` of models may be stored in fewer bits, as `compile` does it.

    Whatever the policy finds is used only where it is faster than the default schedule, which is the answer otherwise, or an
    earlier record is; the run says so at its end. With `fallback=False` the answer is the best that the policy itself found in this
    run, to compare policies by; it is an error if it found nothing that runs.

    A `Model`, or a list of them, is tuned task by task. The `objective` is what the latencies of the networks should be good for:
    "sum", "geomean" (of their speed-ups), one of `tensorsmith.search.objectives`, or a function of the list of latencies in
    seconds, to be minimised. The `schedule` says which task gets the next trials: "gradient", "round-robin", or a `Schedule` of
    `tensorsmith.search.scheduler`. A list of models gives a list of executables.

    An `OpenModel` is tuned at the sizes that it names, all in one run: what several of them compute alike is tuned once, and good
    programs of one size are tried at the others. The objective is then "geomean" unless another is given, so that every size
    counts, not only the largest. Sizes that come later are compiled with the `database`, as `compile` does it.

    The `target` is this machine, unless told otherwise. Programs are measured here, so it has to be one that this machine can run;
    or where the `runner` says: "ssh board" or another command that starts Python on a machine of that kind, a list of commands,
    "ray" or "ray://host:10001" for the nodes of a Ray cluster, or a runner of your own (`tensorsmith.measure.runner`); see
    docs/fleet.md. Without a target it is then that of the machines there. A GPU that is not here is the exception: its programs are
    judged by estimated times, and nothing is measured or stored. The same `seed` and the same times give the same candidates.

    With `threads` programs are searched for, measured and run on so many, as `compile` does it; records of other numbers are not
    mixed with theirs.

        kernel = ts.tune([A, B, C], trials=64, database="tune.db").bind(B=b)
        exe = ts.tune(ts.load("model.onnx"), seconds=600, database="tune.db")
        first, second = ts.tune([resnet, detector], effort="normal", objective="geomean", database="tune.db")
    """
    begun = time.monotonic()  # whatever the caller waits for counts
    if cache is not None:
        check_cache(cache)
    if (given_seed := whole_number(seed)) is None or given_seed < 0:
        raise UserError(Parameter("seed"), f" is {seed!r}; give a whole number, 0 or more")
    seed = given_seed
    if on_progress is not None and not callable(on_progress):
        raise UserError(f"on_progress is {on_progress!r}; give a function of one argument, the progress")
    if database is not None and emulator():
        raise UserError("times under an emulator mean nothing, so none are stored: leave out ", Parameter("database"))
    from tensorsmith.tuning.estimated import is_estimated
    from tensorsmith.tuning.options import HowMeasured, Plugins, RunOptions, where

    place, target = where(runner, target)
    target = on_threads(target, threads)
    plugins = Plugins.of(target, policy, rules, model)
    formulations = plugins.policy.formulations if formulations is None else formulations
    if not fallback and isinstance(computation, OpenModel):
        raise UserError(
            "what a policy finds by itself is known of one size at a time: tune model.at(...), or leave out ", Parameter("fallback")
        )
    models = _models(computation)
    if models is None or isinstance(computation, OpenModel):
        computation = stored(computation, weights)
    if models is not None:
        models = [stored(m, weights) for m in models]
        if isinstance(computation, OpenModel):
            objective = objective or "geomean"
        models = [m.with_pairs(target.multiplies_pairs).with_formulations(formulations) for m in models]
        budget = Budget.of(effort, trials, seconds, patience, tasks=_PER_TASK * max(1, len(_tunable(models))))
        how = schedule if isinstance(schedule, Schedule) else Schedule(schedule or "gradient")  # type: ignore[arg-type]
        if place.here and is_estimated(target):
            return _estimated(computation, models, budget, target, plugins, seed, fallback, make_reporter(on_progress))
        _check_memory(task.workload for task in _tunable(models))
        measured = HowMeasured(target, cache or usual_cache(models, target), place, threads)
        options = RunOptions(
            budget, measured, plugins, seed, verbose, early_stop, fallback, sizes=isinstance(computation, OpenModel)
        )
        constants = Constants() if isinstance(computation, OpenModel) else None
        built = _tune_models(
            models, options, database, named(objective or "sum"), how, make_reporter(on_progress), constants, begun
        )
        if isinstance(computation, OpenModel):
            made = open_executable(computation, builder(database, target, formulations, constants, threads=threads))
            for sizes, (executable, took) in zip(computation.named, built):
                made.add(sizes, executable, took, kept=True)
            return made
        executables = [executable for executable, _ in built]
        return executables[0] if isinstance(computation, Model) else executables
    if objective is not None or schedule is not None:
        raise UserError("objective and schedule are for models: they say how trials are shared among the tasks of networks")
    workload = as_workload(computation)  # type: ignore[arg-type]
    among = allowed(workload, formulations, target.multiplies_pairs)
    budget = Budget.of(effort, trials, seconds, patience)
    if place.here and is_estimated(target):
        return _estimated(workload, among, budget, target, plugins, seed, fallback, make_reporter(on_progress))
    _check_memory([workload])
    options = RunOptions(budget, HowMeasured(target, cache or "warm", place, threads), plugins, seed, verbose, early_stop, fallback)
    return _tune_workload(workload, among, options, database, make_reporter(on_progress), begun)


def _estimated(
    computation: Any,
    options: Sequence[Model] | Options,
    budget: Budget,
    target: Target,
    plugins: Plugins,
    seed: int,
    fallback: bool,
    reporter: Reporter,
) -> Any:
    """What a search by estimates gives, of a machine that is not here; `options` are the models, or the formulations of a
    workload."""
    from tensorsmith.tuning.estimated import EstimatedRun
    from tensorsmith.tuning.options import HowMeasured, RunOptions

    models = [m for m in options if isinstance(m, Model)]
    if isinstance(computation, OpenModel):
        raise UserError(f"{target.name} is not here, and open sizes are tuned by measuring; tune model.at(...) of one size")
    if models:
        tasks = _tunable(models)
    else:
        tasks = [TunedTask(", ".join(computation.outputs), computation, (1,), options)]  # type: ignore[arg-type]
    run = EstimatedRun(
        tasks, RunOptions(budget, HowMeasured(target), plugins, seed, fallback=fallback), Clock(budget.seconds), reporter
    )
    try:
        run.go()
    finally:
        reporter.close()
    if not fallback:
        check_found(plugins.policy.name, {task.workload: task.name for task in tasks}, run.best, run.trials)
    made = [compile_chosen(one, run.best, target, "estimated") for one in models or [computation]]
    return made if models and not isinstance(computation, Model) else made[0]


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
    if isinstance(computation, OpenModel):
        if not computation.named:
            wanted = Parameter("shapes", entries=tuple((d, "[1, 8, 32]") for d, found in computation.sizes.items() if not found))
            raise UserError("tune needs sizes to tune for: name some, as in ", wanted)
        return [computation.model(sizes) for sizes in computation.named]
    if isinstance(computation, Workload) or not isinstance(computation, Sequence):
        return None
    found = [m for m in computation if isinstance(m, Model)]
    open_one = next((m for m in computation if isinstance(m, OpenModel)), None)
    if open_one is not None:
        at = ", ".join(f"{symbol}=8" for symbol in open_one.symbols)
        raise UserError(f"a list of models to tune has {open_one.name} in it, of open sizes; tune it alone, or give model.at({at})")
    if found and len(found) < len(computation):
        other = next(m for m in computation if not isinstance(m, Model))
        raise UserError(f"a list of models to tune has a {type(other).__name__} in it; give models only")
    return found or None


def _tunable(models: Sequence[Model]) -> list[TunedTask]:
    """The workloads that are worth tuning, each with its name, its formulations, and how often each model runs it."""
    names: dict[Workload, str] = {}
    weights: dict[Workload, list[int]] = {}
    options: dict[Workload, list[Any]] = {}
    for n, model in enumerate(models):
        for task in model.tasks():
            if task.tunable and not _is_empty(task.workload):
                names.setdefault(task.workload, task.name)
                weights.setdefault(task.workload, [0] * len(models))[n] += task.weight
                options.setdefault(task.workload, []).append(task.formulations)
    return [TunedTask(name, w, tuple(weights[w]), together(options[w])) for w, name in names.items()]


def _tune_workload(
    workload: Workload, formulations: Options, options: RunOptions, database: str | Path | None, reporter: Reporter, begun: float
) -> Executable:
    budget, measured = options.budget, options.measured
    clock = Clock(budget.seconds, begun=begun)
    try:
        with Journal(database_path(database)) as journal:
            winner, why_not = None, _EMPTY if _is_empty(workload) else _why_not(options)
            if why_not is not None:
                reporter.say(f"nothing is tuned: {why_not}")
            elif not clock.over:
                measured.check()
                results = (workload.buffers[name] for name in workload.outputs)
                reporter.say(f"tuning {', '.join(f'{b.name} {b.dtype}{list(b.shape)}' for b in results)}: deriving sketches")
                from tensorsmith.tuning.of_workload import WorkloadRun

                run = WorkloadRun(workload, formulations, options, journal, clock, reporter)
                run.go()
                winner = run.winner
                if not options.fallback:
                    found = {} if winner is None else {workload: winner}
                    check_found(options.plugins.policy.name, {workload: workload.title}, found, sum(run.trials))
            return compile_workload(workload, journal, measured.target, measured.timing, formulations, winner, measured.threads)
    finally:
        reporter.close()


def _outcome(network: str, settled: Settled | None, first: float, now: float) -> str:
    """The last line: `model: 530 us -> 310 us, 1.7x`, as the network itself was timed; else by the sums of its tasks."""
    if settled is UNCHANGED:
        settled = Settled(first, first, estimated=True)
    return f"{network}: {settled or Settled(first, now, estimated=True)}"


_EMPTY = "a size is 0, so that nothing is computed, and no program is faster than another"


def _why_not(options: RunOptions) -> str | None:
    """Why there is no search, because the user gave it nothing; None: there is one. Raises `UserError` where only a search can
    give an answer."""
    for parameter, limit in ((Parameter("trials"), options.budget.trials), (Parameter("seconds"), options.budget.seconds)):
        if limit == 0 and not options.fallback:
            raise UserError(
                parameter, " is 0, so that the policy finds nothing; give it more, or leave out ", Parameter("fallback")
            )
        if limit == 0:
            word = "trials" if parameter.name == "trials" else "the time"
            return f"{word} is 0. The answer is the best record that there is, else the default schedule, as `compile` gives it"
    return None


def _why_no_tasks(models: Sequence[Model]) -> str:
    """Of networks that have none to tune."""
    empty = any(_is_empty(task.workload) for model in models for task in model.tasks())
    return _EMPTY if empty else "all tasks only move or map elements, and the default schedule is as good as any"


def _is_empty(workload: Workload) -> bool:
    """Whether a stage loops over nothing: no schedule is faster than another, and costs of nothing cannot be compared."""
    return any(a.extent == 0 for s in workload.stages for a in s.all_axes)


def _tune_models(
    models: Sequence[Model],
    options: RunOptions,
    database: str | Path | None,
    objective: Objective,
    schedule: Schedule,
    reporter: Reporter,
    constants: Constants | None = None,
    begun: float | None = None,
) -> list[tuple[Executable, float]]:
    """The executables, and how long each took to compile in the end."""
    budget, measured = options.budget, options.measured
    clock = Clock(budget.seconds, most_settling=math.inf, settling=_SETTLING, begun=begun)
    try:
        with Journal(database_path(database)) as journal:
            why_not, tasks, outcomes = _why_not(options), [], []
            if why_not is None:
                measured.check()
                reporter.say(f"tuning {', '.join(m.name for m in models)}: deriving tasks and sketches")
                tasks = _tunable(models)
                why_not = _why_no_tasks(models) if not tasks else None
            if why_not is not None:
                reporter.say(f"nothing is tuned: {why_not}")
            elif not clock.over:
                from tensorsmith.tuning.finals.in_network import settle
                from tensorsmith.tuning.of_networks import NetworkRun

                kernels = sum(len(m.tasks()) for m in models)
                run = NetworkRun([m.name for m in models], tasks, options, journal, clock, reporter, objective, schedule, kernels)
                run.go()
                if not options.fallback:
                    check_found(options.plugins.policy.name, {t.workload: t.name for t in tasks}, run.own, sum(run.trials))
                    return [
                        _built(partial(compile_chosen, model, run.own, measured.target, threads=measured.threads))
                        for model in models
                    ]
                settled: dict[int, Settled | None] = {}
                if not measured.place.here:
                    reporter.say("the programs were not compared inside of their network: that is done on this machine alone")
                elif not run.ctrl_c.came:
                    try:
                        for n, model in enumerate(models):
                            share = partial(_share_of_rest, clock, len(models) - n)
                            settled[n] = settle(model, journal, measured.target, measured.timing, seconds_left=share)
                        if None in settled.values() and (clock.whole_rest or 0.0) < _LITTLE and budget.seconds is not None:
                            reporter.say("there was no time to compare all programs in their network: those count that won alone")
                    except UserError as problem:  # of the machine: no room for files, no process
                        reporter.warn(f"the best programs were not compared in their network: {problem}")
                    if (lost := journal.finish()) is not None:
                        reporter.warn(lost)
                for n, network in enumerate(run.networks):
                    how = "emulated: " if journal.emulated else ""
                    if run.nothing_measured:
                        outcomes.append(f"{network}: nothing was measured before the run ended, so it has the default schedules")
                    else:
                        outcomes.append(how + _outcome(network, settled.get(n), run.first_latencies()[n], run.latencies()[n]))
            compiling = partial(compile_model, constants=constants, threads=measured.threads)
            built = [_built(partial(compiling, model, journal, measured.target, measured.timing)) for model in models]
            if outcomes:
                reporter.say(whose_programs([made for made, _ in built], options.plugins.policy.name))
            for outcome in outcomes:
                reporter.say(outcome)
            return built
    finally:
        reporter.close()


def _share_of_rest(clock: Clock, parts: int) -> float | None:
    """Seconds left for one of so many parts of what comes after a run; None: no limit."""
    rest = clock.whole_rest
    return None if rest is None else rest / parts


def _built(compiling: Callable[[], Executable]) -> tuple[Executable, float]:
    """An executable, and the seconds that it took to compile."""
    begun = time.perf_counter()
    made = compiling()
    return made, time.perf_counter() - begun
