"""From a candidate, a definition or a model to an executable."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np

from tensorsmith.backends.cpu.codegen.generate import ENTRY, generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.errors import UserError
from tensorsmith.graph.assemble import assemble
from tensorsmith.graph.model import Model
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.program.ir import PackedRead, Program
from tensorsmith.program.lower import lower
from tensorsmith.program.packing import pack
from tensorsmith.records.keys import CACHES, IN_NETWORK, Cache, Timing
from tensorsmith.records.record import Record, ranked
from tensorsmith.records.store import Store
from tensorsmith.rewrites.formulations import Formulation, Options, formulations, likely
from tensorsmith.runtime import jit
from tensorsmith.runtime.executable import Argument, Executable
from tensorsmith.runtime.network import Kernel, NetworkExecutable
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, given_or_native, native

_SLACK = 64  # elements behind a packed constant: vectors may be read past its end
_RECORDS = 3  # how many records of a task are tried before the default schedule


Packer = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
Found = tuple[Candidate, Formulation]  # a candidate, and the formulation of the workload in question that it is of


class Records(Protocol):
    """Whatever knows the records of the k fastest candidates of a workload: a store, or the journal of a run."""

    def top(self, workload: Workload, target: Target, timing: Timing, k: int) -> list[Record]: ...


@dataclass(frozen=True)
class Built:
    """A workload's compiled code, and how each constant that it wants in another layout is packed."""

    workload: Workload
    kernel: Kernel
    packers: dict[str, Packer]

    def executable(self) -> Executable:
        """The kernel as a callable of its own."""
        workload, kernel = self.workload, self.kernel
        return Executable(
            name=kernel.name,
            entry=kernel.module.address(ENTRY),
            keep=kernel.module,
            inputs=[Argument(b.name, b.shape, b.dtype) for b in workload.inputs],
            outputs=[Argument(n, workload.buffers[n].shape, workload.buffers[n].dtype) for n in workload.outputs],
            scratch_bytes=kernel.scratch_bytes,
            scratch_bytes_per_thread=kernel.scratch_bytes_per_thread,
            constants=frozenset(b.name for b in workload.inputs if b.constant),
            packers=self.packers,
            build_times=kernel.module.times,
            program=kernel.program,
            llvm_ir=lambda: kernel.module.llvm_ir,
            assembly=lambda: kernel.module.assembly,
        )


def build(candidate: Candidate, target: Target | None = None, name: str | None = None) -> Executable:
    """The executable of one candidate. Raises `Refusal` where the candidate cannot be lowered or compiled."""
    return build_kernel(candidate, target or native(), name).executable()


def build_kernel(
    candidate: Candidate, target: Target, name: str | None = None, schedule: str = "", formulation: Formulation | None = None
) -> Built:
    """The compiled code of one candidate; `schedule` says where it came from.

    With a `formulation`, whose workload the candidate is of, the kernel takes the original's inputs, and constants are transformed.
    """
    workload = candidate.sketch.workload
    program = lower(candidate)
    generated = generate(program, target)
    packed = {b.name: b.packed for b in program.buffers.values() if b.packed and b.kind == "constant"}
    sizes = [_packed_bytes(packed[b.name], b.dtype) if b.name in packed else b.bytes for b in workload.inputs]
    kernel = Kernel(
        name=name or "_".join(workload.outputs),
        module=jit.build(generated.ir, target),
        argument_bytes=(*sizes, *(workload.buffers[n].bytes for n in workload.outputs)),
        reads=len(workload.inputs),
        scratch_bytes=generated.scratch_bytes,
        scratch_bytes_per_thread=generated.scratch_bytes_per_thread,
        flops=flops(workload if formulation is None else formulation.original),
        result=", ".join(f"{b.dtype}{list(b.shape)}" for b in map(workload.buffers.__getitem__, workload.outputs)),
        schedule=schedule,
        program=partial(_text, program),
        replaceable=frozenset(n for n, b in enumerate(workload.inputs) if b.name in generated.replaceable),
    )
    packers: dict[str, Packer] = {n: partial(_pack, p) for n, p in packed.items()}
    if formulation is None:
        return Built(workload, kernel, packers)
    for n, transform in formulation.transforms.items():
        packers[n] = partial(_transform_and_pack, transform, packers.get(n))
    return Built(formulation.original, kernel, packers)


def build_best(
    workload: Workload, records: Sequence[Found], target: Target, name: str | None = None, options: Options | None = None
) -> Built:
    """The first of the `records` that can be built, else the default schedule of one of the `options`, else the plain one."""
    for n, (candidate, formulation) in enumerate(records, 1):
        try:
            return build_kernel(candidate, target, name, "record", formulation)
        except Exception as problem:  # whatever it is, it must not end the whole
            message = f"record {n} of {name or workload.key} cannot be built, so the next best is used: {problem!r}"
            warnings.warn(message, stacklevel=2)
    return build_default(workload, target, name, options)[0]


def build_default(
    workload: Workload, target: Target, name: str | None = None, options: Options | None = None
) -> tuple[Built, Found]:
    """What is used where there is no record: the default schedule of the likely formulation, else the plain schedule."""
    try:
        formulation = likely(workload, options)
        found = default_candidate(formulation.workload, target), formulation
        return build_kernel(found[0], target, name, "default", formulation), found
    except Exception:  # as above
        found = plain_candidate(workload), formulations(workload)[0]
        return build_kernel(found[0], target, name, "plain"), found


def _packed_bytes(packed: PackedRead, name: str) -> int:
    return (math.prod(int(n) for n in packed.shape) + _SLACK) * dtype(name).bytes


def _pack(packed: PackedRead, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    ordered = pack(packed, array)
    result = np.zeros(ordered.size + _SLACK, ordered.dtype)
    result[: ordered.size] = ordered.ravel()
    return result


def _transform_and_pack(transform: Packer, packer: Packer | None, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    transformed = transform(array)
    return transformed if packer is None else packer(transformed)


def _text(program: Program) -> str:
    return str(program)


@overload
def compile(
    computation: Model, *, database: str | Path | None = None, target: Target | None = None, name: str | None = None
) -> NetworkExecutable: ...


@overload
def compile(
    computation: Workload | Sequence[Tensor],
    *,
    database: str | Path | None = None,
    target: Target | None = None,
    name: str | None = None,
) -> Executable: ...


def compile(
    computation: Workload | Sequence[Tensor] | Model,
    *,
    database: str | Path | None = None,
    target: Target | None = None,
    name: str | None = None,
) -> Executable:
    """An executable without any search: the best record in the `database`, else the default schedule by the target's facts alone.

    `computation` is a list of inputs and outputs, as in `[A, B, D]`, a `Workload`, or a `Model`, whose tasks are each compiled so.
    Bind the constants of a workload with `kernel.bind(B=b)`, so that they are packed once instead of on every call; those of a
    model are bound here.

    Records are preferred that were timed as `tune` does it by default; where there are only others, these are used. A database
    that does not exist is an error; one that has nothing to use for the computation gives a warning that says why.
    """
    target = given_or_native(target)
    timing = Timing("warm", target.cores)
    with contextlib.ExitStack() as opened:
        path = database_path(database)
        store = None if path is None else opened.enter_context(Store.open(path, read_only=True))
        if isinstance(computation, Model):
            timing = Timing(usual_cache([computation], target), target.cores)
            best = _best_of_tasks(computation, store, target, timing)
            _warn_of_missing({t.workload: t.name for t in computation.tasks() if t.tunable}, best, store, target, timing)
            return _network(computation, best, target, name)
        workload = as_workload(computation)
        found = _best_records(workload, store, target, _preferred(timing))
        _warn_of_missing({workload: name or ", ".join(workload.outputs)}, {workload: found}, store, target, timing)
        return build_best(workload, found, target, name).executable()


def compile_workload(
    workload: Workload, records: Records | None, target: Target, timing: Timing, name: str | None = None
) -> Executable:
    """A workload with the best of the `records`, else the default schedule."""
    return build_best(workload, _best_records(workload, records, target, _preferred(timing)), target, name).executable()


def compile_model(
    model: Model, records: Records | None, target: Target, timing: Timing, name: str | None = None
) -> NetworkExecutable:
    """A network whose tasks have each the best of the `records`, else the default schedule."""
    return _network(model, _best_of_tasks(model, records, target, timing), target, name)


def _network(model: Model, best: Mapping[Workload, list[Found]], target: Target, name: str | None) -> NetworkExecutable:
    partition = model.partition
    built = [build_best(t.workload, best[t.workload], target, t.name, t.formulations) for t in partition.tasks]
    return model.presented(assemble(partition, [b.kernel for b in built], [b.packers for b in built], name))


def _best_of_tasks(model: Model, records: Records | None, target: Target, timing: Timing) -> dict[Workload, list[Found]]:
    """The best records of each task. What it took in a network (see `tuning/in_network.py`) says more than what it took alone."""
    timings = [Timing(IN_NETWORK, timing.threads), *_preferred(timing)]
    return {t.workload: _best_records(t.workload, records, target, timings, t.formulations) for t in model.partition.tasks}


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
    found = {r.uid: (r, f) for f in options or formulations(workload) for r in records.top(f.workload, target, timing, _RECORDS)}
    best = ranked(r for r, _ in found.values())[:_RECORDS]
    return [(r.candidate, found[r.uid][1]) for r in best]


def _warn_of_missing(
    names: Mapping[Workload, str], found: Mapping[Workload, list[Found]], store: Store | None, target: Target, timing: Timing
) -> None:
    """Whoever names a record file expects something of it. That some tasks of a model were never tried is usual, though."""
    if store is None:
        return
    missing = {w: name for w, name in names.items() if not found[w]}
    tried = {
        name: f.workload
        for w, name in missing.items()
        for f in formulations(w)
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
    warnings.warn(f"{store.path} has {what} of {name}{others}, so the default schedule is used: {why}", stacklevel=3)


def usual_cache(models: Sequence[Model], target: Target) -> Cache:
    """What the runs of networks find in the caches: not their constants, where those of one network exceed the last-level cache."""
    return "streamed" if any(m.constant_bytes > target.l3_bytes for m in models) else "warm"


def database_path(database: str | Path | None) -> Path | None:
    """Where the records are, if anywhere."""
    if database is not None and not isinstance(database, (str, os.PathLike)):
        raise UserError(f"database is {database!r}; give the path of a record file")
    return None if database is None else Path(database)


def as_workload(computation: Workload | Sequence[Tensor]) -> Workload:
    """A workload given as itself or as the list of its inputs and outputs."""
    return computation if isinstance(computation, Workload) else workload_of(computation)
