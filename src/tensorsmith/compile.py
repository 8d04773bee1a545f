"""One verb: a definition or a model to an executable, without any search."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

from tensorsmith.build import Bounds, Found, Guess, Wanted, build_all, build_best, kernel_alone
from tensorsmith.carried import carried
from tensorsmith.errors import Parameter, Refusal, UserError
from tensorsmith.graph.assemble import assemble
from tensorsmith.graph.bounded import bounded, without_lookups
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.graph.tasks import Partition
from tensorsmith.graph.varying import open_executable
from tensorsmith.lang.counts import Table
from tensorsmith.lang.define import Tensor, refuse_path
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.index_check import index_check
from tensorsmith.lang.workload import Workload
from tensorsmith.locking import check_built
from tensorsmith.locking import read as read_lock
from tensorsmith.records.keys import CACHES, IN_NETWORK, Cache, Timing
from tensorsmith.records.record import Record, ranked
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import ALL, Options, allowed
from tensorsmith.rewrites.formulations import formulations as formulations_of
from tensorsmith.runtime.checked import CheckedExecutable, IndexLimit
from tensorsmith.runtime.constants import Constants
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.runtime.origin import Origin, unkept
from tensorsmith.runtime.variants.bounds import Bounds as VariantBounds
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import Sizes
from tensorsmith.show.line import plain
from tensorsmith.targets.target import Target, given_or_native, on_threads

log = logging.getLogger(__name__)

BY_MODEL = "model"  # the effort of letting the pre-trained model choose
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)

_RECORDS = 3  # how many records of a task are tried before the default schedule


class Records(Protocol):
    """Whatever knows the records of the k fastest candidates of a workload: a store, or the journal of a run."""

    def top(self, workload: Workload, target: Target, timing: Timing, k: int) -> list[Record]: ...


@runtime_checkable
class CompilesItself(Protocol[C_co]):
    """What is no network but runs several: it makes of them what `compile` gives. `options` are those of `compile`."""

    def compiled(self, **options: Any) -> C_co: ...


@overload
def compile(
    computation: CompilesItself[C_co],
    *,
    database: str | Path | None = None,
    target: Target | str | None = None,
    effort: Literal["model"] | None = None,
    weights: str | None = None,
    threads: int | None = None,
) -> C_co: ...


@overload
def compile(
    computation: Workload | Sequence[Tensor] | Model,
    *,
    database: str | Path | None = None,
    target: Target | str | None = None,
    name: str | None = None,
    formulations: str = ALL,
    integers: bool = True,
    effort: Literal["model"] | None = None,
    weights: str | None = None,
    threads: int | None = None,
    check_indices: bool = False,
    lock: str | Path | None = None,
) -> Executable: ...


@overload
def compile(
    computation: OpenModel,
    *,
    database: str | Path | None = None,
    target: Target | str | None = None,
    name: str | None = None,
    formulations: str = ALL,
    integers: bool = True,
    effort: Literal["model"] | None = None,
    weights: str | None = None,
    threads: int | None = None,
    keep: int | None = None,
    background: bool = False,
    ranges: bool = True,
    memory: int | None = None,
) -> OpenExecutable: ...


def compile(
    computation: Workload | Sequence[Tensor] | Model | OpenModel | CompilesItself[Any],
    *,
    database: str | Path | None = None,
    target: Target | str | None = None,
    name: str | None = None,
    formulations: str = ALL,
    integers: bool = True,
    effort: Literal["model"] | None = None,
    weights: str | None = None,
    threads: int | None = None,
    check_indices: bool = False,
    keep: int | None = None,
    background: bool = False,
    ranges: bool = True,
    memory: int | None = None,
    lock: str | Path | None = None,
) -> Any:
    """An executable without any search: the best record in the `database`, else the default schedule by the target's facts alone.

    `computation` is a list of inputs and outputs, as in `[A, B, D]`, a `Workload`, or a `Model`, whose tasks are each compiled so.
    Bind the constants of a workload with `kernel.bind(B=b)`, so that they are packed once instead of on every call; those of a
    model are bound here.

    The `target` is this machine, another `Target`, or a name of `tensorsmith.targets()`. What is compiled for another machine can
    be saved and printed here, and runs there. With `formulations="direct"` everything is computed as it was written, and nothing by
    another definition of the same outputs (Winograd's convolution), whose rounding is larger. In a quantised model products of
    dequantised numbers are made of the integers they were; with `integers=False` they are made in f32, as the model is written.

    Where there is no record of a computation, one of another size is carried over if that is likely to be ahead of the default
    schedule. With `effort="model"` the pre-trained model of the package chooses instead, among thousands of programs and without
    any trial, in a few seconds a task; it takes the default schedule unless it is sure of a better one.

    `weights` are stored as they are, or in fewer bits: as "bf16", "f16" or "int8", unpacked in registers and multiplied in f32.
    That is for models; `model.with_weights("bf16").weights_error()` says what it costs in accuracy.

    The executable runs on so many `threads`, and is compiled for as many: schedules and records of other numbers are others. It
    keeps the number when it is saved. Without one it is compiled for all cores that this process may use, or as many as
    TENSORSMITH_NUM_THREADS says, and runs on as many as there are where it is loaded.

    An index that is computed from data, as in `A[index[i]]`, is clamped to the tensor. With `check_indices=True` a call with one
    that is out of bounds raises a `UserError` that names tensor, dimension and value; another kernel looks at all of them first. It
    is for definitions only, and such an executable cannot be saved.

    With a `lock`, a file that `tensorsmith lock` wrote, the programs are those that it says, whatever records and default schedules
    say now; it is an error if it lacks one, or if one cannot be built (docs/locks.md).

    Records are preferred that were timed as `tune` does it by default; where there are only others, these are used. A database
    that does not exist is an error; one that has nothing to use for the computation gives a warning that says why.

    An `OpenModel` gives an executable for any sizes. The sizes that the model names are compiled now. For others a bounded variant
    is compiled when the first size of a range comes, and serves the whole range: sizes up to 8, 32, 128 and so on. Of these as many
    stay as have the values of their calls in `memory` bytes (1 GiB), those used last. Where a network is another one at another
    size, and with `ranges=False`, each size is compiled when it first comes, and the last `keep` (16) stay. With `background` those
    are compiled by a thread, and calls are served meanwhile by the next larger variant, with filled-up inputs, where it is proved
    that this gives the same results; else they wait.

        kernel = ts.compile([A, B, C]).bind(B=b)
        exe = ts.compile(ts.load("model.onnx"), database="tune.db")
        ts.compile(model, target="znver4", name="classifier").save("classifier.tsm")

    `name` is what the executable is called in texts, profiles and files.

    A language model (`ts.load("model.gguf")`) gives a `Generator`; its `weights` may be "f32", "q8_0" and "q4_0", too.
    """
    if isinstance(computation, CompilesItself):
        others: dict[str, Any] = {
            "name": name,
            "keep": keep,
            "check_indices": check_indices or None,
            "background": background or None,
            "lock": lock,
            "ranges": None if ranges else False,
            "memory": memory,
        }
        others |= {"formulations": None if formulations == ALL else formulations, "integers": None if integers else False}
        others = {key: given for key, given in others.items() if given is not None}
        return computation.compiled(database=database, target=target, effort=effort, weights=weights, threads=threads, **others)
    if lock is not None:
        return _locked(computation, lock, database, target, name, formulations, integers, effort, weights, threads, check_indices)
    target = on_threads(given_or_native(target), threads)
    check_effort(effort)
    given, computation = computation, stored(computation, weights)  # the first is the user's, who keeps it or does not
    if check_indices and isinstance(computation, (Model, OpenModel)):
        raise UserError("check_indices is for definitions; the operators of a model clamp their indices")
    if isinstance(computation, OpenModel):
        shared = Constants()
        build = builder(database, target, formulations, shared, integers=integers, effort=effort, threads=threads)
        in_ranges = bounded_builder(database, target, formulations, shared, integers, effort, threads)
        made = open_executable(computation, build, name, keep, background, ranges, memory, in_ranges)
        made.compile(computation.named)
        return made
    if keep is not None or background or memory is not None or not ranges:
        example = Parameter("shapes", entries=(("batch", "None"),))
        raise UserError("keep, background, ranges and memory are for models with open dimensions: ", example)

    def again(given: Workload | Model, there: Target) -> Executable:
        return compile(
            given,
            database=database,
            target=there,
            name=name,
            formulations=formulations,
            integers=integers,
            effort=effort,
            weights=weights,
            threads=threads,
            check_indices=check_indices,
        )

    timing = Timing("warm", target.cores)
    with _opened(database) as store:
        if isinstance(computation, Model):
            computation = _for(computation, target, integers, formulations)
            timing = Timing(usual_cache([computation], target), target.cores)
            best = _best_of_tasks(computation, store, target, timing)
            guesses = _guesses(_missing(computation, best), store, target, timing, effort)
            _warn_of_missing({t.workload: t.name for t in computation.tasks() if t.tunable}, best, guesses, store, target, timing)
            network = _network(computation, best, target, name, guesses=guesses, threads=threads)
            network.origin = Origin(unkept(given), again)
            return network
        workload = as_workload(computation)
        options = allowed(workload, formulations, target.multiplies_pairs)
        found = _best_records(workload, store, target, _preferred(timing), options)
        guesses = {} if found else _guesses({workload: options}, store, target, timing, effort)
        _warn_of_missing({workload: name or ", ".join(workload.outputs)}, {workload: found}, guesses, store, target, timing)
        alone = _alone(workload, found, target, name, options, guesses.get(workload), threads)
        kernel = _checked(workload, alone, target, threads) if check_indices else alone
        kernel.origin = Origin(lambda: workload, again)
        return kernel


def _locked(
    computation: Workload | Sequence[Tensor] | Model | OpenModel,
    path: str | Path,
    database: str | Path | None,
    target: Target | str | None,
    name: str | None,
    formulations: str,
    integers: bool,
    effort: str | None,
    weights: str | None,
    threads: int | None,
    check_indices: bool,
) -> Executable:
    """What `compile` gives with a lock."""
    if database is not None or effort is not None or check_indices:
        given = "database" if database is not None else "effort" if effort is not None else "check_indices"
        raise UserError(f"a lock says which programs there are: {given} has no meaning with it")
    held = read_lock(path)
    threads = held.threads if threads is None else threads
    target = on_threads(given_or_native(target), threads)
    held.check_target(target)
    computation = stored(computation, weights)
    if isinstance(computation, OpenModel):
        raise UserError(f"{computation.name} has open dimensions, a lock is of fixed sizes: give shapes when the model is loaded")
    if isinstance(computation, Model):
        model = _for(computation, target, integers, formulations)
        tasks = [(t.workload, t.name) for t in model.partition.tasks]
    else:
        model, workload = None, as_workload(computation)
        tasks = [(workload, name or ", ".join(workload.outputs))]
    found = [held.needed(workload, title) for workload, title in tasks]
    wanted = [Wanted(w, [(c, f)], title, None, None, how) for (w, title), (c, f, how) in zip(tasks, found)]
    kernels = build_all(wanted, target)
    check_built(kernels, [(candidate, formulation) for candidate, formulation, _ in found])
    if model is None:
        return executable(kernel_alone(tasks[0][0], kernels[0]), threads)
    return model.presented(executable(assemble(model.partition, kernels, target, name), threads))


def stored(computation: C, weights: str | None) -> C:
    """A model with its weights stored in fewer bits, if that is asked for."""
    if weights is None:
        return computation
    refuse_path(computation)
    if not isinstance(computation, (Model, OpenModel)):
        raise UserError('weights is for models; in a definition, give a type: placeholder(shape, "bf16", constant=True)')
    return computation.with_weights(weights)  # type: ignore[return-value]


def _for(model: Model, target: Target, integers: bool, formulations: str) -> Model:
    """A model as it is computed on a machine."""
    chosen = model.with_integers(integers and model.integers).with_pairs(target.multiplies_pairs)
    return chosen.with_formulations(formulations)


def _checked(workload: Workload, made: Executable, target: Target, threads: int | None) -> Executable:
    """An executable that refuses indices out of bounds, where any of its indices come from data."""
    check = index_check(workload)
    if check is None:
        return made
    furthest, limits = check
    alone = _alone(furthest, [], target, f"{made.name}_indices", threads=threads)
    return CheckedExecutable(made, alone, [IndexLimit(*astuple(c)) for c in limits])


def builder(
    database: str | Path | None,
    target: Target,
    formulations: str = ALL,
    constants: Constants | None = None,
    integers: bool = True,
    effort: str | None = None,
    threads: int | None = None,
) -> Callable[[Model], Executable]:
    """What compiles the variants of one model: they share the `constants` that are packed alike, and records seed other sizes."""
    shared = Constants() if constants is None else constants
    with _opened(database):  # a database that is not there is noticed now
        pass

    def build(model: Model) -> Executable:
        with _opened(database) as store:
            model = _for(model, target, integers, formulations)
            timing = Timing(usual_cache([model], target), target.cores)
            best = _best_of_tasks(model, store, target, timing)
            guesses = _guesses(_missing(model, best), store, target, timing, effort)
            return _network(model, best, target, None, shared, guesses, threads=threads)

    return build


def bounded_builder(
    database: str | Path | None,
    target: Target,
    formulations: str,
    constants: Constants,
    integers: bool,
    effort: str | None,
    threads: int | None,
) -> Callable[[OpenModel, Sizes], tuple[Executable, VariantBounds]]:
    """What compiles the bounded variants of one model, as `builder` compiles those of one size."""

    def build(model: OpenModel, largest: Sizes) -> tuple[Executable, VariantBounds]:
        def at(sizes: Sizes) -> Model:
            found = model.model(sizes)
            return _for(found.with_source(without_lookups(found.source)), target, integers, formulations)

        if target.kind != "cpu":
            raise Refusal("not bounded", "only code for CPUs reads sizes at run time")
        with _opened(database) as store:
            found, table = bounded(at, model.inputs, largest), Table()
            tasks = found.partition.tasks
            whole = at(largest)
            timing = Timing(usual_cache([whole], target), target.cores)
            whole = _with_tasks(whole, found.partition)
            best = _best_of_tasks(whole, store, target, timing)
            guesses = _guesses(_missing(whole, best), store, target, timing, effort)
            wanted = [
                Wanted(
                    t.workload,
                    best[t.workload],
                    t.name,
                    t.formulations,
                    guesses.get(t.workload),
                    bounds=None if counted is None else Bounds(counted, table),
                )
                for t, counted in zip(tasks, found.counted)
            ]
            kernels = build_all(wanted, target)
            network = assemble(found.partition, kernels, target, whole.name, constants, len(table.forms))
        outputs = tuple(tuple(tuple((d.largest, d.count) for d in digits) for digits in shape) for shape in found.outputs)
        numbers = tuple((number.dtype, number.times, number.powers) for number in found.numbers)
        return executable(network, threads), VariantBounds(tuple(table.forms), outputs, numbers)

    return build


def _with_tasks(model: Model, partition: Partition) -> Model:
    """A model cut into these tasks."""
    made = copy.copy(model)
    made.partition = partition
    return made


@contextlib.contextmanager
def _opened(database: str | Path | None) -> Iterator[Store | None]:
    """The record file, to read."""
    path = database_path(database)
    if path is None:
        yield None
        return
    with Store.open(path, read_only=True) as store:
        yield store


def check_effort(effort: str | None) -> None:
    """Raises `UserError` for an effort that is none of `compile`."""
    if effort is not None and effort != BY_MODEL:
        known = f'"{BY_MODEL}", or nothing; to search, use tune'
        raise UserError(Parameter("effort"), f": there is no effort {effort!r} without a search; it is {known}")


def _missing(model: Model, best: Mapping[Workload, list[Found]]) -> dict[Workload, Options]:
    """The tasks of a model that are worth a thought and have no record, with their formulations."""
    tasks = [t for t in model.partition.tasks if t.tunable and not best[t.workload]]
    return {t.workload: t.formulations or formulations_of(t.workload) for t in tasks}


def _guesses(
    missing: Mapping[Workload, Options], store: Store | None, target: Target, timing: Timing, effort: str | None
) -> dict[Workload, Guess]:
    """Schedules that were not measured, for workloads without a record: from other sizes, or by the model."""
    found: dict[Workload, Guess] = {}
    for workload, options in missing.items():
        one = None if store is None else carried(store, target, timing, options)
        if one is not None:
            found[workload] = Guess(one, "carried")
    if effort == BY_MODEL and len(found) < len(missing):
        from tensorsmith.predicted import foresee  # models are loaded by those who ask one

        rest = {w: options for w, options in missing.items() if w not in found}
        found |= {w: Guess(one, BY_MODEL) for w, one in foresee(rest, store, target, timing).items()}
    return found


def compile_workload(
    workload: Workload,
    records: Records | None,
    target: Target,
    timing: Timing,
    options: Options,
    winner: Found | None = None,
    threads: int | None = None,
) -> Executable:
    """A workload with the `winner` of a search, the best of the `records` of some formulations, or else the default schedule."""
    found = _best_records(workload, records, target, _preferred(timing), options) if winner is None else [winner]
    return _alone(workload, found, target, None, options, threads=threads)


def compile_chosen(
    computation: Workload | Model,
    best: Mapping[Workload, Found],
    target: Target,
    schedule: str = "record",
    threads: int | None = None,
) -> Executable:
    """A workload or network whose tasks have each what a search chose, else the default schedule; `schedule` names the former."""
    if isinstance(computation, Model):
        chosen = {t.workload: [best[t.workload]] if t.workload in best else [] for t in computation.partition.tasks}
        return _network(computation, chosen, target, None, schedule=schedule, threads=threads)
    found = [best[computation]] if computation in best else []
    return executable(kernel_alone(computation, build_best(computation, found, target, schedule=schedule)), threads)


def compile_model(
    model: Model,
    records: Records | None,
    target: Target,
    timing: Timing,
    name: str | None = None,
    constants: Constants | None = None,
    threads: int | None = None,
) -> Executable:
    """A network whose tasks have each the best of the `records`, else the default schedule."""
    return _network(model, _best_of_tasks(model, records, target, timing), target, name, constants, threads=threads)


def _network(
    model: Model,
    best: Mapping[Workload, list[Found]],
    target: Target,
    name: str | None,
    constants: Constants | None = None,
    guesses: Mapping[Workload, Guess] | None = None,
    schedule: str = "record",
    threads: int | None = None,
) -> Executable:
    partition, other = model.partition, guesses or {}
    known = sum(bool(best[t.workload]) for t in partition.tasks)
    log.info("compiling %s for %s: %d of %d tasks have a record", model.name, target.key, known, len(partition.tasks))
    wanted = [
        Wanted(t.workload, best[t.workload], t.name, t.formulations, other.get(t.workload), schedule) for t in partition.tasks
    ]
    kernels = build_all(wanted, target)
    return model.presented(executable(assemble(partition, kernels, target, name, constants), threads))


def _alone(
    workload: Workload,
    found: Sequence[Found],
    target: Target,
    name: str | None,
    options: Options | None = None,
    guess: Guess | None = None,
    threads: int | None = None,
) -> Executable:
    return executable(kernel_alone(workload, build_best(workload, found, target, name, options, guess)), threads)


def _best_of_tasks(model: Model, records: Records | None, target: Target, timing: Timing) -> dict[Workload, list[Found]]:
    """The best records of each task. What it took in a network (`tuning/finals/`) says more than what it took alone."""
    timings = [Timing(IN_NETWORK, timing.threads), *_preferred(timing)]
    tasks = model.partition.tasks
    return {t.workload: _best_records(t.workload, records, target, timings, t.formulations) for t in tasks}


def _preferred(timing: Timing) -> list[Timing]:
    """The timing that is wanted, then those with other caches."""
    return [Timing(cache, timing.threads) for cache in sorted(CACHES, key=lambda c: c != timing.cache)]


def _best_records(
    workload: Workload, records: Records | None, target: Target, timings: Sequence[Timing], options: Options | None = None
) -> list[Found]:
    """The best few candidates of a workload, of the first of the timings that there are records of."""
    alike = (best_alike(workload, records, target, timing, options) for timing in timings)
    return next((found for found in alike if found), [])


def best_alike(
    workload: Workload, records: Records | None, target: Target, timing: Timing, options: Options | None = None
) -> list[Found]:
    """The best few candidates of a workload, in any of its formulations or of the `options`, that were timed like that."""
    if records is None:
        return []
    found = {r.uid: (r, f) for f in options or formulations_of(workload) for r in records.top(f.workload, target, timing, _RECORDS)}
    best = ranked(r for r, _ in found.values())[:_RECORDS]
    return [(r.candidate, found[r.uid][1]) for r in best]


def _warn_of_missing(
    names: Mapping[Workload, str],
    found: Mapping[Workload, list[Found]],
    guesses: Mapping[Workload, Guess],
    store: Store | None,
    target: Target,
    timing: Timing,
) -> None:
    """Whoever names a record file expects something of it. That some tasks of a model were never tried is usual, though."""
    if store is None:
        return
    missing = {w: name for w, name in names.items() if not found[w] and w not in guesses}
    tried = {
        name: f.workload
        for w, name in missing.items()
        for f in formulations_of(w)
        if store.key_parts(f.workload, target, timing)[0].records
    }
    if tried:
        (name, workload), what = next(iter(tried.items())), "no record that can be used"
    elif missing and len(missing) == len(names):
        (workload, name), what = next(iter(missing.items())), "no record"
    else:
        return
    more = len(tried or missing) - 1
    others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
    why = store.why_missing(workload, target, timing)
    message = f"{store.path} has {what} of {name}{others}, so the default schedule is used: {why}"
    warnings.warn(plain(message), stacklevel=3)


def usual_cache(models: Sequence[Model], target: Target) -> Cache:
    """What the runs of networks find in the caches: not their constants, where those of one network exceed the last-level cache."""
    return "streamed" if any(m.constant_bytes > target.shared_cache_bytes for m in models) else "warm"


def database_path(database: str | Path | None) -> Path | None:
    """Where the records are, if anywhere."""
    if database is not None and not isinstance(database, (str, os.PathLike)):
        raise UserError(f"database is {database!r}; give the path of a record file")
    return None if database is None else Path(database)


def as_workload(computation: Workload | Sequence[Tensor]) -> Workload:
    """A workload given as itself or as the list of its inputs and outputs."""
    return computation if isinstance(computation, Workload) else workload_of(computation)
