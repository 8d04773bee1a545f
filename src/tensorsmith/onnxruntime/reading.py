"""A graph of ONNX Runtime as ONNX: its nodes, the types of its values, and its constants, whose bytes are not copied.

ONNX Runtime has its own form of a graph by the time that a provider sees it: weights are in its memory, and its first optimisers
have run. Our importer takes ONNX, so that is what is made of it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from tensorsmith.elements import TABLE
from tensorsmith.onnxruntime.api import Api

#: NumPy's type of ONNX's element types. Four bits are held in eight, as the importer holds them.
_NUMPY: dict[int, np.dtype] = {TensorProto.DataType.Value(facts.onnx): facts.numpy for facts in TABLE.values()}
_FOUR_BITS: dict[int, np.dtype] = {TensorProto.INT4: np.dtype(np.int8), TensorProto.UINT4: np.dtype(np.uint8)}

_TENSOR = 1  # of ONNXType
# of OrtOpAttrType
_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS, _GRAPH, _TENSORS = range(1, 9)


@dataclass(frozen=True)
class Type:
    """A tensor's type. A dimension is its size, a name, or None where nothing is known; `dims` is None where the rank is open."""

    element: int
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class Read:
    """A node as ONNX writes it. `why` says what of it was not read, if anything."""

    handle: int
    proto: NodeProto
    why: str = ""


@dataclass
class GraphRead:
    """A graph: its nodes in an order in which they can run."""

    nodes: list[Read] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)  # of the operator sets, by domain
    types: dict[str, Type] = field(default_factory=dict)
    constants: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)  # element type, and a view of the runtime's memory
    inputs: list[str] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)  # what others than its own nodes read
    nested: bool = False  # inside a node of another graph


def read_graph(api: Api, graph: int) -> GraphRead:
    """What ONNX Runtime says of a graph. Constants are valid as long as it keeps them: until its session is made."""
    reader = _Reader(api)
    count = api.number("Graph_GetNumOperatorSets", graph)
    domains, versions = (ctypes.c_char_p * count)(), (ctypes.c_int64 * count)()
    api.Graph_GetOperatorSets(graph, domains, versions, count)
    reader.found.versions = {(d or b"").decode(): int(v) for d, v in zip(domains, versions)}
    reader.found.nested = api.pointer("Graph_GetParentNode", graph) is not None
    reader.found.inputs = reader.values(api.several("Graph_GetNumInputs", "Graph_GetInputs", graph))
    for handle in api.several("Graph_GetNumNodes", "Graph_GetNodes", graph):
        assert handle is not None
        reader.node(handle)
    for value in api.several("Graph_GetNumOutputs", "Graph_GetOutputs", graph):
        if value is not None:
            reader.found.outputs.add(api.text("GetValueInfoName", value))
    reader.found.nodes = in_order(reader.found.nodes)
    return reader.found


def names(api: Api, values: Sequence[int | None]) -> list[str]:
    """The names of values; "" for those left out."""
    return ["" if value is None else api.text("GetValueInfoName", value) for value in values]


class _Reader:
    def __init__(self, api: Api) -> None:
        self.api, self.found = api, GraphRead()

    def node(self, handle: int) -> None:
        api = self.api
        proto = NodeProto(
            name=api.text("Node_GetName", handle),
            op_type=api.text("Node_GetOperatorType", handle),
            domain=api.text("Node_GetDomain", handle),
        )
        proto.input.extend(self.values(api.several("Node_GetNumInputs", "Node_GetInputs", handle)))
        proto.output.extend(self.values(api.several("Node_GetNumOutputs", "Node_GetOutputs", handle)))
        why = "it has graphs inside" if api.number("Node_GetNumSubgraphs", handle) else ""
        for attribute in [] if why else api.several("Node_GetNumAttributes", "Node_GetAttributes", handle):
            made = None if attribute is None else self.attribute(attribute)
            if made is None:
                why = "it has an attribute that cannot be read"
            else:
                proto.attribute.append(made)
        self.found.nodes.append(Read(handle, proto, why))

    def values(self, values: Sequence[int | None]) -> list[str]:
        found = names(self.api, values)
        for name, value in zip(found, values):
            if name and value is not None and name not in self.found.types and name not in self.found.constants:
                self.value(name, value)
        while found and not found[-1]:  # those left out at the end are not written
            found.pop()
        return found

    def value(self, name: str, value: int) -> None:
        api = self.api
        if api.flag("ValueInfo_IsGraphOutput", value):
            self.found.outputs.add(name)
        constant = (
            api.pointer("ValueInfo_GetInitializerValue", value) if api.flag("ValueInfo_IsConstantInitializer", value) else None
        )
        if constant is not None:
            read = self.tensor(constant)
            if read is not None:
                self.found.constants[name] = read
            return
        info = api.pointer("GetValueInfoTypeInfo", value)  # belongs to the value
        tensor = api.pointer("CastTypeInfoToTensorInfo", info) if info else None
        if tensor:
            self.found.types[name] = self.type(tensor)

    def type(self, tensor: int) -> Type:
        api = self.api
        element = ctypes.c_int32()
        api.GetTensorElementType(tensor, ctypes.byref(element))
        rank = api.number("GetDimensionsCount", tensor)
        if not rank:
            # 1.23 cannot say whether that is a number or a tensor of an unknown rank
            known = api.knows("TensorTypeAndShape_HasShape") and api.TensorTypeAndShape_HasShape(tensor)
            return Type(element.value, () if known else None)
        sizes, symbols = (ctypes.c_int64 * rank)(), (ctypes.c_char_p * rank)()
        api.GetDimensions(tensor, sizes, rank)
        api.GetSymbolicDimensions(tensor, symbols, rank)
        open_ = [(s or b"").decode("utf-8", "replace") or None for s in symbols]
        return Type(element.value, tuple(n if n >= 0 else s for n, s in zip(sizes, open_)))

    def tensor(self, value: int) -> tuple[int, np.ndarray] | None:
        """Element type and numbers of a tensor, a view of its memory; None for types that we do not have."""
        api = self.api
        info = api.pointer("GetTensorTypeAndShape", value)
        assert info is not None
        try:
            element = ctypes.c_int32()
            api.GetTensorElementType(info, ctypes.byref(element))
            rank = api.number("GetDimensionsCount", info)
            sizes = (ctypes.c_int64 * rank)()
            api.GetDimensions(info, sizes, rank)
        finally:
            api.ReleaseTensorTypeAndShapeInfo(info)
        shape, kind = tuple(sizes), element.value
        if kind not in _NUMPY and kind not in _FOUR_BITS:
            return None
        count = math.prod(shape)
        address = api.pointer("GetTensorMutableData", value)
        if kind in _FOUR_BITS:
            return kind, _unpacked(_at(address, -(-count // 2)), _FOUR_BITS[kind], count).reshape(shape)
        return kind, _at(address, count * _NUMPY[kind].itemsize).view(_NUMPY[kind]).reshape(shape)

    def attribute(self, handle: int) -> AttributeProto | None:
        api = self.api
        kind = ctypes.c_int32()
        api.OpAttr_GetType(handle, ctypes.byref(kind))
        made = AttributeProto(name=api.text("OpAttr_GetName", handle))
        if kind.value == _TENSORS:
            value = api.pointer("OpAttr_GetTensorAttributeAsOrtValue", handle)
            assert value is not None
            try:
                found = self.tensor(value)
                if found is None or found[0] in _FOUR_BITS:
                    return None
                made.type = AttributeProto.TENSOR
                made.t.CopyFrom(numpy_helper.from_array(found[1]))
            finally:
                api.ReleaseValue(value)
            return made
        if kind.value not in (_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS):
            return None
        data = self.attribute_bytes(handle, kind.value)
        if kind.value == _INT:
            made.type, made.i = AttributeProto.INT, int(np.frombuffer(data, np.int64)[0])
        elif kind.value == _FLOAT:
            made.type, made.f = AttributeProto.FLOAT, float(np.frombuffer(data, np.float32)[0])
        elif kind.value == _STRING:
            made.type, made.s = AttributeProto.STRING, data
        elif kind.value == _INTS:
            made.type = AttributeProto.INTS
            made.ints.extend(np.frombuffer(data, np.int64).tolist())
        elif kind.value == _FLOATS:
            made.type = AttributeProto.FLOATS
            made.floats.extend(np.frombuffer(data, np.float32).tolist())
        else:
            made.type = AttributeProto.STRINGS
            made.strings.extend(data.split(b"\0")[:-1])
        return made

    def attribute_bytes(self, handle: int, kind: int) -> bytes:
        """The value of an attribute, asked for without room first, to learn its size: ONNX Runtime counts that as a failure."""
        api, size = self.api, ctypes.c_size_t()
        status = api.ReadOpAttr(handle, kind, None, 0, ctypes.byref(size))
        if status:
            api.ReleaseStatus(status)
        room = ctypes.create_string_buffer(max(1, size.value))
        if size.value:
            status = api.ReadOpAttr(handle, kind, room, size.value, ctypes.byref(size))
            if status:
                raise ValueError(api.taken(status))
        return room.raw[: size.value]


def _at(address: int | None, size: int) -> np.ndarray:
    """So many bytes of memory, not copied."""
    if not size or not address:
        return np.zeros(size, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _unpacked(packed: np.ndarray, kind: np.dtype, count: int) -> np.ndarray:
    """Numbers of four bits, the low half of a byte first, in bytes."""
    halves = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:count]
    return halves if kind == np.uint8 else ((halves ^ 8).astype(np.int8) - np.int8(8))


def in_order(nodes: Sequence[Read]) -> list[Read]:
    """Nodes sorted so that each follows those that it reads; otherwise in the order given."""
    producers = {name: n for n, node in enumerate(nodes) for name in node.proto.output if name}
    order: list[int] = []
    state: dict[int, bool] = {}  # True: placed
    for start in range(len(nodes)):
        stack = [start]
        while stack:
            n = stack[-1]
            if state.get(n):
                stack.pop()
                continue
            before = [producers[name] for name in nodes[n].proto.input if name in producers]
            left = [] if n in state else [b for b in before if not state.get(b)]
            state.setdefault(n, False)
            if left:
                stack.extend(reversed(left))
                continue
            state[n] = True
            order.append(n)
            stack.pop()
    return [nodes[n] for n in order]
