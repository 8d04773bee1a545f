"""The parts of a session in the form that the code of `runtime.provider_ir` reads, and the calls that this code leaves to Python.

What is in memory here is read by threads of ONNX Runtime that know nothing of Python's lock. A part owns everything that its words
point to, and gives up a replaced list only when no call can be reading it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import InternalError, UserError
from tensorsmith.onnxruntime.api import VERSION, Api
from tensorsmith.runtime.arguments import DTYPES, Argument
from tensorsmith.runtime.built import Code
from tensorsmith.runtime.device import Loaded, device_of
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import shared
from tensorsmith.runtime.provider_ir import FUNCTIONS, PART, SYMBOLS, VARIANT, provider_ir
from tensorsmith.runtime.running import HostNetwork
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.runtime.variants.symbols import OpenArgument
from tensorsmith.targets.target import Target, native

_MOST_FRAMES = 64  # calls of one variant at once that need no Python

Built = Executable | OpenExecutable


_of_process: dict[None, Loaded] = {}  # one at most; a dictionary, because `setdefault` is atomic


def code() -> Loaded:
    """The compiled functions, once for the process."""
    known = _of_process.get(None)
    if known is not None:
        return known
    device = device_of("cpu")
    if device.driver is None:
        raise InternalError("CPUs are hosts, and have no driver")
    return _of_process.setdefault(None, device.link(device.driver.assemble(provider_ir(), native())))


def adopt(data: bytes, target: Target) -> None:
    """Takes these functions, compiled before for a target, unless there are some already."""
    if _of_process.get(None) is None:
        _of_process.setdefault(None, device_of("cpu").link(Code(target, SYMBOLS, data)))


@functools.cache
def _functions(api: Api) -> ctypes.Array[ctypes.c_uint64]:
    """The addresses of what the code calls of an ONNX Runtime."""
    return (ctypes.c_uint64 * len(FUNCTIONS))(*(api.address(name) for name in FUNCTIONS))


class Part:
    """A fused node: `address` is its OrtNodeComputeInfo. `inputs` and `outputs` are the names, in the executable, of what ONNX
    Runtime gives and wants, in its order."""

    def __init__(
        self, api: Api, executable: Built, inputs: Sequence[str], outputs: Sequence[str], callbacks: tuple[int, int, int]
    ) -> None:
        """`callbacks` are the addresses of CreateState, ReleaseState and the slow function."""
        self.api, self.executable = api, executable
        known = {a.name: a for a in executable.inputs}
        self.order = [inputs.index(a.name) for a in executable.inputs]  # of the executable's inputs: which of the node's it is
        self.names = tuple(inputs)
        self.outputs = tuple(outputs)
        ranks = [_rank(known[name]) for name in inputs]
        self._words = (ctypes.c_uint64 * (PART["RANKS"] + len(ranks)))()
        self.address = ctypes.addressof(self._words)
        create, release, slow = callbacks
        given = {
            "ORT_VERSION": VERSION,
            "CREATE_STATE": create,
            "COMPUTE": code().address("provider_compute"),
            "RELEASE_STATE": release,
            "SLOW": slow,
            "API": ctypes.addressof(_functions(api)),
            "PART_INPUTS": len(inputs),
            "PART_OUTPUTS": len(outputs),
            "SIZES": sum(ranks),
        }
        for name, word in given.items():
            self._words[PART[name]] = word
        for n, rank in enumerate(ranks):
            self._words[PART["RANKS"] + n] = rank
        self._lock = threading.Lock()
        self._variants: dict[tuple[tuple[int, ...], ...], _Variant] = {}
        self._retired: list[object] = []
        self._list: object = None
        self._publish()
        if isinstance(executable, Executable):
            self._add(executable)

    @property
    def calls(self) -> int:
        """How many calls needed no Python."""
        return int(self._words[PART["PART_CALLS"]])

    def call(self, context: int) -> None:
        """A call whose shapes are new, or for which no frame was left."""
        arrays = [self._input(context, n) for n in range(len(self.names))]
        given = [arrays[n] for n in self.order]
        made = self.executable
        if isinstance(made, OpenExecutable):
            sizes = made.sizes_of(given)
            self._note_used(made)
            made = made.variant(sizes).executable
        shapes = {o.name: o for o in made.outputs}
        results = {name: self._output(context, n, shapes[name].shape, shapes[name].dtype) for n, name in enumerate(self.outputs)}
        order = [results[o.name] for o in made.outputs]
        made(*given, out=order if len(order) > 1 else order[0])
        self._add(made)

    def _input(self, context: int, n: int) -> np.ndarray:
        api = self.api
        argument = next(a for a in self.executable.inputs if a.name == self.names[n])
        value = api.pointer("KernelContext_GetInput", context, n)
        if value is None:
            raise UserError(f"input {argument.name} is missing")
        info = api.pointer("GetTensorTypeAndShape", value)
        assert info is not None
        try:
            rank = api.number("GetDimensionsCount", info)
            shape = (ctypes.c_int64 * rank)()
            api.GetDimensions(info, shape, rank)
        finally:
            api.ReleaseTensorTypeAndShapeInfo(info)
        return _array(api.pointer("GetTensorMutableData", value), tuple(shape), DTYPES[argument.dtype])

    def _output(self, context: int, n: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        api = self.api
        value = api.pointer("KernelContext_GetOutput", context, n, (ctypes.c_int64 * len(shape))(*shape), len(shape))
        return _array(api.pointer("GetTensorMutableData", value), shape, DTYPES[dtype])

    # -- variants ----------------------------------------------------------------------------------------------------

    def _add(self, executable: Executable) -> None:
        """Lets later calls of these shapes go without Python; if there is such a variant already, gives it one more frame."""
        running = executable._running
        if not isinstance(running, HostNetwork):
            return
        key = tuple(executable.inputs[self.order.index(n)].shape for n in range(len(self.names)))
        with self._lock:
            known = self._variants.get(key)
            if known is not None and known.executable is executable:
                known.add_frame()
                return
            self._variants[key] = _Variant(self, executable, running)
            if isinstance(self.executable, OpenExecutable):  # those that it let go, go here, too
                there = {id(v.executable) for v in self.executable.variants}
                for old in [k for k, v in self._variants.items() if id(v.executable) not in there]:
                    self._retired.append(self._variants.pop(old))
            self._publish()

    def _note_used(self, executable: OpenExecutable) -> None:
        """Tells an executable which of its variants were called since the last time, so that it lets others go first."""
        with self._lock:
            called = {id(v.executable) for v in self._variants.values() if v.was_called()}
        for variant in executable.variants:
            if id(variant.executable) in called:
                executable.variant(variant.key)

    def _publish(self) -> None:
        """Makes the variants of now those that calls look at."""
        found = [v.address for v in self._variants.values()]
        self._retired.append(self._list)
        self._list = made = (ctypes.c_uint64 * (1 + len(found)))(len(found), *found)
        exchange = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code().address("provider_exchange"))
        if not exchange(self.address, ctypes.addressof(made)):
            self._retired.clear()


class _Variant:
    """An executable of fixed shapes, as calls of a part find it."""

    def __init__(self, part: Part, executable: Executable, running: HostNetwork) -> None:
        self.executable, self._running = executable, running
        self._pool = shared(executable.network.threads)
        frames = self._frames = (ctypes.c_uint64 * (1 + _MOST_FRAMES))()
        self._kept: list[object] = []  # the frames themselves
        words = [running.entry, self._pool.handle, self._pool.parallel_for_address, ctypes.addressof(frames), 0]
        assert len(words) == VARIANT["WANTED_SIZES"]
        where = [part.order.index(n) for n in range(len(part.names))]
        words += [size for at in where for size in executable.inputs[at].shape]
        for at in where:
            words += [len(running.slots[at]), *running.slots[at]]
        names = [o.name for o in executable.outputs]
        for name in part.outputs:
            at = names.index(name)
            shape, slots = executable.outputs[at].shape, running.slots[len(executable.inputs) + at]
            words += [len(shape), *shape, len(slots), *slots]
        self._words = (ctypes.c_uint64 * len(words))(*words)
        self.address = ctypes.addressof(self._words)
        self.add_frame()

    def was_called(self) -> bool:
        """Whether it was, since this was last asked."""
        called = bool(self._words[VARIANT["CALLED"]])
        self._words[VARIANT["CALLED"]] = 0
        return called

    def add_frame(self) -> None:
        """One more call at once."""
        if len(self._kept) < _MOST_FRAMES:
            frame = self._running._new_frame(self._pool)
            self._kept.append(frame)
            add = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code().address("provider_add"))
            add(ctypes.addressof(self._frames), frame.address)


def _rank(argument: Argument | OpenArgument) -> int:
    return len(argument.dims if isinstance(argument, OpenArgument) else argument.shape)


def _array(address: int | None, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory of ONNX Runtime as an array, not copied."""
    size = math.prod(shape) * dtype.itemsize
    if not size or not address:
        return np.zeros(shape, dtype)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(dtype).reshape(shape)
