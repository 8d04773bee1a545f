"""The callable: NumPy arrays in, NumPy arrays out.

An executable is made of what was built, a `Network`, which has no address. It is loaded into this process when it is made, if it
can run here; where it cannot, it can still be printed, bound and saved, and says so when it is called.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime import file
from tensorsmith.runtime.arguments import Argument, accept_input, accept_output, check_overlap, in_order, random_arrays
from tensorsmith.runtime.buffers import aligned_copy, output_allocator
from tensorsmith.runtime.built import Guard, Kernel, Network, Step, made_of, signature
from tensorsmith.runtime.call import PlainCall
from tensorsmith.runtime.device import Export, device_of
from tensorsmith.runtime.file import given_path
from tensorsmith.runtime.origin import Origin, remade
from tensorsmith.runtime.pool import shared
from tensorsmith.runtime.profile import Profile, StepTime, titled
from tensorsmith.runtime.running import Prepared, Running, load
from tensorsmith.runtime.stream import Stream
from tensorsmith.runtime.trace import Trace, traced
from tensorsmith.show.line import line, many
from tensorsmith.show.table import Cell, Number, block, table
from tensorsmith.show.units import flops, size
from tensorsmith.targets.target import Target, given_or_native

#: what a line of comment begins with, by the kind of text; all others have LLVM's
_COMMENTS = {"asm": "#"} | dict.fromkeys(("opencl", "cuda", "hip", "metal", "ptx"), "//")

_WARM_UP = 3  # runs before the one that is traced: caches are filled, and workers have begun to look for work


@dataclass(frozen=True)
class Benchmark:
    """Seconds of one call, over rounds of several calls each; `p10` and `p90` are the rounds' spread."""

    best: float
    median: float
    mean: float
    p10: float
    p90: float
    repetitions: int

    def __repr__(self) -> str:
        return line(self, self)

    def _repr_html_(self) -> str:
        columns = ("best", "median", "mean", "10 %", "90 %", "runs")
        times = (self.best, self.median, self.mean, self.p10, self.p90)
        return table(columns, [[*(Number(t, _microseconds(t)) for t in times), self.repetitions]])

    def __str__(self) -> str:
        return (
            f"best {_microseconds(self.best)}, median {_microseconds(self.median)} "
            f"({_microseconds(self.p10)} to {_microseconds(self.p90)}), {self.repetitions} runs"
        )


@dataclass(frozen=True)
class Memory:
    """Bytes an executable holds. Each concurrent call has an `arena`, for the values between kernels and inside them, and as
    `scratch` what kernels need beyond it."""

    arena: int
    scratch: int
    constants: int

    def __repr__(self) -> str:
        return line(self, ", ".join(f"{name} {size(count)}" for name, count in vars(self).items()))

    def _repr_html_(self) -> str:
        return table(("memory", "size"), [[name, Number(count, size(count))] for name, count in vars(self).items()])

    def __str__(self) -> str:
        return ", ".join(f"{name} {count / 2**20:.1f} MiB" for name, count in vars(self).items())


def executable(network: Network, threads: int | None = None) -> Executable:
    """The executable of what was built, loaded now if it can run here. `threads` run it, unless the network says how many."""
    made = Executable(network if threads is None else replace(network, threads=threads))
    if device_of(network.target.kind).why_not(network.target) is None:
        made.load()
    return made


class Executable:
    """A compiled workload or network. Call it with arrays; several Python threads may do so at once.

    Inputs must have exactly the shape and dtype of their `Argument`; arrays and DLPack tensors are not copied, but for those that
    are not C-contiguous, or whose data is misaligned. Constant inputs (`constants`) may be bound once with `bind`; those with a
    packer reach the code in the packer's layout, packed on every call unless they are bound.

        kernel = ts.compile([A, B, C]).bind(B=b)
        c = kernel(a)  # or kernel(A=a), or kernel(a, out=c)
        print(kernel.benchmark(a), kernel.profile(a), kernel.memory)
        kernel.save("kernel.tsm")
    """

    def __init__(self, network: Network, running: Running | None = None) -> None:
        """`running` is the network in memory, where it is there already."""
        self.network = network.check()
        self._loaded = running
        self.origin: Origin | None = None  # what it was compiled from, where that is known
        self.name, self.inputs, self.outputs = network.name, network.inputs, network.outputs
        # What a call needs, flat, because Python's time per call is what small kernels mostly cost.
        self._input_names = tuple(a.name for a in self.inputs)
        self._checks = tuple((a, a.shape, a.numpy_dtype) for a in self.inputs)
        self._output_checks = tuple((a, a.shape, a.numpy_dtype) for a in self.outputs)
        self._new_outputs = _output_allocator(self.outputs)
        packers = [(n, network.unbound.get(a.name)) for n, a in enumerate(self.inputs)]
        self._packed = tuple((n, pack) for n, pack in packers if pack is not None)

    def load(self) -> None:
        """Brings its code into this process, unless it is there. Raises `UserError` if it cannot run here."""
        _ = self._running

    @property
    def _running(self) -> Running:
        if self._loaded is None:
            why = device_of(self.network.target.kind).why_not(self.network.target)
            if why is not None:
                raise UserError(f"{self.name} {why}; save it and load it there, or compile it for this machine")
            self._loaded = load(self.network)
        return self._loaded

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Run it. Inputs by position or by name; `out` is an array (a sequence of arrays, or a mapping from names, if there are
        several outputs) to write to, which must be C-contiguous, writable, and must not overlap anything else. Returns the
        output, or a tuple of them in the order of `outputs`."""
        if named:
            args, named = in_order(self.name, self._input_names, args, named), {}
        if out is None:
            out = self._new_outputs()
        result = self._call_plainly(args, out)
        if result is not None:
            return result
        arrays = self._accept(args, named)
        results = self._accept_outputs(out, arrays)
        self._running.run(arrays, results)
        return results[0] if len(results) == 1 else tuple(results)

    @functools.cached_property
    def _call_plainly(self) -> PlainCall:
        return self._running.plain_call

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name."""
        results = self(*in_order(self.name, self._input_names, (), inputs))
        return dict(zip((o.name for o in self.outputs), results if len(self.outputs) > 1 else (results,)))

    def bind(self, **constants: Any) -> Executable:
        """An executable of the remaining inputs. The constants are packed, or copied, now: later changes to the
        arrays given here are not seen."""
        by_name = {argument.name: argument for argument in self.inputs}
        for name in constants:
            if name not in by_name:
                left = ", ".join(self._input_names) or "none"
                raise UserError(f"{self.name} has no input {name!r} left to bind; its inputs are {left}")
            if name not in self.network.unbound:
                may = ", ".join(self.network.unbound) or "none is"
                raise UserError(f"{name} of {self.name} was not declared constant, so it cannot be bound ({may})")
        network = self.network.bind({name: accept_input(by_name[name], x) for name, x in constants.items()})
        made = Executable(network, None if self._loaded is None else self._loaded.rebound(network))
        made.origin = None if self.origin is None else self.origin.bound(constants)
        return made

    def stream(self, workers: int | None = None) -> Stream:
        """Workers that serve calls side by side, each on one thread, and share code and weights: for many requests per second. As
        many as there are CPUs, unless it is said. Compile with `threads=1` for this: the schedules are those of one thread then."""
        return Stream(self.name, self, workers)

    @property
    def constants(self) -> frozenset[str]:
        """The names of the inputs that may be bound, or are."""
        return frozenset(self.network.unbound) | frozenset(self.network.bound)

    @property
    def bound(self) -> Mapping[str, np.ndarray]:
        """The bound constants, in the layout that the code reads."""
        return MappingProxyType({name: self.network.constants[n] for name, n in self.network.bound.items()})

    @property
    def memory(self) -> Memory:
        """What it holds in memory."""
        constants = sum(array.nbytes for array in self.network.constants)
        return Memory(self.network.arena_bytes, self.network.scratch_for(shared(self.network.threads).threads), constants)

    @property
    def threads(self) -> int:
        """How many threads run it: as many as were asked for when it was compiled or loaded, else as many as the process uses."""
        return shared(self.network.threads).threads

    # -- measuring ---------------------------------------------------------------------------------------------------

    def prepare(self, *args: Any, threads: int | None = None, **named: Any) -> Prepared:
        """These arguments, checked, ready to be run many times from compiled code. `threads`: another pool than the default."""
        arrays = self._accept(args, named)
        return self._running.prepare(arrays, self._accept_outputs(self._new_outputs(), arrays), threads)

    def benchmark(
        self, *args: Any, min_seconds: float = 0.2, rounds: int = 10, threads: int | None = None, **named: Any
    ) -> Benchmark:
        """Time the code alone: no argument checks, no packing, no Python between calls. Takes about `min_seconds`.

        Without arguments the inputs are random, integers all ones. `threads` runs it on another pool than the default.
        """
        run = self.prepare(*self._given(args, named), threads=threads, **named)
        run.seconds(1)
        count = max(1, math.ceil(min_seconds / rounds / max(run.seconds(1), 1e-8)))
        times = np.array([run.seconds(count) for _ in range(rounds)])
        p10, median, p90 = np.percentile(times, (10, 50, 90))
        return Benchmark(float(times.min()), float(median), float(times.mean()), float(p10), float(p90), count * rounds)

    def profile(self, *args: Any, rounds: int = 20, threads: int | None = None, **named: Any) -> Profile:
        """The time of every step, the best of `rounds` runs. Without arguments the inputs are random, integers all ones."""
        run = self.stepwise(*args, threads=threads, **named)
        run()
        best = np.min([run() for _ in range(max(1, rounds))], axis=0)
        return Profile(self.name, tuple(self._step_time(step, float(s)) for step, s in zip(self.network.steps, best)))

    def stepwise(self, *args: Any, threads: int | None = None, **named: Any) -> Callable[[], np.ndarray]:
        """A function that runs it once and gives the seconds of every step. Inputs as for `profile`."""
        return self.prepare(*self._given(args, named), threads=threads, **named).stepwise()

    def trace(self, path: str | Path, /, *args: Any, threads: int | None = None, **named: Any) -> Trace:
        """Runs it once, after a few runs to warm up, and writes what each thread did when to a file that https://ui.perfetto.dev
        opens: a track a thread, the steps, and each thread's part of them. Without inputs they are random, integers all ones."""
        path = given_path(path, "the file to write to")
        run = self.prepare(*self._given(args, named), threads=threads, **named)
        once = run.traced()
        run.repeat(_WARM_UP)
        stamps, notes = once()
        seconds = (stamps[1:] - stamps[:-1]) @ np.array([1.0, 1e-9])
        steps = tuple(self._step_time(step, float(s)) for step, s in zip(self.network.steps, seconds))
        found = traced(self.name, run.threads, steps, stamps, notes)
        found.write(path)
        return found

    def random_inputs(self) -> list[np.ndarray]:
        """The same ones every time: floats in -1..1, integers all ones."""
        return random_arrays(self.inputs)

    def _given(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        return args if args or named or not self.inputs else self.random_inputs()

    def _step_time(self, step: Step, seconds: float) -> StepTime:
        if step.kernel is None:
            return StepTime(None, "copy", "", seconds)
        kernel = self.network.kernels[step.kernel]
        moved = sum(kernel.argument_bytes)
        return StepTime(step.kernel, kernel.name, kernel.result, seconds, kernel.flops, kernel.schedule, moved)

    # -- what it is made of ------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes it to a file that `load_executable` reads, on the machine it was compiled for, without the compiler. Its constants
        must be bound. The file holds machine code: load only files that you trust."""
        file.save(self.network, path)

    def export(
        self,
        folder: str | Path,
        *,
        name: str | None = None,
        weights: str = "embedded",
        compiler: str | None = None,
        target: Target | str | None = None,
    ) -> list[Path]:
        """Writes a library for programs in C to a folder: header, C file, objects, a CMake file, an example. Gives the files.

        `name` begins all of its names; unless one is given it is `net_` and the executable's own. The weights are "embedded", or in
        a "file" that is mapped into memory. Where there is a C `compiler` for that machine (the system's `cc`, or the one given),
        the static and the shared library are there, too. It needs the text of the code, so an executable from a file cannot be
        exported.

        For another `target` it is compiled anew, from what `ts.compile` was given. The model, and arrays that were bound, must
        still be there: an executable does not keep them."""
        if target is not None and (there := given_or_native(target)) != self.network.target:
            made = remade(self.name, self.origin, there, target if isinstance(target, str) else there.name)
            return made.export(folder, name=name, weights=weights, compiler=compiler)
        network, guard = self._exported()
        write = device_of(network.target.kind).export
        if write is None:
            raise UserError(f"code for targets of kind {network.target.kind!r} cannot be exported as a C library")
        return write(network, Export(given_path(folder, "the folder to write to"), name, weights, compiler, guard))

    def _exported(self) -> tuple[Network, Guard | None]:
        """What a library runs, and what of it only looks at indices."""
        return self.network, None

    def source(self, kind: str) -> str:
        """A text of its code: "program" for the loop programs, and what its backend writes: "llvm" and "asm" for CPUs."""
        texts = [_program(kernel) if kind == "program" else kernel.code.source(kind) for kernel in self.network.kernels]
        if len(texts) == 1:
            return texts[0]
        sign = _COMMENTS.get(kind, ";")
        return "\n\n".join(f"{sign} {_word(kernel.name)}\n{text}" for kernel, text in zip(self.network.kernels, texts))

    @property
    def program(self) -> str:
        """Text of the loop program."""
        return self.source("program")

    @property
    def llvm_ir(self) -> str:
        """Text of the optimised LLVM IR."""
        return self.source("llvm")

    @property
    def assembly(self) -> str:
        """Text of the machine code."""
        return self.source("asm")

    @property
    def build_seconds(self) -> dict[str, float]:
        """What the compiler took for its kernels, by step; nothing where they came compiled."""
        found: dict[str, float] = {}
        for kernel in self.network.kernels:
            for step, seconds in kernel.code.seconds.items():
                found[step] = found.get(step, 0.0) + seconds
        return found

    def __repr__(self) -> str:
        return line(self, signature(self.network), f": {made_of(self.network)}")

    def __str__(self) -> str:
        return f"{signature(self.network)}: {made_of(self.network)}"

    def _repr_html_(self) -> str:
        network = self.network
        calls = Counter(step.kernel for step in network.steps)
        rows: list[list[Cell]] = [
            [titled(k.name, k.result), calls[n], Number(k.flops, flops(k.flops)), k.schedule] for n, k in enumerate(network.kernels)
        ]
        if calls[None]:
            rows.append(["copy", calls[None], Number(0, "-"), ""])
        body = table(("kernel", "calls", "MFLOP", "schedule"), rows, sortable=True) + self.memory._repr_html_()
        return block(signature(network), body, made_of(network))

    # -- copies ------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the bytes of the file that `save` writes: whoever unpickles it needs no compiler, and must trust it."""
        return unpickled, (file.as_bytes(self.network),)

    def __copy__(self) -> Executable:
        return self._like(Executable(self.network, self._loaded))

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        """Its constants are others; code cannot be changed, and is shared."""
        network = replace(self.network, constants=tuple(_copied(array, memo) for array in self.network.constants))
        return self._like(Executable(network, None if self._loaded is None else self._loaded.rebound(network)))

    def _like(self, executable: Executable) -> Executable:
        """Another executable, to be called as this one is."""
        return executable

    # -- arguments ---------------------------------------------------------------------------------------------------

    def _accept(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[np.ndarray]:
        """The arrays to hand to the code, checked, contiguous and packed."""
        if named or len(args) != len(self._checks):
            args = in_order(self.name, self._input_names, args, named)
        arrays = [
            x if type(x) is np.ndarray and x.dtype is dtype and x.shape == shape and x.flags.carray else accept_input(argument, x)
            for (argument, shape, dtype), x in zip(self._checks, args)
        ]
        for n, pack in self._packed:
            arrays[n] = aligned_copy(pack(arrays[n]))
        return arrays

    def _accept_outputs(self, out: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        names = ", ".join(argument.name for argument in self.outputs)
        if isinstance(out, Mapping):
            if {argument.name for argument in self.outputs} != set(out):
                raise UserError(
                    f"out has arrays for {', '.join(map(str, out)) or 'nothing'}, the outputs of {self.name} are {names}"
                )
            out = [out[argument.name] for argument in self.outputs]
        given = out if isinstance(out, (tuple, list)) else (out,)
        if len(given) != len(self.outputs):
            raise UserError(f"out has {many(len(given), 'array')}, {self.name} has {many(len(self.outputs), 'output')} ({names})")
        results = [
            x if type(x) is np.ndarray and x.dtype is dtype and x.shape == shape and x.flags.carray else accept_output(argument, x)
            for (argument, shape, dtype), x in zip(self._output_checks, given)
        ]
        check_overlap(self.network.inputs, self.outputs, inputs, results)
        return results


def unpickled(data: bytes) -> Executable:
    """The executable of a pickle: loaded now if it can run here, and otherwise good for everything but calls."""
    return executable(file.from_bytes(data))


def _copied(array: np.ndarray, memo: dict[int, Any]) -> np.ndarray:
    """A copy, the same for all that share the array."""
    if id(array) not in memo:
        memo[id(array)] = aligned_copy(array)
    return memo[id(array)]


def _word(name: str) -> str:
    """A kernel's name for a comment in any language, without what could end one: names may come from a stranger's model."""
    return re.sub(r"[^A-Za-z0-9 +.,:\[\]-]+", "_", name)


def _program(kernel: Kernel) -> str:
    return kernel.program() if kernel.program else "unknown: it came as machine code"


def _output_allocator(outputs: Sequence[Argument]) -> Callable[[], Any]:
    """What makes the array that a call writes to, or the tuple of several."""
    allocators = [
        output_allocator(a.shape, a.numpy_dtype, f"output {a.name} {a.dtype}{list(a.shape)}", n) for n, a in enumerate(outputs)
    ]
    return allocators[0] if len(allocators) == 1 else lambda: tuple([allocate() for allocate in allocators])


def _microseconds(seconds: float) -> str:
    if seconds < 1e-6:
        return f"{seconds * 1e6:.3f} us"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
