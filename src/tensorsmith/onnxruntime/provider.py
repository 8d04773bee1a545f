"""The provider's own functions, which ONNX Runtime calls through tables: a factory, a provider for each session, its parts.

Every function gives a status, and none lets an exception out: ctypes would print it and go on as if nothing had happened. What a
session has is kept here by its address until ONNX Runtime releases it.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tensorsmith.compile import compile
from tensorsmith.errors import TensorsmithError, UserError
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.onnxruntime import compiled
from tensorsmith.onnxruntime.api import VERSION, Api
from tensorsmith.onnxruntime.compute import Built, Part
from tensorsmith.onnxruntime.models import Piece, model
from tensorsmith.onnxruntime.options import NAMES, Options, of_texts
from tensorsmith.onnxruntime.parts import chosen
from tensorsmith.onnxruntime.reading import names, read_graph

log = logging.getLogger(__name__)

NAME = "TensorsmithExecutionProvider"
_VENDOR_ID = 0x7453  # no PCI vendor has it
_CPU = 0  # of OrtHardwareDeviceType

_P, _N = ctypes.c_void_p, ctypes.c_size_t
_PP, _NP = ctypes.POINTER(_P), ctypes.POINTER(_N)

_keep: list[object] = []  # functions and texts, for as long as the process
_api: Api | None = None
_providers: dict[int, Provider] = {}
_parts: dict[int, Part] = {}


def _callback(result: Any, *takes: Any) -> Callable[[Callable[..., Any]], int]:
    """Makes a function callable from C; gives its address."""

    def made(function: Callable[..., Any]) -> int:
        found = ctypes.CFUNCTYPE(result, *takes)(function)
        _keep.append(found)
        address = ctypes.cast(found, _P).value
        assert address is not None
        return address

    return made


def _checked(*takes: Any) -> Callable[[Callable[..., None]], int]:
    """As `_callback`, for a function that gives a status: null, or what went wrong."""

    def made(function: Callable[..., None]) -> int:
        def guarded(*arguments: Any) -> int | None:
            try:
                function(*arguments)
            except BaseException as problem:  # Ctrl-C, too: it comes back to whoever made the call as ONNX Runtime's error
                return _failure(problem)
            return None

        return _callback(_P, *takes)(guarded)

    return made


def _failure(problem: BaseException) -> int | None:
    """The status of what went wrong."""
    if isinstance(problem, KeyboardInterrupt):
        message = "Tensorsmith was interrupted (KeyboardInterrupt)"
    elif isinstance(problem, TensorsmithError):
        message = f"Tensorsmith: {problem}"
    else:
        log.exception("a call of ONNX Runtime failed", exc_info=problem)
        message = f"Tensorsmith: {type(problem).__name__}: {problem}"
    return None if _api is None else _api.failure(message)


def _text(text: str) -> int:
    found = ctypes.create_string_buffer(text.encode())
    _keep.append(found)
    return ctypes.addressof(found)


def _own_version() -> str:
    """The package's; ONNX Runtime wants three numbers even where it is not installed."""
    try:
        return version("tensorsmith")
    except PackageNotFoundError:
        return "0.0.0"


def _api_of() -> Api:
    assert _api is not None
    return _api


# -- a session's provider ----------------------------------------------------------------------------------------------


class Provider:
    """What one session has: its options, and what was compiled for it while ONNX Runtime asked what we can do."""

    def __init__(self, api: Api, options: Options, writes: bool) -> None:
        """`writes`: ONNX Runtime makes a compiled model of what this session compiles."""
        self.api, self.options, self.writes = api, options, writes
        self.ready: dict[tuple[str, ...], list[tuple[bytes, Built]]] = {}  # by outputs: the part as ONNX, and what it became
        self.stopped: BaseException | None = None  # what ended the compilation early
        self.words = (ctypes.c_uint64 * (1 + len(_EP)))(VERSION, *_EP)
        self.address = ctypes.addressof(self.words)

    def capability(self, graph: int, info: int) -> None:
        """Says which nodes of a graph we take."""
        read = read_graph(self.api, graph)
        options = (ctypes.c_uint32 * 2)(VERSION, 1)  # OrtNodeFusionOptions: constants are dropped, we have our own
        for node in read.nodes:
            if compiled.is_ours(node.proto, NAME):
                self.api.EpGraphSupportInfo_AddNodesToFuse(info, (_P * 1)(node.handle), 1, options)
        for part, nodes in chosen(read):
            try:
                executable = self.compiled(part)
            except Exception as problem:
                # ONNX Runtime can run it: a part that we fail at is none of ours
                log.warning("%d nodes are left to ONNX Runtime: %s: %s", len(nodes), type(problem).__name__, problem)
                continue
            except BaseException as problem:  # Ctrl-C; an error of this function would be ignored, one of `compile` is not
                self.stopped = problem
                self.api.EpGraphSupportInfo_AddNodesToFuse(info, (_P * 1)(read.nodes[nodes[0]].handle), 1, None)
                return
            self.ready.setdefault(part.outputs, []).append((part.proto.SerializeToString(deterministic=True), executable))
            handles = (_P * len(nodes))(*(read.nodes[n].handle for n in nodes))
            self.api.EpGraphSupportInfo_AddNodesToFuse(info, handles, len(nodes), options)

    def _check_trust(self) -> None:
        if not self.options.trust_compiled:
            raise UserError(
                "the model has parts that were compiled before, which is machine code; if you know who made it, load it with "
                "t.session_options(trust_compiled=True)"
            )

    def compiled(self, part: Piece) -> Built:
        """The executable of a part: of fixed shapes, or one that compiles each size when it comes."""
        known = part.proto.SerializeToString(deterministic=True)
        for text, executable in self.ready.get(part.outputs, ()):
            if text == known:
                return executable
        made = model(part, copied=bool(part.open))
        o = self.options
        if isinstance(made, OpenModel):
            return compile(made, database=o.database, effort=o.effort, threads=o.threads)  # type: ignore[arg-type]
        return compile(made, database=o.database, effort=o.effort, threads=o.threads)  # type: ignore[arg-type]

    def compile(self, graphs: Sequence[int], nodes: Sequence[int], infos: Any, contexts: Any) -> None:
        """Brings parts that ONNX Runtime has fused into the form in which it calls them."""
        stopped, self.stopped = self.stopped, None
        if stopped is not None:
            raise stopped
        api, made = self.api, []
        for n, (graph, node) in enumerate(zip(graphs, nodes)):
            inputs = names(api, api.several("Node_GetNumInputs", "Node_GetInputs", node))
            outputs = names(api, api.several("Node_GetNumOutputs", "Node_GetOutputs", node))
            first = read_graph(api, graph).nodes[0].proto
            if compiled.is_ours(first, NAME):
                self._check_trust()
                executable: Built = compiled.executable_of(compiled.content(first))
            else:
                executable = self._find(inputs, outputs)
            made.append(Part(api, executable, inputs, outputs, (_create_state, _release_state, _slow)))
            if self.writes:
                name = api.text("Node_GetName", node)  # by which ONNX Runtime knows what it stands for
                contexts[n] = compiled.create_node(api, name, inputs, outputs, NAME, compiled.payload(executable))
        for n, part in enumerate(made):
            _parts[part.address] = part
            infos[n] = part.address
        self.ready.clear()

    def _find(self, inputs: Sequence[str], outputs: Sequence[str]) -> Built:
        """What was compiled for a part with these ends."""
        for ends, found in self.ready.items():
            if set(ends) == set(outputs):
                for _, executable in found:
                    if {a.name for a in executable.inputs} == set(inputs):
                        return executable
        raise UserError(f"ONNX Runtime asks for a part that gives {', '.join(outputs)}, which was not offered")


def parts() -> list[Part]:
    """The parts of all sessions that there are now."""
    return list(_parts.values())


@_callback(_P, _P)
def _name(_: int) -> int:
    return _NAME


@_checked(_P, _P, _P)
def _get_capability(provider: int, graph: int, info: int) -> None:
    _providers[provider].capability(graph, info)


@_checked(_P, _PP, _PP, _N, _PP, _PP)
def _compile(provider: int, graphs: Any, nodes: Any, count: int, infos: Any, contexts: Any) -> None:
    _providers[provider].compile(graphs[:count], nodes[:count], infos, contexts)


@_callback(None, _P, _PP, _N)
def _release_parts(_: int, infos: Any, count: int) -> None:
    for n in range(count):
        _parts.pop(infos[n], None)


@_checked(_P, _P, _PP)
def _create_state(_: int, context: int, state: Any) -> None:
    state[0] = None


@_callback(None, _P, _P)
def _release_state(_: int, state: int) -> None:
    pass


@_checked(_P, _P, ctypes.POINTER(ctypes.c_int64))
def _slow(part: int, context: int, done: Any) -> None:
    _parts[part].call(context)
    done[0] = 1


#: OrtEp: GetName, GetCapability, Compile, ReleaseNodeComputeInfos, and eight that are left out (1.23 reads no further).
_EP = (_name, _get_capability, _compile, _release_parts, 0, 0, 0, 0, 0, 0, 0, 0)


# -- the factory -------------------------------------------------------------------------------------------------------


@_callback(_P, _P)
def _vendor(_: int) -> int:
    return _VENDOR


@_callback(_P, _P)
def _version(_: int) -> int:
    return _VERSION


@_callback(ctypes.c_uint32, _P)
def _vendor_id(_: int) -> int:
    return _VENDOR_ID


@_checked(_P, _PP, _N, _PP, _N, _NP)
def _supported_devices(factory: int, devices: Any, count: int, out: Any, most: int, found: Any) -> None:
    api, k = _api_of(), 0
    for device in devices[:count]:
        if api.HardwareDevice_Type(device) == _CPU and k < most:
            out[k] = api.pointer("CreateEpDevice", factory, device, None, None)
            k += 1
    found[0] = k


@_checked(_P, _PP, _PP, _N, _P, _P, _PP)
def _create_provider(_: int, devices: Any, metadata: Any, count: int, options: int, logger: int, out: Any) -> None:
    api = _api_of()
    texts = {name: text for name in NAMES if (text := _session_entry(api, options, f"ep.{NAME.lower()}.{name}")) is not None}
    made = Provider(api, of_texts(texts), _session_entry(api, options, compiled.ENABLE) == "1")
    _providers[made.address] = made
    out[0] = made.address


def _session_entry(api: Api, options: int, key: str) -> str | None:
    """An entry of a session's configuration."""
    name, size = key.encode(), ctypes.c_size_t()
    if not api.flag("HasSessionConfigEntry", options, name):
        return None
    api.GetSessionConfigEntry(options, name, None, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    api.GetSessionConfigEntry(options, name, room, ctypes.byref(size))
    return room.value.decode("utf-8", "surrogateescape")


@_callback(None, _P, _P)
def _release_provider(_: int, provider: int) -> None:
    _providers.pop(provider, None)


@_checked(_P, _PP)
def _no_transfer(_: int, out: Any) -> None:
    out[0] = None  # ONNX Runtime asks without looking whether there is such a function


@_callback(ctypes.c_bool, _P)
def _no_streams(_: int) -> bool:
    return False


_NAME, _VENDOR, _VERSION = _text(NAME), _text("Tensorsmith"), _text(_own_version())

#: OrtEpFactory, as far as 1.23 reads it.
_FACTORY = (ctypes.c_uint64 * 14)(
    VERSION,
    _name,
    _vendor,
    _supported_devices,
    _create_provider,
    _release_provider,
    _vendor_id,
    _version,
    0,  # ValidateCompiledModelCompatibilityInfo
    0,  # CreateAllocator
    0,  # ReleaseAllocator
    _no_transfer,
    _no_streams,
    0,  # CreateSyncStreamForDevice
)


@_checked(ctypes.c_char_p, _P, _P, _PP, _N, _NP)
def create_factories(name: bytes, base: int, logger: int, out: Any, most: int, count: Any) -> None:
    """Exported by the library as CreateEpFactories."""
    global _api
    _api = Api(base)
    out[0], count[0] = ctypes.addressof(_FACTORY), 1


@_checked(_P)
def release_factory(_: int) -> None:
    """Exported by the library as ReleaseEpFactory."""
