"""The callable: NumPy arrays in, NumPy arrays out.

The compiled code's entry is

    void entry(ptr arguments, ptr scratch, ptr pool, ptr parallel_for)

`arguments` points to the data pointers of the inputs, then of the outputs. `scratch` is 64-byte aligned: first
`scratch_bytes` bytes shared by all threads, rounded up to 64, then for each thread of the pool
`scratch_bytes_per_thread` bytes, rounded up to 64. `parallel_for(pool, body, ctx, count)` is the one of `pool`.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime import jit
from tensorsmith.runtime.buffers import aligned_copy, aligned_empty, as_array, data_pointer, output_allocator, round_up
from tensorsmith.runtime.call import PlainCall, never_plain, plain_call
from tensorsmith.runtime.call_ir import FRAME
from tensorsmith.runtime.driver import process_driver
from tensorsmith.runtime.pool import Pool, shared, with_threads

DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
}
POISON = 0xFF  # a byte that makes NaN in f16, f32 and f64, -1 or the largest value in integers
_NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Argument:
    """An input or output: `dtype` is a name of `DTYPES`."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @functools.cached_property
    def numpy_dtype(self) -> np.dtype:
        return DTYPES[self.dtype]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, over rounds of several calls each; `p10` and `p90` are the rounds' spread."""

    best: float
    median: float
    mean: float
    p10: float
    p90: float
    repetitions: int

    def __str__(self) -> str:
        return (
            f"best {_microseconds(self.best)}, median {_microseconds(self.median)} "
            f"({_microseconds(self.p10)} to {_microseconds(self.p90)}), {self.repetitions} runs"
        )


class Executable:
    """Compiled code with its arguments. Call it with arrays; several Python threads may do so at once.

    Inputs must have exactly the shape and dtype of their `Argument`. One that is not C-contiguous, or whose data is
    misaligned, is copied first. Constant inputs (`constants`) may be bound once with `bind`; those with a packer
    reach the code in the packer's layout, packed on every call unless they are bound.
    """

    def __init__(
        self,
        *,
        name: str,
        entry: int,
        keep: object,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
        scratch_bytes: int = 0,
        scratch_bytes_per_thread: int = 0,
        constants: frozenset[str] = frozenset(),
        packers: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
        program: Callable[[], str] | None = None,
        llvm_ir: Callable[[], str] | None = None,
        assembly: Callable[[], str] | None = None,
        bound: Mapping[str, np.ndarray] | None = None,
        build_times: jit.BuildTimes | None = None,
    ) -> None:
        """`entry` is the code's address and `keep` whatever owns that code. `inputs` are all of the code's inputs;
        those in `bound` are already packed, and the caller gives the others."""
        self.name = name
        self.constants = constants | frozenset(packers or ())
        self.outputs = tuple(outputs)
        self._bound = dict(bound or {})
        self._all_inputs = tuple(inputs)
        self.inputs = tuple(argument for argument in inputs if argument.name not in self._bound)
        self._texts = {"program": program, "llvm_ir": llvm_ir, "assembly": assembly}
        self._keep = keep
        self.build_times = build_times  # what the compiler took, where it was asked
        self._entry = entry
        self._run = _ENTRY(entry)
        self._packers = dict(packers or {})
        self._scratch_bytes = scratch_bytes
        self._scratch_bytes_per_thread = scratch_bytes_per_thread
        # What a call needs, flat, because Python's time per call is what small kernels mostly cost.
        self._input_names = tuple(a.name for a in self.inputs)
        self._checks = tuple((a, a.shape, a.numpy_dtype) for a in self.inputs)
        self._output_checks = tuple((a, a.shape, a.numpy_dtype) for a in self.outputs)
        self._new_outputs = _output_allocator(self.outputs)
        slots = {argument.name: slot for slot, argument in enumerate(inputs)}
        # For each input that is given, then each output: the slots of a frame that get its address.
        self._slots: tuple[tuple[int, ...], ...] = tuple((slots[a.name],) for a in self.inputs)
        self._slots += tuple((len(inputs) + n,) for n in range(len(self.outputs)))
        self._packed = tuple((n, self._packers[a.name]) for n, a in enumerate(self.inputs) if a.name in self._packers)
        self._frames: dict[int, Frame] = {}  # by address
        self._free: list[int] = []  # the addresses of those not in use; a list's pop and append are atomic

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Run it. Inputs by position or by name; `out` is an array (a sequence of arrays, or a mapping from names, if there are
        several outputs) to write to, which must be C-contiguous, writable, and must not overlap anything else. Returns the
        output, or a tuple of them."""
        if named:
            args, named = self._in_order(args, named), {}
        if out is None:
            out = self._new_outputs()
        result = self._call_plainly(args, out)
        if result is not None:
            return result
        arrays = self._accept(args, named)
        results = self._accept_outputs(out, arrays)
        pool = shared()
        frame = self._take_frame(pool)
        try:
            frame.point(arrays, results)
            self._run(frame.arguments, frame.scratch, pool.handle, pool.parallel_for_address)
        finally:
            self._free.append(frame.address)
        return results[0] if len(results) == 1 else tuple(results)

    @functools.cached_property
    def _call_plainly(self) -> PlainCall:
        if self._packed:  # what the code gets is not what the caller gives
            return never_plain
        keep = (self._keep, self._bound, self._frames)
        return plain_call(self.inputs, self.outputs, self._slots, self._entry, self._free, keep)

    def bind(self, **constants: Any) -> Executable:
        """An executable of the remaining inputs. The constants are packed, or copied, now: later changes to the
        arrays given here are not seen."""
        by_name = {argument.name: argument for argument in self.inputs}
        for name in constants:
            if name not in by_name:
                raise UserError(f"{self.name} has no input {name!r} left to bind; its inputs are {self._names()}")
            if name not in self.constants:
                may = ", ".join(a.name for a in self.inputs if a.name in self.constants) or "none is"
                raise UserError(f"{name} of {self.name} was not declared constant, so it cannot be bound ({may})")
        bound = dict(self._bound)
        for name, value in constants.items():
            array = self._accept_one(by_name[name], value)
            pack = self._packers.get(name)
            bound[name] = aligned_copy(array if pack is None else pack(array))
        return Executable(
            name=self.name, entry=self._entry, keep=self._keep, inputs=self._all_inputs, outputs=self.outputs,
            scratch_bytes=self._scratch_bytes, scratch_bytes_per_thread=self._scratch_bytes_per_thread,
            constants=self.constants, packers=self._packers, bound=bound, build_times=self.build_times, **self._texts,
        )  # fmt: skip

    @property
    def bound(self) -> Mapping[str, np.ndarray]:
        """The bound constants, in the layout that the code reads."""
        return MappingProxyType(self._bound)

    def prepare(self, *args: Any, threads: int | None = None, **named: Any) -> Prepared:
        """These arguments, checked, ready to be run many times from compiled code. `threads`: another pool than the default."""
        arrays = self._accept(args, named)
        results = self._accept_outputs(self._new_outputs(), arrays)
        with with_threads(threads) as pool:
            frame = self._new_frame(pool)
        frame.point(arrays, results)
        return Prepared(self, pool, frame, arrays, results)

    def benchmark(self, *args: Any, min_seconds: float = 0.2, rounds: int = 10, threads: int | None = None, **named: Any) -> Timing:
        """Time the code alone: no argument checks, no packing, no Python between calls. Takes about `min_seconds`.

        Without arguments the inputs are random, integers all ones. `threads` runs it on another pool than the default.
        """
        given = args if args or named or not self.inputs else self._random()
        run = self.prepare(*given, threads=threads, **named)
        run.seconds(1)
        count = max(1, math.ceil(min_seconds / rounds / max(run.seconds(1), 1e-8)))
        times = np.array([run.seconds(count) for _ in range(rounds)])
        p10, median, p90 = np.percentile(times, (10, 50, 90))
        return Timing(float(times.min()), float(median), float(times.mean()), float(p10), float(p90), count * rounds)

    def save(self, path: str | Path) -> None:
        """Writes it to a file that `load_executable` reads, as a network of one kernel. Its constants must be bound."""
        from tensorsmith.runtime import file, single

        file.save(single.as_network(self), path)

    @property
    def program(self) -> str:
        """Text of the loop program."""
        return self._text("program")

    @property
    def llvm_ir(self) -> str:
        """Text of the optimised LLVM IR."""
        return self._text("llvm_ir")

    @property
    def assembly(self) -> str:
        """Text of the machine code."""
        return self._text("assembly")

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(map(str, self.inputs))}) -> {', '.join(map(str, self.outputs))}>"

    def _text(self, kind: str) -> str:
        text = self._texts[kind]
        if text is None:
            raise UserError(f"{self.name} does not know its {kind}: it came without")
        return text()

    def _names(self) -> str:
        return ", ".join(self._input_names) or "none"

    # Arguments.

    def _accept(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[np.ndarray]:
        """The arrays to hand to the code, checked, contiguous and packed."""
        if named or len(args) != len(self._checks):
            args = self._in_order(args, named)
        arrays = [
            x
            if type(x) is np.ndarray and x.dtype is dtype and x.shape == shape and x.flags.carray
            else self._accept_one(argument, x)
            for (argument, shape, dtype), x in zip(self._checks, args)
        ]
        for n, pack in self._packed:
            arrays[n] = aligned_copy(pack(arrays[n]))
        return arrays

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional and named inputs in the order of `inputs`."""
        names = self._input_names
        left = names[len(args) :]
        if named.keys() == set(left) and len(args) <= len(names):
            return (*args, *[named[name] for name in left])
        unknown = [name for name in named if name not in names]
        if unknown:
            raise UserError(f"{self.name} has no input {unknown[0]!r}; its inputs are {self._names()}")
        twice = [name for name in names[: len(args)] if name in named]
        if twice:
            raise UserError(f"{self.name} got {twice[0]} twice: by position and by name")
        raise UserError(f"{self.name} takes {len(names)} inputs ({self._names()}), {len(args) + len(named)} given")

    def _accept_one(self, argument: Argument, x: Any) -> np.ndarray:
        name, dtype = argument.name, argument.numpy_dtype
        if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic) and argument.shape == ():
            return _number(argument, x)
        array = as_array(x, name)
        _check_dtype(argument, array)
        _check_shape(argument, array)
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        copy = aligned_empty(argument.shape, dtype, f"a copy of input {name}")
        copy[...] = array
        return copy

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
            raise UserError(f"out has {len(given)} arrays, {self.name} has {len(self.outputs)} outputs ({names})")
        results = [
            x if type(x) is np.ndarray and x.dtype is dtype and x.shape == shape and x.flags.carray else _accept_output(argument, x)
            for (argument, shape, dtype), x in zip(self._output_checks, given)
        ]
        self._check_overlap(inputs, results)
        return results

    def _check_overlap(self, inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
        """All are contiguous, so each is one range of memory."""
        others = [(start := data_pointer(array), start + array.nbytes) for array in inputs]
        for argument, array in zip(self.outputs, results):
            start = data_pointer(array)
            end = start + array.nbytes
            for other_start, other_end in others:
                if max(start, other_start) < min(end, other_end):  # false for empty arrays
                    other = (*self.inputs, *self.outputs)[others.index((other_start, other_end))].name
                    raise UserError(f"out for {argument.name} overlaps the memory of {other}; give an array of its own")
            others.append((start, end))

    def _random(self) -> list[np.ndarray]:
        generator = np.random.default_rng(0)
        return [
            generator.uniform(-1, 1, a.shape).astype(a.numpy_dtype)
            if a.numpy_dtype.kind == "f"
            else np.ones(a.shape, a.numpy_dtype)
            for a in self.inputs
        ]

    # Frames.

    def _take_frame(self, pool: Pool) -> Frame:
        try:
            frame = self._frames[self._free.pop()]
        except IndexError:
            return self._add_frame(pool)
        if frame.threads >= pool.threads:
            return frame
        del self._frames[frame.address]
        return self._add_frame(pool)

    def _add_frame(self, pool: Pool) -> Frame:
        frame = self._new_frame(pool)
        self._frames[frame.address] = frame
        return frame

    def _new_frame(self, pool: Pool) -> Frame:
        size = scratch_size(self._scratch_bytes, self._scratch_bytes_per_thread, pool.threads)
        frame = Frame(len(self._all_inputs) + len(self.outputs), self._slots, size, pool.threads)
        for slot, argument in enumerate(self._all_inputs):
            if argument.name in self._bound:
                frame.pointers[slot] = data_pointer(self._bound[argument.name])
        return frame


class Prepared:
    """An executable with its arguments in place. `outputs` are overwritten by every run; not for several Python threads at once."""

    def __init__(
        self, executable: Executable, pool: Pool, frame: Frame, inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> None:
        self.executable = executable
        self.outputs = outputs
        self.threads = pool.threads
        self._keep = (frame, inputs)
        self._repeat = _REPEAT(process_driver().address("repeat"))
        self.arguments = (frame.arguments, frame.scratch, pool.handle, pool.parallel_for_address)  # what the entry is called with

    def point_constants(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Lets the code read bound constants from other memory; each array is like the one in `executable.bound`, and is kept alive
        by the caller."""
        pointers = self._keep[0].pointers
        for slot, argument in enumerate(self.executable._all_inputs):
            if argument.name in arrays:
                pointers[slot] = data_pointer(arrays[argument.name])

    def poison(self) -> None:
        """Fills outputs and scratch memory with what no answer is made of: NaN in every floating-point type, extremes in integers.

        Fresh memory is zero, and memory that was used may hold the right answer: code that does not write would go unnoticed.
        """
        for output in self.outputs:
            output.reshape(-1).view(np.uint8).fill(POISON)
        self._keep[0].poison()

    def repeat(self, count: int) -> None:
        """Runs the code that often."""
        self._repeat(self.executable._entry, *self.arguments, count)

    def seconds(self, count: int) -> float:
        """Seconds per run, over `count` runs."""
        start = perf_counter()
        self.repeat(count)
        return (perf_counter() - start) / count


class Frame:
    """Memory of one call at a time: the argument pointers and the scratch for that many threads. At `address` are the words that
    `call_ir` knows."""

    __slots__ = ("_memory", "_slots", "_words", "address", "arguments", "pointers", "scratch", "threads")

    def __init__(self, pointers: int, slots: Sequence[Sequence[int]], scratch_bytes: int, threads: int) -> None:
        self._words = (ctypes.c_uint64 * (FRAME["ARGUMENTS"] + pointers))()
        self.address = ctypes.addressof(self._words)
        self.arguments = self.address + 8 * FRAME["ARGUMENTS"]
        self.pointers = (ctypes.c_uint64 * pointers).from_buffer(self._words, 8 * FRAME["ARGUMENTS"])
        self._slots = slots
        self._memory = aligned_empty((scratch_bytes,), np.uint8, "scratch memory for the stages between inputs and outputs")
        self.use_scratch(data_pointer(self._memory))
        self.threads = self._words[FRAME["FRAME_THREADS"]] = threads

    def use_scratch(self, address: int) -> None:
        self.scratch = self._words[FRAME["SCRATCH"]] = address

    def poison(self) -> None:
        """Fills all of its memory with `POISON`."""
        self._memory.fill(POISON)

    def point(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Write the data pointers of `arrays`, then of `results`, to their slots."""
        pointers = self.pointers
        for slots, array in zip(self._slots, arrays + results):
            address = data_pointer(array)
            for slot in slots:
                pointers[slot] = address


_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_REPEAT = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int64)


def _output_allocator(outputs: Sequence[Argument]) -> Callable[[], Any]:
    """What makes the array that a call writes to, or the tuple of several."""
    allocators = [
        output_allocator(a.shape, a.numpy_dtype, f"output {a.name} {a.dtype}{list(a.shape)}", n) for n, a in enumerate(outputs)
    ]
    return allocators[0] if len(allocators) == 1 else lambda: tuple([allocate() for allocate in allocators])


def _accept_output(argument: Argument, x: Any) -> np.ndarray:
    where = f"out for {argument.name}"
    if isinstance(x, (bool, int, float, np.generic)):
        raise UserError(f"{where} is a {type(x).__name__}; give a writable array")
    array = as_array(x, where)
    _check_dtype(argument, array, where)
    _check_shape(argument, array, where)
    if not array.flags.writeable:
        raise UserError(f"{where} is read-only; give a writable array")
    if not array.flags.carray:
        raise UserError(f"{where} is not C-contiguous and aligned; give an array that is, or none")
    return array


def _check_dtype(argument: Argument, array: np.ndarray, where: str = "") -> None:
    if array.dtype != argument.numpy_dtype:
        given = _NAMES.get(array.dtype, str(array.dtype))
        hint = " (byte order swapped)" if array.dtype.newbyteorder() == argument.numpy_dtype else ""
        raise UserError(f"{where or argument.name} must be {argument.dtype}, {given}{hint} given")


def _check_shape(argument: Argument, array: np.ndarray, where: str = "") -> None:
    if array.shape != argument.shape:
        raise UserError(f"{where or argument.name} must have shape {argument.shape}, {array.shape} given")


def _number(argument: Argument, x: bool | int | float) -> np.ndarray:
    """A Python number as an array of rank 0: it has no dtype of its own, so it takes the argument's if it fits."""
    dtype = argument.numpy_dtype
    fits = {"b": (bool,), "f": (int, float), "i": (int,), "u": (int,)}[dtype.kind]
    if isinstance(x, bool) != (dtype.kind == "b") or not isinstance(x, fits):
        raise UserError(f"{argument.name} must be {argument.dtype}, the {type(x).__name__} {x!r} given")
    try:
        return np.array(x, dtype)
    except OverflowError:
        raise UserError(f"{argument.name} must be {argument.dtype}, which cannot hold {x!r}") from None


def scratch_size(shared_bytes: int, bytes_per_thread: int, threads: int) -> int:
    """Bytes of the scratch memory of a kernel."""
    return round_up(shared_bytes) + threads * round_up(bytes_per_thread)


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
