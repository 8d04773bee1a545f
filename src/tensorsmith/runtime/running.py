"""A network in the memory of this process: tables made before, one compiled loop that runs them, no Python in between.

The compiled code's entry is

    void entry(ptr arguments, ptr scratch, ptr pool, ptr parallel_for)

A kernel's `arguments` points to the data pointers of its inputs, then of its outputs. `scratch` is 64-byte aligned: first
`scratch_bytes` shared by all threads, rounded up to 64, then for each thread of the pool `scratch_bytes_per_thread`, rounded up to
64. `parallel_for(pool, body, ctx, count)` is the one of `pool`. A network's entry is the driver's `run`, whose arguments are the
table of its steps.

A call takes a *frame*: an arena and the steps' arguments. Frames are kept for the next call, and each Python thread that calls at
the same time gets one of its own.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime.buffers import aligned_empty, data_pointer, round_up
from tensorsmith.runtime.built import ARENA, CONSTANT, INPUT, OUTPUT, Code, Network, Place, Step
from tensorsmith.runtime.call import PlainCall, never_plain, plain_call
from tensorsmith.runtime.call_ir import FRAME
from tensorsmith.runtime.device import Loaded, device_of
from tensorsmith.runtime.driver import loaded_driver, process_driver
from tensorsmith.runtime.pool import Pool, shared, with_threads
from tensorsmith.runtime.trace import Notes, parallel_for
from tensorsmith.show.line import line, many

POISON = 0xFF  # a byte that makes NaN in f16, f32 and f64, -1 or the largest value in integers


class Running(Protocol):
    """Loaded code, ready for calls. Arrays are as the code wants them: checked, contiguous, packed."""

    @property
    def plain_call(self) -> PlainCall:
        """What makes the calls that need nothing but checks."""
        ...

    def run(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        """One call."""
        ...

    def prepare(self, arrays: list[np.ndarray], results: list[np.ndarray], threads: int | None) -> Prepared:
        """Arguments in place, to be run many times."""
        ...

    def rebound(self, network: Network) -> Running:
        """The same code, for a network that differs in its constants alone."""
        ...


def load(network: Network) -> Running:
    """A network as it runs here. Raises whatever its device does if it cannot."""
    device = device_of(network.target.kind)
    return HostNetwork(network, device.link) if device.load is None else device.load(network)


class HostNetwork:
    """A network whose kernels are called on the host, on the host's memory."""

    def __init__(self, network: Network, link: Callable[[Code], Loaded], like: HostNetwork | None = None) -> None:
        """`like` has the same kernels and the same driver, in memory already."""
        self.network = network
        self._link = link
        self.driver: Loaded = like.driver if like else loaded_driver(network.driver)
        self.loaded: list[Loaded] = like.loaded if like else [link(kernel.code) for kernel in network.kernels]
        self.entry = self.driver.address("run")
        self._run = _ENTRY(self.entry)
        self._copy = self.driver.address("copy")
        self._entries = [code.address(kernel.symbol) for kernel, code in zip(network.kernels, self.loaded)]
        #: For each input, then each output: the slots of a frame that get its address.
        self.slots = self._find_slots()
        self.frames: dict[int, Frame] = {}  # by address
        self.free: list[int] = []  # the addresses of those not in use; a list's pop and append are atomic

    def rebound(self, network: Network) -> HostNetwork:
        return HostNetwork(network, self._link, self)

    @functools.cached_property
    def plain_call(self) -> PlainCall:
        if any(self.network.unbound.get(a.name) for a in self.network.inputs):  # what the code gets is not what the caller gives
            return never_plain
        keep = (self.driver, self.loaded, self.network, self.frames)
        return plain_call(self.network.inputs, self.network.outputs, self.slots, self.entry, self.free, keep, self.network.threads)

    def run(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        pool = shared(self.network.threads)
        frame = self._take_frame(pool)
        try:
            frame.point(arrays, results)
            self._run(frame.arguments, frame.scratch, pool.handle, pool.parallel_for_address)
        finally:
            self.free.append(frame.address)

    def prepare(self, arrays: list[np.ndarray], results: list[np.ndarray], threads: int | None) -> Prepared:
        with with_threads(threads):
            pool = shared(self.network.threads)
        frame = self._new_frame(pool)
        frame.point(arrays, results)
        return Prepared(self, pool, frame, arrays, results)

    # Frames: [number of steps, (code, arguments) of each, the arguments of the first, of the second, ...]

    def _find_slots(self) -> tuple[tuple[int, ...], ...]:
        found = self._slots_of_places()
        inputs, outputs = self.network.inputs, self.network.outputs
        named = [Place(INPUT, n) for n in range(len(inputs))] + [Place(OUTPUT, n) for n in range(len(outputs))]
        return tuple(tuple(found.get(place, ())) for place in named)

    def _slots_of_places(self) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for start, step in self._argument_starts():
            for n, place in enumerate(step.places):
                found.setdefault(place, []).append(start + n)
        return found

    def constant_slots(self) -> dict[str, list[int]]:
        """The slots of a frame that hold the address of each bound constant."""
        found = self._slots_of_places()
        return {name: found.get(Place(CONSTANT, n), []) for name, n in self.network.bound.items()}

    def _argument_starts(self) -> Iterable[tuple[int, Step]]:
        start = 1 + 2 * len(self.network.steps)
        for step in self.network.steps:
            yield start, step
            start += len(step.places) + (step.kernel is None)

    def _take_frame(self, pool: Pool) -> Frame:
        try:
            frame = self.frames[self.free.pop()]
        except IndexError:
            return self._add_frame(pool)
        if frame.threads >= pool.threads:
            return frame
        del self.frames[frame.address]
        return self._add_frame(pool)

    def _add_frame(self, pool: Pool) -> Frame:
        frame = self._new_frame(pool)
        self.frames[frame.address] = frame
        return frame

    def _new_frame(self, pool: Pool) -> Frame:
        starts = list(self._argument_starts())
        slots = starts[-1][0] + len(starts[-1][1].places) + 1 if starts else 1
        arena_bytes, scratch_bytes = round_up(self.network.arena_bytes), self.network.scratch_for(pool.threads)
        frame = Frame(slots, self.slots, arena_bytes, scratch_bytes, pool.threads)
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


class Prepared:
    """A network with its arguments in place. `outputs` are overwritten by every run; not for several Python threads at once."""

    def __init__(self, network: HostNetwork, pool: Pool, frame: Frame, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.outputs = outputs
        self.threads = pool.threads
        self._network = network
        self._keep = (frame, inputs)
        self._swept = np.zeros(0)
        self._repeat = _REPEAT(process_driver().address("repeat"))
        self.arguments = (frame.arguments, frame.scratch, pool.handle, pool.parallel_for_address)  # what the entry is called with

    def __repr__(self) -> str:
        return line(self, f"{self._network.network.name} on {many(self.threads, 'thread')}")

    def __reduce__(self) -> NoReturn:
        raise UserError("a network with its arguments in memory cannot be pickled; pickle its executable, or use save()")

    @property
    def bound(self) -> dict[str, np.ndarray]:
        """The bound constants, in the layout that the code reads."""
        network = self._network.network
        return {name: network.constants[n] for name, n in network.bound.items()}

    def point_constants(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Lets the code read bound constants from other memory; each array is like the one in `bound`, and is kept alive by the
        caller."""
        pointers = self._keep[0].pointers
        for name, slots in self._constant_slots.items():
            if name in arrays:
                for slot in slots:
                    pointers[slot] = data_pointer(arrays[name])

    @functools.cached_property
    def _constant_slots(self) -> dict[str, list[int]]:
        return self._network.constant_slots()

    def note(self) -> str:
        """How what runs it is just now, as that says, for whoever keeps its times; "": it says nothing."""
        return ""

    def poison(self) -> None:
        """Fills outputs and scratch memory with what no answer is made of: NaN in every floating-point type, extremes in integers.

        Fresh memory is zero, and memory that was used may hold the right answer: code that does not write would go unnoticed.
        """
        for output in self.outputs:
            output.reshape(-1).view(np.uint8).fill(POISON)
        self._keep[0].poison()

    def sweep(self, size: int) -> None:
        """Writes so many bytes of memory that the code does not use, so that they, and not its arrays, are in the caches."""
        if len(self._swept) != size // 8:
            self._swept = np.zeros(size // 8)
        np.add(self._swept, 1.0, out=self._swept)

    def repeat(self, count: int) -> None:
        """Runs the code that often."""
        self._repeat(self._network.entry, *self.arguments, count)

    def seconds(self, count: int) -> float:
        """Seconds per run, over `count` runs."""
        start = time.perf_counter()
        self.repeat(count)
        return (time.perf_counter() - start) / count

    def stepwise(self) -> Callable[[], np.ndarray]:
        """A function that runs it once and gives the seconds of every step."""
        profile = _PROFILE(self._network.driver.address("profile"))
        stamps = np.zeros((len(self._network.network.steps) + 1, 2), np.int64)  # of struct timespec: seconds, nanoseconds

        def run() -> np.ndarray:
            profile(*self.arguments, data_pointer(stamps), time.CLOCK_MONOTONIC)
            return (stamps[1:] - stamps[:-1]) @ np.array([1.0, 1e-9])

        return run

    def traced(self) -> Callable[[], tuple[np.ndarray, Notes]]:
        """A function that runs it once and gives `timespec`s, before the first step and after each, and what the threads noted. It
        runs once more where there was more to note than it had room for."""
        profile = _PROFILE(self._network.driver.address("profile"))
        table, scratch, pool, pools_own = self.arguments
        stamps = np.zeros((len(self._network.network.steps) + 1, 2), np.int64)

        def run() -> tuple[np.ndarray, Notes]:
            room = 2 * len(stamps)
            while True:
                notes = Notes(pool, pools_own, self.threads, time.CLOCK_MONOTONIC, room)
                profile(table, scratch, notes.address, parallel_for(), data_pointer(stamps), time.CLOCK_MONOTONIC)
                most = max(notes.counts())
                if most <= room:
                    return stamps, notes
                room = 2 * most

        return run


class Frame:
    """Memory of one call at a time: the table of all steps, the arena, and the scratch memory for that many threads, which is the
    arena's beginning or lies behind it. At `address` are the words that `call_ir` knows."""

    __slots__ = ("_memory", "_slots", "_words", "address", "arena", "arguments", "pointers", "scratch", "threads")

    def __init__(self, pointers: int, slots: Sequence[Sequence[int]], arena_bytes: int, scratch_bytes: int, threads: int) -> None:
        self._words = (ctypes.c_uint64 * (FRAME["ARGUMENTS"] + pointers))()
        self.address = ctypes.addressof(self._words)
        self.arguments = self.address + 8 * FRAME["ARGUMENTS"]
        self.pointers = (ctypes.c_uint64 * pointers).from_buffer(self._words, 8 * FRAME["ARGUMENTS"])
        self._slots = slots
        what = "scratch memory for the stages between inputs and outputs"
        self._memory = aligned_empty((arena_bytes + scratch_bytes,), np.uint8, what)
        self.arena = data_pointer(self._memory)
        self.scratch = self._words[FRAME["SCRATCH"]] = self.arena + (arena_bytes if scratch_bytes else 0)
        self.threads = self._words[FRAME["FRAME_THREADS"]] = threads

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
_PROFILE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int32)
