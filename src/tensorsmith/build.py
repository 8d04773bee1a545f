"""From a candidate to a kernel: lower, generate, pack. What workers and the verbs build with.

Nothing here knows records, networks or search. A kernel is a value (`runtime/built.py`); `build` gives a callable of it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tensorsmith.backends import backend_of
from tensorsmith.backends.backend import KernelCode
from tensorsmith.errors import Refusal
from tensorsmith.lang.counts import Counted, Table
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.program.ir import PackedRead, Program, ProgramBuffer
from tensorsmith.program.lower import lower
from tensorsmith.program.packing import pack
from tensorsmith.rewrites.formulations import Formulation, Options, as_written, likely
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.built import Kernel, Network, Packer, of_one_kernel
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.show.line import plain
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.host import thread_count
from tensorsmith.targets.target import Target, native

log = logging.getLogger(__name__)

_COUNT_BYTES = 8  # of a count in the table that kernels read
_SLACK = 64  # elements behind a packed constant: vectors may be read past its end

Found = tuple[Candidate, Formulation]  # a candidate, and the formulation of the workload in question that it is of


@dataclass(frozen=True)
class Guess:
    """A schedule that was not measured for its workload, and where it came from: "carried" (from another size) or "model"."""

    found: Found
    schedule: str


def build(candidate: Candidate, target: Target | None = None, name: str | None = None) -> Executable:
    """The executable of one candidate. Raises `Refusal` where the candidate cannot be lowered or compiled."""
    return executable(kernel_alone(candidate.sketch.workload, build_kernel(candidate, target or native(), name)))


def kernel_alone(workload: Workload, kernel: Kernel) -> Network:
    """A workload's kernel as a network of one step, whose constants can be bound."""
    inputs = [Argument(b.name, b.shape, b.dtype) for b in workload.inputs]
    outputs = [Argument(n, workload.buffers[n].shape, workload.buffers[n].dtype) for n in workload.outputs]
    return of_one_kernel(kernel, inputs, outputs, frozenset(b.name for b in workload.inputs if b.constant))


def build_kernel(
    candidate: Candidate,
    target: Target,
    name: str | None = None,
    schedule: str = "",
    formulation: Formulation | None = None,
    bounds: Bounds | None = None,
) -> Kernel:
    """The compiled code of one candidate; `schedule` says where it came from.

    With a `formulation`, whose workload the candidate is of, the kernel takes the original's inputs, and constants are transformed.
    With `bounds` it reads how much a call has of its open axes.
    """
    return begin_kernel(candidate, target, name, schedule, formulation, bounds)()


def begin_kernel(
    candidate: Candidate,
    target: Target,
    name: str | None = None,
    schedule: str = "",
    formulation: Formulation | None = None,
    bounds: Bounds | None = None,
) -> Callable[[], Kernel]:
    """What `build_kernel` does in Python is done; what is returned, and gives the kernel, may be called in another thread."""
    program, backend = lower(candidate), backend_of(target)
    if bounds is not None:
        program = replace(program, counts=bounds.table.of_axes(program.workload, bounds.counted))
    if backend.begin is None:
        return partial(_kernel, candidate, program, partial(_given, backend.generate(program, target)), name, schedule, formulation)
    return partial(_kernel, candidate, program, backend.begin(program, target), name, schedule, formulation)


def _given(made: KernelCode) -> KernelCode:
    return made


def _kernel(
    candidate: Candidate,
    program: Program,
    finish: Callable[[], KernelCode],
    name: str | None,
    schedule: str,
    formulation: Formulation | None,
) -> Kernel:
    workload, made = candidate.sketch.workload, finish()
    inputs = [program.buffers[b.name] for b in workload.inputs]
    stored = {b.name: i for b, i in zip(workload.inputs, inputs) if i.kind == "constant" and (i.packed or i.dtype != b.dtype)}
    sizes = [_stored_bytes(stored[b.name]) if b.name in stored else b.bytes for b in workload.inputs]
    places = [n for of_stage in program.counts.values() for n in of_stage.values()]
    table = [_COUNT_BYTES * (max(places) + 1)] if places else []
    packers: dict[str, Packer] = {n: partial(_store, b.packed, b.dtype) for n, b in stored.items()}
    for n, transform in (formulation.transforms if formulation else {}).items():
        packers[n] = partial(_transform_and_pack, transform, packers.get(n))
    return Kernel(
        name=name or "_".join(workload.outputs),
        code=made.code,
        argument_bytes=(*sizes, *table, *(workload.buffers[n].bytes for n in workload.outputs)),
        reads=len(workload.inputs) + len(table),
        scratch_bytes=made.scratch_bytes,
        scratch_bytes_per_thread=made.scratch_bytes_per_thread,
        flops=flops(workload if formulation is None else formulation.original),
        result=", ".join(f"{b.dtype}{list(b.shape)}" for b in map(workload.buffers.__getitem__, workload.outputs)),
        schedule=schedule,
        program=partial(_text, program),
        replaceable=frozenset(n for n, b in enumerate(workload.inputs) if b.name in made.replaceable),
        packers={n: packers[b.name] for n, b in enumerate(workload.inputs) if b.name in packers},
        found=(candidate, formulation),
    )


@dataclass(frozen=True)
class Bounds:
    """What a call has of a workload's open axes, and the table in which kernels read it."""

    counted: Counted
    table: Table


@dataclass(frozen=True)
class Wanted:
    """A kernel to be built: the arguments of `build_best`."""

    workload: Workload
    found: Sequence[Found]
    name: str | None = None
    options: Options | None = None
    guess: Guess | None = None
    schedule: str = "record"  # where what was found came from
    bounds: Bounds | None = None  # None: its axes are as long as they are in the workload


def build_all(wanted: Sequence[Wanted], target: Target) -> list[Kernel]:
    """The kernels that `build_best` gives, in order. While some are compiled, the next is generated, where there are two CPUs."""
    if len(wanted) < 2 or thread_count() < 2:
        return [_best(w, target) for w in wanted]
    backend = backend_of(target)
    compilers = contextlib.nullcontext(1) if backend.compilers is None else backend.compilers(len(wanted))
    with compilers as at_once, ThreadPoolExecutor(at_once, "tensorsmith-compile") as compiler:
        begun: list[Future[Kernel] | None] = []
        try:
            for w in wanted:
                begun.append(compiler.submit(first) if (first := _first(w, target)) is not None else None)
            return [_finished(future, w, target) for future, w in zip(begun, wanted)]
        except BaseException:
            compiler.shutdown(cancel_futures=True)
            raise


def _first(wanted: Wanted, target: Target) -> Callable[[], Kernel] | None:
    """The beginning of what `build_best` tries first; None where that fails already."""
    try:
        if wanted.found:
            candidate, formulation = wanted.found[0]
            return begin_kernel(candidate, target, wanted.name, wanted.schedule, formulation, wanted.bounds)
        if wanted.guess is not None:
            candidate, formulation = wanted.guess.found
            return begin_kernel(candidate, target, wanted.name, wanted.guess.schedule, formulation, wanted.bounds)
        formulation = likely(wanted.workload, wanted.options)
        candidate = backend_of(target).default_candidate(formulation.workload, target)
        return begin_kernel(candidate, target, wanted.name, "default", formulation, wanted.bounds)
    except Exception:
        return None  # `build_best` will meet it again, and say so


def _finished(future: Future[Kernel] | None, wanted: Wanted, target: Target) -> Kernel:
    if future is not None:
        try:
            return future.result()
        except Exception:  # as above
            pass
    return _best(wanted, target)


def _best(w: Wanted, target: Target) -> Kernel:
    if w.bounds is not None:
        return _bounded(w, w.bounds, target)
    return build_best(w.workload, w.found, target, w.name, w.options, w.guess, w.schedule)


def _bounded(w: Wanted, bounds: Bounds, target: Target) -> Kernel:
    """The first kernel that can be built with extents that are read at run time. Raises `Refusal` where none can."""
    guessed = [] if w.guess is None else [(*w.guess.found, w.guess.schedule)]
    for candidate, formulation, schedule in [*((*found, w.schedule) for found in w.found), *guessed]:
        with contextlib.suppress(Exception):  # as in `build_best`; refusals are usual here
            return build_kernel(candidate, target, w.name, schedule, formulation, bounds)
    why: Refusal | None = None
    for formulation in (likely(w.workload, w.options), as_written(w.workload)):
        try:
            candidate = backend_of(target).default_candidate(formulation.workload, target)
            return build_kernel(candidate, target, w.name, "default", formulation, bounds)
        except Refusal as problem:
            why = problem
    try:
        return build_kernel(plain_candidate(w.workload), target, w.name, "plain", None, bounds)
    except Refusal:
        assert why is not None
        raise why from None


def build_best(
    workload: Workload,
    found: Sequence[Found],
    target: Target,
    name: str | None = None,
    options: Options | None = None,
    guess: Guess | None = None,
    schedule: str = "record",
) -> Kernel:
    """The first that was `found` (`schedule` says how) and can be built, else the `guess`, else the default schedule of one of the
    `options`, else the plain one."""
    for n, (candidate, formulation) in enumerate(found, 1):
        try:
            return build_kernel(candidate, target, name, schedule, formulation)
        except Exception as problem:  # whatever it is, it must not end the whole
            message = f"record {n} of {name or workload.key} cannot be built, so the next best is used: {problem!r}"
            warnings.warn(plain(message), stacklevel=2)
            log.warning("record %d of %s cannot be built", n, name or workload.title, exc_info=problem)
    if guess is not None:
        with contextlib.suppress(Exception):  # it is only that
            return build_kernel(guess.found[0], target, name, guess.schedule, guess.found[1])
    return build_default(workload, target, name, options)[0]


def build_default(
    workload: Workload, target: Target, name: str | None = None, options: Options | None = None
) -> tuple[Kernel, Found]:
    """What is used where there is no record: the default schedule of the likely formulation, else the plain schedule."""
    try:
        formulation = likely(workload, options)
        found = backend_of(target).default_candidate(formulation.workload, target), formulation
        return build_kernel(found[0], target, name, "default", formulation), found
    except Exception as problem:  # as above; but it is a bug of ours, and slow
        what = name or ", ".join(workload.outputs)
        message = f"{what} has no default schedule for {target.name}, so plain loops are used: {problem!r}; workload {workload.key}"
        warnings.warn(plain(message), stacklevel=2)
        log.warning("%s falls back to plain loops", name or workload.title, exc_info=problem)
        found = plain_candidate(workload), as_written(workload)
        return build_kernel(found[0], target, name, "plain"), found


def _stored_bytes(constant: ProgramBuffer) -> int:
    shape = constant.shape if constant.packed is None else constant.packed.shape
    return (math.prod(int(n) for n in shape) + (_SLACK if constant.packed else 0)) * dtype(constant.dtype).bytes


def _store(packed: PackedRead | None, name: str, array: np.ndarray) -> np.ndarray:
    """A constant in the order and in the type in which code reads it."""
    if packed is None:
        return array.astype(dtype(name).numpy)
    ordered = pack(packed, array)
    result = np.zeros(ordered.size + _SLACK, dtype(name).numpy)
    result[: ordered.size] = ordered.ravel()
    return result


def _transform_and_pack(transform: Packer, packer: Packer | None, array: np.ndarray) -> np.ndarray:
    transformed = transform(array)
    return transformed if packer is None else packer(transformed)


def _text(program: Program) -> str:
    return str(program)
