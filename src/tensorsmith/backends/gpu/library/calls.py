"""Calls of a network with arrays that are in device memory already: nothing is copied, and results stay there."""

from __future__ import annotations

from typing import Any

from tensorsmith.backends.gpu.driver import At
from tensorsmith.backends.gpu.library.arrays import DeviceArray, is_on_device, on_device, taken
from tensorsmith.backends.gpu.library.device import LibraryDriver
from tensorsmith.backends.gpu.running import DeviceNetwork, Frame
from tensorsmith.errors import UserError
from tensorsmith.runtime.arguments import Argument, accept_input
from tensorsmith.runtime.built import INPUT, OUTPUT, Place


class _Frame(Frame):
    """Memory of calls whose inputs and outputs are the caller's."""

    def __init__(self, of: DeviceNetwork) -> None:
        super().__init__(of, [], [])
        self.given: list[At] = []
        self.results: list[At] = []

    def at(self, place: Place) -> At:
        if place.kind in (INPUT, OUTPUT):
            return (self.given if place.kind == INPUT else self.results)[place.at]
        return super().at(place)


class DeviceCall:
    """Takes the inputs, of which one at least is in device memory; gives the output there, or the tuple of several.

    The others are copied to the device. Outputs that the caller made on the host are not written.
    """

    def __init__(self, network: DeviceNetwork, driver: LibraryDriver) -> None:
        self.of, self.driver = network, driver
        self._frame: _Frame | None = None

    def __call__(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """None: everything is on the host, and nothing has happened."""
        network = self.of.network
        if not any(is_on_device(x, self.driver) for x in arguments) or len(arguments) != len(network.inputs):
            return None
        network.check_bound("called with arrays of the device")
        inputs = [self._given(a, x) for a, x in zip(network.inputs, arguments)]
        results = [DeviceArray(self.driver, self.driver.allocate(max(1, a.bytes)), a.shape, a.numpy_dtype) for a in network.outputs]
        with self.of.lock:
            frame = self._frame = self._frame or _Frame(self.of)
            frame.given = [(x.memory, x.offset) for x in inputs]
            frame.results = [(x.memory, x.offset) for x in results]
            frame.start()
        self.driver.finish()  # inputs may be changed, and others read the results, from now on
        return results[0] if len(results) == 1 else tuple(results)

    def _given(self, argument: Argument, x: Any) -> DeviceArray:
        if not is_on_device(x, self.driver):
            return on_device(accept_input(argument, x), self.driver)
        found = taken(x, self.driver, argument.name)
        if found.dtype != argument.numpy_dtype or found.shape != argument.shape:
            given = f"{found.dtype}{list(found.shape)}"
            raise UserError(f"{argument.name} must be {argument.dtype}{list(argument.shape)}, {given} given")
        return found
