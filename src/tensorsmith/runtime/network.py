"""An executable of many kernels: tables made before, one compiled loop that runs them, no Python in between.

    Network             what runs, as data: kernels, steps, constants, the size of the arena
    NetworkExecutable   the callable

Every argument of a step lies at a *place*: an input or an output of the network (the caller's own memory), a constant, or an offset
in the arena, which is planned so that values which never live together share memory. A call takes a *frame*: an arena and the
steps' arguments. Frames are kept for the next call, and each Python thread that calls at the same time gets one of its own.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import InternalError
from tensorsmith.runtime import driver as driver_code
from tensorsmith.runtime import jit
from tensorsmith.runtime.buffers import ALIGNMENT, data_pointer, round_up
from tensorsmith.runtime.executable import Argument, Executable, Frame, Prepared, scratch_size
from tensorsmith.runtime.pool import Pool, shared
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.targets.target import Target, native

MOST_THREADS = 4096  # that an arena can have been planned for
INPUT, OUTPUT, CONSTANT, ARENA = KINDS = ("input", "output", "constant", "arena")


@dataclass(frozen=True)
class Kernel:
    """Compiled code that steps run. `argument_bytes` is how much it may touch of each argument: `reads` inputs, then outputs.

    `replaceable` are the numbers of the inputs whose memory its one output may take.
    """

    name: str
    module: jit.Module
    argument_bytes: tuple[int, ...]
    reads: int
    scratch_bytes: int = 0
    scratch_bytes_per_thread: int = 0
    flops: int = 0
    result: str = ""  # type and shape of what it gives, for people
    schedule: str = ""  # where it came from: "record", "default" or "plain"
    program: Callable[[], str] | None = None
    replaceable: frozenset[int] = frozenset()

    def scratch_for(self, threads: int) -> int:
        """Bytes of scratch memory that so many threads need."""
        return scratch_size(self.scratch_bytes, self.scratch_bytes_per_thread, threads)

    @property
    def symbol(self) -> str:
        """The name of its entry: the one function that it exports."""
        (symbol,) = self.module.symbols
        return symbol


@dataclass(frozen=True)
class Place:
    """Where an argument lies: `at` is the number of an input, output or constant, or an offset in the arena."""

    kind: str
    at: int


@dataclass(frozen=True)
class Step:
    """One call of a kernel; a step without one copies `copied_bytes` from its first place to its second."""

    kernel: int | None
    places: tuple[Place, ...]
    copied_bytes: int = 0


@dataclass(frozen=True)
class Network:
    """Everything a network needs to run."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    constants: tuple[np.ndarray, ...]  # packed; each 64-byte aligned
    arena_bytes: int
    arena_threads: int = 0  # up to so many threads have their scratch memory at the beginning of the arena

    @property
    def target(self) -> Target:
        """What its kernels were compiled for."""
        return self.kernels[0].module.target if self.kernels else native()

    def check(self) -> Network:
        """Itself, if no step touches memory outside of what its places have, and none writes to an input or a constant."""
        sizes = {
            INPUT: [argument.bytes for argument in self.inputs],
            OUTPUT: [argument.bytes for argument in self.outputs],
            CONSTANT: [array.nbytes for array in self.constants],
        }
        if not 0 <= self.arena_threads <= MOST_THREADS:
            raise InternalError(f"the arena is said to have room for {self.arena_threads} threads")
        for number, step in enumerate(self.steps):
            needed: tuple[int, ...]
            scratch = 0
            if step.kernel is None:
                needed, reads = (step.copied_bytes,) * 2, 1
            elif 0 <= step.kernel < len(self.kernels):
                kernel = self.kernels[step.kernel]
                needed, reads = kernel.argument_bytes, kernel.reads
                scratch = kernel.scratch_for(self.arena_threads) if self.arena_threads else 0
                if scratch > self.arena_bytes:
                    raise InternalError(f"step {number} needs {scratch} bytes of scratch memory, the arena has {self.arena_bytes}")
            else:
                raise InternalError(f"step {number} runs kernel {step.kernel}; there are {len(self.kernels)}")
            if len(step.places) != len(needed):
                raise InternalError(f"step {number} has {len(step.places)} arguments, its kernel takes {len(needed)}")
            for n, (place, size) in enumerate(zip(step.places, needed)):
                if place.kind == ARENA:
                    fits = place.at >= scratch and place.at % ALIGNMENT == 0 and place.at + size <= self.arena_bytes
                else:
                    fits = 0 <= place.at < len(sizes[place.kind]) and size <= sizes[place.kind][place.at]
                if not fits or size < 0:
                    raise InternalError(f"argument {n} of step {number} needs {size} bytes, {place.kind} {place.at} has not")
                if n >= reads and place.kind in (INPUT, CONSTANT):
                    raise InternalError(f"step {number} writes to {place.kind} {place.at}")
        return self


@dataclass(frozen=True)
class Memory:
    """Bytes an executable holds. Each concurrent call has an `arena`, for the values between kernels and inside them, and as
    `scratch` what kernels need beyond it."""

    arena: int
    scratch: int
    constants: int

    def __str__(self) -> str:
        return ", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in vars(self).items())


class NetworkExecutable(Executable):
    """A compiled network. Called as any `Executable`: inputs by position or name, arrays or DLPack tensors, none of them copied.

    With one output it gives an array, with several a tuple in the order of `outputs`. The file that `save` writes holds machine
    code: load only files that you trust.
    """

    def __init__(self, network: Network, driver: jit.Module | None = None, driver_source: str | None = None) -> None:
        """`driver` is the code of `runtime.driver`, and `driver_source` the key of its text, where they came with the network."""
        self.network = network.check()
        self.driver = driver = driver or driver_code.driver(network.target)
        self.driver_source = driver_source or driver_code.source_key(driver.target)
        super().__init__(
            name=network.name,
            entry=driver.address("run"),
            keep=(driver, network),
            inputs=network.inputs,
            outputs=network.outputs,
            program=lambda: self._of_kernels(lambda k: k.program() if k.program else "unknown: it came as machine code"),
            llvm_ir=lambda: self._of_kernels(lambda k: k.module.llvm_ir),
            assembly=lambda: self._of_kernels(lambda k: k.module.assembly),
        )
        self._entries = [kernel.module.address(kernel.symbol) for kernel in network.kernels]
        self._copy = driver.address("copy")
        self._profile = _PROFILE(driver.address("profile"))
        self._slots = self._find_slots()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name."""
        results = self(*self._in_order((), inputs))
        return dict(zip((o.name for o in self.outputs), results if len(self.outputs) > 1 else (results,)))

    @property
    def memory(self) -> Memory:
        """What it holds in memory."""
        constants = sum(array.nbytes for array in self.network.constants)
        return Memory(self.network.arena_bytes, self._scratch_bytes_for(shared().threads), constants)

    def profile(self, *args: Any, rounds: int = 20, threads: int | None = None, **named: Any) -> Profile:
        """The time of every step, the best of `rounds` runs. Without arguments the inputs are random, integers all ones."""
        run = self.stepwise(*args, threads=threads, **named)
        run()
        best = np.min([run() for _ in range(max(1, rounds))], axis=0)
        return Profile(self.name, tuple(self._step_time(step, float(s)) for step, s in zip(self.network.steps, best)))

    def stepwise(self, *args: Any, threads: int | None = None, **named: Any) -> Callable[[], np.ndarray]:
        """A function that runs the network once and gives the seconds of every step. Inputs as for `profile`."""
        given = args if args or named or not self.inputs else self._random()
        return self.stepwise_of(self.prepare(*given, threads=threads, **named))

    def random_inputs(self) -> list[np.ndarray]:
        """The same ones every time: floats in -1..1, integers all ones."""
        return self._random()

    def stepwise_of(self, prepared: Prepared) -> Callable[[], np.ndarray]:
        """As `stepwise`, of what was prepared."""
        stamps = np.zeros((len(self.network.steps) + 1, 2), np.int64)  # of struct timespec: seconds, nanoseconds

        def run() -> np.ndarray:
            self._profile(*prepared.arguments, data_pointer(stamps), time.CLOCK_MONOTONIC)
            return (stamps[1:] - stamps[:-1]) @ np.array([1.0, 1e-9])

        return run

    def save(self, path: str | Path) -> None:
        """Writes it to a file that `load_executable` reads, on this kind of machine, without the compiler."""
        from tensorsmith.runtime import file

        file.save(self, path)

    def _step_time(self, step: Step, seconds: float) -> StepTime:
        if step.kernel is None:
            return StepTime(None, "copy", "", seconds)
        kernel = self.network.kernels[step.kernel]
        return StepTime(step.kernel, kernel.name, kernel.result, seconds, kernel.flops, kernel.schedule)

    def _of_kernels(self, text: Callable[[Kernel], str]) -> str:
        return "\n\n".join(f"; {kernel.name}\n{text(kernel)}" for kernel in self.network.kernels)

    # Frames: [number of steps, (code, arguments) of each, the arguments of the first, of the second, ...]

    def _find_slots(self) -> tuple[tuple[int, ...], ...]:
        """For each input, then each output, the slots of the table that hold its address."""
        found: dict[Place, list[int]] = {}
        for start, step in self._argument_starts():
            for n, place in enumerate(step.places):
                found.setdefault(place, []).append(start + n)
        named = [Place(INPUT, n) for n in range(len(self.inputs))] + [Place(OUTPUT, n) for n in range(len(self.outputs))]
        return tuple(tuple(found.get(place, ())) for place in named)

    def _argument_starts(self) -> Iterable[tuple[int, Step]]:
        start = 1 + 2 * len(self.network.steps)
        for step in self.network.steps:
            yield start, step
            start += len(step.places) + (step.kernel is None)

    def _scratch_bytes_for(self, threads: int) -> int:
        """Of memory beyond the arena: none, if that was planned for as many threads."""
        if threads <= self.network.arena_threads:
            return 0
        return max((kernel.scratch_for(threads) for kernel in self.network.kernels), default=0)

    def _new_frame(self, pool: Pool) -> Frame:
        starts = list(self._argument_starts())
        slots = starts[-1][0] + len(starts[-1][1].places) + 1 if starts else 1
        arena_bytes = round_up(self.network.arena_bytes)
        frame = _NetworkFrame(slots, self._slots, arena_bytes, self._scratch_bytes_for(pool.threads), pool.threads)
        table = frame.pointers
        table[0] = len(starts)
        constants = [data_pointer(array) for array in self.network.constants]
        for number, (start, step) in enumerate(starts):
            table[1 + 2 * number] = self._copy if step.kernel is None else self._entries[step.kernel]
            table[2 + 2 * number] = frame.arguments + 8 * start
            for n, place in enumerate(step.places):
                if place.kind == ARENA:
                    table[start + n] = frame.arena + place.at
                elif place.kind == CONSTANT:
                    table[start + n] = constants[place.at]
            if step.kernel is None:
                table[start + len(step.places)] = step.copied_bytes
        return frame


class _NetworkFrame(Frame):
    """The table of all steps, and the arena; the scratch memory is its beginning, or lies behind it."""

    __slots__ = ("arena",)

    def __init__(
        self, pointers: int, slots: tuple[tuple[int, ...], ...], arena_bytes: int, scratch_bytes: int, threads: int
    ) -> None:
        super().__init__(pointers, slots, arena_bytes + scratch_bytes, threads)
        self.arena = self.scratch
        if scratch_bytes:
            self.use_scratch(self.arena + arena_bytes)


_PROFILE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int32)
