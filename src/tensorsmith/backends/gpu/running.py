"""A network in the memory of a GPU: constants and arena there, one list of launches, inputs and outputs copied once."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from tensorsmith.backends.gpu.driver import At, Driver, Module
from tensorsmith.backends.gpu.launch import Launches
from tensorsmith.errors import UserError
from tensorsmith.runtime.buffers import round_up
from tensorsmith.runtime.built import ARENA, CONSTANT, INPUT, Network, Place
from tensorsmith.runtime.call import PlainCall, never_plain
from tensorsmith.runtime.running import POISON, Prepared
from tensorsmith.show.line import line

Array = np.ndarray[Any, np.dtype[Any]]


class DeviceNetwork:
    """A network whose kernels run on a device, on its own memory."""

    def __init__(self, network: Network, driver: Driver, like: DeviceNetwork | None = None) -> None:
        """`like` has the same kernels, loaded already."""
        self.network, self.driver = network, driver
        self.launches: list[Launches] = like.launches if like else [Launches.from_bytes(k.code.data) for k in network.kernels]
        self.modules: list[Module] = like.modules if like else [driver.load(one) for one in self.launches]
        self.constants = [driver.allocate(round_up(a.nbytes)) for a in network.constants]
        for memory, array in zip(self.constants, network.constants):
            driver.write((memory, 0), array)
        self._frame: Frame | None = None
        self.lock = threading.Lock()

    @functools.cached_property
    def plain_call(self) -> PlainCall:
        """Calls with arrays that are on the device already, where its driver knows such."""
        return self.driver.calls(self) or never_plain

    def rebound(self, network: Network) -> DeviceNetwork:
        return DeviceNetwork(network, self.driver, self)

    def run(self, arrays: list[Array], results: list[Array]) -> None:
        with self.lock:  # the queue is one, and so is the memory
            frame = self._frame = self._frame or Frame(self, arrays, results)
            frame.give(arrays)
            frame.start()
            frame.take(results)

    def prepare(self, arrays: list[Array], results: list[Array], threads: int | None) -> Prepared:
        frame = Frame(self, arrays, results)
        frame.give(arrays)
        return DevicePrepared(frame, results)


class Frame:
    """The device's memory of one call at a time."""

    def __init__(self, of: DeviceNetwork, arrays: list[Array], results: list[Array]) -> None:
        self.of, driver = of, of.driver
        self.inputs = [driver.allocate(round_up(a.nbytes)) for a in arrays]
        self.sizes = [round_up(a.nbytes) for a in results]
        self.outputs = [driver.allocate(size) for size in self.sizes]
        self.arena_bytes = round_up(of.network.arena_bytes)
        self.arena = driver.allocate(self.arena_bytes)
        self.scratch_bytes = max((one.scratch_offsets()[-1] for one in of.launches), default=0)
        self.scratch = driver.allocate(self.scratch_bytes)
        self.other_constants: dict[int, Any] = {}
        self.aside: dict[tuple[int, int], Any] = {}  # by step and argument

    def at(self, place: Place) -> At:
        if place.kind == ARENA:
            return self.arena, place.at
        if place.kind == CONSTANT:
            return self.other_constants.get(place.at, self.of.constants[place.at]), 0
        return (self.inputs if place.kind == INPUT else self.outputs)[place.at], 0

    def give(self, arrays: list[Array]) -> None:
        for memory, array in zip(self.inputs, arrays):
            self.of.driver.write((memory, 0), array)

    def take(self, results: list[Array]) -> None:
        for memory, array in zip(self.outputs, results):
            self.of.driver.read(array, (memory, 0))

    def start(self) -> None:
        """Starts every step."""
        for number in range(len(self.of.network.steps)):
            self.start_step(number)

    def start_step(self, number: int) -> None:
        step = self.of.network.steps[number]
        places = [self.at(place) for place in step.places]
        if step.kernel is None:
            self.of.driver.copy(places[1], places[0], step.copied_bytes)
            return
        launches, module = self.of.launches[step.kernel], self.of.modules[step.kernel]
        back = self._set_aside(number, places)
        buffers = [*places, *((self.scratch, offset) for offset in launches.scratch_offsets()[:-1])]
        for n, one in enumerate(launches.launches):
            module.start(n, [buffers[a] for a in one.arguments])
        for to, source, size in back:
            self.of.driver.copy(to, source, size)

    def _set_aside(self, number: int, places: list[At]) -> list[tuple[At, At, int]]:
        """Puts arguments that begin where no kernel takes them (pieces of larger values) elsewhere; what is to be copied back."""
        driver, step = self.of.driver, self.of.network.steps[number]
        assert step.kernel is not None
        kernel, back = self.of.network.kernels[step.kernel], []
        for n, at in enumerate(places):
            if driver.is_aligned(at):
                continue
            size = kernel.argument_bytes[n]
            if (number, n) not in self.aside:
                self.aside[number, n] = driver.allocate(round_up(size))
            places[n] = self.aside[number, n], 0
            if n < kernel.reads:
                driver.copy(places[n], at, size)
            else:
                back.append((at, places[n], size))
        return back

    def poison(self) -> None:
        driver = self.of.driver
        for memory, size in [*zip(self.outputs, self.sizes), (self.arena, self.arena_bytes), (self.scratch, self.scratch_bytes)]:
            driver.fill(memory, size, POISON)


class DevicePrepared(Prepared):
    """A network with its arguments in the device's memory; `outputs` are the host's, copied after every run."""

    def __init__(self, frame: Frame, outputs: list[Array]) -> None:
        self._frame = frame
        self.outputs = outputs
        self.threads = 1
        self._device_swept: Any = None  # memory of the device that no kernel of ours uses

    def __repr__(self) -> str:
        return line(self, f"{self._frame.of.network.name} on {self._frame.of.driver.name}")

    @property
    def bound(self) -> dict[str, Array]:
        network = self._frame.of.network
        return {name: network.constants[n] for name, n in network.bound.items()}

    def point_constants(self, arrays: Mapping[str, Array]) -> None:
        network, driver = self._frame.of.network, self._frame.of.driver
        for name, array in arrays.items():
            n = network.bound[name]
            if array is network.constants[n]:
                self._frame.other_constants.pop(n, None)
                continue
            memory = driver.allocate(round_up(array.nbytes))
            driver.write((memory, 0), array)
            self._frame.other_constants[n] = memory

    def note(self) -> str:
        return self._frame.of.driver.clocks()

    def poison(self) -> None:
        for output in self.outputs:
            output.reshape(-1).view(np.uint8).fill(POISON)
        self._frame.poison()

    def sweep(self, size: int) -> None:
        """In the device's memory: its caches are meant."""
        if self._device_swept is None or self._device_swept[1] != size:
            self._device_swept = self._frame.of.driver.allocate(size), size
        self._frame.of.driver.fill(self._device_swept[0], size, POISON)

    def repeat(self, count: int) -> None:
        for _ in range(count):
            self._frame.start()
        self._frame.take(self.outputs)

    def seconds(self, count: int) -> float:
        """Seconds per run by the device's clock: nothing but the kernels and what lies between them."""
        driver = self._frame.of.driver
        first = driver.mark()
        for _ in range(count):
            self._frame.start()
        taken = driver.mark().since(first) / count
        self._frame.take(self.outputs)
        return max(taken, 1e-9)

    def stepwise(self) -> Callable[[], Array]:
        frame, driver = self._frame, self._frame.of.driver

        def run() -> Array:
            marks = [driver.mark()]
            for number in range(len(frame.of.network.steps)):
                frame.start_step(number)
                marks.append(driver.mark())
            return np.array([after.since(before) for before, after in itertools.pairwise(marks)])

        return run

    def traced(self) -> NoReturn:
        name = self._frame.of.driver.name
        raise UserError(f"a trace shows the threads of a CPU, {name} has none; profile() has the times of its steps")
