"""ONNX Runtime's C interface, as far as a provider needs it: functions by their number in the tables of 1.23.

The tables only ever grow, so a number means the same function in every later version. Handles are plain addresses here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

VERSION = 23  # of the interface that is spoken: that of ONNX Runtime 1.23
_HAS_SHAPE_SINCE = 24

_KINDS: dict[str, Any] = {"p": ctypes.c_void_p, "n": ctypes.c_size_t, "i": ctypes.c_int32, "s": ctypes.c_char_p}

#: Functions of OrtApi that give a status: their number, and the kinds of their arguments.
_CHECKED = {
    "GetTensorMutableData": (51, "pp"),
    "CastTypeInfoToTensorInfo": (55, "pp"),
    "GetTensorElementType": (60, "pp"),
    "GetDimensionsCount": (61, "pp"),
    "GetDimensions": (62, "ppn"),
    "GetSymbolicDimensions": (63, "ppn"),
    "GetTensorTypeAndShape": (65, "pp"),
    "KernelContext_GetInput": (90, "pnp"),
    "KernelContext_GetOutput": (91, "pnpnp"),
    "CreateOpAttr": (211, "spiip"),
    "HasSessionConfigEntry": (237, "psp"),
    "GetSessionConfigEntry": (238, "pspp"),
    "GetValueInfoName": (289, "pp"),
    "GetValueInfoTypeInfo": (290, "pp"),
    "ValueInfo_GetInitializerValue": (326, "pp"),
    "ValueInfo_IsGraphOutput": (330, "pp"),
    "ValueInfo_IsConstantInitializer": (331, "pp"),
    "Graph_GetNumOperatorSets": (336, "pp"),
    "Graph_GetOperatorSets": (337, "pppn"),
    "Graph_GetNumInputs": (338, "pp"),
    "Graph_GetInputs": (339, "ppn"),
    "Graph_GetNumOutputs": (340, "pp"),
    "Graph_GetOutputs": (341, "ppn"),
    "Graph_GetNumNodes": (344, "pp"),
    "Graph_GetNodes": (345, "ppn"),
    "Graph_GetParentNode": (346, "pp"),
    "Node_GetName": (349, "pp"),
    "Node_GetOperatorType": (350, "pp"),
    "Node_GetDomain": (351, "pp"),
    "Node_GetNumInputs": (353, "pp"),
    "Node_GetInputs": (354, "ppn"),
    "Node_GetNumOutputs": (355, "pp"),
    "Node_GetOutputs": (356, "ppn"),
    "Node_GetNumAttributes": (359, "pp"),
    "Node_GetAttributes": (360, "ppn"),
    "Node_GetNumSubgraphs": (365, "pp"),
    "OpAttr_GetTensorAttributeAsOrtValue": (362, "pp"),
    "OpAttr_GetType": (363, "pp"),
    "OpAttr_GetName": (364, "pp"),
}

#: Functions of OrtApi that give something else: their number, what they give, and the kinds of their arguments.
_PLAIN = {
    "CreateStatus": (0, "p", "is"),
    "GetErrorMessage": (2, "s", "p"),
    "ReleaseStatus": (93, None, "p"),
    "ReleaseValue": (96, None, "p"),
    "ReleaseTypeInfo": (98, None, "p"),
    "ReleaseTensorTypeAndShapeInfo": (99, None, "p"),
    "ReadOpAttr": (272, "p", "pipnp"),
    "GetModelEditorApi": (291, "p", ""),
    "HardwareDevice_Type": (307, "i", "p"),
    "GetEpApi": (317, "p", ""),
}

#: As _CHECKED, of OrtEpApi.
_PROVIDER = {"CreateEpDevice": (0, "ppppp"), "EpGraphSupportInfo_AddNodesToFuse": (2, "ppnp")}

FAILED = 1  # the code of a status: ORT_FAIL


class RuntimeFailure(Exception):
    """ONNX Runtime said no; the message is its own."""


def pointers(address: int) -> Any:
    """The table of addresses at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))


class Api:
    """The functions of one ONNX Runtime, by their names: `api.Node_GetName(node, byref(out))`. Those that give a status raise
    `RuntimeFailure` instead."""

    def __init__(self, base: int) -> None:
        """`base`: the OrtApiBase that a library is given."""
        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(pointers(base)[0])
        version = ctypes.CFUNCTYPE(ctypes.c_char_p)(pointers(base)[1])
        self.runtime = (version() or b"").decode()
        table = get(VERSION)
        if not table:
            raise RuntimeFailure(f"ONNX Runtime {self.runtime} is too old; 1.{VERSION} is the first that works")
        self._table = pointers(table)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, (number, result, takes) in _PLAIN.items():
            self._functions[name] = _function(self._table[number], result, takes)
        self._add(self._table, _CHECKED)
        self._add(pointers(self.GetEpApi()), _PROVIDER)
        if int(self.runtime.split(".")[1]) >= _HAS_SHAPE_SINCE:
            self._functions["TensorTypeAndShape_HasShape"] = _function(self._table[390], "b", "p")

    def _add(self, table: Any, functions: Mapping[str, tuple[int, str]]) -> None:
        for name, (number, takes) in functions.items():
            self._functions[name] = self._checked(_function(table[number], "p", takes))

    def _checked(self, function: Callable[..., int | None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise RuntimeFailure(self.taken(status))

        return call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(name) from None

    def knows(self, name: str) -> bool:
        """Whether this version has that function."""
        return name in self._functions

    def taken(self, status: int) -> str:
        """The message of a status, which is released."""
        message = self.GetErrorMessage(status) or b""
        self.ReleaseStatus(status)
        return message.decode("utf-8", "replace")

    def failure(self, message: str) -> int:
        """A status for ONNX Runtime to raise."""
        found: int = self.CreateStatus(FAILED, message.encode("utf-8", "replace").replace(b"\0", b""))
        return found

    def address(self, name: str) -> int:
        """Where a function of OrtApi is."""
        found: int = self._table[_CHECKED[name][0] if name in _CHECKED else _PLAIN[name][0]]
        return found

    # -- reading -----------------------------------------------------------------------------------------------------

    def pointer(self, name: str, *arguments: Any) -> int | None:
        """What a function writes to its last argument, an address."""
        found = ctypes.c_void_p()
        self._functions[name](*arguments, ctypes.byref(found))
        return found.value

    def number(self, name: str, *arguments: Any) -> int:
        """As `pointer`, of a number."""
        found = ctypes.c_int64()
        self._functions[name](*arguments, ctypes.byref(found))
        return found.value

    def flag(self, name: str, *arguments: Any) -> bool:
        """As `pointer`, of a bool."""
        found = ctypes.c_bool()
        self._functions[name](*arguments, ctypes.byref(found))
        return found.value

    def text(self, name: str, *arguments: Any) -> str:
        """As `pointer`, of a string that ONNX Runtime keeps."""
        found = ctypes.c_char_p()
        self._functions[name](*arguments, ctypes.byref(found))
        return (found.value or b"").decode("utf-8", "replace")

    def several(self, count: str, name: str, owner: int) -> list[int | None]:
        """The addresses of what `owner` has: the function `count` says how many, `name` gives them. None: left out."""
        size = self.number(count, owner)
        found = (ctypes.c_void_p * size)()
        if size:
            self._functions[name](owner, found, size)
        return list(found)


def _function(address: int, result: str | None, takes: str) -> Callable[..., Any]:
    given = ctypes.c_bool if result == "b" else None if result is None else _KINDS[result]
    return ctypes.CFUNCTYPE(given, *(_KINDS[kind] for kind in takes))(address)
