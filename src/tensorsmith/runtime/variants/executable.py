"""The callable of a network with open dimensions: a call's shapes say which variant runs it.

A variant is compiled when its sizes first come, once, however many threads ask for it. The last few stay, and those that were named
beforehand. Where compiling goes on in the background, a call of new sizes is served meanwhile by the smallest larger variant, if it
is proved that this gives the same results; else it waits.
"""

from __future__ import annotations

import concurrent.futures.thread
import copy
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from tensorsmith.errors import Parameter, UserError, whole_number
from tensorsmith.runtime import file
from tensorsmith.runtime.arguments import Argument, accept_input, accept_output, check_overlap, in_order
from tensorsmith.runtime.buffers import as_array
from tensorsmith.runtime.drawing import Calls, DrawingExecutable, presented
from tensorsmith.runtime.executable import Benchmark, Executable, Memory, executable
from tensorsmith.runtime.profile import Profile
from tensorsmith.runtime.trace import Trace
from tensorsmith.runtime.variants.batching import Batching
from tensorsmith.runtime.variants.bounded import BoundedVariant
from tensorsmith.runtime.variants.bounds import Bounds
from tensorsmith.runtime.variants.padding import cut, filled, larger
from tensorsmith.runtime.variants.ranges import MEMORY, Ranges
from tensorsmith.runtime.variants.symbols import OpenArgument, Sizes, named_sizes, shown, sizes_of, symbols_of
from tensorsmith.runtime.variants.variant import Variant, Variants
from tensorsmith.show.line import cut as shortened
from tensorsmith.show.line import line, many
from tensorsmith.show.table import block, table

KEEP = 16  # variants that stay besides those that were named: each has an arena, and code of some 10 KB a kernel

_SHOWN = 48  # characters of a line for the sizes of the variants

compiling = threading.Lock()  # one at a time: two would only take turns on the same cores


class Maker(Protocol):
    """Who can compile more variants; a file has none."""

    def make(self, sizes: Sizes) -> Executable:
        """The executable for those sizes."""
        ...

    def outputs_within(self, small: Sizes, large: Sizes) -> tuple[tuple[int, ...], ...] | str:
        """The shapes of the outputs at the small sizes, if they are the corners of those at the large ones whatever the inputs are
        filled up with; else why that is not known."""
        ...

    def bounded(self, largest: Sizes) -> BoundedVariant | str:
        """The variant for all sizes up to the largest; else why there is none. Raises what `make` raises where a network of the
        largest sizes cannot be made."""
        ...


class OpenExecutable:
    """A compiled network whose inputs have open dimensions. Call it with arrays of any sizes; several Python threads may do so at
    once. `variants` says what is compiled."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[OpenArgument],
        maker: Maker | None,
        *,
        keep: int = KEEP,
        background: bool = False,
        ranges: bool = True,
        memory: int = MEMORY,
    ) -> None:
        """`keep` is how many variants of one size stay that are not named ones, the last used; with `ranges`, sizes are served by
        bounded variants where that can be, of which as many stay as have their arrays in so many bytes of `memory`."""
        if (whole_number(keep) or 0) < 1:
            raise UserError(f"keep is {keep!r}; give how many sizes are to stay compiled, at least 1")
        self.name, self.inputs = name, tuple(inputs)
        self.symbols = symbols_of(self.inputs)
        self.keep, self.background = keep, background
        self.ranges = Ranges(self.name, self.inputs, maker if ranges else None, memory)
        self.maker = maker
        self._input_names = tuple(a.name for a in self.inputs)
        self._variants: dict[Sizes, Variant] = {}
        self._by_shapes: dict[tuple[tuple[int, ...], ...], Variant] = {}  # the same, as a call finds them
        self._jobs: dict[Sizes, Future[Variant]] = {}
        self._within: dict[tuple[Sizes, Sizes], tuple[tuple[int, ...], ...] | str] = {}
        self._lock = threading.Lock()
        self._clock = itertools.count(1)
        self.calls = Calls()  # of all variants together, where they draw random numbers
        self._thread: ThreadPoolExecutor | None = None

    # -- calls -------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Run it. As with an `Executable`: inputs by position or by name, `out` to write to memory of one's own."""
        if named:
            args = in_order(self.name, self._input_names, args, named)
        try:
            variant = self._by_shapes.get(tuple([x.shape for x in args]))
        except (AttributeError, TypeError):  # numbers, and what else is no array
            variant = None
        if variant is None:
            return self._call_new(args, out) if out is not None else self._call_in_range(args)
        variant.used = next(self._clock)
        return variant.executable(*args, out=out)

    def _call_in_range(self, args: Sequence[Any]) -> Any:
        """A call for which there is no variant of its very sizes."""
        try:
            found = self.ranges.known(tuple([x.shape for x in args]))
        except (AttributeError, TypeError):
            found = None
        if found is None:
            return self._call_new(args, None)
        sizes, bounded = found
        results = bounded(sizes, args)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for inputs by name."""
        args = in_order(self.name, self._input_names, (), inputs)
        sizes = self.sizes_of(args)
        bounded = self.bounded(sizes)
        if bounded is not None:
            names = [o.name for o in bounded.executable.outputs]
            return dict(zip(names, bounded(sizes, self.accepted(args, sizes))))
        return self.variant(sizes).executable.run(dict(zip(self._input_names, args)))

    def sizes_of(self, args: Sequence[Any]) -> Sizes:
        """The sizes that arrays for the inputs give to the open dimensions."""
        if len(args) != len(self.inputs):
            in_order(self.name, self._input_names, args, {})
        return sizes_of(self.inputs, [tuple(as_array(x, a.name).shape) for a, x in zip(self.inputs, args)])

    def _call_new(self, args: Sequence[Any], out: Any) -> Any:
        """A call whose variant was not found at once."""
        sizes = self.sizes_of(args)
        arrays = self.accepted(args, sizes)
        bounded = self.bounded(sizes)
        if bounded is not None:
            self.ranges.remember(self._shapes(sizes), sizes, bounded)
            wanted = [Argument(o.name, s, o.dtype) for o, s in zip(bounded.executable.outputs, bounded.output_shapes(sizes))]
            into = None if out is None else self._accept_outputs(wanted, out, arrays)
            results = bounded(sizes, arrays, into)
            return results[0] if len(results) == 1 else tuple(results)
        if self.background and sizes not in self._variants:
            served = self.serve(sizes, arrays, out)
            if served is not None:
                return served[0] if len(served) == 1 else tuple(served)
        return self.variant(sizes).executable(*args, out=out)

    def accepted(self, args: Sequence[Any], sizes: Sizes) -> list[np.ndarray]:
        """Inputs of those sizes as arrays of the right type, before anything is compiled for them."""
        arguments = [Argument(a.name, shape, a.dtype) for a, shape in zip(self.inputs, self._shapes(sizes))]
        return [accept_input(argument, x) for argument, x in zip(arguments, args)]

    # -- variants ----------------------------------------------------------------------------------------------------

    @property
    def variants(self) -> Variants:
        """What is compiled now, with memory and time to compile: `print(exe.variants)`."""
        with self._lock:
            return Variants(self.symbols, tuple(self._variants[key] for key in sorted(self._variants)))

    @property
    def memory(self) -> Memory:
        """What all variants hold; weights that are packed alike in several are there once."""
        found = self.variants
        memories = [v.memory for v in (*found, *self.ranges)]
        return Memory(sum(m.arena for m in memories), sum(m.scratch for m in memories), found.constant_bytes)

    def at(self, **sizes: int) -> Executable:
        """The executable for sizes given by name, `exe.at(batch=8)`: to look at, to profile, to bind to one shape."""
        return self.variant(named_sizes(self.symbols, sizes)).executable

    def profile(self, *args: Any, rounds: int = 20, threads: int | None = None, **named: Any) -> Profile:
        """Where the time of a call with these inputs goes: `Executable.profile` of the variant of their sizes."""
        return self._for_call("profile", args, named).profile(*args, rounds=rounds, threads=threads, **named)

    def trace(self, path: str | Path, /, *args: Any, threads: int | None = None, **named: Any) -> Trace:
        """What each thread does when, in a call with these inputs: `Executable.trace` of the variant of their sizes."""
        return self._for_call("trace", args, named).trace(path, *args, threads=threads, **named)

    def benchmark(
        self, *args: Any, min_seconds: float = 0.2, rounds: int = 10, threads: int | None = None, **named: Any
    ) -> Benchmark:
        """The time of a call with these inputs: `Executable.benchmark` of the variant of their sizes."""
        found = self._for_call("benchmark", args, named)
        return found.benchmark(*args, min_seconds=min_seconds, rounds=rounds, threads=threads, **named)

    def stream(self, workers: int | None = None, wait: float = 0.0) -> Batching:
        """Workers that serve calls side by side, each on one thread. Requests that wait share a call: as many rows as the largest
        compiled size has. A request waits at most `wait` seconds for others before a free worker begins with it."""
        return Batching(self, workers, wait)

    def _for_call(self, asked: str, args: Sequence[Any], named: Mapping[str, Any]) -> Executable:
        """The executable that a call with these inputs runs; without any there is no telling which."""
        if not args and not named:
            at = ", ".join(f"{symbol}=8" for symbol in self.symbols)
            raise UserError(
                f"{self.name} has open dimensions: give {asked} inputs, or use exe.at({at}).{asked}(), whose inputs are random"
            )
        given = in_order(self.name, self._input_names, args, named) if named else args
        return self.variant(self.sizes_of(given)).executable

    def add(self, sizes: Sizes, executable: Executable, seconds: float | None, kept: bool) -> Variant:
        """A variant that is compiled already."""
        if isinstance(executable, DrawingExecutable):
            executable.calls = self.calls
        variant = Variant(self.symbols, sizes, executable, seconds, kept, next(self._clock))
        with self._lock:
            self._variants[sizes] = variant
            self._by_shapes[self._shapes(sizes)] = variant
            passing = sorted((v for v in self._variants.values() if not v.kept), key=lambda v: v.used)
            for old in passing[: max(0, len(passing) - self.keep)]:
                del self._variants[old.key], self._by_shapes[self._shapes(old.key)]
        return variant

    def bounded(self, sizes: Sizes) -> BoundedVariant | None:
        """The bounded variant that serves those sizes; None if one of their own is there, or has to be."""
        return None if sizes in self._variants else self.ranges.find(sizes, compiling)

    def add_loaded(self, sizes: Sizes, executable: Executable, bounds: Bounds | None) -> None:
        """A variant of a file: of those sizes, or with `bounds` for all up to them."""
        if bounds is None:
            self.add(sizes, executable, None, kept=True)
        else:
            self.ranges.add(BoundedVariant(self.symbols, sizes, self.inputs, executable, bounds))

    def compile(self, every: Iterable[Sizes]) -> None:
        """Compiles variants that stay."""
        for sizes in every:
            self.variant(sizes).kept = True

    def wait(self) -> None:
        """Waits until nothing is being compiled in the background. What went wrong there is raised by the next call."""
        while jobs := [job for job in list(self._jobs.values()) if not job.done()]:
            for job in jobs:
                job.exception()

    def _shapes(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        by_name = dict(zip(self.symbols, sizes))
        return tuple(a.at(by_name) for a in self.inputs)

    def variant(self, sizes: Sizes) -> Variant:
        """The variant of those sizes. Who comes first compiles it, the others wait."""
        with self._lock:
            found = self._variants.get(sizes)
            if found is not None:
                found.used = next(self._clock)
                return found
            self._check_compilable(sizes)
            job = self._jobs.get(sizes)
            mine = job is None
            if job is None:
                job = self._jobs[sizes] = Future()
        if mine:
            self._compile(sizes, job)
        try:
            return job.result()
        finally:
            self._forget(sizes, job)

    def _check_compilable(self, sizes: Sizes) -> None:
        if self.maker is None:
            there = "; ".join([*(shown(self.symbols, key) for key in sorted(self._variants)), *map(str, self.ranges)])
            raise UserError(
                f"{self.name} has no variant for {shown(self.symbols, sizes)}: it came from a file, which has {there}; "
                "compile the model for other sizes"
            )

    def _compile(self, sizes: Sizes, job: Future[Variant]) -> None:
        """Compiles a variant and tells those who wait for it, whatever happens."""
        assert self.maker is not None
        try:
            with compiling:
                begun = time.perf_counter()
                made = self.maker.make(sizes)
                seconds = time.perf_counter() - begun
            job.set_result(self.add(sizes, made, seconds, kept=False))
        except Exception as problem:
            job.set_exception(problem)
        except BaseException:
            job.set_exception(UserError(f"compiling {self.name} for {shown(self.symbols, sizes)} was interrupted"))
            self._forget(sizes, job)
            raise

    def _forget(self, sizes: Sizes, job: Future[Variant]) -> None:
        """If a job is over, who asks for those sizes again finds the variant, or tries again."""
        with self._lock:
            if job.done() and self._jobs.get(sizes) is job:
                del self._jobs[sizes]

    # -- in the background -------------------------------------------------------------------------------------------

    def serve(self, sizes: Sizes, arrays: Sequence[np.ndarray], out: Any = None) -> list[np.ndarray] | None:
        """What a larger variant gives for inputs of these sizes, while their own is compiled in the background; None if no larger
        one is proved to give the same."""
        if self.maker is None:
            return None
        for size in larger(sizes, list(self._variants)):
            shapes = self._outputs_within(sizes, size)
            variant = self._variants.get(size)
            if isinstance(shapes, str) or variant is None:
                continue
            self._begin(sizes)
            variant.used = next(self._clock)
            return self._padded(variant.executable, arrays, shapes, out)
        return None  # who has to wait anyway compiles it at once, not behind others

    def _begin(self, sizes: Sizes) -> None:
        """Lets the thread compile a variant, unless it does already. What went wrong with it before is raised."""
        with self._lock:
            job = self._jobs.get(sizes)
            if sizes in self._variants or (job is not None and not job.done()):
                return
            self._check_compilable(sizes)
            if job is None:
                new: Future[Variant] = Future()
                self._jobs[sizes] = new
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(1, thread_name_prefix="tensorsmith-compile")
                self._thread.submit(self._compile_behind, sizes, new)
                return
        self._forget(sizes, job)
        job.result()

    def _compile_behind(self, sizes: Sizes, job: Future[Variant]) -> None:
        if getattr(concurrent.futures.thread, "_shutdown", False):  # Python waits for its threads before it ends: not for this
            job.set_exception(UserError("Python is about to end"))
            return
        self._compile(sizes, job)
        if job.exception() is None:
            self._forget(sizes, job)

    def _outputs_within(self, small: Sizes, large: Sizes) -> tuple[tuple[int, ...], ...] | str:
        assert self.maker is not None
        if (small, large) not in self._within:
            self._within[small, large] = self.maker.outputs_within(small, large)
        return self._within[small, large]

    def _padded(
        self, executable: Executable, arrays: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]], out: Any
    ) -> list[np.ndarray]:
        """A call of an executable with inputs that are too small for it."""
        wanted = [Argument(o.name, shape, o.dtype) for o, shape in zip(executable.outputs, shapes)]
        into = None if out is None else self._accept_outputs(wanted, out, arrays)
        given = [filled(array, argument) for array, argument in zip(arrays, executable.inputs)]
        results = Executable.__call__(executable, *given)
        whole = results if isinstance(results, tuple) else (results,)
        return [cut(r, a.shape, into[n] if into else None) for n, (r, a) in enumerate(zip(whole, wanted))]

    def _accept_outputs(self, wanted: Sequence[Argument], out: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if isinstance(out, Mapping):
            out = [out.get(a.name) for a in wanted]
        given = out if isinstance(out, (tuple, list)) else (out,)
        if len(given) != len(wanted) or any(x is None for x in given):
            raise UserError(f"out must have an array for each output of {self.name}: {', '.join(a.name for a in wanted)}")
        results = [accept_output(a, x) for a, x in zip(wanted, given)]
        inputs = [Argument(a.name, array.shape, a.dtype) for a, array in zip(self.inputs, arrays)]
        check_overlap(inputs, wanted, list(arrays), results)
        return results

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes all variants to one file that `load_executable` reads; weights that several share are in it once. Sizes that are
        not compiled yet are not in it."""
        file.save_variants(*self._form("save"), path)

    def export(self, folder: str | Path, **options: Any) -> NoReturn:
        """A library for C has fixed sizes: `exe.at(batch=8).export(folder)`."""
        at = ", ".join(f"{symbol}=8" for symbol in self.symbols)
        raise UserError(f"{self.name} has open dimensions, a C library has fixed sizes: use exe.at({at}).export(folder)")

    def _form(self, done: str) -> tuple[str, list[file.OpenForm], list[file.SizedNetwork]]:
        """What a file has of it."""
        found = self.variants
        if not found and not self.ranges:
            named = Parameter("shapes", entries=((self.symbols[0], "[1, 8]"),))
            raise UserError(f"{self.name} has no variant to {done} yet: call it, or name sizes, as in ", named)
        forms: list[file.SizedNetwork] = [(v.key, v.executable.network, None) for v in found]
        forms += [(v.largest, v.executable.network, v.bounds) for v in self.ranges]
        return self.name, [(a.name, a.dims, a.dtype) for a in self.inputs], forms

    # -- what it is --------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        found = self.variants
        there = f"{many(len(found), 'variant')} {shortened('; '.join(map(str, found)), _SHOWN)}" if found else "no variant yet"
        return line(self, str(self), f": {there}")

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.inputs))})"

    def _repr_html_(self) -> str:
        inputs = table(("input", "type"), [(a.name, a.type) for a in self.inputs])
        return block(str(self), inputs + self.variants._repr_html_())

    # -- copies ------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the bytes of the file that `save` writes: where it is unpickled it has the variants of now, and no others."""
        return unpickled, (file.variants_as_bytes(*self._form("pickle")),)

    def __copy__(self) -> OpenExecutable:
        return self._copy(copy.copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> OpenExecutable:
        """Its variants have other constants, which they share as those of this one do. Who compiles more is the same."""
        return self._copy(lambda executable: copy.deepcopy(executable, memo))

    def _copy(self, copied: Callable[[Executable], Executable]) -> OpenExecutable:
        plain = OpenExecutable(self.name, self.inputs, self.maker, keep=self.keep, background=self.background)
        plain.ranges = Ranges(self.name, self.inputs, self.ranges.maker, self.ranges.memory)
        made = self._like(plain)
        made.calls = Calls(self.calls.number)
        for bounded in self.ranges:
            made.ranges.add(replace(bounded, executable=copied(bounded.executable)))
        for v in sorted(self.variants, key=lambda v: v.used):
            made.add(v.key, copied(v.executable), v.seconds, v.kept)
        return made

    def _like(self, executable: OpenExecutable) -> OpenExecutable:
        """Another executable, to be called as this one is."""
        return executable


def unpickled(data: bytes) -> OpenExecutable:
    """The executable of a pickle: loaded now if it can run here, and otherwise good for everything but calls."""
    found = file.variants_from_bytes(data)
    made = OpenExecutable(found.name, [OpenArgument(*argument) for argument in found.inputs], None)
    for sizes, network, bounds in found.variants:
        made.add_loaded(sizes, presented(executable(network)), bounds)
    return made
